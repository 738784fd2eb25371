//! Promise: the dashboard shows the nodes of a cluster like clusters: NodeModules with counts, nodes by NodeModules,
//! and for each of both why it is in its state and what to do next, with reports, holds, the budget and path conflicts.

use std::sync::Arc;

use crate::fixture::{Served, objects, served, text};
use muster_api::node::NodeModule;
use muster_dashboard::{Fleet, FleetEvent, Matrix, ModuleRef, NodeObjects, NodeView, Objects, Shape, why_on};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const API: &str = "fleet.muster.dev/v1alpha1";
/// Current revision, and the one before.
const NOW: char = 'b';
const BEFORE: char = 'a';

fn object<K: DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn hash(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// Each node with its entry in the status of `fabric`.
const NODES: [(&str, &str, &str); 7] = [
    ("n1", "UpToDate", ""),
    ("n2", "Updating", "the checks are being made"),
    ("n3", "WaitingTurn", "1 of 1 nodes are changing"),
    (
        "n4",
        "Failed",
        "tcp 10.0.0.1:179 did not answer; next: apply a fixed NodeModule",
    ),
    (
        "n5",
        "AgentMissing",
        "its agent has not renewed its Lease for 5 minutes",
    ),
    (
        "n6",
        "Held",
        "held for all NodeModules by ann: a disk is replaced",
    ),
    ("lab", "", ""),
];

fn node(name: &str) -> Value {
    let role = if name == "lab" { "db" } else { "worker" };
    let hold = json!({"fleet.muster.dev/hold": r#"{"by":"ann","reason":"a disk is replaced"}"#});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"role": role}, "annotations": if name == "n6" { hold } else { json!({}) }},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:00:00Z"},
            {"type": "fleet.muster.dev/NodeConfigured", "status": "False", "reason": "Waiting", "message": "fabric: WaitingTurn"},
        ]},
    })
}

fn lease(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "muster-nodes"}, "spec": {"renewTime": "2026-01-03T03:59:55.123456Z"}})
}

/// The assignment of `fabric` on a node, and the report about it, with another token if it is about an earlier
/// assignment.
fn assemblage(name: &str, revision: char, token: u64, report: &Value) -> Value {
    let digest = format!("sha256:{revision}1");
    let mut state =
        json!({"name": "fabric", "digest": digest, "token": token, "confirmed": "sha256:a1c0ffee00"});
    for (key, value) in report.as_object().unwrap() {
        state[key] = value.clone();
    }
    let row = json!({"name": "fabric", "uid": "u1", "revision": hash(revision), "digest": digest, "token": 7, "values": {"PEER": "secret-looking"}});
    json!({
        "apiVersion": API, "kind": "NodeAssemblage", "metadata": {"name": name},
        "spec": {"rows": [row]}, "status": {"agent": {"version": "0.9.1"}, "rows": [state]},
    })
}

/// A NodeModule whose status has these entries for nodes.
fn module(name: &str, reasons: &[(&str, &str, &str)]) -> NodeModule {
    let reasons = reasons.iter().filter(|(_, reason, _)| !reason.is_empty());
    let groups = reasons.clone().map(|(node, reason, message)| {
        let message = (!message.is_empty()).then_some(message);
        json!({"reason": reason, "count": 1, "nodes": node, "message": message})
    });
    let attention = reasons
        .filter(|(_, reason, _)| *reason == "Failed")
        .map(|(node, reason, message)| json!({"node": node, "reason": reason, "since": "2026-01-03T03:02:00Z", "message": message}));
    let control = json!({"control": "fleet.muster.dev/hold", "node": "n6", "effect": "Applied", "message": "by ann: a disk is replaced"});
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "Halted", "message": "it failed on n4", "lastTransitionTime": "2026-01-03T03:02:00Z"});
    let stages = json!([{"name": "canary", "selector": {"matchLabels": {"rack": "a"}}, "soak": "1m", "approval": "Required"}]);
    let module = json!({
        "apiVersion": API, "kind": "NodeModule", "metadata": {"name": name, "uid": "u1", "generation": 2},
        "spec": {
            "selector": {"matchLabels": {"role": "worker"}}, "parts": [],
            "rollout": {"maxUnreadyNodes": "34%", "stages": stages, "domains": {"key": "rack", "order": "Listed", "values": ["b", "a"], "limit": 1}},
        },
        "status": {
            "observedGeneration": 2, "revision": hash(NOW), "controls": [control],
            "conditions": [condition("Ready", "False"), condition("Stalled", "True")],
            "summary": {"total": 6, "updated": 1, "ready": 2, "updating": 1, "waiting": 1, "failed": 1, "skipped": 1, "held": 1, "nodes": "1/6"},
            "reasons": groups.collect::<Vec<_>>(), "attention": attention.collect::<Vec<_>>(),
        },
    });
    serde_json::from_value(module).unwrap()
}

