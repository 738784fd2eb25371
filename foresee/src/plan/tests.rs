//! Promise: a plan predicts what the controller would do from the current state: which clusters change, in which order,
//! which do not, and why.

use std::collections::BTreeMap;

use kube::ResourceExt;
use muster_api::{
    Module, ModuleRevision, ProxyAssemblage, assemblage::SyncRow, cluster::Version, digest,
    module::ModuleSpec,
};
use muster_apiserver::ApiServer;
use muster_controllers::{bindings::Kinds, rolloutwindow::Windows};
use muster_fleet::lists::Live;
use muster_rollout::{Memory, Millis, Revision, Run, RunState};
use muster_sync::source::{File, Files};
use muster_windows::Window;
use serde_json::{Value, json};

use super::{
    Sides,
    applier::{Appliers, Id},
    directories,
    foresee::Foresight,
    markdown,
    model::Plan,
    objects::Builder,
    read::{self, Location},
    text,
    variables::KnownVariables,
    versions::Versions,
    words,
};

const NS: &str = "fleet";
const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";

/// Three regions, one canary; the last by name is not selected yet.
const FLEET: [(&str, &str, &str); 7] = [
    ("dev-1", "dev", "eu"),
    ("eu-1", "prod", "eu"),
    ("eu-2", "prod", "eu"),
    ("eu-3", "prod", "eu"),
    ("us-1", "prod", "us"),
    ("us-2", "prod", "us"),
    ("zz-1", "new", "us"),
];

/// A settled management cluster, and the directory that it was created from.
struct World {
    live: Live,
    directory: BTreeMap<String, Value>,
    /// The other side of a range.
    base: Option<BTreeMap<String, Value>>,
    prune: bool,
    appliers: Appliers,
    /// Location of the directory.
    path: Location,
}

fn module(name: &str, commit: &str, rollout: &Value) -> Value {
    json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": name},
        "spec": {
            "selector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev", "prod"]}]},
            "sync": {"source": {"git": {"url": "https://git.test/fleet.git", "version": {"commit": commit}}}, "package": {"path": "app"}},
            "rollout": rollout,
        },
    })
}

impl World {
    /// Modules of these names are at the old commit everywhere.
    fn new(names: &[&str]) -> Self {
        let clusters = FLEET.map(|(name, env, region)| {
            let cluster = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {
                    "name": name, "uid": format!("uid-{name}"), "namespace": NS, "labels": {"env": env, "region": region},
                    "annotations": {"fleet.muster.dev/enrolled": ""},
                },
            });
            serde_json::from_value(cluster).unwrap()
        });
        let mut live = Live {
            namespace: NS.to_owned(),
            clusters: clusters.into(),
            version: Some(Version::V1Beta2),
            windows: Some(Windows::default()),
            enrolled: Some(FLEET.map(|(name, ..)| name.to_owned()).into()),
            ..Live::default()
        };
        let mut directory = BTreeMap::new();
        for name in names {
            let manifest = module(name, OLD, &json!({}));
            let mut stands: Module = serde_json::from_value(manifest.clone()).unwrap();
            stands.metadata.namespace = Some(NS.to_owned());
            stands.metadata.uid = Some(format!("uid-{name}"));
            stands.metadata.generation = Some(1);
            live.revisions.push(revision(name, &stands.spec, OLD, "Good"));
            live.modules.push(stands);
            directory.insert((*name).to_owned(), manifest);
        }
        live.proxies = FLEET
            .iter()
            .filter(|(_, env, _)| *env != "new")
            .map(|(cluster, ..)| proxy(cluster, &live.modules))
            .collect();
        Self {
            live,
            directory,
            base: None,
            prune: false,
            appliers: Appliers::default(),
            path: Location::Repository("modules".into()),
        }
    }

    fn spec(&mut self, name: &str) -> &mut Value {
        &mut self.directory.get_mut(name).unwrap()["spec"]
    }

    /// A version, and its rollout spec.
    fn rolls(&mut self, name: &str, commit: &str, rollout: &Value) {
        let manifest = module(name, commit, rollout);
        self.directory.insert(name.to_owned(), manifest);
    }

    fn annotate(&mut self, cluster: &str, key: &str, value: &str) {
        let mut all = self.live.clusters.iter_mut();
        let cluster = all.find(|found| found.name_any() == cluster).unwrap();
        cluster.annotations_mut().insert(key.to_owned(), value.to_owned());
    }

    /// The status of modules about a cluster.
    fn set_attention(&mut self, cluster: &str, reason: &str, message: &str) {
        let status = json!({"attention": [{"cluster": cluster, "reason": reason, "message": message}]});
        self.live.modules[0].status = Some(serde_json::from_value(status).unwrap());
    }

    async fn plan(&self) -> Plan {
        let directory = |manifests: &BTreeMap<String, Value>| {
            let files = manifests.iter().map(|(name, manifest)| File {
                path: format!("modules/{name}.yaml"),
                bytes: serde_json::to_vec(manifest).unwrap().into(),
            });
            read::read_directory(&Files::new(files), &BTreeMap::new(), NS).unwrap()
        };
        let foresight = Foresight {
            client: ApiServer::in_process().unwrap().client(),
            live: self.live.clone(),
            base: self.base.as_ref().map(directory),
            wanted: directory(&self.directory),
            prune: self.prune,
            appliers: self.appliers.clone(),
            path: self.path.clone(),
            kinds: Kinds::default(),
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
        };
        let nowhere = std::path::Path::new("/nowhere");
        foresight
            .plan(&mut Versions::new(&[], nowhere, false))
            .await
            .unwrap()
    }

    /// The order of each module, and the skipped clusters: `web: [a, b] → c | d Held`.
    async fn orders(&self) -> Vec<String> {
        let plan = self.plan().await;
        let line = |module: &super::model::ModulePlan| {
            let skipped = module.skipped.iter();
            let skipped =
                skipped.map(|skipped| format!(" | {} {}", words::who(&skipped.clusters), skipped.reason));
            let order = words::order(&module.order).join(" → ");
            format!("{}: {order}{}", module.module, skipped.collect::<String>())
        };
        plan.modules.iter().map(line).collect()
    }
}

