//! OpenSSH's own server on loopback, with git's own `upload-pack`.
//!
//! `.ci/sshd` downloads it from Debian into `target/sshd`; `MUSTER_SSHD` sets another path. It runs as the current
//! user. If that is root and there is no user `sshd`, it runs as an unprivileged user from a separate passwd file.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

/// User and group of the server if root runs the tests.
const NOBODY: &str = "65534";

/// Far longer than it takes to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Types of host keys, by the names of their files.
pub(crate) const HOST_KEYS: [(&str, &str); 3] = [("ed25519", "256"), ("ecdsa", "256"), ("rsa", "2048")];

/// A server that stops when it is dropped.
pub(crate) struct Sshd {
    child: Child,
    directory: TempDir,
    port: u16,
    user: String,
    log: mpsc::Receiver<String>,
}

/// Configuration of a server.
#[derive(Default, Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// Lines of the accepted keys.
    pub authorized: &'a [String],
    /// Signs a certificate for the ed25519 host key: with `ssh-keygen`'s options for names and validity.
    pub authority: Option<(&'a Path, &'a [&'a str])>,
    /// Additional lines for its configuration.
    pub more: &'a str,
}

/// The program, and the directory that its packages were unpacked into.
fn program() -> Option<(PathBuf, Option<PathBuf>)> {
    if let Some(named) = std::env::var_os("MUSTER_SSHD") {
        return Some((named.into(), None));
    }
    let binary = std::env::current_exe().unwrap();
    let unpacked = binary.ancestors().nth(3).unwrap().join("sshd");
    let fetched = unpacked.join("usr/sbin/sshd");
    if fetched.is_file() {
        return Some((fetched, Some(unpacked)));
    }
    let installed = PathBuf::from("/usr/sbin/sshd");
    installed.is_file().then_some((installed, None))
}

/// Runs `ssh-keygen`; returns its output.
pub(crate) fn keygen(arguments: &[&str]) -> String {
    let output = Command::new("ssh-keygen")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ssh-keygen {arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Generates a key; returns the file of its private half.
pub(crate) fn key(directory: &Path, name: &str, options: &[&str]) -> PathBuf {
    let file = directory.join(name);
    let mut arguments = vec!["-q", "-C", name, "-f", file.to_str().unwrap()];
    arguments.extend(options);
    keygen(&arguments);
    file
}

/// The public half of a key, as a line.
pub(crate) fn public(file: &Path) -> String {
    std::fs::read_to_string(file.with_extension("pub"))
        .unwrap()
        .trim()
        .to_owned()
}

/// What `id` prints for the current user.
fn id(option: &str) -> String {
    let output = Command::new("id").arg(option).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Generates the host keys and the configuration.
fn configure(directory: &Path, setup: &Setup<'_>) {
    // Another user reads it if root runs the tests; its only secrets are keys of this test.
    std::fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    let mut text = format!(
        "ListenAddress 127.0.0.1\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nAuthorizedKeysFile {}\n\
         SetEnv GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*\n{}\n",
        directory.join("authorized").display(),
        setup.more
    );
    let root = id("-u") == "0";
    for (kind, bits) in HOST_KEYS {
        let file = key(directory, kind, &["-t", kind, "-b", bits, "-N", ""]);
        if root {
            std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        }
        writeln!(text, "HostKey {}", file.display()).unwrap();
    }
    if let Some((authority, options)) = setup.authority {
        let public = directory.join("ed25519.pub");
        let mut arguments = vec!["-q", "-s", authority.to_str().unwrap(), "-I", "host", "-h"];
        arguments.extend(options);
        arguments.push(public.to_str().unwrap());
        keygen(&arguments);
        writeln!(
            text,
            "HostCertificate {}",
            directory.join("ed25519-cert.pub").display()
        )
        .unwrap();
    }
    std::fs::write(directory.join("config"), text).unwrap();
    std::fs::write(directory.join("authorized"), setup.authorized.join("\n")).unwrap();
    std::fs::write(
        directory.join("passwd"),
        format!("git:x:{NOBODY}:{NOBODY}::/:/bin/sh\n"),
    )
    .unwrap();
    std::fs::write(directory.join("group"), format!("git:x:{NOBODY}:\n")).unwrap();
}

fn command(program: &Path, unpacked: Option<&Path>, directory: &Path, root: bool) -> Command {
    let mut command = if root {
        let mut command = Command::new("setpriv");
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        command.args([&user, &group, "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    if let Some(unpacked) = unpacked {
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|path| unpacked.join(path));
        command.env("LD_LIBRARY_PATH", std::env::join_paths(&libraries).unwrap());
        if root {
            command
                .env("LD_PRELOAD", libraries[0].join("libnss_wrapper.so"))
                .env("NSS_WRAPPER_PASSWD", directory.join("passwd"))
                .env("NSS_WRAPPER_GROUP", directory.join("group"));
        }
    }
    command
        .args(["-D", "-e", "-f"])
        .arg(directory.join("config"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

impl Sshd {
    /// Starts the server; `None`, with a message, if it is not available.
    pub(crate) fn start(setup: &Setup<'_>) -> Option<Self> {
        let keygen = Command::new("ssh-keygen").arg("-?").output().is_ok();
        let Some((program, unpacked)) = program().filter(|_| keygen) else {
            println!("not made: sshd (.ci/sshd fetches it; ssh-keygen is needed too)");
            return None;
        };
        let root = id("-u") == "0";
        if root && unpacked.is_none() {
            println!("not made: sshd (root needs the packages that .ci/sshd fetches)");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        configure(directory.path(), setup);
        // Another process may take the port between finding and using it.
        let (child, port, log) = (0..5)
            .find_map(|_| listen(command(&program, unpacked.as_deref(), directory.path(), root)))
            .unwrap();
        Some(Self {
            child,
            directory,
            port,
            user: if root { "git".to_owned() } else { id("-un") },
            log,
        })
    }

    /// The URL of a repository, by its path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("ssh://{}@localhost:{}{path}", self.user, self.port)
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The public half of a host key.
    pub(crate) fn host_key(&self, kind: &str) -> String {
        public(&self.directory.path().join(kind))
    }

    /// `known_hosts` with these host keys.
    pub(crate) fn known_hosts(&self, kinds: &[&str]) -> String {
        kinds.iter().fold(String::new(), |mut text, kind| {
            writeln!(text, "[localhost]:{} {}", self.port, self.host_key(kind)).unwrap();
            text
        })
    }

    /// What the server has logged since the last call.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.try_iter().collect()
    }
}

/// Starts the server on a free port, and waits until it listens.
fn listen(mut command: Command) -> Option<(Child, u16, mpsc::Receiver<String>)> {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut child = command.args(["-p", &port.to_string()]).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (sender, log) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    while let Ok(line) = log.recv_timeout(PATIENCE) {
        if line.starts_with("Server listening on") {
            return Some((child, port, log));
        }
        println!("sshd: {line}");
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
