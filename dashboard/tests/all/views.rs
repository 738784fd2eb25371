//! Promise: the matrix and `why` show what the statuses report, equal clusters are folded into one column, problems are
//! never folded.

use crate::fixture::reasons;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::DynamicObject;
use muster_api::{
    Module, ProxyAssemblage,
    evidence::Assumed,
    module::{Attention, ModuleKind, ReasonGroup},
    reasons::Reason,
    schema::MAX_ATTENTION,
};
use muster_dashboard::{
    AttentionItem, Branch, Fleet, HeldWithdrawal, Kind, Matrix, ModuleRef, ModuleView, Objects, Overview,
    Shape, Tree, why, why_on,
};
use serde_json::{Value, json};

fn cluster(name: &str, env: &str) -> DynamicObject {
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name, "labels": {"env": env}}, "spec": {}});
    serde_json::from_value(object).unwrap()
}

fn module(attention: &[(&str, &str, &str)]) -> Module {
    let entries: Vec<Attention> = attention
        .iter()
        .map(|(cluster, reason, message)| Attention {
            cluster: (*cluster).to_owned(),
            reason: (*reason).to_owned(),
            since: Some(Time("2026-01-02T03:04:05Z".parse().unwrap())),
            message: (*message).to_owned(),
        })
        .collect();
    let object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "web", "namespace": "fleet", "generation": 2},
        "spec": {
            "selector": {"matchLabels": {"env": "prod"}},
            "sync": {"source": {"git": {"url": "https://git.test/fleet", "version": {"tag": "v2"}}}},
        },
        "status": {
            "observedGeneration": 2, "revision": "r2", "attention": entries, "reasons": reasons(attention, &["dev-1"], &["eu-1", "eu-2", "eu-3"]),
            "summary": {"total": 4, "updated": 1, "ready": 1, "updating": 0, "waiting": 0, "failed": 0, "skipped": 0, "held": 0, "withdrawing": 0, "clusters": "1/4"},
            "conditions": [{"type": "Ready", "status": "False", "reason": "Failed", "message": "m", "lastTransitionTime": "2026-01-02T03:00:00Z"}],
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
    fleet_with_attention(&[
        ("eu-1", "Failed", "Deployment web/web: ImagePullBackOff"),
        ("eu-2", "Halted", "v2 is condemned"),
        ("eu-3", "Halted", "v2 is condemned"),
    ])
}

/// A fleet whose module has these `attention` entries.
fn fleet_with_attention(attention: &[(&str, &str, &str)]) -> Fleet {
    Fleet::of(&objects(attention))
}

fn objects(attention: &[(&str, &str, &str)]) -> Objects {
    Objects {
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
    }
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
    assert_eq!(titles(2), ["dev-1", "eu-1", "eu-2, eu-3", "lab"]);
}

