//! Promise: a report is about the digest and token that it names, and is cut to its limits, regardless of its author; a
//! status decided on a stale view is not written.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::{BTreeMap, BTreeSet};

use kube::{CustomResourceExt, ResourceExt, api::PostParams};
use muster_api::{
    Assemblage, ProxyAssemblage, Shared,
    assemblage::{AssemblageStatus, SyncPhase, SyncRow, SyncState},
    crds,
    evidence::Assumed,
};
use muster_apiserver::ApiServer;
use muster_controllers::{
    proxyassemblage::copy,
    runtime::{Api, status::patch_if_changed},
};
use serde_json::{Value, json};

const NAMESPACE: &str = "fleet";

fn row(name: &str, digest: &str, token: u64) -> SyncRow {
    SyncRow {
        name: name.to_owned(),
        digest: Some(digest.to_owned()),
        token: Some(token),
        ..SyncRow::default()
    }
}

/// The status of a proxy with these rows when the cluster reports this.
fn copied(rows: &[SyncRow], reported: Vec<SyncState>) -> Vec<Shared<SyncState>> {
    let rows: Vec<Shared<SyncRow>> = rows.iter().cloned().map(Shared::from).collect();
    let mut live = Assemblage::new(
        "eu-1",
        muster_api::assemblage::AssemblageSpec { syncs: rows.clone() },
    );
    live.status = Some(AssemblageStatus {
        syncs: reported.into_iter().map(Shared::from).collect(),
        ..AssemblageStatus::default()
    });
    copy::states(&rows, &BTreeMap::new(), &BTreeSet::new(), Some(&live))
}

fn succeeded(name: &str, digest: &str, token: u64) -> SyncState {
    SyncState {
        name: name.to_owned(),
        digest: Some(digest.to_owned()),
        token: Some(token),
        state: SyncPhase::Succeeded,
        ..SyncState::default()
    }
}

#[test]
fn what_is_reported_is_about_what_it_names() {
    let check = |reported: Vec<SyncState>, expect: Value| {
        let states = copied(&[row("web", "sha256:new", 2)], reported);
        let summaries: Vec<Value> = states
            .iter()
            .map(|state| json!([state.name, state.digest, state.token, state.state]))
            .collect();
        assert_eq!(json!(summaries), expect);
    };
    check(
        vec![succeeded("web", "sha256:old", 1)],
        json!([["web", "sha256:old", 1, "succeeded"]]),
    );
    check(
        vec![succeeded("web", "sha256:new", 1)],
        json!([["web", "sha256:new", 1, "succeeded"]]),
    );
    check(vec![], json!([["web", null, null, "updating"]]));
    check(
        vec![succeeded("web", "sha256:new", u64::MAX)],
        json!([["web", "sha256:new", null, "succeeded"]]),
    );
}

/// Every field in which a cluster can report too much: the API server accepts what is left, and it is small.
#[tokio::test(start_paused = true)]
async fn what_is_reported_is_cut_to_its_limits() {
    let long = "ß".repeat(500_000);
    let hostile = |name: String| SyncState {
        name,
        digest: Some(long.clone()),
        token: Some(u64::MAX),
        commit: Some(long.clone()),
        reason: Some(long.clone()),
        message: Some(long.clone()),
        terminal: true,
        assumed: Some(Assumed {
            count: u32::MAX,
            first: long.clone(),
            settle: muster_api::Duration::from_millis(u64::MAX),
        }),
        ..SyncState::default()
    };
    let mut reported: Vec<SyncState> = (0..2_000)
        .map(|number| SyncState {
            message: Some("x".repeat(10_000)),
            ..succeeded(&format!("forged-{number}"), "sha256:f", number)
        })
        .collect();
    reported.extend([hostile("web".to_owned()), hostile(long.clone())]);
    reported.rotate_right(2);
    let reports = copied(&[row("web", "sha256:new", 2)], reported);
    assert!(reports.len() <= 512, "{} states", reports.len());
    assert!(reports.iter().all(|state| state.name.len() <= 253));
    let bytes = serde_json::to_vec(&reports).unwrap().len();
    assert!(bytes <= 512 * 1024, "{bytes} bytes");

    let (_server, api) = served();
    let proxy = api
        .create(&PostParams::default(), &ProxyAssemblage::new("eu-1", spec()))
        .await
        .unwrap();
    let status = AssemblageStatus {
        syncs: reports,
        ..AssemblageStatus::default()
    };
    let written = patch_if_changed(&api, &proxy, None, &status, "test")
        .await
        .unwrap();
    assert!(written.is_some(), "the API server takes it");
}

/// W2: of two writers that decided on the same view the second gets a conflict, and its status is not written.
#[tokio::test(start_paused = true)]
async fn a_status_that_was_overtaken_is_not_written() {
    let (_server, api) = served();
    let observed = api
        .create(&PostParams::default(), &ProxyAssemblage::new("eu-1", spec()))
        .await
        .unwrap();
    let of = |generation| AssemblageStatus {
        observed_generation: Some(generation),
        ..AssemblageStatus::default()
    };
    patch_if_changed(&api, &observed, None, &of(1), "first")
        .await
        .unwrap();
    let late = patch_if_changed(&api, &observed, None, &of(2), "second").await;
    assert!(late.unwrap_err().is_conflict());
    let current = api.get("eu-1").await.unwrap();
    assert_eq!(current.status.unwrap().observed_generation, Some(1));
}

fn spec() -> muster_api::assemblage::TargetedAssemblageSpec {
    serde_json::from_value(json!({"clusterRef": {"name": "eu-1"}, "syncs": []})).unwrap()
}

/// An API server that serves ProxyAssemblages.
fn served() -> (ApiServer, Api<ProxyAssemblage>) {
    let mut kinds = crds::management();
    kinds.retain(|definition| definition.name_any() == ProxyAssemblage::crd_name());
    let server = ApiServer::builder().namespace(NAMESPACE).with(kinds);
    let server = server.in_process().unwrap();
    let api = Api::namespaced(server.client(), NAMESPACE);
    (server, api)
}
