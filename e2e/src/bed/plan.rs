//! Runs `muster plan`.

use serde_json::{Value, json};
use tokio::process::Command;

use super::{Bed, FLEET, PERSON, programs::muster};

impl Bed {
    /// `muster plan` of a directory that has this one Module: the exit code, and the plan as JSON.
    pub async fn plan(&self, name: &str, spec: &Value) -> (Option<i32>, Value) {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("management.kubeconfig");
        std::fs::write(&kubeconfig, self.management.kubeconfig_of(PERSON)).unwrap();
        let modules = directory.path().join("modules");
        std::fs::create_dir(&modules).unwrap();
        let module = json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": name}, "spec": spec,
        });
        std::fs::write(modules.join("module.yaml"), module.to_string()).unwrap();
        let output = Command::new(muster())
            .args([
                "plan",
                "--allow-insecure-sources",
                "-o",
                "json",
                "--namespace",
                FLEET,
            ])
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .arg("-f")
            .arg(&modules)
            .output()
            .await
            .unwrap();
        let plan = serde_json::from_slice(&output.stdout);
        let plan = plan.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), plan)
    }
}
