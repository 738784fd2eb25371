//! kubectl as an administrator, and processes that end with the test.

use std::{
    io::Write,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{NS, ZONES};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_mins(3);

/// A process that ends with the test.
pub(super) struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited on its own, which the test has shown already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The administrator's kubectl.
#[derive(Clone)]
pub(super) struct Kubectl(pub PathBuf);

impl Kubectl {
    pub(super) fn output(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new("kubectl")
            .args(["-n", NS])
            .args(arguments)
            .env("KUBECONFIG", &self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    pub(super) fn run(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A watch of pods, whose events are read from kubectl's output.
    pub(super) fn watch(&self, labels: &str) -> (Process, ChildStdout) {
        let mut child = Command::new("kubectl")
            .args(["-n", NS, "get", "pods", "-l", labels])
            .args(["--watch", "--output-watch-events", "-o", "json"])
            .env("KUBECONFIG", &self.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = child.stdout.take().unwrap();
        (Process(child), events)
    }

    pub(super) fn get(&self, what: &[&str]) -> Value {
        let text = self.run(&[&["get", "-o", "json"], what].concat(), "");
        serde_json::from_str(&text).unwrap()
    }

    pub(super) fn apply(&self, manifests: &str) {
        self.run(&["apply", "--server-side", "-f", "-"], manifests);
    }

    /// Drains the pods with these labels from a node, as far as evictions are allowed.
    pub(super) fn drain(&self, node: &str, labels: &str) {
        let labels = format!("--pod-selector={labels}");
        let flags = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=150s"];
        self.run(&[&["drain", node, &labels], &flags[..]].concat(), "");
    }

    /// Waits until a value is found.
    #[track_caller]
    pub(super) fn until<T>(&self, what: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            if began.elapsed() > PATIENCE {
                let rollouts = self.output(&["get", "zr", "-o", "yaml"], "").stdout;
                panic!("{what} timed out: {}", String::from_utf8_lossy(&rollouts));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until each zone has this number of Ready pods with this image, and no others.
    #[track_caller]
    pub(super) fn all_ready(&self, image: &str, replicas: usize) {
        self.until(&format!("{replicas} pods of {image} in each zone"), |kubectl| {
            let pods = kubectl.get(&["pods", "-l", "rollout-group=ingester"]);
            let pods = pods["items"].as_array().unwrap();
            let is_new = |pod: &&Value| is_ready(pod) && pod["spec"]["containers"][0]["image"] == image;
            let of = |zone: &str| {
                pods.iter()
                    .filter(|pod| zone_of(pod) == zone)
                    .filter(is_new)
                    .count()
            };
            let whole = ZONES.iter().all(|zone| of(zone) == replicas);
            (whole && pods.len() == 3 * replicas).then_some(())
        });
    }

    /// Waits until the ZoneRollout is Ready, as `kubectl wait` does.
    pub(super) fn until_done(&self) {
        self.run(
            &["wait", "--for=condition=Ready", "zr", "--all", "--timeout=3m"],
            "",
        );
    }
}

pub(super) fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

pub(super) fn zone_of(pod: &Value) -> &str {
    pod["metadata"]["labels"]["name"].as_str().unwrap_or_default()
}