#[test]
fn why_starts_with_the_failure_and_groups_waiting_clusters() {
    let fleet = fleet();
    let why = why(fleet.module(ModuleKind::Module, "web").unwrap());
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
    let check = |reason: &str, message: &str, expect: &str| {
        let fleet = fleet_with_attention(&[("eu-1", reason, message)]);
        let why = why(fleet.module(ModuleKind::Module, "web").unwrap());
        let command = why
            .command
            .map_or_else(String::new, |command| format!(" | {command}"));
        let next = why.next.unwrap_or_default() + &command;
        assert!(next.contains(expect), "{reason}: {next}");
    };
    for reason in ["Failed", "Halted", "KnownBad"] {
        check(
            reason,
            "m",
            "or go back, in git | muster rollout undo module/web -n fleet",
        );
    }
    check("Paused", "m", "| muster rollout resume module/web -n fleet");
    check(
        "WaitingApproval",
        "m",
        "| muster rollout approve module/web -n fleet",
    );
    check(
        "WaitingGate",
        "m",
        "the gate is checked again. To continue without it | muster rollout promote module/web -n fleet",
    );
    check(
        "Aborted",
        "m",
        "or retry this one | muster rollout retry module/web -n fleet",
    );
    check(
        "Held",
        "held for all modules by ann",
        "| muster release eu-1 -n fleet",
    );
    check(
        "Held",
        "held for this module by ann",
        "| muster release module/web --clusters eu-1 -n fleet",
    );
    check("Pinned", "m", "| muster unpin eu-1 --module module/web -n fleet");
    check("Unreachable", "m", "| muster check --cluster eu-1 -n fleet");
    check(
        "WithdrawalHeld",
        HELD,
        "| muster rollout withdraw module/web --acknowledge -n fleet",
    );
    check(
        "DependencyBehind",
        "waiting for module/base; next: muster why module/base --cluster eu-1",
        "the module that it depends on | muster why module/base --cluster eu-1 -n fleet",
    );
    check(
        "DependencyBehind",
        "moves to module/webapp, not confirmed here; next: muster why module/webapp --cluster eu-1",
        "the module that takes over | muster why module/webapp --cluster eu-1 -n fleet",
    );
    check(
        "WindowClosed",
        "until 2026-12-01T02:00 Europe/Berlin (freeze-december): the audit (and more)",
        "for this module | muster window bypass freeze-december --module module/web --reason TEXT --for 1h -n fleet",
    );
    check(
        "WindowInvalid",
        "with no opening in sight (typo): spec.deny[0].timeZone: time zone \"Mars/Olympus\" does not exist",
        "to see its errors | kubectl describe rolloutwindow typo -n fleet",
    );
    check("WaitingStage", "m", "nothing to do: it continues automatically");
    check(
        "SyncUnsupported",
        "its agent does not report support for: plan; next: upgrade the agent",
        "upgrade the agent",
    );
    check(
        "SourceNotReady",
        "no such tag; next: x",
        "make sure that v2 exists in the repository",
    );
}

#[test]
fn why_leads_to_the_object_by_which_flux_reads_a_source() {
    let describe = "kubectl -n fleet describe gitrepository web-x";
    let message = format!("GitRepository fleet/web-x: no signature; next: {describe}");
    let mut module = serde_json::to_value(module(&[("eu-1", "SourceNotReady", &message)])).unwrap();
    module["spec"]["sync"]["source"] =
        json!({"flux": {"gitRepository": {"url": "https://git.test/fleet", "ref": {"tag": "v2"}}}});
    let module: Module = serde_json::from_value(module).unwrap();
    let fleet = Fleet::of(&Objects {
        modules: vec![module.into()],
        ..objects(&[])
    });
    let why = why(fleet.module(ModuleKind::Module, "web").unwrap());
    assert_eq!(why.command.as_deref(), Some(describe));
    assert!(why.next.unwrap().contains("what Flux reports"));
}

/// A status gives kubectl commands, for users without muster; views give muster commands.
#[test]
fn every_view_names_the_verb_that_why_names() {
    let kubectl = "kubectl annotate --namespace fleet --field-manager=muster-cli module/web --overwrite fleet.muster.dev/approve=canary@1a2b3c4d";
    let muster = "muster rollout approve module/web --stage canary -n fleet";
    let waits = |next: &str| format!("v2 waits for approval of stage canary; next: {next}");
    let mut objects = objects(&[("eu-1", "WaitingApproval", &waits(kubectl))]);
    let mut module = (*objects.modules[0]).clone();
    for condition in &mut module.status.as_mut().unwrap().conditions {
        condition.message = waits(kubectl);
    }
    objects.modules = vec![module.into()];
    let fleet = Fleet::of(&objects);
    let view = fleet.module(ModuleKind::Module, "web").unwrap();
    assert_eq!(view.message, waits(muster));
    let cell = view.cells.iter().find(|cell| cell.cluster == "eu-1").unwrap();
    assert_eq!(cell.message, waits(muster));
    let tree = serde_json::to_string(&Tree::module(view)).unwrap();
    assert!(tree.contains(muster) && !tree.contains("kubectl"), "{tree}");
}

