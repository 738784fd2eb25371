//! A running `muster demo`, for the tests that drive it from outside.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use muster_e2e::bed::muster;

/// How long the demo may take until it prints `ready`.
pub(crate) const READY: Duration = Duration::from_mins(1);
/// How long it may take to exit.
const END: Duration = Duration::from_secs(40);

/// The JSON path of a Deployment's image.
pub(crate) const IMAGE: &str = "{.spec.template.spec.containers[0].image}";

/// A running demo, its directory, and its output so far.
pub(crate) struct Demo {
    child: Child,
    pub directory: PathBuf,
    printed: Arc<Mutex<String>>,
}

impl Demo {
    /// Starts a demo in a directory, with these flags.
    pub(crate) fn start(directory: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(muster())
            .args(["demo", "--seed", "1", "--dir"])
            .arg(directory)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let printed = Arc::new(Mutex::new(String::new()));
        let (output, lines) = (child.stdout.take().unwrap(), Arc::clone(&printed));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let mut lines = lines.lock().unwrap();
                lines.push_str(&line);
                lines.push('\n');
            }
        });
        Self {
            child,
            directory: directory.to_owned(),
            printed,
        }
    }

    /// The output so far.
    pub(crate) fn printed(&self) -> String {
        self.printed.lock().unwrap().clone()
    }

    /// Waits until a text was printed.
    pub(crate) fn until_printed(&mut self, deadline: Duration, holds: impl Fn(&str) -> bool) {
        let started = Instant::now();
        while !holds(&self.printed()) {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && started.elapsed() < deadline,
                "ended: {ended:?}\n{}",
                self.printed()
            );
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Runs kubectl on the management cluster as the demo suggests: with KUBECONFIG. Returns the output.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new("kubectl")
            .args(arguments)
            .env("KUBECONFIG", self.directory.join("management.kubeconfig"))
            .output()
            .unwrap();
        text(&output, arguments)
    }

    /// Runs muster on the management cluster, and checks the exit status. Returns the output.
    #[allow(dead_code, reason = "not every test uses it")]
    #[track_caller]
    pub(crate) fn muster(&self, arguments: &[&str], code: i32) -> String {
        let output = Command::new(muster())
            .args(arguments)
            .env("KUBECONFIG", self.directory.join("management.kubeconfig"))
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
        printed
    }

    /// Runs kubectl on podinfo in a cluster, with the printed kubeconfig. Returns the output.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) fn podinfo_in(&self, cluster: &str, verb: &str, flags: &[&str]) -> String {
        let kubeconfig = format!(
            "--kubeconfig={}/clusters/{cluster}.kubeconfig",
            self.directory.display()
        );
        let podinfo = [&*kubeconfig, verb, "deployment/podinfo", "-n", "web"];
        self.kubectl(&[&podinfo[..], flags].concat())
    }

    /// The version of podinfo's image in a cluster.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) fn runs(&self, cluster: &str) -> String {
        let image = self.podinfo_in(cluster, "get", &["-o", &format!("jsonpath={IMAGE}")]);
        image.rsplit_once("podinfo:").unwrap().1.to_owned()
    }

    /// Runs one of the printed shell lines in the work tree, where `muster` is the binary under test. Returns the
    /// output.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) fn shell(&self, line: &str) -> String {
        let line = &format!("muster() {{ '{}' \"$@\"; }}; {line}", muster().display());
        let output = Command::new("sh")
            .args(["-ec", line])
            .env("KUBECONFIG", self.directory.join("management.kubeconfig"))
            .current_dir(self.directory.join("fleet"))
            .output()
            .unwrap();
        text(&output, &[line])
    }

    /// Terminates it, and waits for a clean exit.
    pub(crate) fn end(&mut self) {
        let sent = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < END, "it does not end\n{}", self.printed());
            std::thread::park_timeout(Duration::from_millis(50));
        };
        println!("ended {:?} after SIGTERM", started.elapsed());
        assert_eq!(status.code(), Some(0), "{}", self.printed());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It has already exited, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(output: &Output, what: &[&str]) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{what:?}: {stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}