fn revision(digit: char, story: &Value) -> Value {
    json!({
        "apiVersion": API, "kind": "NodeRevision", "metadata": {"name": format!("fabric-{digit}")},
        "spec": {"module": "fabric", "uid": "u1", "revision": hash(digit), "content": {}}, "status": story,
    })
}

/// One node confirmed, one in progress, one waiting, one failed and restored, one with a missing agent, one held, and
/// one that is not selected.
fn world() -> NodeObjects {
    let restored = json!({"state": "failed", "class": "Revision", "terminal": true, "reason": "Failed", "message": "tcp 10.0.0.1:179 did not answer"});
    let confirmed = json!({"state": "confirmed"});
    let drifted = json!({"state": "confirmed", "confirmed": "sha256:b1", "drift": ["/etc/fabric.conf"]});
    let assemblages = [
        assemblage("n1", NOW, 7, &drifted),
        assemblage("n2", NOW, 7, &json!({"state": "updating"})),
        assemblage("n3", BEFORE, 7, &confirmed),
        assemblage("n4", NOW, 7, &restored),
        assemblage("n5", BEFORE, 6, &confirmed),
        assemblage("n6", BEFORE, 7, &confirmed),
    ];
    let evidence =
        json!([{"node": "n4", "at": "2026-01-03T03:02:00Z", "message": "tcp 10.0.0.1:179 did not answer"}]);
    let good =
        json!({"started": "2026-01-02T03:00:00Z", "finished": "2026-01-02T03:10:00Z", "verdict": "Good"});
    let bad = json!({"started": "2026-01-03T03:00:00Z", "finished": "2026-01-03T03:02:00Z", "verdict": "Bad", "evidence": evidence});
    let claims = json!([{"module": "u1", "node": "n2", "uid": "n", "token": 6}, {"module": "gone", "node": "n1", "uid": "n", "token": 6}]);
    NodeObjects {
        modules: vec![Arc::new(module("fabric", &NODES))],
        assemblages: assemblages.into_iter().map(object).collect(),
        nodes: NODES.iter().map(|(name, ..)| object(node(name))).collect(),
        leases: ["n1", "n2", "n3", "n4"]
            .into_iter()
            .map(|name| object(lease(name)))
            .collect(),
        revisions: vec![object(revision(BEFORE, &good)), object(revision(NOW, &bad))],
        budgets: vec![object(json!({
            "apiVersion": API, "kind": "NodeBudget", "metadata": {"name": "nodes"},
            "spec": {"controlPlane": 1, "workers": "50%"}, "status": {"claims": claims},
        }))],
    }
}

fn happened(reason: &str, note: &str) -> Arc<FleetEvent> {
    Arc::new(FleetEvent {
        at: "2026-01-03T03:02:00Z".parse().unwrap(),
        warning: reason == "NodeFailed",
        reason: reason.to_owned(),
        note: note.to_owned(),
        kind: "NodeModule".to_owned(),
        name: "fabric".to_owned(),
        by: "muster-agent".to_owned(),
    })
}

/// A cluster with nodes and nothing else.
fn alone() -> Objects {
    Objects {
        nodes: world(),
        ..Objects::default()
    }
}

/// A management cluster whose own nodes are configured, too.
fn both() -> Objects {
    let mut all = objects();
    all.nodes = world();
    all.events.push(happened(
        "NodeFailed",
        "n4: Failed: tcp 10.0.0.1:179 did not answer",
    ));
    all.events.push(happened("NodeUpdated", "n1: ready at bbbbbbbb"));
    all
}

const PAGES: [&str; 5] = [
    "/nodes",
    "/nodemodule/fabric",
    "/nodemodule/fabric/revision/bbbbbbbb",
    "/nodemodule/fabric/on/n4",
    "/node/n4",
];