fn revision(module: &str, spec: &ModuleSpec, commit: &str, verdict: &str) -> ModuleRevision {
    let revision = digest::revision(commit, &spec.sync, &spec.control_plane_bindings);
    serde_json::from_value(json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ModuleRevision",
        "metadata": {"name": format!("{module}-{verdict}"), "namespace": NS, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "moduleRef": {"kind": "Module", "name": module}, "revision": revision, "commit": commit, "sync": spec.sync,
        },
        "status": {
            "verdict": verdict, "started": "2026-01-01T01:00:00Z", "finished": "2026-01-01T01:04:00Z",
            "evidence": [{"cluster": "dev-1", "at": "2026-01-01T01:04:00Z", "message": "Deployment web: no such image"}],
        },
    }))
    .unwrap()
}

/// A cluster's assemblage, in which these modules are confirmed.
fn proxy(cluster: &str, modules: &[Module]) -> ProxyAssemblage {
    let rows: Vec<SyncRow> = modules
        .iter()
        .map(|module| {
            let revision = digest::revision(OLD, &module.spec.sync, &[]);
            SyncRow {
                name: module.name_any(),
                token: Some(1),
                source: Some(module.spec.sync.source.clone()),
                package: Some(module.spec.sync.package.clone()),
                commit: Some(OLD.to_owned()),
                digest: Some(digest::digest(&revision, &BTreeMap::new())),
                revision: Some(revision),
                ..SyncRow::default()
            }
        })
        .collect();
    let reports: Vec<Value> = rows
        .iter()
        .map(|row| json!({"name": row.name, "digest": row.digest, "token": 1, "state": "succeeded"}))
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ProxyAssemblage",
        "metadata": {"name": cluster, "namespace": NS, "labels": {"fleet.muster.dev/managed-by": "muster"}},
        "spec": {"clusterRef": {"name": cluster}, "syncs": rows}, "status": {"syncs": reports},
    }))
    .unwrap()
}

fn stages() -> Value {
    json!({
        "maxUnreadyClusters": 2,
        "stages": [
            {"name": "canary", "selector": {"matchLabels": {"env": "dev"}}, "approval": "Required", "soak": "10m"},
            {"name": "eu", "selector": {"matchLabels": {"region": "eu"}}},
        ],
    })
}

/// A version with stages; one cluster is away, one is held, one joins.
fn sample() -> World {
    let mut world = World::new(&["web", "base"]);
    world.rolls("web", NEW, &stages());
    world.spec("web")["selector"] = json!({});
    world.set_attention(
        "us-2",
        "Unreachable",
        "the API server of us-2 does not answer: timed out",
    );
    let hold = r#"{"for": "", "by": "ann", "reason": "audit"}"#;
    world.annotate("eu-2", "fleet.muster.dev/hold", hold);
    world
}

#[tokio::test]
async fn as_text() {
    let plan = sample().plan().await;
    for width in [80, 160] {
        let drawn = text::render_text(&plan, width);
        for line in drawn.lines() {
            assert!(line.chars().count() <= width, "{line}");
        }
        insta::assert_snapshot!(format!("text_{width}"), drawn);
    }
}

#[tokio::test]
async fn as_markdown() {
    insta::assert_snapshot!(markdown::render_markdown(&sample().plan().await));
}

#[tokio::test]
async fn as_json() {
    let plan = sample().plan().await;
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan).unwrap());
}

#[tokio::test]
async fn an_identical_manifest_is_no_change() {
    let plan = World::new(&["web", "base"]).plan().await;
    assert!(plan.changes_nothing());
    assert_eq!(plan.total(), "Plan: no changes, 2 modules as they are.");
}

#[tokio::test]
async fn the_order_is_that_of_the_settings() {
    let check = async |rollout: Value, expect: &str| {
        let mut world = World::new(&["web"]);
        world.rolls("web", NEW, &rollout);
        assert_eq!(
            world.orders().await,
            [format!("module/web: {expect}")],
            "{rollout}"
        );
    };
    check(json!({}), "dev-1 → eu-1 → eu-2 → eu-3 → us-1 → us-2").await;
    check(
        json!({"maxUnreadyClusters": "50%"}),
        "[dev-1, eu-1, eu-2] → [eu-3, us-1, us-2]",
    )
    .await;
    check(
        json!({"strategy": "Replace"}),
        "[dev-1, eu-{1..3} (3), us-1, us-2]",
    )
    .await;
    check(
        json!({"maxUnreadyClusters": 6, "batch": {"start": 1, "factor": 2}}),
        "dev-1 → [eu-1, eu-2] → [eu-3, us-1, us-2]",
    )
    .await;
    check(
        json!({"maxUnreadyClusters": 6, "exclusive": "region"}),
        "[dev-1, eu-{1..3} (3)] → [us-1, us-2]",
    )
    .await;
    let mut excluded = stages();
    excluded["unmatched"] = json!("Exclude");
    check(
        excluded,
        "canary: dev-1 → ⏸ canary: soak 10m, approval → eu: [eu-1, eu-2] → eu-3 | us-1, us-2 Excluded",
    )
    .await;
}

#[tokio::test]
async fn what_does_not_touch_what_is_rolled_out_changes_nothing_on_the_clusters() {
    let mut world = World::new(&["web"]);
    world.rolls("web", OLD, &json!({"maxUnreadyClusters": 3, "paused": true}));
    let plan = world.plan().await;
    assert!(!plan.changes_nothing());
    assert!(plan.modules[0].touched().is_empty());
    let drawn = text::render_text(&plan, 160);
    assert!(drawn.contains("nothing changes in the clusters"), "{drawn}");
    assert!(drawn.contains("~ rollout.maxUnreadyClusters: 1 → 3"), "{drawn}");
    assert!(drawn.contains("muster rollout resume module/web"), "{drawn}");
}

