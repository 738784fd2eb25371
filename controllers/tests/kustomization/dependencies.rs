//! A Kustomization waits for what it depends on.

use std::time::Duration;

use serde_json::json;

use crate::support::{Bed, config, config_yaml, deployment, deployment_yaml, done, message};

#[tokio::test(start_paused = true)]
async fn nothing_is_applied_before_what_it_depends_on_is_ready() {
    let bed = Bed::new().await;
    let commit = bed.commit(&[
        ("base/d.yaml", &deployment_yaml("d", "nginx")),
        ("app/a.yaml", &config_yaml("a", "x")),
    ]);
    bed.deploy(json!({"dependsOn": [{"name": "base"}]})).await;
    let object = bed.until_ready("app", "False DependencyNotReady").await;
    assert_eq!(message(&object, "Ready"), "dependency 'fleet/base' not found");
    bed.kustomization("base", json!({})).await;
    bed.until(&deployment("d"), |_| true).await;
    bed.pass(Duration::from_secs(60)).await;
    assert!(bed.read(&config("a")).await.is_none());
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    bed.until_at("app", &commit).await;
}