/// The message for each cluster whose withdrawal is held.
const HELD: &str = "2 clusters would be withdrawn at once, more than rollout.withdraw.brake allows; nothing is withdrawn until this is \
                    acknowledged: kubectl annotate --namespace fleet --field-manager=muster-cli module/web --overwrite \
                    fleet.muster.dev/acknowledge-withdrawal=0a1b";

/// A module whose withdrawal from two of its four clusters is held, because it is deleted or because a change deselects
/// them.
fn held(deleted: bool) -> Objects {
    let mut objects = objects(&[]);
    let mut module = module(&[("eu-1", "WithdrawalHeld", HELD), ("eu-2", "WithdrawalHeld", HELD)]);
    let status = module.status.as_mut().unwrap();
    "WithdrawalHeld".clone_into(&mut status.conditions[0].reason);
    if deleted {
        module.metadata.deletion_timestamp = Some(Time("2026-01-02T03:04:05Z".parse().unwrap()));
        objects.proxies.truncate(3);
    }
    objects.modules = vec![module.into()];
    objects
}

#[test]
fn a_held_withdrawal_waits_for_acknowledgement_and_is_listed_once() {
    let check = |deleted: bool, sentence: &str, keep: &str, keeps: Option<&str>| {
        let objects = held(deleted);
        let fleet = Fleet::of(&objects);
        let view = &fleet.modules[0];
        let why = why(view);
        assert_eq!(why.headline, sentence);
        let told = why.steps.iter().filter(|step| step.reason == "WithdrawalHeld");
        let steps: Vec<String> = told
            .map(|step| format!("{} {}: {}", step.shape.word(), step.who, step.message))
            .collect();
        assert_eq!(
            steps,
            [
                "waits for you eu-1, eu-2: 2 clusters would be withdrawn at once, more than rollout.withdraw.brake allows"
            ]
        );
        let verb = "muster rollout withdraw module/web --acknowledge -n fleet";
        assert_eq!(why.command.as_deref(), Some(verb));
        let other = why.otherwise.unwrap();
        assert_eq!((other.what.as_str(), other.command.as_deref()), (keep, keeps));

        let tree = Tree::module(view).root;
        assert_eq!(
            (tree.shape, tree.message.as_str()),
            (Shape::WaitsForYou, sentence)
        );
        assert_eq!(tree.branches[0].names, ["eu-1", "eu-2"]);
        let message = &tree.branches[0].message;
        assert!(
            message.ends_with(verb) && !message.contains("kubectl"),
            "{message}"
        );

        let total = Matrix::of(&fleet, 12).total;
        assert!(total.contains("2 wait for you"), "{total}");
        let overview = Overview::of(&fleet);
        assert_eq!(overview.sentence, "1 needs attention: web waits for you");
        assert_eq!((overview.shape, overview.moving.len()), (Shape::WaitsForYou, 0));

        let name = ModuleRef {
            kind: Kind::Module,
            name: "web".to_owned(),
        };
        let on_one = why_on(&objects, &fleet, &name, "eu-1").unwrap();
        assert_eq!(
            on_one.headline,
            "web on eu-1 has v2, and would lose it: WithdrawalHeld"
        );
        assert_eq!(on_one.command.as_deref(), Some(verb));
    };
    check(
        true,
        "module/web is being deleted; 2 of 3 clusters would lose it (eu-1, eu-2)",
        "to keep it, leave its objects in place, and put the module back in git, which takes them over",
        Some(
            r#"kubectl patch -n fleet module/web --field-manager=muster-cli --type=merge -p '{"spec":{"onDelete":"Orphan"}}'"#,
        ),
    );
    check(
        false,
        "module/web no longer selects all of its clusters; 2 of 4 clusters would lose it (eu-1, eu-2)",
        "to keep it, revert the change of the selector or labels",
        None,
    );
}