#[tokio::test]
async fn a_version_that_is_known_to_be_bad_is_refused() {
    let mut world = World::new(&["web"]);
    world.rolls("web", NEW, &json!({}));
    let spec: ModuleSpec = serde_json::from_value(world.spec("web").clone()).unwrap();
    world.live.revisions.push(revision("web", &spec, NEW, "Bad"));
    assert_eq!(
        world.orders().await,
        ["module/web:  | dev-1, eu-{1..3} (3), us-1, us-2 KnownBad"]
    );
    let drawn = text::render_text(&world.plan().await, 200);
    assert!(drawn.contains("failed on dev-1 at"), "{drawn}");
}

#[tokio::test]
async fn an_unreachable_cluster_is_skipped_or_waited_for() {
    let check = async |wish: &str, expect: &str| {
        let mut world = World::new(&["web"]);
        let mut rollout = stages();
        rollout["onUnreachable"] = json!(wish);
        world.rolls("web", NEW, &rollout);
        world.set_attention("eu-1", "Unreachable", "timed out");
        assert_eq!(
            world.orders().await,
            [format!(
                "module/web: canary: dev-1 → ⏸ canary: soak 10m, approval → {expect}"
            )]
        );
    };
    check(
        "Skip",
        "eu: [eu-2, eu-3] → others: [us-1, us-2] | eu-1 Unreachable",
    )
    .await;
    check(
        "Wait",
        "eu: [eu-2, eu-3] | eu-1 Unreachable | us-1, us-2 WaitingStage",
    )
    .await;
}

#[tokio::test]
async fn clusters_without_a_kubeconfig_are_not_touched() {
    let mut world = World::new(&["web"]);
    world.rolls("web", NEW, &json!({"strategy": "Replace"}));
    world.live.enrolled = Some(["eu-1".to_owned()].into());
    let expect = "module/web: eu-1 | dev-1, eu-2, eu-3, us-1, us-2 NoKubeconfig";
    assert_eq!(world.orders().await, [expect]);
}

#[tokio::test]
async fn deselected_clusters_are_withdrawn_from_after_acknowledgement() {
    let mut world = World::new(&["web"]);
    world.spec("web")["selector"] = json!({"matchLabels": {"region": "eu"}});
    let plan = world.plan().await;
    let order = words::order(&plan.modules[0].order);
    assert_eq!(plan.modules[0].leaves, ["us-1", "us-2"]);
    assert!(
        order[0].starts_with("⏸ the brake (rollout.withdraw.brake) holds 2 withdrawals"),
        "{order:?}"
    );
    assert_eq!(order[1..], ["us-1 (withdrawn)", "us-2 (withdrawn)"]);
    let commands = words::commands(&plan.modules[0]);
    assert_eq!(
        commands,
        ["muster rollout withdraw module/web --acknowledge -n fleet"]
    );
}

#[tokio::test]
async fn a_removal_lists_the_clusters_that_lose_the_module_and_has_no_stages() {
    let mut world = World::new(&["web"]);
    world.live.modules[0].spec.rollout = serde_json::from_value(stages()).unwrap();
    world.rolls_out_since_yesterday();
    world.directory.remove("web");
    world.prune = true;
    let drawn = text::render_text(&world.plan().await, 200);
    let expect = "\
module/web: removed, was at 11111111
  6 clusters lose it: dev-1, eu-{1..3} (3), us-1, us-2
  order: ⏸ the brake (rollout.withdraw.brake) holds 6 withdrawals until acknowledged → dev-1 (withdrawn) → eu-1 (withdrawn) → eu-2 \
(withdrawn) → eu-3 (withdrawn) → us-1 (withdrawn) → us-2 (withdrawn)
  ⏸ muster rollout withdraw module/web --acknowledge -n fleet

";
    let unfolded = drawn.replace("\n         ", " ");
    assert!(unfolded.starts_with(expect), "{drawn}");

    // An explicit onDelete releases the brake, and Orphan keeps the objects.
    for (on_delete, says) in [
        (
            "Withdraw",
            "! the brake does not hold it: onDelete: Withdraw is explicit",
        ),
        ("Orphan", "! its objects stay in the clusters (onDelete: Orphan)"),
    ] {
        world.live.modules[0].spec.on_delete = Some(serde_json::from_value(json!(on_delete)).unwrap());
        let drawn = text::render_text(&world.plan().await, 200);
        assert!(
            drawn.contains("6 clusters lose it") && drawn.contains(says),
            "{drawn}"
        );
        assert!(
            !drawn.contains("rollout.withdraw.brake") && !drawn.contains("acknowledge"),
            "{drawn}"
        );
    }
}

impl World {
    /// The rollout of the first module is in progress.
    fn rolls_out_since_yesterday(&mut self) {
        let spec = &self.live.modules[0].spec;
        let revision = digest::revision(OLD, &spec.sync, &spec.control_plane_bindings);
        let run = Run {
            id: 1,
            target: Revision::parse(&revision).unwrap(),
            from: None,
            started: Millis(1),
            state: RunState::Open,
        };
        let memory = Memory {
            run: Some(run),
            ..Memory::default()
        };
        let memory = serde_json::to_string(&memory).unwrap();
        let status = json!({"rollout": {"version": 1, "uid": "uid-web", "memory": memory}});
        self.live.modules[0].status = Some(serde_json::from_value(status).unwrap());
    }

    /// The Kustomization `fleet` applied these live modules.
    fn applied(&mut self, names: &[&str], spec: &Value) {
        for module in &mut self.live.modules {
            if names.contains(&&*module.name_any()) {
                let labels = module.labels_mut();
                labels.insert("kustomize.toolkit.fluxcd.io/name".to_owned(), "fleet".to_owned());
                labels.insert(
                    "kustomize.toolkit.fluxcd.io/namespace".to_owned(),
                    "sys".to_owned(),
                );
            }
        }
        let kustomization = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "fleet", "namespace": "sys"},
            "spec": spec,
        });
        let id = Id {
            namespace: "sys".to_owned(),
            name: "fleet".to_owned(),
        };
        self.appliers.0 = [(id, Ok(serde_json::from_value(kustomization).unwrap()))].into();
    }
}

