//! FRR as packaged by Debian (`.ci/frr` fetches and unpacks it): a BGP daemon on a node, and its peer on the bridge.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Without this file vtysh asks for a password.
pub(crate) const VTYSH: &str = "username root nopassword\nno service integrated-vtysh-config\n";

/// The directory in which its packages are unpacked.
fn root() -> PathBuf {
    let binary = env::current_exe().unwrap();
    binary.ancestors().nth(3).unwrap().join("frr")
}

/// Whether it is installed.
pub(crate) fn is_there() -> bool {
    root().join("usr/lib/frr/bgpd").is_file()
}

/// The directories of its libraries.
pub(crate) fn libraries() -> String {
    let directories = [
        "usr/lib/x86_64-linux-gnu",
        "lib/x86_64-linux-gnu",
        "usr/lib/x86_64-linux-gnu/frr",
    ];
    directories
        .map(|directory| root().join(directory).display().to_string())
        .join(":")
}

/// The vtysh command for the daemon in this directory.
pub(crate) fn vtysh(node: &Path) -> String {
    let (program, run) = (root().join("usr/bin/vtysh"), node.join("run"));
    format!(
        "{0} --config_dir {1} --vty_socket {1}",
        program.display(),
        run.display()
    )
}

/// The configuration of one end of a session.
pub(crate) fn configuration(number: u32, id: &str, peer: &str, peer_number: u32) -> String {
    format!(
        "router bgp {number}\n bgp router-id {id}\n no bgp ebgp-requires-policy\n neighbor {peer} remote-as {peer_number}\n \
         neighbor {peer} timers 1 3\n neighbor {peer} timers connect 1\n"
    )
}

/// The command that starts a daemon with its files in this directory, including its configuration.
pub(crate) fn bgpd(run: &Path) -> Command {
    let mut command = Command::new(root().join("usr/lib/frr/bgpd"));
    command
        // Without zebra, without routes in the kernel, as the current user.
        .args([
            "--no_zebra",
            "--no_kernel",
            "--skip_runas",
            "--limit-fds",
            "1024",
            "--log",
            "stdout",
            "--vty_port",
            "0",
        ])
        .arg("--config_file")
        .arg(run.join("bgpd.conf"))
        .arg("--pid_file")
        .arg(run.join("bgpd.pid"))
        .arg("--socket")
        .arg(run.join("zebra"))
        .arg("--vty_socket")
        .arg(run)
        .env("LD_LIBRARY_PATH", libraries());
    command
}

/// A daemon that ends when it is dropped.
pub(crate) struct Daemon(Child);

impl Daemon {
    pub(crate) fn start(mut command: Command) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Started here; no error if it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