/// A status has room for a limited number of clusters: the others that still have the module would lose it, too.
#[test]
fn clusters_that_a_status_has_no_room_for_are_held_as_well() {
    let names: Vec<String> = (1..=30).map(|number| format!("eu-{number}")).collect();
    let mut objects = held(true);
    let told: Vec<(&str, &str, &str)> = names[..MAX_ATTENTION]
        .iter()
        .map(|name| (name.as_str(), "WithdrawalHeld", HELD))
        .collect();
    let mut module = module(&told);
    module.metadata.deletion_timestamp = Some(Time("2026-01-02T03:04:05Z".parse().unwrap()));
    module.status.as_mut().unwrap().reasons = vec![ReasonGroup {
        reason: "WithdrawalHeld".to_owned(),
        count: 28,
        clusters: "eu-{1..28}".to_owned(),
        message: Some(HELD.to_owned()),
        ..ReasonGroup::default()
    }];
    objects.modules = vec![module.into()];
    objects.clusters = names.iter().map(|name| cluster(name, "prod").into()).collect();
    let carrying = names[..28].iter();
    objects.proxies = carrying
        .map(|name| proxy(name, "v2", "r2", "succeeded").into())
        .collect();
    let held = HeldWithdrawal::of(&Fleet::of(&objects).modules[0]).unwrap();
    assert_eq!(
        held.sentence,
        "module/web is being deleted; 28 of 28 clusters would lose it (eu-{1..28} (28))"
    );
}

#[test]
fn reasons_that_need_manual_action_come_first() {
    let fleet = fleet_with_attention(&[
        ("eu-1", "Unreachable", "no answer"),
        ("eu-2", "Held", "held for all modules by ann"),
        ("eu-3", "WaitingApproval", "v2 waits for the approval of stage eu"),
    ]);
    let module = fleet.module(ModuleKind::Module, "web").unwrap();
    let next = why(module).command.unwrap();
    assert!(next.starts_with("muster rollout approve module/web"), "{next}");
    // While paused, resuming comes first.
    let paused = ModuleView {
        paused: Some("paused by ann".to_owned()),
        ..module.clone()
    };
    let why = why(&paused);
    assert!(
        why.command
            .unwrap()
            .starts_with("muster rollout resume module/web")
    );
    assert_eq!(
        (why.steps[0].reason.as_str(), why.steps[0].shape),
        ("Paused", Shape::Held)
    );
}

/// A failure is shown with the cluster where it happened, and not again with the clusters that it blocks.
#[test]
fn a_failure_is_listed_only_once() {
    let evidence = "Deployment web/web: ImagePullBackOff";
    let halted = format!(
        "v2 (revision r2) failed on eu-1 at 03:04:05 and is rolled out no further: {evidence}; next: commit a fixed version"
    );
    let short = "v2 (revision r2) failed on eu-1 at 03:04:05 and is rolled out no further";
    let check = |failed: &str, expect: &str| {
        let objects = objects(&[
            ("eu-1", failed, evidence),
            ("eu-2", "Halted", &halted),
            ("eu-3", "Halted", &halted),
        ]);
        let fleet = Fleet::of(&objects);
        let steps = why(&fleet.modules[0]).steps;
        let told = steps.iter().find(|step| step.reason == "Halted").unwrap();
        assert_eq!(told.message, expect.split("; next").next().unwrap());
        let branches = Tree::module(&fleet.modules[0]).root.branches;
        let told = branches.iter().find(|branch| branch.reason == "Halted").unwrap();
        assert_eq!(told.message, expect);
        // For a single cluster the whole message is shown.
        let name = ModuleRef {
            kind: Kind::Module,
            name: "web".to_owned(),
        };
        let alone = why_on(&objects, &fleet, &name, "eu-2").unwrap();
        assert!(alone.checks.last().unwrap().found.ends_with(evidence));
    };
    check("Failed", short);
    check("Unreachable", &halted);
}

