//! The views of a fleet: the matrix and `why` say what the statuses say, equal clusters are one column, problems never fold.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::DynamicObject;
use muster_api::{
    Module, ProxyAssemblage,
    module::{Attention, ModuleKind},
};
use muster_dashboard::{Branch, Fleet, Matrix, Objects, Shape, Tree, why};
use serde_json::{Value, json};

fn cluster(name: &str, env: &str) -> DynamicObject {
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name, "labels": {"env": env}}, "spec": {}});
    serde_json::from_value(object).unwrap()
}

fn module(attention: &[(&str, &str, &str)]) -> Module {
    let told: Vec<Attention> = attention
        .iter()
        .map(|(cluster, reason, message)| Attention {
            cluster: (*cluster).to_owned(),
            reason: (*reason).to_owned(),
            since: Some(Time("2026-01-02T03:04:05Z".parse().unwrap())),
            message: (*message).to_owned(),
        })
        .collect();
    let object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "web", "generation": 2},
        "spec": {
            "selector": {"matchLabels": {"env": "prod"}},
            "sync": {"source": {"git": {"url": "https://git.test/fleet", "version": {"tag": "v2"}}}},
        },
        "status": {
            "observedGeneration": 2, "revision": "r2", "attention": told,
            "summary": {"total": 4, "updated": 1, "ready": 1, "updating": 0, "waiting": 0, "failed": 0, "skipped": 0, "held": 0, "withdrawing": 0, "clusters": "1/4"},
            "conditions": [{"type": "Ready", "status": "False", "reason": "Failed", "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        },
    });
    serde_json::from_value(object).unwrap()
}

fn proxy(name: &str, tag: &str, revision: &str, state: &str) -> ProxyAssemblage {
    let row = json!({
        "name": "web", "token": 3, "digest": "d", "revision": revision,
        "source": {"git": {"url": "https://git.test/fleet", "version": {"tag": tag}}},
    });
    let object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ProxyAssemblage", "metadata": {"name": name},
        "spec": {"clusterRef": {"name": name}, "syncs": [row]},
        "status": {"syncs": [{"name": "web", "token": 3, "digest": "d", "state": state}]},
    });
    serde_json::from_value(object).unwrap()
}

fn fleet() -> Fleet {
    told(&[
        ("eu-1", "Failed", "Deployment web/web: ImagePullBackOff"),
        ("eu-2", "Halted", "v2 failed on eu-1"),
        ("eu-3", "Halted", "v2 failed on eu-1"),
    ])
}

/// The fleet of which the module says this.
fn told(attention: &[(&str, &str, &str)]) -> Fleet {
    Fleet::of(&Objects {
        modules: vec![module(attention).into()],
        proxies: vec![
            proxy("dev-1", "v2", "r2", "succeeded").into(),
            proxy("eu-1", "v2", "r2", "failed").into(),
            proxy("eu-2", "v1", "r1", "succeeded").into(),
            proxy("eu-3", "v1", "r1", "succeeded").into(),
        ],
        clusters: vec![
            cluster("eu-3", "prod").into(),
            cluster("eu-1", "prod").into(),
            cluster("eu-2", "prod").into(),
            cluster("dev-1", "prod").into(),
            cluster("lab", "none").into(),
        ],
        ..Objects::default()
    })
}

#[test]
fn a_cell_says_what_the_status_and_the_row_say() {
    let fleet = fleet();
    let cells: Vec<String> = fleet.modules[0]
        .cells
        .iter()
        .map(|cell| {
            format!(
                "{} {} {} {}",
                cell.cluster,
                cell.shape.glyph(),
                cell.reason,
                cell.version.as_deref().unwrap_or("-")
            )
        })
        .collect();
    assert_eq!(
        cells,
        [
            "dev-1 ● UpToDate v2",
            "eu-1 ✗ Failed v2",
            "eu-2 ○ Halted v1",
            "eu-3 ○ Halted v1",
            "lab · Excluded -"
        ]
    );
}

#[test]
fn equal_columns_fold_and_problems_do_not() {
    let titles = |fold_from: usize| {
        Matrix::of(&fleet(), fold_from)
            .columns
            .into_iter()
            .map(|column| column.title)
            .collect::<Vec<_>>()
    };
    assert_eq!(titles(12), ["dev-1", "eu-1", "eu-2", "eu-3", "lab"]);
    assert_eq!(titles(2), ["dev-1", "eu-1", "eu-2 +1", "lab"]);
}

#[test]
fn why_begins_with_the_failure_and_groups_who_waits() {
    let fleet = fleet();
    let why = why(fleet.module(ModuleKind::Module, "web").unwrap(), None);
    assert_eq!(why.headline, "web v2 on 1/4 clusters: Failed");
    let steps: Vec<String> = why
        .steps
        .iter()
        .map(|step| format!("{} {} {}", step.shape.glyph(), step.who, step.reason))
        .collect();
    assert_eq!(
        steps,
        ["✗ eu-1 Failed", "○ eu-2, eu-3 Halted", "● dev-1 UpToDate"]
    );
    assert!(
        why.steps[0].message.contains("ImagePullBackOff"),
        "down to the object: {}",
        why.steps[0].message
    );
}