fn kustomization(path: &str, prune: bool) -> Value {
    json!({"sourceRef": {"kind": "GitRepository", "name": "fleet"}, "path": path, "prune": prune, "interval": "1m"})
}

/// The directory has only `base`; `web` is live, too.
fn without_web() -> World {
    let mut world = World::new(&["web", "base"]);
    world.directory.remove("web");
    world
}

#[tokio::test]
async fn what_its_kustomization_prunes_is_removed_without_the_flag() {
    for path in [
        Location::Repository("".into()),
        Location::Repository("modules".into()),
        Location::Disk("/home/ann/fleet/modules".into()),
    ] {
        let mut world = without_web();
        world.applied(&["web", "base"], &kustomization("./modules", true));
        world.path = path.clone();
        let plan = world.plan().await;
        let drawn = text::render_text(&plan, 200);
        assert!(drawn.starts_with("module/web: removed"), "{path:?}: {drawn}");
        assert!(
            drawn.contains("! Kustomization sys/fleet prunes it: the directory no longer has it"),
            "{drawn}"
        );
        assert_eq!((plan.changes_nothing(), &plan.notes[..]), (false, &[][..]));
    }
}

#[tokio::test]
async fn what_is_not_known_to_be_pruned_is_named() {
    let check = async |world: &World, says: &str| {
        let plan = world.plan().await;
        let drawn = text::render_text(&plan, 200);
        assert_eq!(drawn.lines().next(), Some(says));
        assert_eq!(plan.modules.len(), 0, "{drawn}");
        assert!(
            markdown::render_markdown(&plan).contains("is live but not in"),
            "{drawn}"
        );
    };
    let mut world = without_web();
    check(
        &world,
        "module/web is live but not in this directory: --prune plans its removal",
    )
    .await;

    world.applied(&["web", "base"], &kustomization("modules", false));
    let says = "module/web is live but not in this directory, and Kustomization sys/fleet does not prune: --prune plans its removal";
    check(&world, says).await;

    // Another directory, or a part of it.
    let other = "module/web is live but not in this directory, and Kustomization sys/fleet applies the directory modules: --prune plans its removal";
    world.applied(&["web"], &kustomization("modules", true));
    for path in [
        Location::Repository("modules/team-a".into()),
        Location::Disk("/home/ann/modules/team-a".into()),
    ] {
        world.path = path;
        check(&world, other).await;
    }
    let mut world = without_web();
    world.applied(&["web"], &kustomization("modules", true));
    check(&world, other).await;

    world.applied(&["base"], &kustomization("modules", true));
    for read in world.appliers.0.values_mut() {
        *read = Err("may not be read with these rights".to_owned());
    }
    let says = "module/web is live but not in this directory, and Kustomization sys/fleet may not be read with these rights: --prune plans \
                its removal";
    check(&world, says).await;

    // It may be applied to this namespace nevertheless.
    let mut world = without_web();
    world.applied(&["web", "base"], &kustomization("modules", true));
    let mut manifest = module("web", OLD, &json!({}));
    manifest["metadata"]["namespace"] = json!("apps");
    world.directory.insert("web".to_owned(), manifest);
    let says = "module/web is live but not in this directory for this namespace: --prune plans its removal";
    check(&world, says).await;
}

#[tokio::test]
async fn what_is_being_deleted_is_no_news() {
    let mut world = without_web();
    world.applied(&["web", "base"], &kustomization("modules", true));
    world.live.modules[0].metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap());
    let plan = world.plan().await;
    assert_eq!(
        (plan.modules.len(), &plan.notes[..]),
        (0, &["module/web is being deleted".to_owned()][..])
    );
}

/// Renames `web` in the directory.
fn rename(world: &mut World, rollout: &Value) {
    world.directory.remove("web");
    world.rolls("webapp", OLD, rollout);
    world.prune = true;
}