fn shows(page: &str, all: &[&str]) {
    for part in all {
        assert!(page.contains(part), "{part}: {page}");
    }
}

/// The element with this id, up to its end tag.
fn element<'a>(page: &'a str, id: &str, end: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("id=\"{id}\""))
        .unwrap_or_else(|| panic!("{id}: {page}"));
    rest.split_once(end).unwrap().0
}

#[tokio::test]
async fn node_modules_are_listed_in_numbers() {
    for (objects, path) in [
        (alone(), "/"),
        (alone(), "/nodes"),
        (both(), "/nodes"),
        (both(), "/"),
    ] {
        let page = served(objects).text(path).await;
        let row = element(&page, "listed:fabric", "</tr>");
        shows(row, &["href=\"./nodemodule/fabric\"", "Halted", "bbbbbbbb"]);
        let cells: Vec<&str> = row
            .split("<td>")
            .skip(2)
            .map(|cell| cell.split('<').next().unwrap())
            .collect();
        assert_eq!(cells, ["1 of 6", "1", "1", "1", "1", "1"], "{row}");
    }
}

#[tokio::test]
async fn the_first_page_is_about_nodes_where_there_is_nothing_else() {
    let page = served(alone()).text("/").await;
    shows(
        &page,
        &[
            "1 NodeModule on 7 nodes: 2 need attention: fabric on n4, n5",
            "id=\"cell:NodeModule:fabric:n4\"",
            "muster matrix --nodes -w",
        ],
    );
    assert!(!page.contains("href=\"./nodes\""), "a page has one tab: {page}");
    let page = served(both()).text("/").await;
    shows(
        &page,
        &[
            "2 modules on 4 clusters: 1 needs attention: web on eu-1",
            "href=\"./nodes\"",
        ],
    );
    assert!(!page.contains("cell:NodeModule"), "{page}");
    let page = served(objects()).text("/").await;
    assert!(
        !page.contains("NodeModule") && !page.contains("./nodes"),
        "{page}"
    );
}

#[tokio::test]
async fn the_matrix_has_each_node_with_filters_and_folds() {
    let served = served(both());
    let fleet = Fleet::of_nodes(&world());
    let page = served.text("/nodes").await;
    for cell in &fleet.modules[0].cells {
        let shown = element(
            &page,
            &format!("cell:NodeModule:fabric:{}", cell.cluster),
            "</td>",
        );
        shows(
            shown,
            &[
                cell.shape.word(),
                &cell.shape.glyph().to_string().replace('⏸', "svg"),
            ],
        );
        shows(
            shown,
            &[&format!("href=\"./nodemodule/fabric/on/{}\"", cell.cluster)],
        );
    }
    shows(&page, &["href=\"./node/n4\"", "1 NodeModule × 7 nodes"]);
    let page = served.text("/nodes?q=n4&only=problems").await;
    assert!(
        page.contains("fabric:n4") && !page.contains("fabric:n2"),
        "{page}"
    );
    let page = served.text("/nodes?label=role%3Ddb").await;
    assert!(
        page.contains("fabric:lab") && !page.contains("fabric:n2"),
        "{page}"
    );
    let page = served.text("/nodes?group=role").await;
    shows(
        &page,
        &["scope=\"colgroup\">db</th>", "scope=\"colgroup\">worker</th>"],
    );

    let mut many = world();
    let waits = [("m{0..199}", "WaitingTurn", "")];
    many.nodes = (0..200)
        .map(|number| object(node(&format!("m{number}"))))
        .collect();
    many.modules = vec![Arc::new(module("fabric", &waits))];
    let served = crate::fixture::served(Objects {
        nodes: many,
        ..Objects::default()
    });
    assert!(served.text("/nodes").await.contains("m{0..199} (200)"));
    let unfolded = served.text("/nodes?fold=no").await;
    assert_eq!(unfolded.matches(" id=\"cell:").count(), 200);
}

/// The number in the first of many node names, which all have equal length.
const FIRST: usize = 10_000;

