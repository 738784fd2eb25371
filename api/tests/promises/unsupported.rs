//! Promise: a field whose behaviour is not built is in the schema and is named when it is set; nothing else is.

use muster_api::{
    module::ModuleSpec,
    validate::{unsupported, unsupported_message},
};
use serde_json::{Value, json};

fn spec(rest: Value) -> ModuleSpec {
    let mut spec = json!({ "sync": { "source": { "git": { "url": "https://git.example/r", "version": { "tag": "v1" } } } } });
    spec.as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

#[test]
fn each_field() {
    let check = |rest: Value, expect: &[&str]| assert_eq!(unsupported(&spec(rest.clone())), expect, "{rest}");
    let rollout = |rest: Value| json!({ "rollout": rest });
    check(json!({}), &[]);
    let built = json!({
        "selector": { "matchLabels": { "env": "prod" } }, "controlPlaneBindings": [{ "name": "A", "value": "1" }],
        "onDelete": "Orphan", "suspend": true, "dependsOn": [{ "name": "base" }],
        "rollout": {
            "strategy": "Replace", "maxUnreadyClusters": "10%", "minReadySeconds": 5, "unmatched": "Exclude",
            "onFailure": { "action": "Revert", "maxFailed": 2 }, "deadlines": { "progress": "20m" },
            "paused": true, "onJoin": "Target", "withdraw": { "max": 1 }, "historyLimit": 3, "onUnreachable": "Wait",
            "batch": {}, "exclusive": "region",
            "stages": [{ "name": "a", "selector": {}, "soak": "1m", "approval": "Required", "maxUnreadyClusters": 2 }],
        },
    });
    check(built, &[]);
    let gate =
        json!({ "condition": { "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "type": "Ready" } });
    let staged = rollout(json!({ "stages": [{ "name": "a", "selector": {}, "gates": [gate] }] }));
    check(staged, &["spec.rollout.stages[].gates"]);
}

#[test]
fn what_is_said() {
    assert_eq!(
        unsupported_message(&["spec.rollout.batch"]),
        "spec.rollout.batch is not supported by this version of muster: remove it; nothing moves until then"
    );
    assert_eq!(
        unsupported_message(&["spec.dependsOn", "spec.rollout.batch"]),
        "spec.dependsOn, spec.rollout.batch are not supported by this version of muster: remove them; nothing moves until then"
    );
}