#[tokio::test]
async fn what_is_renamed_moves_where_its_successor_is() {
    let mut world = World::new(&["web"]);
    rename(&mut world, &json!({"strategy": "Replace"}));
    assert_eq!(
        world.orders().await,
        [
            "module/webapp: [dev-1, eu-{1..3} (3), us-1, us-2]",
            "module/web: dev-1 (moved) → eu-1 (moved) → eu-2 (moved) → eu-3 (moved) → us-1 (moved) → us-2 (moved)",
        ]
    );
    let plan = world.plan().await;
    let clusters = ["dev-1", "eu-1", "eu-2", "eu-3", "us-1", "us-2"];
    let moves = &plan.modules[1].moves;
    assert_eq!(moves.len(), 1);
    assert_eq!(
        (moves[0].to.as_str(), &moves[0].clusters[..]),
        ("module/webapp", &clusters.map(str::to_owned)[..])
    );
    let drawn = text::render_text(&plan, 200);
    assert!(
        drawn.contains("  moves to module/webapp on dev-1, eu-{1..3}"),
        "{drawn}"
    );
    assert!(!drawn.contains("acknowledge"), "{drawn}");

    // Without a confirmed successor, or one that takes over, it stays or is withdrawn.
    world.spec("webapp")["selector"] = json!({"matchLabels": {"region": "eu"}});
    world.annotate("eu-2", "fleet.muster.dev/hold", r#"{"for": ""}"#);
    let orders = world.orders().await;
    assert_eq!(orders[0], "module/webapp: [dev-1, eu-1, eu-3] | eu-2 Held");
    assert!(orders[1].contains("dev-1 (moved)"), "{orders:?}");
    assert!(
        orders[1].contains("holds 2 withdrawals until acknowledged"),
        "{orders:?}"
    );
    assert!(
        orders[1].contains("us-1 (withdrawn) → us-2 (withdrawn)"),
        "{orders:?}"
    );
    assert!(orders[1].ends_with(" | eu-2 Held"), "{orders:?}");
}

#[tokio::test]
async fn a_successor_that_is_there_already_need_not_change() {
    let mut world = World::new(&["web", "webapp"]);
    rename(&mut world, &json!({}));
    let orders = world.orders().await;
    assert_eq!(orders.len(), 1, "{orders:?}");
    assert!(
        orders[0].starts_with("module/web: dev-1 (moved) → eu-1 (moved)"),
        "{orders:?}"
    );
}

#[tokio::test]
async fn what_the_other_needs_comes_first() {
    let mut world = World::new(&["app", "web"]);
    world.rolls("web", NEW, &json!({"strategy": "Replace"}));
    world.rolls("app", NEW, &json!({"strategy": "Replace"}));
    world.spec("app")["dependsOn"] = json!([{"name": "web"}]);
    world.annotate("eu-2", "fleet.muster.dev/hold", r#"{"for": ""}"#);
    let hold = json!({"fleet.muster.dev/hold": "us-1"});
    world.directory.get_mut("web").unwrap()["metadata"]["annotations"] = hold;
    assert_eq!(
        world.orders().await,
        [
            "module/web: [dev-1, eu-1, eu-3, us-2] | eu-2, us-1 Held",
            "module/app: [dev-1, eu-1, eu-3, us-2] | eu-2 Held | us-1 DependencyBehind",
        ]
    );
    let drawn = text::render_text(&world.plan().await, 200);
    assert!(
        drawn.contains("in each cluster it is updated after module/web"),
        "{drawn}"
    );
}

#[tokio::test]
async fn clusters_behind_closed_windows_come_when_those_open() {
    let mut world = World::new(&["web"]);
    world.rolls(
        "web",
        NEW,
        &json!({"stages": [{"name": "eu", "selector": {"matchLabels": {"region": "eu"}}}]}),
    );
    let window = |name: &str, selector: Value, deny: Value| {
        let spec = json!({"selector": {"matchExpressions": [selector]}, "deny": [deny]});
        Window::read(&json!({"metadata": {"name": name}, "spec": spec}))
    };
    let region = |region: &str| json!({"key": "region", "operator": "In", "values": [region]});
    let night = json!({"from": "04:00", "to": "05:00", "timeZone": "Europe/Berlin"});
    world.live.windows = Some(Windows::of(vec![
        window("night", region("eu"), night),
        window("stop", region("us"), json!({})),
    ]));
    assert_eq!(
        world.orders().await,
        [
            "module/web: ⏸ dev-1, eu-{1..3} (3) not before Fri 2026-01-02 05:00 Europe/Berlin (night) → eu: dev-1 → eu-1 → eu-2 → eu-3 | us-1, us-2 WindowClosed"
        ]
    );
    let drawn = text::render_text(&world.plan().await, 200);
    assert!(
        drawn.contains("us-1, us-2 WindowClosed: waits: with no opening in sight (stop)"),
        "{drawn}"
    );
    world.live.windows = None;
    let drawn = text::render_text(&world.plan().await, 200);
    assert!(drawn.contains("RolloutWindows may not be listed"), "{drawn}");
}

#[tokio::test]
async fn of_a_range_the_one_side_is_compared_with_the_other() {
    let mut world = World::new(&["web", "gone"]);
    world.base = Some(world.directory.clone());
    world.rolls("web", NEW, &json!({"strategy": "Replace"}));
    world.directory.remove("gone");
    let mut titles: Vec<String> = world.plan().await.modules.iter().map(words::title).collect();
    titles.sort();
    assert_eq!(
        titles,
        [
            "module/gone: removed, was at 11111111",
            "module/web: 11111111 → 22222222"
        ]
    );

    // Against the cluster, a module that is not in the directory stays, unless pruning is requested.
    world.base = None;
    let plan = world.plan().await;
    assert_eq!(
        (plan.modules.len(), &plan.unmentioned[..]),
        (1, &["module/gone".to_owned()][..])
    );
    world.prune = true;
    assert_eq!(world.plan().await.modules.len(), 2);
}

#[tokio::test]
async fn an_unknown_commit_or_an_empty_selection_is_a_warning() {
    let mut world = World::new(&["web"]);
    let git =
        json!({"url": "https://git.test/fleet.git", "version": {"tag": "v2"}, "secretRef": {"name": "key"}});
    world.spec("web")["sync"]["source"]["git"] = git;
    let plan = world.plan().await;
    let module = &plan.modules[0];
    let warning = "the commit of v2 is not known: its repository needs a Secret";
    assert!(module.warnings[0].starts_with(warning), "{:?}", module.warnings);
    assert_eq!(module.to.as_ref().unwrap().revision, None);
    assert!(module.digests.is_empty(), "what they would have is unknown");
    assert_eq!(module.touched().len(), 6);

    world.spec("web")["selector"] = json!({"matchLabels": {"env": "qa"}});
    let plan = world.plan().await;
    let warnings = &plan.modules[0].warnings;
    assert!(
        warnings
            .iter()
            .any(|warning| warning == "its selector matches no cluster"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn that_a_version_must_be_signed_is_said_where_it_was_not_verified() {
    let mut world = World::new(&["web"]);
    world.rolls("web", NEW, &json!({}));
    world.spec("web")["sync"]["source"]["git"]["verify"] =
        json!({"mode": "Commit", "secretRef": {"name": "keys"}});
    let plan = world.plan().await;
    let expected =
        "must be signed by a key of Secret keys: the controller verifies that before any assignment";
    let warnings = &plan.modules[0].warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains(expected)),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn a_cluster_of_the_directory_joins_by_its_labels() {
    let mut world = World::new(&["web"]);
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "zz-1", "labels": {"env": "prod"}},
    });
    world.directory.insert("zz-1".to_owned(), cluster);
    assert_eq!(world.orders().await, ["module/web: zz-1"]);
    let plan = world.plan().await;
    assert_eq!(plan.modules[0].joins, ["zz-1"]);
}

#[test]
fn bad_input_is_reported_with_its_position() {
    let check = |manifests: &[(&str, &str)], expected: &str| {
        let files = manifests.iter().map(|(path, text)| File {
            path: (*path).to_owned(),
            bytes: text.as_bytes().to_vec().into(),
        });
        let error = read::read_directory(&Files::new(files), &BTreeMap::new(), NS).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    let yaml = |name: &str, rest: &str| {
        format!(
            "apiVersion: fleet.muster.dev/v1alpha1\nkind: Module\nmetadata: {{name: {name}}}\nspec:\n  sync: {{source: {{git: {{url: \
             \"https://git.test/r\", version: {{tag: v1}}}}}}}}\n{rest}"
        )
    };
    let good = yaml("web", "");
    check(&[("a.yaml", "a: [")], "a.yaml:");
    check(
        &[("a.yaml", &good), ("b.yaml", &good)],
        "b.yaml:1:1: Module.fleet.muster.dev web is defined already at a.yaml:1:1",
    );
    let spaced = good.replace("{name: web}", "{name: web, namespace: fleet}");
    check(
        &[("a.yaml", &good), ("b.yaml", &spaced)],
        "b.yaml:1:1: module/web is already written at a.yaml:1:1",
    );
    check(
        &[("a.yaml", &yaml("web", "  rollout: {maxUnready: 2}\n"))],
        "a.yaml:1:1: module/web: spec.rollout.maxUnready: unknown field (did you mean maxUnreadyClusters",
    );
    check(
        &[(
            "a.yaml",
            &yaml(
                "web",
                "  rollout: {stages: [{name: canary, selector: {}, soak: 10}]}\n",
            ),
        )],
        "a.yaml:1:1: module/web: spec.rollout.stages[0].soak: 10 is not a duration: write a duration such as 10s",
    );
    check(
        &[("a.yaml", &yaml("web", "  rollout: {strategy: Replce}\n"))],
        "a.yaml:1:1: module/web: spec.rollout.strategy: Unsupported value: \"Replce\": supported values: \"Replace\", \"Incremental\" (did you mean \
         Replace?)",
    );
    check(
        &[("a.yaml", &yaml("web", "  rollout: {maxUnreadyClusters: many}\n"))],
        "a.yaml:1:1: module/web: spec.rollout.maxUnreadyClusters: \"many\" is neither a count",
    );
    check(
        &[(
            "a.yaml",
            &yaml("web", "  selector: {matchLabels: {\"a b\": c}}\n"),
        )],
        "a.yaml:1:1: module/web: spec.selector: ",
    );
}

#[test]
fn a_range_is_two_commits_of_the_repository() {
    let directory = tempfile::tempdir().unwrap();
    let modules = directory.path().join("modules");
    std::fs::create_dir(&modules).unwrap();
    let wrong = |range: &str| read::in_range(&modules, range).unwrap_err().to_string();
    assert!(wrong("a..b").contains("is not in a git work tree"));
    let repository = git2::Repository::init(directory.path()).unwrap();
    for text in ["v1", "v2"] {
        std::fs::write(modules.join("web.yaml"), format!("version: {text}\n")).unwrap();
        std::fs::write(directory.path().join("other.yaml"), "a: b\n").unwrap();
        commit(&repository);
    }
    for range in ["a", "a..", "..b", "a...", "a..b..c"] {
        assert!(wrong(range).contains("write A..B"), "{range}");
    }
    assert!(wrong("HEAD...nowhere").contains("nowhere is not a commit of the repository"));
    assert!(wrong("HEAD..nowhere").contains("nowhere is not a commit of the repository"));
    let (from, to) = read::in_range(&modules, "HEAD~1..HEAD").unwrap();
    let texts = |files: &Files| {
        let text = |file: &File| format!("{}: {}", file.path, String::from_utf8_lossy(&file.bytes));
        files.iter().map(text).collect::<String>()
    };
    assert_eq!(texts(&from), "modules/web.yaml: version: v1\n");
    assert_eq!(texts(&to), "modules/web.yaml: version: v2\n");
    let (since, _) = read::in_range(&modules, "HEAD...HEAD~1").unwrap();
    assert_eq!(
        texts(&since),
        "modules/web.yaml: version: v1\n",
        "where they part"
    );
}

#[test]
fn an_unset_variable_is_named() {
    let mut manifest = module("web", NEW, &json!({}));
    manifest["spec"]["sync"]["source"]["git"]["url"] = json!("${FLEET_URL}");
    let files = Files::new([File {
        path: "modules/web.yaml".to_owned(),
        bytes: serde_json::to_vec(&manifest).unwrap().into(),
    }]);
    let error = read::read_directory(&files, &BTreeMap::new(), NS)
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with(
            "module/web: ${FLEET_URL}: no Kustomization that applies this directory gives a value; next: give it with --substitute FLEET_URL=VALUE"
        ),
        "{error}"
    );
}

#[test]
fn variables_are_those_of_the_kustomization_or_of_the_live_modules() {
    const URL: &str = "https://git.test/fleet.git";
    let mut world = World::new(&["web", "base"]);
    let git = &mut world.spec("web")["sync"]["source"]["git"];
    git["url"] = json!("https://${HOST}/fleet.git");
    let known = |world: &World| {
        let files = world.directory.iter().map(|(name, manifest)| File {
            path: format!("{name}.yaml"),
            bytes: serde_json::to_vec(manifest).unwrap().into(),
        });
        let files = Files::new(files);
        let known = KnownVariables::of([&files], &world.live, &world.appliers, &world.path);
        let directory = read::read_directory(&files, &known.values, NS).unwrap();
        let url = directory.modules["web"].object.spec.sync.source.url().to_owned();
        (url, known.inferred_notice(&BTreeMap::new()))
    };
    // No Kustomization is known: the values of the live module.
    let (url, note) = known(&world);
    assert_eq!(url, URL);
    let notice = "HOST: taken from the live modules, as their Kustomization is not known; another value: --substitute NAME=VALUE";
    assert_eq!(note.as_deref(), Some(notice));

    // Its variables take precedence over live values.
    let mut spec = kustomization("modules", true);
    spec["postBuild"] = json!({"substitute": {"HOST": "new.test", "OTHER": "x"}});
    world.applied(&["web", "base"], &spec);
    assert_eq!(known(&world), ("https://new.test/fleet.git".to_owned(), None));

    // A ConfigMap has the other variables.
    spec["postBuild"] =
        json!({"substitute": {"OTHER": "x"}, "substituteFrom": [{"kind": "ConfigMap", "name": "hosts"}]});
    world.applied(&["web", "base"], &spec);
    assert_eq!(known(&world), (URL.to_owned(), Some(notice.to_owned())));

    // None of its modules is live yet: the Kustomization of the directory is used.
    world.live.modules.clear();
    spec["postBuild"] = json!({"substitute": {"HOST": "first.test"}});
    world.applied(&[], &spec);
    assert_eq!(known(&world), ("https://first.test/fleet.git".to_owned(), None));
    world.appliers = Appliers::default();

    let odd = Files::new([File {
        path: "odd.yaml".to_owned(),
        bytes: b"- a\n---\nb\n---\nkind: List\nitems: 1\n".to_vec().into(),
    }]);
    assert_eq!(
        KnownVariables::of([&odd], &world.live, &world.appliers, &world.path),
        KnownVariables::default()
    );
}

#[test]
fn variables_of_a_kustomization_that_applies_less_are_not_used() {
    let files = |bucket: &str| {
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"bucket": bucket}});
        let manifests = [module("web", OLD, &json!({})), config_map];
        let file = |(number, manifest): (usize, Value)| File {
            path: format!("{number}.yaml"),
            bytes: serde_json::to_vec(&manifest).unwrap().into(),
        };
        Sides(None, Files::new(manifests.into_iter().enumerate().map(file)))
    };
    let mut world = World::new(&["web"]);
    let mut spec = kustomization("modules", true);
    spec["postBuild"] = json!({"substitute": {"HOST": "git.test"}});
    world.applied(&["web"], &spec);
    let check = |bucket: &str, expect: &str, notice: Option<&str>| {
        let files = files(bucket);
        let known = KnownVariables::of([&files.1], &world.live, &world.appliers, &world.path);
        let (_, wanted, note) = directories(&files, &known, &BTreeMap::new(), NS).unwrap();
        let object = wanted.objects.values().next().unwrap();
        assert_eq!(object["data"]["bucket"], expect);
        assert_eq!(note.as_deref(), notice);
    };
    check("${HOST}", "git.test", None);
    let notice = "the variables of its Kustomization are not used: 1.yaml:1:37: variable BUCKET is not set and has no default (known: HOST); write \
                $${ for a literal ${";
    check("${BUCKET}", "${BUCKET}", Some(notice));
}