/// The given number of nodes: three failed far apart, one is changing, and the last tenth waits; the others are up to
/// date.
fn thousands(nodes: usize) -> NodeObjects {
    let name = |number: usize| format!("m{}", FIRST + number);
    let failed = [nodes / 7, nodes / 3, nodes / 2];
    let tail = nodes - nodes / 10;
    let range = |from: usize, to: usize| format!("m{{{}..{}}}", FIRST + from, FIRST + to - 1);
    let reason_of = |number: usize| match number {
        number if failed.contains(&number) => "Failed",
        number if number == tail - 1 => "Updating",
        number if number >= tail => "WaitingTurn",
        _ => "UpToDate",
    };
    let good = [
        range(0, failed[0]),
        range(failed[0] + 1, failed[1]),
        range(failed[1] + 1, failed[2]),
        range(failed[2] + 1, tail - 1),
    ]
    .join(",");
    let bad: Vec<String> = failed.iter().map(|number| name(*number)).collect();
    let mut groups = vec![
        ("Updating".to_owned(), 1, name(tail - 1), ""),
        ("WaitingTurn".to_owned(), nodes / 10, range(tail, nodes), ""),
        ("UpToDate".to_owned(), tail - 4, good, ""),
    ];
    groups.extend(
        bad.iter()
            .map(|node| ("Failed".to_owned(), 1, node.clone(), "no answer")),
    );
    let mut module = serde_json::to_value(module("fabric", &[])).unwrap();
    module["status"]["reasons"] = groups
        .into_iter()
        .map(|(reason, count, nodes, message)| json!({"reason": reason, "count": count, "nodes": nodes, "message": message}))
        .collect();
    module["status"]["attention"] = bad
        .iter()
        .map(|node| json!({"node": node, "reason": "Failed", "since": "2026-01-03T03:02:00Z", "message": "no answer"}))
        .collect();
    let reported = |number: usize| {
        let (revision, state) = match reason_of(number) {
            "Failed" => (
                NOW,
                json!({"state": "failed", "class": "Revision", "terminal": true, "reason": "Failed", "message": "no answer"}),
            ),
            "Updating" => (NOW, json!({"state": "updating"})),
            "WaitingTurn" => (BEFORE, json!({"state": "confirmed"})),
            _ => (NOW, json!({"state": "confirmed"})),
        };
        object(assemblage(&name(number), revision, 7, &state))
    };
    NodeObjects {
        modules: vec![object(module)],
        assemblages: (0..nodes).map(reported).collect(),
        nodes: (0..nodes).map(|number| object(node(&name(number)))).collect(),
        ..NodeObjects::default()
    }
}

/// The size of a page does not grow with the number of healthy nodes.
#[tokio::test]
async fn thousands_of_nodes_fit_on_a_page() {
    let mut sizes = Vec::new();
    for nodes in [2_500, 5_000] {
        let served = crate::fixture::served(Objects {
            nodes: thousands(nodes),
            ..Objects::default()
        });
        let mut bytes = Vec::new();
        for path in ["/", "/nodes", "/nodemodule/fabric", "/node/m10071"] {
            let page = served.text(path).await;
            bytes.push((path, page.len()));
        }
        let page = served.text("/nodes").await;
        for failed in [nodes / 7, nodes / 3, nodes / 2] {
            let cell = element(
                &page,
                &format!("cell:NodeModule:fabric:m{}", FIRST + failed),
                "</td>",
            );
            shows(cell, &[Shape::Failed.word()]);
        }
        shows(
            &page,
            &[&format!(
                "m{{{}..{}}} ({})",
                FIRST + nodes - nodes / 10,
                FIRST + nodes - 1,
                nodes / 10
            )],
        );
        sizes.push(bytes);
    }
    for ((path, small), (_, large)) in sizes[0].iter().zip(&sizes[1]) {
        assert!(
            large * 20 < small * 21,
            "{path}: {small} bytes for 2,500 nodes, {large} for 5,000"
        );
    }
}