#[test]
fn clusters_that_stand_alike_are_together_whatever_their_names() {
    let fleet = fleet_with_attention(&[
        ("dev-1", "WaitingTurn", "turn"),
        ("eu-1", "WaitingStage", "stage"),
        ("eu-2", "WaitingTurn", "turn"),
        ("eu-3", "WaitingStage", "stage"),
    ]);
    let why = why(&fleet.modules[0]);
    let steps: Vec<&str> = why.steps.iter().map(|step| step.who.as_str()).collect();
    assert_eq!(steps, ["eu-1, eu-3", "dev-1, eu-2"]);
}

/// The cells of a fleet whose status has these groups and whose spec selects `prod`: cluster, shape, reason and message
/// of each.
fn grouped(groups: &Value, generation: i64) -> Vec<String> {
    let mut module = module(&[]);
    module.metadata.generation = Some(generation);
    module.status.as_mut().unwrap().reasons = serde_json::from_value(groups.clone()).unwrap();
    let fleet = Fleet::of(&Objects {
        modules: vec![module.into()],
        ..objects(&[])
    });
    let cells = fleet.modules[0].cells.iter();
    cells
        .map(|cell| {
            let (cluster, glyph) = (&cell.cluster, cell.shape.glyph());
            format!("{cluster} {glyph} {} {}", cell.reason, cell.message)
        })
        .collect()
}

/// Clusters in `attention` are not counted again for a group that names no clusters.
#[test]
fn clusters_needing_attention_are_not_counted_twice() {
    let mut module = module(&[("eu-1", "WaitingTurn", "m")]);
    let group = |reason: &str, count: u32| json!({"reason": reason, "count": count, "truncated": true});
    let groups = json!([group("WaitingTurn", 3), group("UpToDate", 1)]);
    module.status.as_mut().unwrap().reasons = serde_json::from_value(groups).unwrap();
    let fleet = Fleet::of(&Objects {
        modules: vec![module.into()],
        ..objects(&[])
    });
    let reasons: Vec<&str> = fleet.modules[0]
        .cells
        .iter()
        .map(|cell| cell.reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            "UpToDate",
            "WaitingTurn",
            "WaitingTurn",
            "WaitingTurn",
            "Excluded"
        ]
    );
}

#[test]
fn a_cluster_takes_the_state_of_its_group() {
    let groups = json!([
        {"reason": "Halted", "count": 3, "clusters": "eu-{1..3}", "message": "v2 is bad"},
        {"reason": "UpToDate", "count": 1, "clusters": "dev-1"},
    ]);
    let expected = [
        "dev-1 ● UpToDate ",
        "eu-1 ○ Halted v2 is bad",
        "eu-2 ○ Halted v2 is bad",
        "eu-3 ○ Halted v2 is bad",
    ];
    let said = grouped(&groups, 2);
    assert_eq!(said[..4], expected);
    assert_eq!(said[4], "lab · Excluded ");
    // The spec changed since: clusters that the status does not name may be selected now.
    let said = grouped(&groups, 3);
    assert_eq!(said[..4], expected);
    assert_eq!(said[4], "lab ? Unknown its status does not say");
}