#[tokio::test]
async fn before_a_tag_is_made_the_plan_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let repository = git2::Repository::init(directory.path()).unwrap();
    std::fs::write(directory.path().join("a.yaml"), "a: b\n").unwrap();
    commit(&repository);
    let mut manifest = module("web", OLD, &json!({}));
    manifest["spec"]["sync"]["source"]["git"]["version"] = json!({"tag": "web-1.0"});
    let module: Module = serde_json::from_value(manifest).unwrap();
    let clone = format!("https://git.test/fleet.git={}", directory.path().display());
    let nowhere = std::path::Path::new("/nowhere");
    let mut versions = Versions::new(&[clone.parse().unwrap()], nowhere, false);
    let expect = format!(
        "no tag web-1.0 yet in {}: git tag web-1.0, or fetch it (git fetch --tags)",
        directory.path().display()
    );
    assert_eq!(versions.commit(&module).await.unwrap_err().to_string(), expect);
    let head = repository.head().unwrap().peel(git2::ObjectType::Commit).unwrap();
    repository.tag_lightweight("web-1.0", &head, false).unwrap();
    assert_eq!(versions.commit(&module).await.unwrap(), head.id().to_string());
}

#[test]
fn object_changes_are_listed_once_and_secrets_are_hidden() {
    const URL: &str = "https://git.test/fleet.git";
    let directory = tempfile::tempdir().unwrap();
    let repository = git2::Repository::init(directory.path()).unwrap();
    let app = directory.path().join("app");
    std::fs::create_dir(&app).unwrap();
    let object = |kind: &str, name: &str, data: &str| {
        format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n{data}\n---\n")
    };
    let write = |secret: &str, replicas: &str, last: &str| {
        let settings = format!("data: {{replicas: \"{replicas}\", region: \"${{REGION}}\"}}");
        let all = [
            object("Secret", "key", &format!("stringData: {{key: {secret}}}")),
            object("ConfigMap", "settings", &settings),
            object("ConfigMap", last, ""),
        ];
        std::fs::write(app.join("all.yaml"), all.concat()).unwrap();
        commit(&repository);
        repository.head().unwrap().target().unwrap().to_string()
    };
    let (old, new) = (write("hunter2", "1", "gone"), write("hunter3", "2", "new"));
    let row = |commit: &str, region: &str| -> SyncRow {
        let row = json!({
            "name": "web", "commit": commit, "values": {"REGION": region},
            "source": {"git": {"url": URL, "version": {"commit": commit}}},
            "package": {"path": "./app", "substitute": {"REGION": "$(REGION)"}},
        });
        serde_json::from_value(row).unwrap()
    };
    let clones = BTreeMap::from([(URL.to_owned(), directory.path().to_owned())]);
    let rows = [
        ("eu-1", Some(row(&old, "eu")), row(&new, "eu")),
        ("eu-2", Some(row(&old, "eu")), row(&new, "eu")),
        ("us-1", Some(row(&old, "eu")), row(&new, "us")),
    ];
    let rows = rows
        .iter()
        .map(|(cluster, before, after)| (*cluster, before.as_ref(), after));
    let difference = Builder::new(&clones).difference(rows);
    let mut lines: Vec<String> = difference.changes.iter().map(words::object).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "+ ConfigMap new on eu-1, eu-2, us-1",
            "- ConfigMap gone on eu-1, eu-2, us-1",
            "~ ConfigMap settings on eu-1, eu-2: data.replicas: 1 → 2",
            "~ ConfigMap settings on us-1: data.region: eu → us, data.replicas: 1 → 2",
            "~ Secret key on eu-1, eu-2, us-1",
        ]
    );
    let (before, after) = (row(&old, "eu"), row(&new, "eu"));
    let moved = |removes: bool| {
        let rows = [("eu-1", &before, &after), ("eu-2", &before, &after)];
        let difference = Builder::new(&clones).moved(rows.into_iter(), removes);
        let mut lines: Vec<String> = difference.changes.iter().map(words::object).collect();
        lines.sort();
        lines
    };
    let stays = ["→ ConfigMap settings on eu-1, eu-2", "→ Secret key on eu-1, eu-2"];
    assert_eq!(moved(false), stays);
    let removed = ["- ConfigMap gone on eu-1, eu-2"];
    assert_eq!(moved(true), [&removed[..], &stays[..]].concat());
    let nowhere = row("3333333333333333333333333333333333333333", "eu");
    let difference = Builder::new(&clones).difference([("eu-1", None, &nowhere)].into_iter());
    assert!(
        difference.unknown[0].contains("git fetch"),
        "{:?}",
        difference.unknown
    );
}

