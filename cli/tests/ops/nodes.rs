//! Promise: the verbs for modules also work for NodeModules of the given cluster, and write what its controller reads,
//! and nothing where that would have no effect.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use muster_api::{
    crds,
    node::{NodeAssemblage, NodeModule, NodeRevision, revision},
};
use muster_rollout::{Evidence, Memory, Millis, Revision, Run, RunState};
use serde_json::{Value, json};

use crate::bed::{Bed, SOON, create};

const API: &str = "fleet.muster.dev/v1alpha1";

/// Four nodes: n1 failed, n2 vanished during its update, n3 waits, and n4 is not selected. The previous revision is
/// good.
struct World {
    bed: Bed,
    modules: Api<NodeModule>,
    /// The revision that is rolled out, and the previous one.
    now: String,
    before: String,
}

fn spec(content: &str) -> Value {
    json!({
        "selector": {"matchLabels": {"role": "worker"}},
        "parts": [{"files": [{"path": "/etc/fabric.conf", "content": content}]}],
        "checks": {"tcp": ["10.0.0.1:179"]},
    })
}

fn hash(spec: &Value) -> String {
    let module: NodeModule =
        serde_json::from_value(json!({"metadata": {"name": "fabric"}, "spec": spec})).unwrap();
    revision::content_revision(&module.spec.content)
}

/// The memory of a stopped rollout.
fn memory(now: &str, before: &str) -> Memory {
    let parse = |hash: &str| Revision::parse(hash).unwrap();
    let mut memory = Memory {
        last_good: Some(parse(before)),
        run: Some(Run {
            id: 2,
            target: parse(now),
            from: Some(parse(before)),
            started: Millis(1_780_000_000_000),
            state: RunState::KnownBad,
        }),
        ..Memory::default()
    };
    let evidence = Evidence::new("n1".into(), "tcp 10.0.0.1:179 did not answer", Millis(0));
    memory.bad.insert(parse(now), evidence);
    memory
}

