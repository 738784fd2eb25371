//! Promise: in each cluster a module is applied after what it depends on, at the currently desired version of that, and
//! withdrawn before it.

use std::time::Duration;

use kube::api::DeleteParams;
use muster_api::{BootstrapModule, Module};
use serde_json::{Value, json};

use crate::bed::*;

fn needs(names: &[&str]) -> Value {
    let needs: Vec<Value> = names
        .iter()
        .map(|name| json!({"kind": if name.starts_with("boot") { "BootstrapModule" } else { "Module" }, "name": name}))
        .collect();
    json!({"dependsOn": needs})
}

async fn deployed() -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    for (tag, text) in [("v1", "one"), ("v2", "two")] {
        bed.release(tag, &["base", "web"], text);
    }
    bed.create::<Module>(module("web", "v1", needs(&["base"]))).await;
    bed.deploy("base", "v1", json!({})).await;
    bed.until_ready("web").await;
    bed
}

/// The resourceVersion of an object in its cluster, as a number: in one API server a later write has a greater one.
async fn written(bed: &Bed, cluster: &str, app: &str) -> u64 {
    bed.mark(cluster, app).await.1.parse().unwrap()
}

async fn comes_after(bed: &Bed, app: &str, needed: &str) {
    for cluster in CLUSTERS {
        let (app, needed) = (
            written(bed, cluster, app).await,
            written(bed, cluster, needed).await,
        );
        assert!(app > needed, "{cluster}");
    }
}

/// Waits until a cluster of a module is behind; returns the message.
async fn until_behind(bed: &Bed, name: &str, cluster: &str) -> String {
    bed.until(&format!("{name} is behind in {cluster}"), || async {
        let module = bed.module(name).await?;
        let named = module["status"]["attention"].as_array()?.clone();
        let behind = |it: &&Value| it["cluster"] == cluster && it["reason"] == "DependencyBehind";
        Some(named.iter().find(behind)?["message"].as_str()?.to_owned())
    })
    .await
}

async fn delete(bed: &Bed, name: &str) {
    bed.api::<Module>()
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn in_each_cluster_it_comes_after_what_it_needs() {
    let mut bed = deployed().await;
    comes_after(&bed, "web", "base").await;
    // One commit changes both.
    bed.annotate("base", "paused", Some("true")).await;
    bed.patch("base", version("v2")).await;
    bed.patch("web", version("v2")).await;
    let message = until_behind(&bed, "web", "eu-1").await;
    assert_eq!(
        message,
        "waiting for module/base, which is not ready at v2 here; next: muster why module/base --cluster eu-1"
    );
    pass(Duration::from_mins(10)).await;
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);
    bed.crash_controller();
    bed.start_controller();
    pass(Duration::from_mins(1)).await;
    bed.annotate("base", "paused", None).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
    comes_after(&bed, "web", "base").await;
    let marks = bed.marks("web").await;
    bed.crash_controller();
    bed.start_controller();
    bed.settled().await;
    assert_eq!(bed.marks("web").await, marks);
}