#[tokio::test]
async fn the_page_of_a_node_module() {
    let page = served(both()).text("/nodemodule/fabric").await;
    shows(
        &page,
        &[
            "NodeModule fabric",
            "1/6 nodes updated",
            "role=worker</code>: 6 of 7 nodes",
            "At most 34% updating at a time",
            "Domains of the label rack in the order b, a, 1 at a time, at most 1 node of each.",
            "needs an approval",
            "Nodes, in rollout order",
            "fleet.muster.dev/hold</code> on n6: in effect: by ann: a disk is replaced",
            "muster rollout retry nodemodule/fabric<",
            "muster diff nodemodule/fabric<",
            "kubectl get nodemodule.fleet.muster.dev fabric -o yaml<",
        ],
    );
    assert!(
        !page.contains("muster reconcile") && !page.contains("all clusters"),
        "{page}"
    );
    for (node, reason, message) in NODES.iter().filter(|(_, reason, _)| !reason.is_empty()) {
        let row = element(&page, &format!("on:{node}"), "</tr>");
        let message = message.split(';').next().unwrap();
        shows(
            row,
            &[
                reason,
                message,
                &format!("href=\"../nodemodule/fabric/on/{node}\""),
            ],
        );
    }
    let why = element(&page, "why", "</section>");
    shows(
        why,
        &[
            "n4",
            "tcp 10.0.0.1:179 did not answer",
            "n3",
            "WaitingTurn",
            "<strong>Next: </strong>",
        ],
    );
    let revisions = element(&page, "revisions", "</section>");
    shows(
        revisions,
        &[
            "Nodes at its end",
            "bbbbbbbb",
            "Bad",
            "n4: tcp 10.0.0.1:179 did not answer",
            "aaaaaaaa",
            "Good",
        ],
    );
    assert!(!revisions.contains("Commit"), "{revisions}");
    shows(
        element(&page, "events", "</section>"),
        &["NodeFailed", "n1: ready at bbbbbbbb"],
    );
    let timeline = element(&page, "timeline", "</section>");
    shows(
        timeline,
        &[
            "Of a node that is confirmed",
            "<li class=\"failed\"><span class=\"name\">n4",
            "<li class=\"ready\"><span class=\"name\">n1",
        ],
    );
    let budget = element(&page, "budget", "</section>");
    shows(
        budget,
        &[
            "at most 1 of the control plane, 50% of the others",
            "n2</a> by <a href=\"../nodemodule/fabric\">fabric",
            "by a deleted NodeModule",
        ],
    );
}

#[tokio::test]
async fn the_page_of_a_revision() {
    let served = served(both());
    let page = served.text("/nodemodule/fabric/revision/bbbbbbbb").await;
    shows(
        &page,
        &[
            "It failed on more nodes than allowed",
            "href=\"../../../nodemodule/fabric/on/n4\"",
            "muster rollout retry nodemodule/fabric --revision bbbbbbbb<",
            "kubectl get noderevisions.fleet.muster.dev fabric-b -o yaml<",
        ],
    );
    assert!(!page.contains("commit</dt>"), "{page}");
    let page = served.text("/nodemodule/fabric/revision/aaaaaaaa").await;
    shows(
        &page,
        &[
            "It was confirmed on every node",
            "muster rollout undo nodemodule/fabric --to-revision aaaaaaaa<",
        ],
    );
}

#[tokio::test]
async fn the_page_of_a_node() {
    let served = served(both());
    let next = |page: &str| element(page, "modules", "</section>").to_owned();
    let page = served.text("/node/n4").await;
    shows(
        &page,
        &[
            "Node n4",
            "Ready since 2026-01-02T03:00:00Z",
            "lives</span>, version 0.9.1, its Lease was renewed ",
            "datetime=\"2026-01-03T03:59:55Z\"",
            "False: Waiting: fabric: WaitingTurn",
            "muster hold --node n4<",
            "kubectl describe node n4<",
        ],
    );
    shows(
        &next(&page),
        &[
            "href=\"../nodemodule/fabric/on/n4\"",
            "Failed",
            "datetime=\"2026-01-03T03:02:00Z\"",
            "muster rollout retry nodemodule/fabric<",
        ],
    );
    shows(
        element(&page, "reports", "</section>"),
        &["failed", "sha256:a1c0ffee00", "tcp 10.0.0.1:179 did not answer"],
    );
    let page = served.text("/node/n5").await;
    shows(
        &page,
        &[
            "AgentMissing</span>, version 0.9.1",
            "confirmed (about an earlier assignment)",
        ],
    );
    shows(
        &next(&page),
        &[
            "its agent has not renewed its Lease",
            "kubectl get pods -n muster-nodes -o wide --field-selector spec.nodeName=n5<",
        ],
    );
    let page = served.text("/node/n6").await;
    shows(
        &page,
        &[
            "<dt>held</dt><dd>by ann (a disk is replaced)",
            "muster release --node n6<",
        ],
    );
    let page = served.text("/node/n1").await;
    shows(element(&page, "reports", "</section>"), &["/etc/fabric.conf"]);
    shows(&page, &["Node n1: Ready"]);
    let events = element(&page, "events", "</section>");
    assert!(
        events.contains("href=\"../nodemodule/fabric\"") && !events.contains("NodeFailed"),
        "{events}"
    );
    let page = served.text("/node/lab").await;
    shows(
        &page,
        &[
            "no NodeModule selects it",
            "not known</span>, it has not reported yet",
        ],
    );
}

