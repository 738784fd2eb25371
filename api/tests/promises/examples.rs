//! Promise: API servers accept the documented examples, and the types read them field by field.

use muster_api::{
    Amount, Module, ProxyAssemblage,
    assemblage::{FailureClass, Intent, SyncPhase, Withdraw},
    module::{ModuleObject, OnDelete},
};
use serde_json::Value;

const MODULE: &str = r#"
apiVersion: fleet.muster.dev/v1alpha1
kind: Module
metadata: {name: app, namespace: fleet}
spec:
  selector: {matchLabels: {env: prod}}
  sync:
    source: {git: {url: "https://git.example/fleet", version: {tag: v1.2.0}, secretRef: {name: git}}}
    package: {path: ., substitute: {REGION: $(REGION)}, targetNamespace: app, prune: true, wait: true, timeout: 5m, interval: 10m, retryInterval: 1m, force: false,
              healthChecks: [{apiVersion: apps/v1, kind: Deployment, name: web, namespace: app}]}
    bindings: [{name: HOST, objectFieldRef: {apiVersion: v1, kind: ConfigMap, name: facts, fieldPath: /data/host}}]
  controlPlaneBindings: [{name: REGION, value: eu}, {name: TIER, objectFieldRef: {apiVersion: v1, kind: ConfigMap, name: $(CLUSTER_NAME)-facts, fieldPath: /data/tier}}]
  dependsOn: [{kind: Module, name: base}]
  rollout:
    strategy: Incremental
    maxUnreadyClusters: 25%
    minReadySeconds: 30
    batch: {start: 1, factor: 2, max: 8}
    exclusive: region
    stages:
    - name: canary
      selector: {matchLabels: {stage: canary}}
      maxUnreadyClusters: 1
      soak: 1h30m
      approval: Required
      gates:
      - http: {url: "https://prometheus.example/api/v1/query?query=errors", secretRef: {name: prometheus}, jsonPath: "$.data.result[0].value[1]", op: <, value: "0.01"}
        interval: 1m
        passes: 3
        timeout: 10s
        onNoData: Wait
      - condition: {apiVersion: example.com/v1, kind: Probe, name: smoke, type: Healthy, status: "True"}
        onNoData: Fail
    unmatched: Last
    onFailure: {action: Halt, maxFailed: 0}
    deadlines: {pickup: 5m, progress: 10m, absence: 5m}
    onUnreachable: Skip
    onJoin: LastGood
    withdraw: {max: 10%, brake: 20%}
    paused: false
    historyLimit: 10
  onDelete: Withdraw
  suspend: false
status:
  observedGeneration: 3
  conditions:
  - {type: Ready, status: "False", observedGeneration: 3, lastTransitionTime: "2026-01-02T03:04:05Z", reason: Updating, message: "eu-1 is updating since 03:04"}
  source: {url: "https://git.example/fleet", tag: v1.2.0, commit: 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567, fetchedAt: "2026-01-02T03:04:05Z"}
  summary: {total: 5, updated: 3, ready: 4, updating: 1, waiting: 1, failed: 0, skipped: 0, held: 0, withdrawing: 0, clusters: 3/5}
  attention: [{cluster: eu-1, reason: Updating, since: "2026-01-02T03:04:05Z", message: Deployment app/web 1 of 2 ready}]
  rollout: {version: 1, uid: 2f1c, memory: "{}"}
  lastHandledReconcileAt: "2026-01-02T03:00:00Z"
"#;

const ASSEMBLAGE: &str = r#"
apiVersion: fleet.muster.dev/v1alpha1
kind: ProxyAssemblage
metadata: {name: eu-1, namespace: fleet}
spec:
  clusterRef: {name: eu-1}
  syncs:
  - name: app
    source: {git: {url: "https://git.example/fleet", version: {tag: v1.2.0}}}
    package: {path: ., prune: true, wait: true, timeout: 5m, interval: 10m, retryInterval: 1m, force: false}
    bindings: [{name: HOST, objectFieldRef: {apiVersion: v1, kind: ConfigMap, name: facts, fieldPath: /data/host}}]
    controlPlaneBindings: [{name: ZONE, value: a}]
    values: {REGION: eu}
    commit: 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567
    revision: 0a1b
    digest: "sha256:0a1b"
    token: 17
  - {name: old, token: 18, withdraw: Prune}
  - {name: gone, token: 12}
status:
  observedGeneration: 4
  conditions:
  - {type: Ready, status: "False", observedGeneration: 4, lastTransitionTime: "2026-01-02T03:04:05Z", reason: SyncsFailed, message: app failed}
  - {type: Reachable, status: "False", observedGeneration: 4, lastTransitionTime: "2026-01-02T03:04:05Z", reason: Unreachable, message: connection refused}
  lastContact: "2026-01-02T03:04:05Z"
  syncs:
  - {name: app, digest: "sha256:0a1b", token: 17, commit: 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567, state: failed, class: Revision, terminal: true, reason: HealthCheckFailed, message: Deployment app/web failed}
  - {name: old, token: 18, state: withdrawing}
  - {name: gone, token: 12, state: withdrawn}
"#;

fn read<K: serde::Serialize + serde::de::DeserializeOwned>(text: &str) -> K {
    let object = crate::support::yaml(text);
    let stored = crate::support::admit(&object, None).unwrap();
    assert_eq!(
        without_stage_defaults(stored),
        object,
        "the example says everything"
    );
    let typed: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(
        without_stage_defaults(serde_json::to_value(&typed).unwrap()),
        object
    );
    typed
}

/// The second gate of the example omits three fields.
fn without_stage_defaults(mut object: Value) -> Value {
    if let Some(gate) = object.pointer_mut("/spec/rollout/stages/0/gates/1") {
        for field in ["interval", "passes", "timeout"] {
            gate.as_object_mut().unwrap().remove(field).expect(field);
        }
    }
    object
}

#[test]
fn a_module() {
    let module: Module = read(MODULE);
    assert_eq!(Module::KIND.as_str(), "Module");
    assert_eq!(module.spec.rollout.max_unready_clusters, Amount::Percent(25));
    assert_eq!(module.spec.rollout.stages[0].soak.to_string(), "1h30m");
    assert_eq!(module.spec.on_delete, Some(OnDelete::Withdraw));
    assert_eq!(module.status.unwrap().summary.unwrap().clusters, "3/5");
    read::<muster_api::BootstrapModule>(
        &MODULE.replace("kind: Module\nmetadata", "kind: BootstrapModule\nmetadata"),
    );
}

#[test]
fn an_assemblage_and_its_rows() {
    let assemblage: ProxyAssemblage = read(ASSEMBLAGE);
    let [app, old, gone] = assemblage.spec.syncs.as_slice() else {
        panic!("three rows")
    };
    assert!(matches!(app.intent(), Intent::Carry { source } if source.url() == "https://git.example/fleet"));
    assert_eq!(old.intent(), Intent::Withdraw(Withdraw::Prune));
    assert_eq!(gone.intent(), Intent::Bare);
    let status = assemblage.status.unwrap();
    assert_eq!(status.syncs[0].state, SyncPhase::Failed);
    assert_eq!(status.syncs[0].class, Some(FailureClass::Revision));
    read::<muster_api::RemoteAssemblage>(
        &ASSEMBLAGE.replace("kind: ProxyAssemblage", "kind: RemoteAssemblage"),
    );
    let downstream = ASSEMBLAGE
        .replace("kind: ProxyAssemblage", "kind: Assemblage")
        .replace("  clusterRef: {name: eu-1}\n", "");
    read::<muster_api::Assemblage>(&downstream);
}