/// A group without names has a count: if it equals the number of remaining clusters, they belong to it, and those whose
/// reports confirm the target are up to date.
#[test]
fn what_is_not_named_is_read_from_rows_and_never_guessed() {
    let check = |groups: &Value, expected: [&str; 4]| {
        let said = grouped(groups, 2);
        let word = |cell: &String| cell.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" ");
        let said: Vec<String> = said[..4].iter().map(word).collect();
        assert_eq!(said, expected, "{groups}");
    };
    let (well, failed, wait, unknown) = ("● UpToDate", "✗ Failed", "○ WaitingTurn", "? Unknown");
    let unnamed = |reason: &str, count: u32| json!({"reason": reason, "count": count, "truncated": true});
    let one = json!({"reason": "Failed", "count": 1, "clusters": "eu-1"});
    let (two, up_to_date) = (unnamed("WaitingTurn", 2), unnamed("UpToDate", 1));
    check(&json!([one, two, up_to_date]), [well, failed, wait, wait]);
    // One fewer than there are: it is unknown which one does not belong to it.
    let (less, stage) = (unnamed("WaitingTurn", 1), unnamed("WaitingStage", 1));
    check(&json!([one, less, up_to_date]), [well, failed, unknown, unknown]);
    check(
        &json!([one, stage, less, up_to_date]),
        [well, failed, unknown, unknown],
    );
    check(
        &json!([one, unnamed("WaitingTurn", 3)]),
        [wait, failed, wait, wait],
    );
    // A confirming report is not enough: its cluster may have become unreachable since.
    let away = unnamed("Unreachable", 2);
    check(
        &json!([one, up_to_date, away, less]),
        [well, failed, unknown, unknown],
    );
    check(
        &json!([one, unnamed("UpToDate", 0), away]),
        [unknown, failed, unknown, unknown],
    );
    // A status without names, such as one of an older controller.
    check(&json!([]), [unknown; 4]);
    // A range that would exhaust the memory.
    let hostile = json!({"reason": "WaitingTurn", "count": 3, "clusters": "c-{1..99999999}"});
    check(&json!([one, hostile]), [wait, failed, wait, wait]);
}

#[test]
fn the_chain_of_a_cluster_ends_at_what_is_in_the_way() {
    let check = |attention: &[(&str, &str, &str)], cluster: &str, expect: &[&str]| {
        let objects = objects(attention);
        let module = ModuleRef {
            kind: Kind::Module,
            name: "web".to_owned(),
        };
        let why = why_on(&objects, &Fleet::of(&objects), &module, cluster).unwrap();
        let chain: Vec<String> = why
            .checks
            .iter()
            .map(|check| {
                let mark = if check.holds { '✓' } else { check.shape.glyph() };
                format!("{mark} {}: {}", check.what, check.found)
            })
            .collect();
        assert_eq!(
            chain[chain.len().saturating_sub(2)..],
            *expect,
            "{cluster}: {chain:#?}"
        );
    };
    check(&[], "lab", &["· selected: env=prod does not match env=none"]);
    // A reason without a group, or of a newer controller.
    check(
        &[("eu-1", "Bewitched", "by a newer controller")],
        "eu-1",
        &[
            "✓ selected: env=prod matches env=prod",
            "? reachable: Bewitched: by a newer controller",
        ],
    );
    check(
        &[("eu-1", "Unreachable", "no answer")],
        "eu-1",
        &[
            "✓ selected: env=prod matches env=prod",
            "? reachable: Unreachable: no answer",
        ],
    );
    check(
        &[("eu-2", "Halted", "v2 is bad; next: commit another")],
        "eu-2",
        &["✓ holds: none", "○ its turn: Halted: v2 is bad"],
    );
    check(
        &[("eu-1", "Failed", "Deployment web/web: ImagePullBackOff")],
        "eu-1",
        &[
            "✓ picked up: the cluster has reported about this assignment",
            "✗ healthy: Failed: Deployment web/web: ImagePullBackOff",
        ],
    );
    check(
        &[],
        "dev-1",
        &[
            "✓ picked up: the cluster has reported about this assignment",
            "✓ healthy: applied and ready at v2",
        ],
    );
}

/// The reason decides where the chain ends, whatever the assignments say: those of this fleet are confirmed.
#[test]
fn every_reason_but_a_good_one_ends_the_chain() {
    for reason in Reason::ALL {
        let objects = objects(&[("dev-1", reason.as_str(), "m")]);
        let name = ModuleRef {
            kind: Kind::Module,
            name: "web".to_owned(),
        };
        let why = why_on(&objects, &Fleet::of(&objects), &name, "dev-1").unwrap();
        let (last, before) = why.checks.split_last().unwrap();
        assert!(before.iter().all(|check| check.holds), "{reason}");
        let is_good = [Reason::UpToDate, Reason::AlreadyNewer].contains(reason);
        assert_eq!(last.holds, is_good, "{reason}: {last:?}");
    }
}