impl World {
    async fn new() -> Self {
        let bed = Bed::new().await;
        bed.management.add(crds::nodes()).unwrap();
        let (new, old) = (spec("asn 65001\n"), spec("asn 65000\n"));
        let (now, before) = (hash(&new), hash(&old));
        let client = bed.management.client();
        for (name, role, ready) in [
            ("n1", "worker", "True"),
            ("n2", "worker", "False"),
            ("n3", "worker", "True"),
            ("n4", "db", "True"),
        ] {
            create(&client, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"role": role}}})).await;
            let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-02T03:00:00Z",
                "message": "kubelet stopped posting node status"}]}});
            let nodes: Api<Node> = Api::all(client.clone());
            nodes
                .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
                .await
                .unwrap();
        }
        create(
            &client,
            json!({"apiVersion": API, "kind": "NodeModule", "metadata": {"name": "fabric"}, "spec": new}),
        )
        .await;
        let modules: Api<NodeModule> = Api::all(client.clone());
        let uid = modules.get("fabric").await.unwrap().uid();
        for (content, hash, story) in [
            (
                &new,
                &now,
                json!({"started": "2026-01-02T03:00:00Z", "finished": "2026-01-02T03:02:00Z", "verdict": "Bad",
                "evidence": [{"node": "n1", "at": "2026-01-02T03:02:00Z", "message": "tcp 10.0.0.1:179 did not answer"}]}),
            ),
            (
                &old,
                &before,
                json!({"started": "2026-01-01T03:00:00Z", "finished": "2026-01-01T03:02:00Z", "verdict": "Good"}),
            ),
        ] {
            let name = format!("fabric-{}", &hash[..8]);
            let parts = json!({"parts": content["parts"], "checks": content["checks"]});
            create(
                &client,
                json!({"apiVersion": API, "kind": "NodeRevision", "metadata": {"name": name},
                "spec": {"module": "fabric", "uid": uid, "revision": hash, "content": parts}}),
            )
            .await;
            let revisions: Api<NodeRevision> = Api::all(client.clone());
            revisions
                .patch_status(
                    &name,
                    &PatchParams::default(),
                    &Patch::Merge(json!({"status": story})),
                )
                .await
                .unwrap();
        }
        let world = Self {
            bed,
            modules,
            now,
            before,
        };
        world.assigned().await;
        world.set_module_status().await;
        world
    }

    /// The assignments and the reports of the nodes.
    async fn assigned(&self) {
        let client = self.bed.management.client();
        let assemblages: Api<NodeAssemblage> = Api::all(client.clone());
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-nodes"}});
        create(&client, namespace).await;
        for (name, revision, digest, state) in [
            (
                "n1",
                &self.now,
                "d2",
                json!({"state": "failed", "class": "Revision", "terminal": true, "reason": "Failed", "confirmed": "d1",
                "message": "tcp 10.0.0.1:179 did not answer"}),
            ),
            (
                "n2",
                &self.now,
                "d2",
                json!({"state": "updating", "confirmed": "d1"}),
            ),
            (
                "n3",
                &self.before,
                "d1",
                json!({"state": "confirmed", "confirmed": "d1", "drift": ["/etc/fabric.conf"]}),
            ),
        ] {
            let row =
                json!({"name": "fabric", "revision": revision, "digest": digest, "token": 7, "parts": [0]});
            create(&client, json!({"apiVersion": API, "kind": "NodeAssemblage", "metadata": {"name": name}, "spec": {"rows": [row]}})).await;
            let mut report = state;
            for (key, value) in [
                ("name", json!("fabric")),
                ("digest", json!(digest)),
                ("token", json!(7)),
            ] {
                report[key] = value;
            }
            let status = json!({"status": {"agent": {"version": "0.1.0"}, "rows": [report]}});
            assemblages
                .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
                .await
                .unwrap();
            create(&client, json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "muster-nodes"},
                "spec": {"renewTime": "2026-01-02T03:04:05.000000Z"}})).await;
        }
    }

    /// The status of the NodeModule.
    async fn set_module_status(&self) {
        let module = self.modules.get("fabric").await.unwrap();
        let at = "2026-01-02T03:02:00Z";
        let lost = "there is no heartbeat of node n2, after its change had started: no other node takes its turn until it is back, its Node is \
                    deleted, or it is released: kubectl annotate --field-manager=muster-cli nodemodule/fabric --overwrite fleet.muster.dev/release=n2";
        let failed = "tcp 10.0.0.1:179 did not answer; next: apply a fixed NodeModule";
        let memory = memory(&self.now, &self.before);
        let status = json!({"status": {
            "observedGeneration": module.metadata.generation,
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "KnownBad", "message": "it failed on n1", "lastTransitionTime": at},
                {"type": "Stalled", "status": "True", "reason": "KnownBad", "message": "it failed on n1", "lastTransitionTime": at},
            ],
            "revision": self.now,
            "summary": {"total": 3, "updated": 0, "ready": 1, "updating": 0, "waiting": 1, "failed": 1, "skipped": 1, "nodes": "0/3"},
            "reasons": [
                {"reason": "LostInChange", "count": 1, "nodes": "n2"}, {"reason": "Failed", "count": 1, "nodes": "n1"},
                {"reason": "KnownBad", "count": 1, "nodes": "n3", "message": "revision is known bad; next: apply a fixed NodeModule"},
            ],
            "attention": [
                {"node": "n2", "reason": "LostInChange", "since": at, "message": lost},
                {"node": "n1", "reason": "Failed", "since": at, "message": failed},
            ],
            "rollout": {"version": 1, "uid": module.uid(), "memory": serde_json::to_string(&memory).unwrap()},
        }});
        self.modules
            .patch_status("fabric", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    }

    /// An annotation of the NodeModule.
    async fn control_annotation(&self, key: &str) -> Option<Value> {
        let module = self.modules.get("fabric").await.unwrap();
        let text = module
            .annotations()
            .get(&format!("fleet.muster.dev/{key}"))?
            .clone();
        Some(serde_json::from_str(&text).unwrap_or_else(|_| json!(text)))
    }

    /// An annotation of a Node.
    async fn said_of(&self, node: &str, key: &str) -> Option<String> {
        let nodes: Api<Node> = Api::all(self.bed.management.client());
        let node = nodes.get(node).await.unwrap();
        node.annotations()
            .get(&format!("fleet.muster.dev/{key}"))
            .cloned()
    }

    async fn check(&self, words: &str, code: i32, expected: &str) {
        let output = self.bed.types(words, code).await;
        assert!(output.contains(expected), "{words}: {output}");
    }
}