#[tokio::test(start_paused = true)]
async fn what_is_needed_may_be_of_the_other_kind() {
    let bed = Bed::new(&CLUSTERS).await;
    bed.release("v1", &["boot", "web"], "one");
    bed.release("v2", &["boot", "web"], "two");
    bed.create::<Module>(module("web", "v1", needs(&["boot"]))).await;
    let mut boot = module("boot", "v1", json!({}));
    boot["kind"] = json!("BootstrapModule");
    bed.create::<BootstrapModule>(boot).await;
    bed.until_ready("web").await;
    comes_after(&bed, "web", "boot").await;
    let patch = kube::api::Patch::Merge(version("v2"));
    bed.api::<BootstrapModule>()
        .patch("boot", &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    bed.patch("web", version("v2")).await;
    bed.until("web is at v2", || async {
        (bed.texts("web").await == ["two", "two", "two"]).then_some(())
    })
    .await;
    comes_after(&bed, "web", "boot").await;
}

/// The state of a module is recorded only while another one needs it: a later dependent triggers that.
#[tokio::test(start_paused = true)]
async fn an_idle_module_reports_its_state_when_a_dependent_appears() {
    let bed = Bed::new(&CLUSTERS).await;
    bed.release("v1", &["base", "web"], "one");
    bed.deploy("base", "v1", json!({})).await;
    bed.until_ready("base").await;
    bed.settled().await;
    bed.create::<Module>(module("web", "v1", needs(&["base"]))).await;
    // At once: after a while its tag would be read, which records the state as well.
    pass(Duration::from_mins(1)).await;
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);
    comes_after(&bed, "web", "base").await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_dependency_blocks_the_module_until_it_exists() {
    let bed = Bed::new(&["eu-1"]).await;
    bed.release("v1", &["base", "web"], "one");
    bed.create::<Module>(module("web", "v1", needs(&["base"]))).await;
    let message = bed.until_said("web", "Stalled", "True InvalidSpec").await;
    assert!(
        message.contains("spec.dependsOn[0]: there is no Module base in namespace fleet"),
        "{message}"
    );
    pass(Duration::from_mins(10)).await;
    assert_eq!(bed.row("eu-1", "web").await, None);
    bed.deploy("base", "v1", json!({})).await;
    bed.until_ready("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_dependency_cycle_blocks_its_modules_and_is_reported_in_full() {
    let bed = Bed::new(&["eu-1"]).await;
    bed.release("v1", &["a", "b", "c", "d"], "one");
    for (name, needed) in [("a", "b"), ("b", "c"), ("c", "a"), ("d", "c")] {
        bed.create::<Module>(module(name, "v1", needs(&[needed]))).await;
    }
    let message = bed.until_said("b", "Stalled", "True DependencyCycle").await;
    assert!(
        message.contains("(module/b needs module/c needs module/a needs module/b)"),
        "{message}"
    );
    bed.until_said("a", "Stalled", "True DependencyCycle").await;
    // A module that only depends on one in a cycle waits for it.
    until_behind(&bed, "d", "eu-1").await;
    pass(Duration::from_mins(10)).await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(bed.row("eu-1", name).await, None, "{name}");
    }
    bed.patch("c", json!({"spec": {"dependsOn": null}})).await;
    for name in ["a", "b", "c", "d"] {
        bed.until_ready(name).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_deleted_before_what_it_needs() {
    let bed = deployed().await;
    for name in ["base", "web"] {
        bed.patch(name, json!({"spec": {"onDelete": "Withdraw"}})).await;
    }
    bed.until_ready("web").await;
    delete(&bed, "base").await;
    let message = until_behind(&bed, "base", "eu-1").await;
    assert!(
        message.starts_with("module/web depends on it and is still here"),
        "{message}"
    );
    pass(Duration::from_mins(10)).await;
    assert_eq!(bed.texts("base").await, ["one", "one", "one"]);
    delete(&bed, "web").await;
    bed.until_gone("web").await;
    bed.until_gone("base").await;
    assert_eq!(bed.texts("base").await, ["", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn those_of_a_circle_can_be_deleted() {
    let bed = deployed().await;
    for name in ["base", "web"] {
        bed.patch(name, json!({"spec": {"onDelete": "Withdraw"}})).await;
    }
    bed.patch("base", json!({"spec": needs(&["web"])})).await;
    bed.until_said("base", "Stalled", "True DependencyCycle").await;
    delete(&bed, "base").await;
    delete(&bed, "web").await;
    bed.until_gone("web").await;
    bed.until_gone("base").await;
    assert_eq!(bed.texts("base").await, ["", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_left_in_reverse() {
    let mut bed = deployed().await;
    bed.crash_agent("eu-2");
    bed.patch_cluster("eu-2", json!({"metadata": {"labels": {"env": "dev"}}}))
        .await;
    let withdraw = async |name: &str| bed.row("eu-2", name).await.map(|row| row["withdraw"].clone());
    bed.until("web is withdrawn from eu-2", || async {
        (withdraw("web").await == Some(json!("Prune"))).then_some(())
    })
    .await;
    pass(Duration::from_mins(10)).await;
    assert_eq!(withdraw("base").await, Some(json!(null)));
    bed.start_agent("eu-2");
    bed.until("both have left eu-2", || async {
        let left = bed.text("eu-2", "web").await.is_none() && bed.text("eu-2", "base").await.is_none();
        left.then_some(())
    })
    .await;
    assert_eq!(bed.texts("web").await, ["one", "", "one"]);
}