/// A cluster that is up to date reports that another module owns an object: `why` and `tree` show it.
#[test]
fn a_note_of_a_cluster_that_is_up_to_date_is_shown() {
    let shared = "declared here too, and not applied: Namespace/web is managed by Kustomization fleet/base";
    let assumed = Assumed {
        count: 1,
        first: "Widget/web/a (Ready=True is from before)".to_owned(),
        settle: muster_api::Duration::from_secs(30),
    };
    let assumed_words =
        "1 object without evidence from its controller within 30s: Widget/web/a (Ready=True is from before)";
    is_shown(Some(shared), None, shared);
    is_shown(None, Some(assumed.clone()), assumed_words);
    is_shown(Some(shared), Some(assumed), &format!("{shared}; {assumed_words}"));
}

fn is_shown(message: Option<&str>, assumed: Option<Assumed>, note: &str) {
    let mut objects = objects(&[]);
    let mut proxy = proxy("dev-1", "v2", "r2", "succeeded");
    let status = proxy.status.as_mut().unwrap();
    status.syncs[0].message = message.map(str::to_owned);
    status.syncs[0].assumed = assumed;
    objects.proxies[0] = proxy.into();
    let fleet = Fleet::of(&objects);
    let name = ModuleRef {
        kind: Kind::Module,
        name: "web".to_owned(),
    };
    let why = why_on(&objects, &fleet, &name, "dev-1").unwrap();
    let healthy = why.checks.last().unwrap();
    assert!(healthy.holds);
    assert_eq!(healthy.found, format!("applied and ready at v2; {note}"));
    let tree = Tree::module(fleet.module(ModuleKind::Module, "web").unwrap());
    let branches = tree.root.branches.iter();
    let noted: Vec<_> = branches.filter(|branch| branch.message == note).collect();
    assert_eq!(noted.len(), 1, "{tree:#?}");
    assert_eq!(
        (noted[0].names.clone(), noted[0].shape),
        (vec!["dev-1".to_owned()], Shape::Ready)
    );
}

#[test]
fn a_matrix_is_grouped_by_a_label() {
    let fleet = fleet();
    let matrix = Matrix::grouped(&fleet, "env", 12);
    let groups: Vec<String> = matrix
        .groups
        .iter()
        .map(|group| format!("{} {}", group.value, group.columns))
        .collect();
    assert_eq!(groups, ["none 1", "prod 4"]);
    assert_eq!(matrix.columns[0].title, "lab");
    assert_eq!(matrix.rows[0].cells[0].cluster, "lab");
    assert_eq!(Matrix::keys(&fleet), ["env"]);
    assert!(Matrix::grouped(&fleet, "no-such-label", 12).groups.is_empty());
}

#[test]
fn an_unreachable_cluster_is_listed_once_and_a_hold_is_not_an_alarm() {
    let mut fleet = fleet_with_attention(&[
        ("eu-1", "Unreachable", "no answer"),
        ("eu-2", "Held", "held for all modules by ann"),
    ]);
    let mut second = fleet.modules[0].clone();
    second.name = "db".to_owned();
    fleet.modules.push(second);
    let overview = Overview::of(&fleet);
    let titles = |concerns: &[AttentionItem]| -> Vec<String> {
        concerns.iter().map(|concern| concern.title.clone()).collect()
    };
    assert_eq!(overview.sentence, "1 needs attention: eu-1");
    assert_eq!(titles(&overview.attention), ["eu-1"]);
    assert_eq!(overview.attention[0].why.steps[0].who, "db, web");
    assert_eq!(titles(&overview.held), ["eu-2"]);
}