#[test]
fn what_flux_renders_is_said_to_be_unknown() {
    const URL: &str = "https://git.test/fleet.git";
    let directory = tempfile::tempdir().unwrap();
    let repository = git2::Repository::init(directory.path()).unwrap();
    let release =
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: apps}\n";
    std::fs::write(directory.path().join("all.yaml"), release).unwrap();
    commit(&repository);
    let id = repository.head().unwrap().target().unwrap().to_string();
    let clones = BTreeMap::from([(URL.to_owned(), directory.path().to_owned())]);
    let unknown = |source: Value, package: Value| {
        let row = json!({"name": "web", "commit": id, "source": source, "package": package});
        let row: SyncRow = serde_json::from_value(row).unwrap();
        let difference = Builder::new(&clones).difference([("eu-1", None, &row)].into_iter());
        (difference.changes.len(), difference.unknown)
    };
    let git = json!({"git": {"url": URL, "version": {"commit": id}}});
    let by_flux = json!({"flux": {"gitRepository": {"url": URL, "ref": {"commit": id}}}});
    let rendered = ["rendered by Flux in the cluster".to_owned()];
    assert_eq!(unknown(by_flux, json!({})), (0, rendered.to_vec()));
    assert_eq!(
        unknown(git.clone(), json!({"flux": {"namePrefix": "a-"}})),
        (0, rendered.to_vec())
    );
    let of_release =
        "those of HelmRelease.helm.toolkit.fluxcd.io apps/web are rendered by Flux in the cluster";
    assert_eq!(unknown(git, json!({})), (1, vec![of_release.to_owned()]));
}