#[test]
fn why_ends_with_what_is_to_be_done() {
    let check = |reason: &str, expect: &str| {
        let fleet = told(&[("eu-1", reason, "m")]);
        let why = why(fleet.module(ModuleKind::Module, "web").unwrap(), None);
        let next = why.next.unwrap_or_default();
        assert!(next.starts_with(expect), "{reason}: {next}");
    };
    check("Failed", "commit a fixed version of web");
    check("Paused", "muster rollout resume module/web");
    check("WaitingApproval", "muster rollout approve module/web");
    check(
        "WaitingGate",
        "see what the gate reads; it is read again by itself",
    );
    for reason in ["Halted", "KnownBad", "Aborted"] {
        check(
            reason,
            "commit a fixed version of web under a new tag, or: muster rollout retry module/web",
        );
    }
    check("WaitingStage", "nothing to do: it goes on by itself");
}

#[test]
fn the_shapes_as_json_are_on_record() {
    let fleet = fleet();
    insta::assert_json_snapshot!("matrix", Matrix::of(&fleet, 2));
    insta::assert_json_snapshot!("why", why(&fleet.modules[0], None));
    insta::assert_json_snapshot!("tree", Tree::fleet(&fleet, "default"));
}

#[test]
fn why_says_that_a_tag_was_moved() {
    let mut fleet = fleet();
    fleet.modules[0].tag_moved = Some("tag v2 now points to commit c2: push a new tag".to_owned());
    let why = why(&fleet.modules[0], None);
    let said = why.steps.iter().find(|step| step.reason == "TagMoved").unwrap();
    assert_eq!(
        (said.who.as_str(), said.message.as_str()),
        ("web", "tag v2 now points to commit c2: push a new tag")
    );
}

#[test]
fn the_root_of_a_tree_stands_like_the_worst_below_it() {
    let mut fleet = told(&[("eu-1", "Unreachable", "no answer")]);
    fleet.modules[0].ready = "True".to_owned();
    let root = Tree::fleet(&fleet, "default").root;
    assert_eq!(
        (root.shape, root.reason.as_str()),
        (Shape::Unreachable, "NotReady")
    );
}

#[test]
fn a_failed_cluster_is_not_counted_as_ready_though_its_row_is_the_target() {
    let counts = fleet().counts();
    assert_eq!(
        (
            counts.get(&Shape::Ready),
            counts.get(&Shape::Failed),
            counts.get(&Shape::Waiting)
        ),
        (Some(&1), Some(&1), Some(&2))
    );
}

#[test]
fn a_matrix_is_documented_json() {
    let json: Value = serde_json::to_value(Matrix::of(&fleet(), 12)).unwrap();
    assert_eq!(json["rows"][0]["cells"][1]["shape"], "failed");
    assert_eq!(
        json["columns"][0],
        json!({"title": "dev-1", "clusters": ["dev-1"]})
    );
}

/// A tree as lines: depth, title, shape, word and version.
fn drawn(branch: &Branch, depth: usize) -> Vec<String> {
    let line = format!(
        "{}{} {} {} {}",
        "  ".repeat(depth),
        branch.title(),
        branch.shape.glyph(),
        branch.reason,
        branch.version.as_deref().unwrap_or("-")
    );
    let below = branch.branches.iter().flat_map(|below| drawn(below, depth + 1));
    std::iter::once(line).chain(below).collect()
}

#[test]
fn a_tree_shows_problems_and_groups_what_is_alike() {
    let fleet = fleet();
    assert_eq!(
        drawn(&Tree::fleet(&fleet, "default").root, 0),
        [
            "Fleet/default ✗ NotReady -",
            "  Module/web ✗ Failed v2",
            "    Cluster/eu-1 ✗ Failed v2",
            "    Clusters eu-2, eu-3 ○ Halted v1",
            "    Cluster/dev-1 ● UpToDate v2",
        ]
    );
    let module = fleet.module(ModuleKind::Module, "web").unwrap();
    assert_eq!(Tree::module(module).root.branches.len(), 3);
    assert_eq!(
        drawn(&Tree::cluster(&fleet, "eu-1").unwrap().root, 0),
        ["Cluster/eu-1 ✗ NotReady -", "  Module/web ✗ Failed v2"]
    );
    assert!(Tree::cluster(&fleet, "lab").unwrap().root.branches.is_empty());
    assert!(Tree::cluster(&fleet, "eu-9").is_none());
}

#[test]
fn many_failures_are_three_and_a_count() {
    let names: Vec<String> = (1..=15).map(|number| format!("eu-{number:02}")).collect();
    let told: Vec<(&str, &str, &str)> = names.iter().map(|name| (name.as_str(), "Failed", "m")).collect();
    let fleet = Fleet::of(&Objects {
        modules: vec![module(&told).into()],
        clusters: names.iter().map(|name| cluster(name, "prod").into()).collect(),
        ..Objects::default()
    });
    let tree = Tree::fleet(&fleet, "default");
    let titles: Vec<String> = tree.root.branches[0].branches.iter().map(Branch::title).collect();
    assert_eq!(
        titles,
        [
            "Cluster/eu-01",
            "Cluster/eu-02",
            "Cluster/eu-03",
            "Clusters eu-04, eu-05, eu-06 and 9 more"
        ]
    );
}

#[test]
fn a_tree_is_documented_json() {
    let json: Value = serde_json::to_value(Tree::fleet(&fleet(), "default")).unwrap();
    assert_eq!(json["schema"], "tree/v1");
    assert_eq!(
        json["root"]["branches"][0]["branches"][1],
        json!({
            "kind": "Clusters", "names": ["eu-2", "eu-3"], "shape": "waiting", "version": "v1", "reason": "Halted", "since": null,
            "message": "v2 failed on eu-1", "branches": [],
        })
    );
}