/// Held and pinned clusters count as well, but are named: someone left them so, and may have forgotten.
#[test]
fn what_is_well_on_purpose_is_named() {
    let check = |attention: &[(&str, &str, &str)], sentence: &str, total: &str, legend: &str| {
        let mut objects = objects(attention);
        let mut module = module(attention);
        let ready = &mut module.status.as_mut().unwrap().conditions[0];
        "True".clone_into(&mut ready.status);
        "Succeeded".clone_into(&mut ready.reason);
        let status = module.status.as_mut().unwrap();
        status.reasons = reasons(attention, &["dev-1", "eu-1", "eu-2", "eu-3"], &[]);
        objects.modules = vec![module.into()];
        objects.proxies = ["dev-1", "eu-1", "eu-2", "eu-3"]
            .map(|name| proxy(name, "v2", "r2", "succeeded").into())
            .into();
        let fleet = Fleet::of(&objects);
        assert_eq!(Overview::of(&fleet).sentence, sentence);
        let matrix = Matrix::of(&fleet, 12);
        assert_eq!(matrix.total, format!("1 module × 5 clusters: {total}"));
        let words = matrix.legend().into_iter().map(|(_, words)| words);
        assert_eq!(words.collect::<Vec<_>>().join(" "), legend);
    };
    check(&[], "all is well", "4 ready", "ready not selected");
    check(
        &[("eu-1", "Held", "held by ann")],
        "all is well; 1 cluster held on purpose: eu-1",
        "3 ready, 1 held",
        "ready held not selected",
    );
    check(
        &[
            ("eu-1", "Held", "held by ann"),
            ("eu-2", "Pinned", "pinned by bob"),
        ],
        "all is well; 1 cluster held on purpose: eu-1; 1 cluster pinned: eu-2",
        "2 ready, 1 held, 1 pinned",
        "ready held or pinned not selected",
    );
    check(
        &["dev-1", "eu-1", "eu-2", "eu-3"].map(|name| (name, "Held", "held by ann")),
        "all is well; 4 clusters held on purpose: dev-1, eu-1, eu-2 and 1 more",
        "4 held",
        "held not selected",
    );
}

/// Ready is false since the start of the rollout; the page shows since when it fails.
#[test]
fn a_failed_module_is_so_since_its_failure() {
    let fleet = fleet();
    let failed = &fleet.modules[0];
    assert_eq!(failed.since, Some("2026-01-02T03:04:05Z".parse().unwrap()));
    let fleet = fleet_with_attention(&[("eu-1", "Updating", "m")]);
    assert_eq!(
        fleet.modules[0].since,
        Some("2026-01-02T03:00:00Z".parse().unwrap())
    );
}

#[test]
fn the_shapes_as_json_are_on_record() {
    let fleet = fleet();
    insta::assert_json_snapshot!("matrix", Matrix::of(&fleet, 2));
    insta::assert_json_snapshot!("why", why(&fleet.modules[0]));
    insta::assert_json_snapshot!("tree", Tree::fleet(&fleet, "default"));
}

#[test]
fn why_says_that_a_tag_was_moved() {
    let mut fleet = fleet();
    fleet.modules[0].tag_moved = Some("tag v2 now names commit c2: make a new tag".to_owned());
    let why = why(&fleet.modules[0]);
    let said = why.steps.iter().find(|step| step.reason == "TagMoved").unwrap();
    assert_eq!(
        (said.who.as_str(), said.message.as_str()),
        ("web", "tag v2 now names commit c2: make a new tag")
    );
}

#[test]
fn a_tree_root_shows_the_worst_state_below_it() {
    let mut fleet = fleet_with_attention(&[("eu-1", "Unreachable", "no answer")]);
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
            counts.get(&(Shape::Ready, "ready")),
            counts.get(&(Shape::Failed, "failed")),
            counts.get(&(Shape::Waiting, "waiting"))
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

/// A tree as lines: depth, title, shape, reason and version.
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
            "message": "v2 is condemned", "branches": [],
        })
    );
}