fn commit(repository: &git2::Repository) {
    let mut index = repository.index().unwrap();
    index.add_all(["."], git2::IndexAddOption::DEFAULT, None).unwrap();
    index.write().unwrap();
    let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
    let who = git2::Signature::now("ann", "ann@example.com").unwrap();
    let parent = repository.head().ok().map(|head| head.peel_to_commit().unwrap());
    let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
    repository
        .commit(Some("HEAD"), &who, &who, "a change", &tree, &parents)
        .unwrap();
}

#[tokio::test]
async fn what_is_of_another_namespace_is_counted() {
    let mut world = World::new(&["web"]);
    for (name, namespace) in [("a", "apps"), ("b", "apps"), ("c", "edge")] {
        let mut manifest = module(name, NEW, &json!({}));
        manifest["metadata"]["namespace"] = json!(namespace);
        world.directory.insert(name.to_owned(), manifest);
    }
    let plan = world.plan().await;
    assert_eq!(
        plan.notes,
        ["3 manifests of namespaces apps, edge were skipped: name another namespace with -n"]
    );
    assert_eq!(plan.unchanged, 1);
}

/// A NodeModule is validated on its own and with the others; which nodes change is known elsewhere.
#[test]
fn node_modules_of_a_directory_are_checked() {
    let of = |name: &str, path: &str, content: &str| {
        json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "NodeModule", "metadata": {"name": name},
            "spec": {"selector": {}, "parts": [{"files": [{"path": path, "content": content}]}]},
        })
    };
    let read = |manifests: &[Value]| {
        let files = manifests.iter().enumerate().map(|(number, manifest)| File {
            path: format!("{number}.yaml"),
            bytes: manifest.to_string().into(),
        });
        read::read_directory(&Files::new(files), &BTreeMap::new(), NS)
    };
    let fabric = of("fabric", "/etc/fabric", "on $(NODE_NAME)");
    let directory = read(&[fabric.clone(), of("dns", "/etc/dns", "")]).unwrap();
    let says = "nothing is wrong with nodemodule/dns, nodemodule/fabric; which nodes change is known only in the clusters that have them: muster diff \
                nodemodule/dns --context CONTEXT";
    assert_eq!(directory.of_nodes().as_deref(), Some(says));
    for (other, expected) in [
        (
            of("dns", "etc/dns", ""),
            "nodemodule/dns: spec.parts[0].files[0].path: Invalid value: \"etc/dns\"",
        ),
        (
            of("dns", "/etc/dns", "$(WHAT)"),
            "uses $(WHAT), which is neither built in",
        ),
        (
            of("dns", "/etc/fabric", ""),
            "nodemodule/dns: /etc/fabric conflicts with /etc/fabric of nodemodule/fabric",
        ),
        (
            of("fabric", "/etc/x", ""),
            "NodeModule.fleet.muster.dev fabric is defined already at 0.yaml",
        ),
    ] {
        let error = read(&[fabric.clone(), other]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
