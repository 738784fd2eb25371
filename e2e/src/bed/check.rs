//! Runs `muster check` as an administrator.

use serde_json::Value;
use tokio::process::Command;

use super::{Bed, FLEET, PERSON, Server, programs::muster};

impl Bed {
    /// `muster check` with additional flags: the exit code, and the report as JSON.
    pub async fn check(&self, flags: &[&str]) -> (Option<i32>, Value) {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("management.kubeconfig");
        let text = match &self.management {
            Server::Real(server) => server.kubeconfig_of_administrator(),
            Server::Embedded(_) => self.management.kubeconfig_of(PERSON),
        };
        std::fs::write(&kubeconfig, text).unwrap();
        let output = Command::new(muster())
            .args(["check", "-o", "json", "--namespace", FLEET])
            .args(flags)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .output()
            .await
            .unwrap();
        let report = serde_json::from_slice(&output.stdout);
        let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), report)
    }
}
