//! Promise: a ClusterUpgrade is explained like a module: for each Cluster that opts in its state, what it waits for,
//! and what to do next; nothing is shown as confirmed that its status does not confirm.
use std::sync::Arc;

use kube::core::DynamicObject;
use muster_api::ClusterUpgrade;
use muster_dashboard::{Fleet, History, Kind, ModuleRef, Objects, Shape, why, why_on};
use serde_json::{Value, json};

const WAITS: &str = "applying v1.34.2: waits for MachineDeployment md-0: 2 of 3 machines at v1.34.2";

fn cluster(name: &str, opted_in: bool, version: &str) -> Arc<DynamicObject> {
    let annotations = if opted_in {
        json!({"fleet.muster.dev/upgrades": "muster"})
    } else {
        json!({})
    };
    let object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": "fleet", "labels": {"env": "prod"}, "annotations": annotations},
        "spec": {"topology": {"version": version}},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn upgrade(status: &Value) -> Arc<ClusterUpgrade> {
    let object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1",
        "kind": "ClusterUpgrade",
        "metadata": {"name": "next", "namespace": "fleet", "generation": 1},
        "spec": {"selector": {}, "target": {"kubernetes": "v1.34.2"}},
        "status": status,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

/// c-1 has the version, c-2 is in progress, c-3 waits; `other` does not opt in, but has the version.
fn objects() -> Objects {
    let group = |reason: &str, clusters: &str, message: &str| json!({"reason": reason, "count": 1, "clusters": clusters, "message": message});
    let status = json!({
        "observedGeneration": 1,
        "revision": "157ab79b",
        "conditions": [{
            "type": "Ready", "status": "False", "reason": "Updating", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "v1.34.2 on 1/3 clusters",
        }],
        "summary": {"total": 3, "updated": 1, "ready": 3, "updating": 1, "waiting": 1, "failed": 0, "skipped": 0, "held": 0, "withdrawing": 0, "clusters": "1/3"},
        "reasons": [
            group("Updating", "c-2", WAITS),
            group("WaitingTurn", "c-3", "v1.34.2 waits for c-2 (at most 1 at a time)"),
            group("UpToDate", "c-1", "v1.34.2 is confirmed"),
        ],
    });
    Objects {
        upgrades: vec![upgrade(&status)],
        clusters: vec![
            cluster("c-1", true, "v1.34.2"),
            cluster("c-2", true, "v1.34.2"),
            cluster("c-3", true, "v1.33.4"),
            cluster("other", false, "v1.34.2"),
        ],
        ..Objects::default()
    }
}

fn next() -> ModuleRef {
    ModuleRef {
        kind: Kind::ClusterUpgrade,
        name: "next".to_owned(),
    }
}

#[test]
fn it_is_a_row_of_the_fleet() {
    let fleet = Fleet::of(&objects());
    let view = fleet.module(Kind::ClusterUpgrade, "next").unwrap();
    assert_eq!(
        (view.address().as_str(), view.version.as_str(), view.shape()),
        ("clusterupgrade/next", "v1.34.2", Shape::Updating)
    );
    let cells: Vec<_> = view
        .cells
        .iter()
        .map(|cell| (cell.cluster.as_str(), cell.shape, cell.version.as_deref()))
        .collect();
    assert_eq!(
        cells,
        [
            ("c-1", Shape::Ready, Some("v1.34.2")),
            ("c-2", Shape::Updating, Some("v1.34.2")),
            ("c-3", Shape::Waiting, Some("v1.33.4")),
            ("other", Shape::NotSelected, None),
        ]
    );
}

#[test]
fn a_cluster_that_is_changing_says_which_machines_it_waits_for() {
    let objects = objects();
    let fleet = Fleet::of(&objects);
    let explanation = why_on(&objects, &fleet, &next(), "c-2").unwrap();
    let last = explanation.checks.last().unwrap();
    assert!(!last.holds);
    assert_eq!(last.what, "machines");
    assert_eq!(last.found, format!("Updating: {WAITS}"));
    assert_eq!(
        explanation.command.as_deref(),
        Some("kubectl get machines -l cluster.x-k8s.io/cluster-name=c-2 -n fleet")
    );
    let explanation = why_on(&objects, &fleet, &next(), "c-3").unwrap();
    assert_eq!(explanation.checks.last().unwrap().what, "its turn");
}

/// A status that counts more Clusters than it names: those whose spec has the version may still be changing, and are
/// not shown as confirmed even if their number matches.
#[test]
fn what_the_status_does_not_confirm_is_not_confirmed() {
    let mut objects = objects();
    let group = |reason: &str, count: u32| json!({"reason": reason, "count": count, "clusters": "", "truncated": true});
    let status = json!({
        "observedGeneration": 1,
        "revision": "157ab79b",
        "reasons": [group("Updating", 1), group("UpToDate", 2)],
    });
    objects.upgrades = vec![upgrade(&status)];
    let fleet = Fleet::of(&objects);
    let view = fleet.module(Kind::ClusterUpgrade, "next").unwrap();
    let shapes: Vec<Shape> = view.cells.iter().map(|cell| cell.shape).collect();
    let unknown = Shape::Unknown;
    assert_eq!(shapes, [unknown, unknown, unknown, Shape::NotSelected]);
}

/// After a failure the advice is a retry once the Cluster is repaired; advice in a message is passed on.
#[test]
fn what_to_do_next_is_what_helps_a_cluster() {
    let objects = |reason: &str, message: &str| {
        let status = json!({
            "observedGeneration": 1,
            "revision": "157ab79b",
            "reasons": [{"reason": reason, "count": 1, "clusters": "c-1", "message": message}],
        });
        Objects {
            upgrades: vec![upgrade(&status)],
            clusters: vec![cluster("c-1", true, "v1.33.4")],
            ..Objects::default()
        }
    };
    let advised = |reason: &str, message: &str| {
        let objects = objects(reason, message);
        let explanation = why_on(&objects, &Fleet::of(&objects), &next(), "c-1").unwrap();
        (explanation.next.unwrap(), explanation.command)
    };
    let (_, command) = advised("Overdue", "v1.34.2 was picked up but did not become ready");
    assert_eq!(
        command.as_deref(),
        Some("muster rollout retry clusterupgrade/next -n fleet")
    );
    let (words, command) = advised(
        "ManagedElsewhere",
        "spec.topology.version of Cluster c-1 is applied by person; next: change the version there",
    );
    assert_eq!((words.as_str(), command), ("change the version there", None));
    let (words, command) = advised(
        "WindowClosed",
        "closed until 2026-12-01T02:00 Europe/Berlin (freeze)",
    );
    assert!(
        words.contains("a ClusterUpgrade cannot bypass a window"),
        "{words}"
    );
    assert_eq!(command, None);
    let (_, command) = advised("Held", "held for this ClusterUpgrade by ann: a disk");
    assert_eq!(
        command.as_deref(),
        Some("muster release clusterupgrade/next --clusters c-1 -n fleet")
    );
    let all = objects("VersionSkew", "it is at v1.30.0; next: v1.31.9");
    let fleet = Fleet::of(&all);
    let view = fleet.module(Kind::ClusterUpgrade, "next").unwrap();
    assert!(why(view).headline.contains("next"), "{:?}", why(view));
}

/// A ClusterUpgrade has no revisions; those of a NodeModule with the same name are not taken for its own.
#[test]
fn it_has_no_revisions() {
    let mut objects = objects();
    let namesake = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1",
        "kind": "NodeRevision",
        "metadata": {"name": "next-1"},
        "spec": {"module": "next", "revision": "a".repeat(64), "content": {}},
    });
    objects.nodes.revisions = vec![Arc::new(serde_json::from_value(namesake).unwrap())];
    let history = History::of_module(&objects, &next()).unwrap();
    assert_eq!(history.revisions.len(), 0);
}