fn settled(text: &str, world: &World) -> String {
    text.replace(&world.now[..8], "<now>")
        .replace(&world.before[..8], "<before>")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn views_lead_to_the_node_and_its_check() {
    let world = World::new().await;
    let mut page = String::new();
    for (words, code) in [
        ("why nodemodule/fabric", 0),
        ("why nmod/fabric --node n1", 0),
        ("why nodemodules/fabric --node n2", 0),
        ("why nodemodule/fabric --node n3", 0),
        ("why nodemodule/fabric --node n4", 0),
        ("matrix --nodes", 0),
        ("rollout status nodemodule/fabric --no-watch", 1),
        ("rollout status nodemodule/fabric", 1),
        ("rollout history nodemodule/fabric --revision BEFORE", 0),
        ("diff nodemodule/fabric", 1),
        ("get nodeassemblages -o name", 0),
        ("get noderevisions -o name", 0),
    ] {
        let typed = words.replace("BEFORE", &world.before[..8]);
        let output = world.bed.types(&typed, code).await;
        writeln!(page, "$ muster {words}\n{output}").unwrap();
    }
    let page: Vec<String> = page
        .lines()
        .filter(|line| !line.contains(" ago)"))
        .map(str::to_owned)
        .collect();
    insta::assert_snapshot!(
        settled(&page.join("\n"), &world)
            .replace(&world.now, "<now>")
            .replace(&world.before, "<before>")
    );
    let tree = world.bed.types("tree nodemodule/fabric", 0).await;
    assert!(
        tree.contains("NodeModule/fabric") && tree.contains("├─Node/n1") && tree.contains("0/3 nodes"),
        "{tree}"
    );
    let history = world.bed.types("rollout history nodemodule/fabric", 0).await;
    assert!(
        history.contains("NODES NOW") && history.contains("Good") && history.contains("n1: tcp 10.0.0.1:179"),
        "{history}"
    );
    let output = world
        .bed
        .types("why nodemodule/fabric --node n1 -o json", 0)
        .await;
    let why: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (&why["schema"], &why["command"]),
        (&json!("why/v1"), &json!("muster rollout retry nodemodule/fabric"))
    );
    world.check("get nodemodules", 0, "fabric").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_a_person_says_about_nodes_is_written_where_it_is_read() {
    let world = World::new().await;
    for (words, code, expected) in [
        ("rollout pause nodemodule/fabric --reason x", 0, "further node"),
        ("rollout pause nodemodule/fabric", 0, "is already paused"),
        ("rollout resume nodemodule/fabric", 0, "resumed"),
        ("rollout approve nodemodule/fabric", 2, "the module has no stages"),
        (
            "rollout abort nodemodule/fabric",
            1,
            "is not being rolled out: nothing was written",
        ),
        (
            "rollout withdraw nodemodule/fabric",
            0,
            "no withdrawal of nodemodule/fabric is held",
        ),
        (
            "rollout release nodemodule/fabric --node n2 --reason scrapped --dry-run",
            0,
            "(dry run)",
        ),
        (
            "rollout release nodemodule/fabric --node n1",
            1,
            "n1 did not vanish during its update (Failed): nothing was written",
        ),
        (
            "rollout release nodemodule/fabric --node n4",
            2,
            "does not select Node n4; next: muster why nodemodule/fabric --node n4",
        ),
        (
            "rollout release nodemodule/fabric --node n22",
            2,
            "there is no Node n22 in this cluster",
        ),
        (
            "rollout release module/fabric --node n2",
            2,
            "this is for NodeModules",
        ),
        (
            "rollout abandon nodemodule/fabric --node n1",
            1,
            "n1 is not being withdrawn from (Failed)",
        ),
        (
            "rollout status nodemodule/fabrik --no-watch",
            2,
            "there is no nodemodule/fabrik in this cluster (did you mean fabric?)",
        ),
        (
            "rollout status nodemodule/fabric --tag v1",
            2,
            "--tag is for modules",
        ),
    ] {
        world.check(words, code, expected).await;
    }
    for key in ["paused", "release", "abandon", "abort"] {
        assert_eq!(world.control_annotation(key).await, None, "{key}");
    }
    world
        .check(
            "rollout release nodemodule/fabric --node n2 --reason scrapped",
            0,
            "n2 released",
        )
        .await;
    let released = world.control_annotation("release").await.unwrap();
    assert_eq!(
        (&released["for"], &released["reason"]),
        (&json!("n2"), &json!("scrapped"))
    );
    world
        .check(
            "rollout retry nodemodule/fabric --reason 'a_cable'",
            0,
            "is retried",
        )
        .await;
    assert_eq!(
        world.control_annotation("retry").await.unwrap()["for"],
        world.now[..16]
    );
    let undone = world.bed.types("rollout undo nodemodule/fabric", 0).await;
    assert!(
        undone.contains("asn 65000") && undone.contains("role: worker") && !undone.contains("status"),
        "{undone}"
    );
    world
        .check(
            &format!("rollout undo nodemodule/fabric --to-revision {}", &world.now[..8]),
            0,
            "is already the one it asks for",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn nodes_are_held_and_pinned() {
    let world = World::new().await;
    let (before, now) = (&world.before[..8], &world.now[..8]);
    for (words, code, expected) in [
        ("hold nodemodule/fabric --node n3 --reason 'test'", 0, "holds n3"),
        (
            "hold nodemodule/fabric --clusters n3",
            2,
            "--clusters is for modules, and nodemodule/fabric rolls over nodes; next: name nodes with --node",
        ),
        (
            "hold module/web --node n3",
            2,
            "--node is for NodeModules, and module/web is not one",
        ),
        ("hold nodemodule/fabric --node n4", 2, "does not select Node n4"),
        (
            "hold nodemodule/fabric",
            2,
            "name the nodes that nodemodule/fabric should leave alone: --node A,B",
        ),
        (
            "hold --node n1 --for 2h",
            0,
            "No NodeModule will change this node. To release it: muster release --node n1",
        ),
        ("hold --node n9", 2, "there is no Node n9 in this cluster"),
        ("hold --node n1,n2", 2, "name only one Node at a time"),
    ] {
        world.check(words, code, expected).await;
    }
    assert_eq!(world.control_annotation("hold").await.unwrap()["for"], "n3");
    assert!(world.said_of("n1", "hold").await.is_some());
    for (words, code, expected) in [
        ("release --node n1".to_owned(), 0, "node/n1 released"),
        (
            "release --node n3".to_owned(),
            1,
            "nodemodule/fabric still holds it: muster release nodemodule/fabric --node n3",
        ),
        ("release nodemodule/fabric --node n3".to_owned(), 0, "releases n3"),
        (
            format!("pin --node n3 --module nodemodule/fabric --revision {before}"),
            0,
            "pinned to",
        ),
        (
            format!("pin --node n3 --module nodemodule/fabric --revision {now}"),
            2,
            "is known to be bad",
        ),
        (
            format!("pin --node n4 --module nodemodule/fabric --revision {before}"),
            2,
            "does not select Node n4",
        ),
        (
            format!("pin --node n3 --module fabric --revision {before}"),
            2,
            "--node is for NodeModules, and module/fabric is not one",
        ),
        (
            format!("pin eu-1 --module nodemodule/fabric --revision {before}"),
            2,
            "--clusters is for modules",
        ),
    ] {
        world.check(&words, code, expected).await;
    }
    assert_eq!(world.control_annotation("hold").await, None);
    assert_eq!(world.said_of("n1", "hold").await, None);
    let pinned: Value = serde_json::from_str(&world.said_of("n3", "pin.fabric").await.unwrap()).unwrap();
    assert_eq!(pinned["for"], world.before[..16]);
    world.check("unpin --node n3", 0, "unpinned").await;
    assert_eq!(world.said_of("n3", "pin.fabric").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn where_there_are_none_the_way_to_them_is_named() {
    let bed = Bed::new().await;
    for words in [
        "why nodemodule/fabric",
        "matrix --nodes",
        "rollout pause nodemodule/fabric",
        "diff nodemodule/fabric",
    ] {
        let output = bed.types(words, 2).await;
        assert!(
            output.contains("NodeModules are not served by this cluster") && output.contains("--context"),
            "{words}: {output}"
        );
    }
    for words in [
        "reconcile nodemodule/fabric",
        "window bypass x --module nodemodule/fabric --reason y --for 1h",
    ] {
        let output = bed.types(words, 2).await;
        assert!(
            output.contains("muster why nodemodule/fabric"),
            "{words}: {output}"
        );
    }
}

/// A running dashboard.
struct Dashboard {
    child: Child,
    address: String,
}

impl Dashboard {
    fn start(bed: &Bed, kubeconfig: &str, expected: &str) -> Self {
        let mut command = bed.command("dashboard --addr 127.0.0.1:0 -n default --kubeconfig");
        let child = command.arg(bed.path(kubeconfig)).stdout(Stdio::piped()).spawn();
        // If the test fails after this, the dashboard ends with it.
        let mut started = Self {
            child: child.unwrap(),
            address: String::new(),
        };
        let mut line = String::new();
        BufReader::new(started.child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let (before, rest) = line.split_once("http://").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(before.trim(), expected);
        rest.trim().trim_end_matches('/').clone_into(&mut started.address);
        started
    }

    fn get(&self, path: &str) -> String {
        let mut answer = String::new();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Repeats the request until the answer is as expected.
    async fn until(&self, path: &str, holds: impl Fn(&str) -> bool) -> String {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        let mut last = String::new();
        let look = async {
            loop {
                looks.tick().await;
                last = self.get(path);
                if holds(&last) {
                    return;
                }
            }
        };
        let found = tokio::time::timeout(SOON, look).await;
        assert!(found.is_ok(), "{path}: {last}");
        last
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // It may have ended on its own; the request has shown that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_dashboard_shows_nodes_beside_clusters() {
    let world = World::new().await;
    let says = "The fleet of namespace default:";
    let dashboard = Dashboard::start(&world.bed, "management", says);
    let page = dashboard
        .until("/nodes", |page| page.contains("cell:NodeModule:fabric:n1"))
        .await;
    assert!(page.contains("1 NodeModule on 4 nodes"), "{page}");
    let matrix = world.bed.types("matrix --nodes -o json", 0).await;
    assert_eq!(dashboard.get("/api/v1/matrix/nodes.json").trim(), matrix.trim());
    // Leases are read in addition to the watches.
    let renewed = "its Lease was renewed at 2026-01-02T03:04:05Z";
    let why = dashboard
        .until("/api/v1/why/nodemodule/fabric/on/n1.json", |why| {
            why.contains(renewed)
        })
        .await;
    let said = world
        .bed
        .types("why nodemodule/fabric --node n1 -o json", 0)
        .await;
    assert_eq!(why.trim(), said.trim());
    let page = dashboard.get("/node/n2");
    assert!(
        page.contains("not Ready since")
            && page.contains("muster rollout release nodemodule/fabric --node n2"),
        "{page}"
    );
    let page = dashboard
        .until("/nodemodule/fabric", |page| page.contains("n1: tcp 10.0.0.1:179"))
        .await;
    assert!(page.contains(&world.before[..8]), "{page}");
    // It follows.
    let status = json!({"status": {"attention": [{"node": "n1", "reason": "Failed", "message": "another check failed"}]}});
    world
        .modules
        .patch_status("fabric", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    dashboard
        .until("/nodemodule/fabric/on/n1", |page| {
            page.contains("another check failed")
        })
        .await;
    assert!(
        !dashboard.get("/").contains("role=\"alert\""),
        "nothing is in trouble"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn of_a_cluster_without_modules_the_dashboard_shows_its_nodes() {
    let bed = Bed::new().await;
    let output = bed.types("dashboard --kubeconfig new", 2).await;
    assert!(
        output.contains("listing"),
        "nothing to show is an error: {output}"
    );
    bed.downstream.add(crds::nodes()).unwrap();
    let client = bed.downstream.client();
    create(
        &client,
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"role": "worker"}}}),
    )
    .await;
    create(
        &client,
        json!({"apiVersion": API, "kind": "NodeModule", "metadata": {"name": "fabric"}, "spec": spec("a")}),
    )
    .await;
    let dashboard = Dashboard::start(&bed, "new", "The nodes of the cluster:");
    let page = dashboard
        .until("/", |page| page.contains("cell:NodeModule:fabric:n1"))
        .await;
    assert!(
        page.contains("1 NodeModule on 1 node") && !page.contains("role=\"alert\""),
        "{page}"
    );
}
