//! Promise: deleting muster's CRDs, Flux's CRDs, or a namespace does not empty clusters: finalizers are removed,
//! nothing is withdrawn, nothing is stuck.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::bed::*;

async fn deployed() -> Bed {
    let bed = Bed::new(&["eu-1", "eu-2"]).await;
    bed.release("v1", &["web"], "one");
    bed.deploy("web", "v1", json!({"onDelete": "Withdraw"})).await;
    pass(Duration::from_mins(1)).await;
    bed
}

async fn delete_kinds(client: Client, which: impl Fn(&str) -> bool) {
    let kinds: Api<CustomResourceDefinition> = Api::all(client);
    let all = kinds.list(&ListParams::default()).await.unwrap().items;
    let names = all.into_iter().filter_map(|kind| kind.metadata.name);
    for name in names.filter(|name| which(name)) {
        kinds.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}

async fn kinds_are_gone(bed: &Bed, client: Client, which: impl Fn(&str) -> bool) {
    let kinds: Api<CustomResourceDefinition> = Api::all(client);
    bed.until("the kinds are gone", || async {
        let all = kinds.list(&ListParams::default()).await.unwrap().items;
        let mut names = all.into_iter().filter_map(|kind| kind.metadata.name);
        names.all(|name| !which(&name)).then_some(())
    })
    .await;
}

async fn untouched(bed: &Bed, before: &[(String, String)]) {
    pass(Duration::from_mins(3)).await;
    assert_eq!(bed.marks("web").await, before);
    bed.nothing_is_stuck();
}

#[tokio::test(start_paused = true)]
async fn the_kinds_of_the_management_cluster() {
    for which in [
        "modules.fleet",
        "proxyassemblages.fleet",
        "fleet.muster.dev",
        "toolkit.fluxcd.io",
    ] {
        let bed = deployed().await;
        let before = bed.marks("web").await;
        delete_kinds(bed.management.client(), |name| name.contains(which)).await;
        kinds_are_gone(&bed, bed.management.client(), |name| name.contains(which)).await;
        untouched(&bed, &before).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_kinds_of_a_cluster() {
    for which in ["assemblages.fleet", "kustomizations", "toolkit.fluxcd.io", "dev"] {
        let bed = deployed().await;
        let before = bed.marks("web").await;
        let client = || bed.clusters["eu-1"].client();
        delete_kinds(client(), |name| name.contains(which)).await;
        kinds_are_gone(&bed, client(), |name| name.contains(which)).await;
        untouched(&bed, &before).await;
    }
}

async fn delete_namespace(bed: &Bed, client: Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete(name, &DeleteParams::default()).await.unwrap();
    bed.until(&format!("namespace {name} is gone"), || async {
        namespaces.get_opt(name).await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_namespace_of_the_fleet() {
    let bed = deployed().await;
    let before = bed.marks("web").await;
    delete_namespace(&bed, bed.management.client(), NS).await;
    untouched(&bed, &before).await;
}

#[tokio::test(start_paused = true)]
async fn the_namespace_of_an_agent() {
    let bed = deployed().await;
    let before = bed.marks("web").await;
    delete_namespace(&bed, bed.clusters["eu-1"].client(), SYSTEM).await;
    untouched(&bed, &before).await;
}