#[test]
fn an_agent_lives_if_a_reason_says_so_that_comes_after_its_absence() {
    let check = |reason: &str, expect: Option<bool>| {
        let mut nodes = world();
        nodes.modules = vec![Arc::new(module("fabric", &[("n1", reason, "m")]))];
        let snapshot = crate::fixture::snapshot(Objects {
            nodes,
            ..Objects::default()
        });
        assert_eq!(
            NodeView::of(&snapshot, "n1").unwrap().agent.lives,
            expect,
            "{reason}"
        );
    };
    check("UpToDate", Some(true));
    check("AgentTooOld", Some(true));
    check("AgentMissing", Some(false));
    check("NodeNotReady", None);
    check("LostInChange", None);
    check("Bewitched", None);
}

#[tokio::test]
async fn a_path_conflict_appears_on_the_node_page() {
    let mut nodes = world();
    let mut other = module("sysctl", &[("n1", "UpToDate", "")]);
    for condition in &mut other.status.as_mut().unwrap().conditions {
        "PathConflict".clone_into(&mut condition.reason);
        "/etc/fabric.conf is written by NodeModule fabric, too, on node n1"
            .clone_into(&mut condition.message);
    }
    nodes.modules.push(Arc::new(other));
    let served = served(Objects {
        nodes,
        ..Objects::default()
    });
    let page = served.text("/node/n1").await;
    shows(
        element(&page, "conflicts", "</section>"),
        &[
            "href=\"../nodemodule/sysctl\"",
            "/etc/fabric.conf is written by NodeModule fabric, too, on node n1",
        ],
    );
    let page = served.text("/node/lab").await;
    assert!(!page.contains("is written by"), "{page}");
}

#[tokio::test]
async fn a_node_module_on_a_node_down_to_what_its_agent_reports() {
    let served = served(both());
    let page = served.text("/nodemodule/fabric/on/n4").await;
    shows(
        element(&page, "why", "</section>"),
        &[
            "selected",
            "role=worker matches role=worker",
            "version 0.9.1, its Lease was renewed at 2026-01-03T03:59:55Z",
            "bbbbbbbb is assigned",
            "the agent has reported about this assignment",
            "it has the last confirmed content (a1c0ffee)",
            "muster rollout retry nodemodule/fabric",
        ],
    );
    shows(
        &page,
        &[
            "Reported by the node",
            "the revision&#39;s; it will not recover by itself"
                .replace("&#39;", "'")
                .as_str(),
            "href=\"../../../nodemodule/fabric/revision/bbbbbbbb\"",
            "href=\"../../../node/n4\"",
            "PEER",
            "muster why nodemodule/fabric --node n4<",
            "muster hold nodemodule/fabric --node n4<",
            "muster diff nodemodule/fabric --node n4<",
            "kubectl get nodeassemblages.fleet.muster.dev n4 -o yaml<",
        ],
    );
    assert!(!page.contains("secret-looking"), "values are left out: {page}");
    let page = served.text("/nodemodule/fabric/on/n6").await;
    shows(&page, &["muster release nodemodule/fabric --node n6<"]);
}

