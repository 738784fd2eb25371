//! Change windows, as users operate them.

use std::time::Duration;

use serde_json::json;
use tokio::process::Command;

use super::{Bed, FLEET, PERSON, Server, kinds, programs::muster};

impl Bed {
    /// Lets a module bypass a window for ten minutes: with the command, where there are processes.
    pub async fn bypass(&self, window: &str, module: &str, reason: &str) {
        if self.is_virtual() {
            let until = self.now() + Duration::from_mins(10);
            let bypass =
                json!({"module": {"kind": "Module", "name": module}, "reason": reason, "until": until});
            let patch = json!({"spec": {"bypasses": [bypass]}});
            self.fleet().patch(kinds::ROLLOUT_WINDOW, window, patch).await;
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("management.kubeconfig");
        let text = match &self.management {
            Server::Real(server) => server.kubeconfig_of_administrator(),
            Server::Embedded(_) => self.management.kubeconfig_of(PERSON),
        };
        std::fs::write(&kubeconfig, text).unwrap();
        let output = Command::new(muster())
            .args(["window", "bypass", window, "--module", module, "--reason", reason])
            .args(["--for", "10m", "--namespace", FLEET])
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .output()
            .await
            .unwrap();
        let printed = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        println!("{}", printed.concat());
        assert_eq!(output.status.code(), Some(0), "{printed:?}");
        assert!(
            printed[0].contains(&format!("is bypassed for module/{module} until ")),
            "{printed:?}"
        );
    }
}
