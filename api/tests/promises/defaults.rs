//! Promise: an API server and the types fill in the same defaults, and a round trip changes nothing.

use muster_api::{Assemblage, BootstrapModule, Module, ModuleRevision, ProxyAssemblage, RemoteAssemblage};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn source() -> Value {
    json!({ "git": { "url": "https://git.example/r", "version": { "tag": "v1" } } })
}

fn object(kind: &str, spec: Value) -> Value {
    json!({ "apiVersion": "fleet.muster.dev/v1alpha1", "kind": kind, "metadata": { "name": "x" }, "spec": spec })
}

fn check<K: Serialize + DeserializeOwned>(object: &Value) {
    let stored = crate::support::admit(object, None).unwrap();
    let from_sparse: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(
        serde_json::to_value(&from_sparse).unwrap(),
        stored,
        "the type's defaults are the schema's"
    );
    let from_stored: K = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&from_stored).unwrap(), stored, "round trip");
}

#[test]
fn the_sparsest_object_of_each_kind() {
    let sync = json!({ "source": source() });
    check::<Module>(&object("Module", json!({ "sync": sync })));
    check::<BootstrapModule>(&object(
        "BootstrapModule",
        json!({ "sync": sync, "selector": {} }),
    ));
    let cluster = json!({ "clusterRef": { "name": "eu-1" } });
    check::<ProxyAssemblage>(&object("ProxyAssemblage", cluster.clone()));
    check::<RemoteAssemblage>(&object("RemoteAssemblage", cluster));
    check::<Assemblage>(&object("Assemblage", json!({})));
    check::<ModuleRevision>(&object(
        "ModuleRevision",
        json!({
            "moduleRef": { "kind": "Module", "name": "app" }, "revision": "0".repeat(64),
            "commit": "0".repeat(40), "sync": sync,
        }),
    ));
}

#[test]
fn every_struct_that_has_defaults_gets_them() {
    check::<Module>(&object(
        "Module",
        json!({
            "sync": { "source": source(), "package": {} },
            "dependsOn": [{ "name": "base" }],
            "rollout": {
                "batch": {}, "onFailure": {}, "deadlines": {}, "withdraw": {},
                "stages": [{
                    "name": "canary", "selector": {},
                    "gates": [
                        { "condition": { "apiVersion": "v1", "kind": "Probe", "name": "p", "type": "Ready" } },
                        { "http": { "url": "https://p/q", "jsonPath": "$.x", "op": "<=", "value": "0.01" } },
                    ],
                }],
            },
        }),
    ));
    let row = json!({ "name": "app", "source": source(), "package": {} });
    check::<Assemblage>(&object(
        "Assemblage",
        json!({ "syncs": [row, { "name": "old", "token": 3, "withdraw": "Prune" }] }),
    ));
}

/// The documented defaults.
#[test]
fn what_a_module_gets() {
    let sparse = object("Module", json!({ "sync": { "source": source() } }));
    let stored = crate::support::admit(&sparse, None).unwrap();
    insta::assert_yaml_snapshot!(stored["spec"], @r#"
    rollout:
      deadlines:
        absence: 5m
        pickup: 5m
        progress: 10m
      historyLimit: 10
      maxUnreadyClusters: 1
      minReadySeconds: 0
      onFailure:
        action: Halt
        maxFailed: 0
      onJoin: LastGood
      onUnreachable: Skip
      paused: false
      strategy: Incremental
      unmatched: Last
      withdraw:
        brake: 20%
        max: 10%
    suspend: false
    sync:
      package:
        force: false
        interval: 10m
        path: "."
        prune: true
        retryInterval: 1m
        timeout: 5m
        wait: true
      source:
        git:
          url: "https://git.example/r"
          version:
            tag: v1
    "#);
}