#[tokio::test]
async fn the_same_as_json() {
    let (both, alone) = (served(both()), served(alone()));
    let fleet = Fleet::of_nodes(&world());
    let matrix = serde_json::to_string_pretty(&Matrix::of(&fleet, Matrix::UNFOLDED)).unwrap() + "\n";
    assert_eq!(both.text("/api/v1/matrix/nodes.json").await, matrix);
    assert_eq!(alone.text("/api/v1/matrix.json").await, matrix);
    let read = async |served: &Served, path: &str| -> Value {
        serde_json::from_str(&served.text(&format!("/api/v1/{path}.json")).await).unwrap()
    };
    let fabric = ModuleRef {
        kind: muster_dashboard::Kind::NodeModule,
        name: "fabric".to_owned(),
    };
    let why = why_on(&self::alone(), &fleet, &fabric, "n4").unwrap();
    assert_eq!(
        read(&both, "why/nodemodule/fabric/on/n4").await,
        serde_json::to_value(why).unwrap()
    );
    assert_eq!(
        read(&both, "why/nodemodule/fabric").await["headline"],
        "fabric bbbbbbbb on 1/6 nodes: Halted"
    );
    assert_eq!(
        read(&both, "tree/nodemodule/fabric").await["root"]["kind"],
        "NodeModule"
    );
    let of_node = read(&both, "tree/node/n5").await;
    assert_eq!(
        (&of_node["root"]["kind"], &of_node["root"]["reason"]),
        (&json!("Node"), &json!("AgentMissing"))
    );
    assert_eq!(
        read(&both, "tree/nodes").await["root"]["message"],
        "1 NodeModule, 7 nodes: 2 need attention: fabric on n4, n5"
    );
    assert_eq!(
        read(&both, "history/nodemodule/fabric").await["revisions"][0]["verdict"],
        "Bad"
    );
    assert_eq!(
        read(&both, "matrix").await["rows"].as_array().unwrap().len(),
        2,
        "of modules"
    );
}

#[tokio::test]
async fn what_is_not_there() {
    let served = served(both());
    for path in [
        "/node/none",
        "/node/eu-1",
        "/cluster/n1",
        "/nodemodule/none",
        "/nodemodule/web",
        "/module/fabric",
        "/nodemodule/fabric/on/eu-1",
        "/nodemodule/fabric/revision/cccccccc",
        "/api/v1/tree/node/none.json",
    ] {
        let answer = served.get(path).await;
        assert_eq!(answer.status(), 404, "{path}");
        let page = text(answer).await;
        assert!(!page.contains("a cluster n"), "{path}: {page}");
    }
}

/// Like all other pages: landmarks, one title, tables with headers, and nothing inline.
#[tokio::test]
async fn pages_are_accessible_and_inert() {
    let mut hostile = world();
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}";
    hostile.modules.push(Arc::new(module(
        "<b>",
        &[("n4", "Failed", evil), ("<i>", "Failed", evil)],
    )));
    hostile.nodes.push(object(node("<i>")));
    let report =
        json!({"state": "failed", "reason": evil, "message": evil, "confirmed": evil, "drift": [evil]});
    hostile
        .assemblages
        .retain(|assemblage| assemblage.metadata.name.as_deref() != Some("n4"));
    hostile
        .assemblages
        .push(object(assemblage("n4", NOW, 7, &report)));
    let served = served(Objects {
        nodes: hostile,
        ..objects()
    });
    let more = [
        "/nodemodule/%3Cb%3E",
        "/node/%3Ci%3E",
        "/nodemodule/%3Cb%3E/on/%3Ci%3E",
        "/",
    ];
    for path in PAGES.into_iter().chain(more) {
        let page = served.text(path).await;
        for active in [
            "<script>", "<img", "<b>", "<i>", "style=\"", "onclick", "\u{202e}", "href=\"/", "=\"http",
        ] {
            assert!(!page.contains(active), "{path}: {active}: {page}");
        }
        assert_eq!(page.matches("<h1").count(), 1, "{path}");
        assert_eq!(page.matches("<main").count(), 1, "{path}");
        assert_eq!(
            page.matches("<table>").count(),
            page.matches("<thead>").count(),
            "{path}"
        );
        shows(
            &page,
            &[
                "<html lang=\"en\">",
                "<nav aria-label=\"Pages\">",
                "Skip to the content",
            ],
        );
        let ids: Vec<&str> = page
            .split(" id=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let mut once = ids.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(ids.len(), once.len(), "{path}: {ids:?}");
        for labelled in page.split("aria-labelledby=\"").skip(1) {
            let id = labelled.split('"').next().unwrap();
            assert!(ids.contains(&id), "{path}: {id}");
        }
    }
}

#[test]
fn the_shapes_of_the_nodes_are_those_of_their_reasons() {
    let fleet = Fleet::of_nodes(&world());
    let shapes: Vec<Shape> = fleet.modules[0].cells.iter().map(|cell| cell.shape).collect();
    assert_eq!(
        shapes,
        [
            Shape::NotSelected,
            Shape::Ready,
            Shape::Updating,
            Shape::Waiting,
            Shape::Failed,
            Shape::Unreachable,
            Shape::Held
        ]
    );
}
