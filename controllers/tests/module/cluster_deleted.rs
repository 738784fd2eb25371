//! Promise: deleting a Cluster does not empty it: nothing in it is touched, our objects for it are removed, and nothing
//! waits for an API server that no longer answers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use muster_api::{BootstrapModule, ProxyAssemblage, RemoteAssemblage, flux::Kustomization};
use muster_apiserver::fault::{Fault, Match, Rule};
use serde_json::json;

use crate::bed::*;

/// How the API server of the cluster behaves.
#[derive(Clone, Copy, Debug)]
enum Api {
    Alive,
    Refuses,
    Silent,
}

async fn check(policy: PropagationPolicy, api: Api, secret_first: bool) {
    let case = format!("{policy:?} {api:?} {secret_first}");
    let bed = Bed::new(&CLUSTERS).await;
    bed.release("v1", &["web", "base"], "one");
    bed.deploy("web", "v1", json!({"onDelete": "Withdraw"})).await;
    let mut base = module("base", "v1", json!({}));
    base["kind"] = json!("BootstrapModule");
    bed.create::<BootstrapModule>(base).await;
    bed.until("base is everywhere", || async {
        (bed.texts("base").await == ["one", "one", "one"]).then_some(())
    })
    .await;
    pass(Duration::from_mins(1)).await;
    let before = (bed.marks("web").await, bed.marks("base").await);
    let fault = match api {
        Api::Alive => None,
        Api::Refuses => Some(Fault::Refuse),
        Api::Silent => Some(Fault::Delay(Duration::from_hours(1_000))),
    };
    let of_controller = Match {
        client: Some("controller".to_owned()),
        ..Match::default()
    };
    if let Some(fault) = fault {
        bed.clusters["eu-2"]
            .faults()
            .add(Rule::always(of_controller, fault));
    }
    if secret_first {
        bed.api::<Secret>()
            .delete("eu-2-kubeconfig", &DeleteParams::default())
            .await
            .unwrap();
    }
    let how = DeleteParams {
        propagation_policy: Some(policy.clone()),
        ..DeleteParams::default()
    };
    bed.cluster_objects().delete("eu-2", &how).await.unwrap();
    bed.until(&format!("the Cluster is gone: {case}"), || async {
        let left = bed.cluster_objects().get_opt("eu-2").await.unwrap();
        left.is_none().then_some(())
    })
    .await;
    pass(Duration::from_mins(7)).await;
    assert_eq!(
        (bed.marks("web").await, bed.marks("base").await),
        before,
        "{case}"
    );
    bed.nothing_is_stuck();
    if !matches!(policy, PropagationPolicy::Orphan) {
        assert!(
            bed.api::<ProxyAssemblage>()
                .get_opt("eu-2")
                .await
                .unwrap()
                .is_none(),
            "{case}"
        );
        assert!(
            bed.api::<RemoteAssemblage>()
                .get_opt("eu-2")
                .await
                .unwrap()
                .is_none(),
            "{case}"
        );
        let left = bed
            .api::<Kustomization>()
            .list(&ListParams::default())
            .await
            .unwrap();
        assert_eq!(left.items.len(), 2, "{case}");
    }
    // The others continue, and the module does not wait for the deleted one.
    bed.release("v2", &["web", "base"], "two");
    bed.patch("web", version("v2")).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "one", "two"], "{case}");
    bed.api::<muster_api::Module>()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    bed.until_gone("web").await;
    assert_eq!(bed.mark("eu-2", "web").await, before.0[1], "{case}");
    bed.nothing_is_stuck();
}

#[tokio::test(start_paused = true)]
async fn in_the_background() {
    check(PropagationPolicy::Background, Api::Refuses, false).await;
    check(PropagationPolicy::Background, Api::Silent, true).await;
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground() {
    check(PropagationPolicy::Foreground, Api::Alive, true).await;
    check(PropagationPolicy::Foreground, Api::Silent, false).await;
}

#[tokio::test(start_paused = true)]
async fn leaving_its_dependents() {
    check(PropagationPolicy::Orphan, Api::Refuses, true).await;
}
