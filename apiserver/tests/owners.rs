//! Owners and dependents: what is deleted with an owner.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::too_many_lines,
    clippy::used_underscore_binding,
    reason = "a helper that fails fails its test, and a table of cases is as long as its cases"
)]

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use muster_apiserver::ApiServer;
use serde_json::{Value, json};

struct Bed {
    _api: ApiServer,
    maps: Api<ConfigMap>,
}

impl Bed {
    fn new() -> Self {
        let api = ApiServer::in_process().unwrap();
        let maps = Api::default_namespaced(api.client());
        Self { _api: api, maps }
    }

    async fn make(&self, name: &str, owners: &[&Value]) -> Value {
        let map = json!({"metadata": {"name": name, "ownerReferences": owners}});
        let made = self
            .maps
            .create(&PostParams::default(), &serde_json::from_value(map).unwrap())
            .await
            .unwrap();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made.metadata.uid})
    }

    async fn gone(&self, name: &str, reference: &Value) {
        let uid = reference["uid"].as_str().unwrap();
        await_condition(self.maps.clone(), name, conditions::is_deleted(uid))
            .await
            .unwrap();
    }

    async fn finalizers(&self, name: &str, finalizers: Value) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        self.maps
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn settle(&self) {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn background_takes_the_dependent_after_the_owner() {
    let bed = Bed::new();
    let owner = bed.make("owner", &[]).await;
    let dependent = bed.make("dependent", &[&owner]).await;
    bed.maps
        .delete("owner", &DeleteParams::background())
        .await
        .unwrap();
    bed.gone("dependent", &dependent).await;
}

#[tokio::test(start_paused = true)]
async fn an_absent_owner_takes_the_dependent_and_one_of_two_takes_its_reference() {
    let bed = Bed::new();
    let absent = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "0-0"});
    let orphan = bed.make("orphan", &[&absent]).await;
    bed.gone("orphan", &orphan).await;
    let owner = bed.make("owner", &[]).await;
    bed.make("half", &[&absent, &owner]).await;
    bed.settle().await;
    let half = bed.maps.get("half").await.unwrap();
    assert_eq!(half.metadata.owner_references.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn orphan_leaves_the_dependent_without_its_reference() {
    let bed = Bed::new();
    let owner = bed.make("owner", &[]).await;
    bed.make("dependent", &[&owner]).await;
    bed.maps.delete("owner", &DeleteParams::orphan()).await.unwrap();
    bed.gone("owner", &owner).await;
    assert!(
        bed.maps
            .get("dependent")
            .await
            .unwrap()
            .metadata
            .owner_references
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn foreground_waits_only_for_dependents_that_block() {
    let bed = Bed::new();
    let owner = bed.make("owner", &[]).await;
    let mut blocking = owner.clone();
    blocking["blockOwnerDeletion"] = true.into();
    bed.make("blocks", &[&blocking]).await;
    bed.make("free", &[&owner]).await;
    for name in ["blocks", "free"] {
        bed.finalizers(name, json!(["t.example/hold"])).await;
    }
    bed.maps
        .delete("owner", &DeleteParams::foreground())
        .await
        .unwrap();
    bed.settle().await;
    let waiting = bed.maps.get("owner").await.unwrap().metadata;
    assert_eq!(waiting.finalizers.unwrap(), ["foregroundDeletion"]);
    for name in ["blocks", "free"] {
        assert!(
            bed.maps
                .get(name)
                .await
                .unwrap()
                .metadata
                .deletion_timestamp
                .is_some(),
            "{name}"
        );
    }
    bed.finalizers("blocks", Value::Null).await;
    bed.gone("owner", &owner).await;
    assert!(bed.maps.get_opt("free").await.unwrap().is_some());
}
