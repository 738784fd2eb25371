//! The two kinds are useful on their own: in a cluster with nothing of muster but its agent, and without any Module.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_api::crds;
use muster_controllers::{process::run_agent, registry::connect_by_server, runtime::Clock};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    setup::setup,
    support::{Bed, NS, config, config_yaml, kustomization},
};

#[tokio::test(start_paused = true)]
async fn a_repository_and_a_kustomization_are_enough() {
    // The Flux kinds exist, as installed by `muster crds --downstream`; so does Assemblage, and no other kind of
    // muster.
    let bed = Bed::idle();
    bed.api.add(crds::downstream()).unwrap();
    let served = bed.read("/apis/fleet.muster.dev/v1alpha1").await.unwrap();
    let kinds: Vec<&str> = served["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|resource| resource["kind"].as_str())
        .collect();
    assert!(!kinds.contains(&"Module"), "{kinds:?}");
    let clock = Clock::starting_at("2026-11-21T12:00:00Z".parse().unwrap());
    let source = Arc::new(bed.source.clone());
    let connect = connect_by_server(BTreeMap::new());
    let setup = setup(bed.api.client_as("muster"), NS, clock, source, connect);
    let shutdown = setup.shutdown.clone();
    let running = AbortOnDropHandle::new(tokio::spawn(run_agent(setup)));

    let first = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "one")),
        ("app/b.yaml", &config_yaml("b", "one")),
    ]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &first).await;
    let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "two"))]);
    bed.until_at("app", &second).await;
    assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "two");
    assert!(bed.read(&config("b")).await.is_none());
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&kustomization("app")).await;
    assert!(bed.read(&config("a")).await.is_none());

    shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
    ended.expect("it ends at shutdown").unwrap().unwrap();
}
