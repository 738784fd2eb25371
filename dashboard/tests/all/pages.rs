//! Promise: stages, the rollout over time, a cluster and an assignment are shown as the objects report them, and what
//! needs a person is first.

use std::sync::Arc;

use crate::fixture::{objects, objects_with_attention, served, snapshot};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{Module, ProxyAssemblage, assemblage::Withdraw, module::ModuleKind};
use muster_dashboard::{
    Assignment, ClusterView, Fleet, Lane, ModuleRef, Objects, Overview, Shape, Snapshot, Span, Timeline,
};
use muster_rollout::{
    Course, GateCount, GateResult, InFlight, Incarnation, Kind, Memory, Millis, Revision, Run, RunState,
    StageId, Stopwatch, Token,
};
use serde_json::{Value, json};

fn web() -> ModuleRef {
    ModuleRef {
        kind: muster_dashboard::Kind::Module,
        name: "web".to_owned(),
    }
}

fn at(time: &str) -> Timestamp {
    format!("2026-01-03T{time}Z").parse().unwrap()
}

fn millis(time: &str) -> Millis {
    Millis(at(time).as_millisecond().try_into().unwrap())
}

/// The engine's memory of a run that started at three o'clock.
fn memory(state: RunState) -> Memory {
    Memory {
        run: Some(Run {
            id: 1,
            target: Revision::parse(&"b".repeat(64)).unwrap(),
            from: None,
            started: millis("03:00:00"),
            state,
        }),
        ..Memory::default()
    }
}

/// `web` with these rollout settings, and this memory.
fn with(mut objects: Objects, rollout: &Value, memory: &Memory) -> Arc<Snapshot> {
    for module in objects
        .modules
        .iter_mut()
        .filter(|module| module.metadata.name.as_deref() == Some("web"))
    {
        let mut changed = Module::clone(module);
        changed.spec.rollout = serde_json::from_value(rollout.clone()).unwrap();
        let status = changed.status.as_mut().unwrap();
        let memory = serde_json::to_string(memory).unwrap();
        status.rollout = serde_json::from_value(json!({"version": 1, "memory": memory})).unwrap();
        *module = Arc::new(changed);
    }
    snapshot(objects)
}

fn lane(snapshot: &Snapshot) -> Lane {
    lane_at(snapshot, at("03:10:45"))
}

fn lane_at(snapshot: &Snapshot, now: Timestamp) -> Lane {
    let fleet = snapshot.fleet();
    let rolling = snapshot.objects.module(&web()).unwrap();
    let view = fleet.module(ModuleKind::Module, "web").unwrap();
    Lane::of(view, &fleet.clusters, &rolling.rollout, &rolling.status, now)
}

/// A stage for the clusters with a label, with a minute of soak, an approval and a gate.
fn stages() -> Value {
    let gate = json!({"http": {"url": "https://prometheus.test", "jsonPath": "$.x", "op": "<", "value": "1"}, "passes": 3});
    let canary = json!({"name": "canary", "selector": {"matchLabels": {"env": "prod"}}, "soak": "1m", "approval": "Required", "gates": [gate]});
    json!({"stages": [canary], "maxUnreadyClusters": 2, "onFailure": {"maxFailed": 1}})
}

fn lane_lines(lane: &Lane) -> Vec<String> {
    let stages = lane.stages.iter().map(|stage| {
        let conditions = stage.conditions.iter().map(|condition| {
            let until = condition
                .until
                .map_or_else(String::new, |until| format!(" until {until}"));
            format!(
                "{}{}{until}",
                if condition.holds { "+" } else { "-" },
                condition.text
            )
        });
        let name = stage.name.as_deref().unwrap_or("rest");
        format!(
            "{name} {} {} [{}]",
            stage.state.as_str(),
            stage.clusters.join(","),
            conditions.collect::<Vec<_>>().join("; ")
        )
    });
    stages.collect()
}

#[test]
fn the_stages_of_a_rollout() {
    let open = Memory {
        course: Course {
            approved: [StageId::of("canary")].into(),
            clear_since: Some(millis("03:10:00")),
            gates: vec![GateCount {
                passes: 1,
                last: Some((millis("03:10:30"), GateResult::Fail)),
                ..GateCount::default()
            }],
            ..Course::default()
        },
        ..memory(RunState::Open)
    };
    let snapshot = with(objects(), &stages(), &open);
    let lane = lane(&snapshot);
    assert_eq!((&*lane.limit, &*lane.may_fail), ("2", "1"));
    assert_eq!(
        lane_lines(&lane),
        [
            "canary open dev-1,eu-1,eu-2 [+approved; -soak of 1m until 2026-01-03T03:11:00Z; \
             -gate: $.x < 1: 1 of 3 times, it was not met when last read]"
        ]
    );
    // A finished soak counts as met while its stage waits for the rest.
    let soaked = lane_lines(&lane_at(&snapshot, at("03:11:00")));
    assert!(soaked[0].contains("; +soak of 1m; -gate"), "{soaked:?}");
    let mut passed = open;
    passed.course.passed = [StageId::of("canary")].into();
    let lane = self::lane(&with(objects(), &stages(), &passed));
    assert_eq!(
        lane_lines(&lane),
        ["canary passed dev-1,eu-1,eu-2 [+approved; +soak of 1m; +gate: $.x < 1]"]
    );
    let lane = self::lane(&with(objects(), &stages(), &Memory::default()));
    assert_eq!(
        lane_lines(&lane),
        ["canary open dev-1,eu-1,eu-2 [-needs an approval; -soak of 1m; -gate: $.x < 1: 0 of 3 times]"]
    );
    let lane = self::lane(&with(objects(), &json!({}), &Memory::default()));
    assert_eq!(lane_lines(&lane), ["rest open dev-1,eu-1,eu-2 []"]);
}

fn change(since: &str) -> InFlight {
    InFlight {
        incarnation: Incarnation::of("uid"),
        kind: Kind::Assign,
        revision: None,
        digest: None,
        token: Token(1),
        since: millis(since),
        picked_up: true,
        succeeded_since: None,
        sent: None,
        returned: false,
        doubtful: false,
        was_ready: true,
        values_only: false,
        failed: false,
        marked: false,
        clock: Stopwatch::default(),
        absent_since: None,
        skipped: false,
        unbegun: false,
        resumed: false,
    }
}

#[test]
fn a_rollout_over_time() {
    let mut memory = memory(RunState::Open);
    memory.in_flight.insert("eu-2".into(), change("03:03:00"));
    let snapshot = with(
        objects_with_attention(&[("eu-2", "Updating", "on its way")]),
        &json!({}),
        &memory,
    );
    let view = snapshot.fleet().module(ModuleKind::Module, "web").unwrap();
    let status = &snapshot.objects.module(&web()).unwrap().status;
    let check = |(from, to): (Timestamp, Option<Timestamp>), expect: &[&str]| {
        let timeline = Timeline::of(
            view,
            status,
            &snapshot.objects.events,
            Span { from, to },
            snapshot.at,
        );
        let bars: Vec<String> = timeline
            .iter()
            .flat_map(|timeline| &timeline.bars)
            .map(|bar| {
                let to = bar
                    .to
                    .map_or_else(|| "now".to_owned(), |to| to.strftime("%M:%S").to_string());
                format!(
                    "{} {} {}-{to}",
                    bar.cluster,
                    bar.shape.word(),
                    bar.from.strftime("%M:%S")
                )
            })
            .collect();
        assert_eq!(bars, expect);
    };
    check(
        (at("03:00:00"), None),
        &[
            "dev-1 ready 01:00-01:00",
            "eu-1 failed 02:00-02:00",
            "eu-2 updating 03:00-now",
        ],
    );
    // Later events are not shown for a finished rollout.
    check(
        (at("03:00:00"), Some(at("03:01:30"))),
        &["dev-1 ready 01:00-01:00"],
    );
    check((at("05:00:00"), None), &[]);
}

#[test]
fn what_needs_a_person_comes_first() {
    let check = |lane_lines: &[(&str, &str, &str)], sentence: &str, attention: &[&str], moving: &[&str]| {
        let overview = Overview::of(&Fleet::of(&objects_with_attention(lane_lines)));
        assert_eq!(overview.sentence, sentence);
        let names = |concerns: &[muster_dashboard::AttentionItem]| {
            concerns
                .iter()
                .map(|concern| concern.title.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&overview.attention), names(&overview.moving)),
            (to_owned(attention), to_owned(moving)),
            "{lane_lines:?}"
        );
    };
    let waits = ("eu-2", "WaitingTurn", "m");
    let on_eu_1 = "1 needs attention: web on eu-1";
    check(
        &[("eu-1", "Failed", "m"), waits],
        on_eu_1,
        &["web on eu-1"],
        &["api"],
    );
    check(
        &[("eu-1", "WaitingApproval", "m")],
        on_eu_1,
        &["web on eu-1"],
        &["api"],
    );
    // A problem of the cluster is not repeated for each module.
    check(
        &[("eu-1", "Unreachable", "m"), waits],
        "1 needs attention: eu-1",
        &["eu-1"],
        &["api", "web"],
    );
    check(
        &[("eu-1", "Updating", "m"), waits],
        "nothing needs attention; 2 modules on the way",
        &[],
        &["api", "web"],
    );
}

fn to_owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_cluster_and_what_it_carries() {
    let snapshot = snapshot(objects());
    let view = ClusterView::of(&snapshot, "eu-1").unwrap();
    let carried: Vec<String> = view
        .modules
        .iter()
        .map(|carried| {
            format!(
                "{} {} {:?}",
                carried.cell.shape.glyph(),
                carried.module,
                carried.cell.version
            )
        })
        .collect();
    assert_eq!(carried, ["✗ web Some(\"v2\")", "○ api None"]);
    assert_eq!(view.not_ready.as_deref(), Some("ControlPlaneNotReady"));
    assert!(ClusterView::of(&snapshot, "eu-9").is_none());
    assert!(ClusterView::of(&snapshot, "lab").unwrap().modules.is_empty());
}

#[test]
fn an_assignment_down_to_what_the_cluster_says() {
    let snapshot = snapshot(objects());
    let view = Assignment::of(&snapshot, &web(), "eu-1").unwrap();
    let (row, report) = (view.row.unwrap(), view.report.unwrap());
    assert_eq!(
        (view.cell.shape, &*row.intent, row.version.as_deref()),
        (Shape::Failed, "carry", Some("v2"))
    );
    assert_eq!((report.state, report.is_current), ("failed", true));
    assert!(
        view.why.headline.contains("web on eu-1 has v2, wants v2: Failed"),
        "{}",
        view.why.headline
    );
    assert!(Assignment::of(&snapshot, &web(), "lab").unwrap().row.is_none());
    assert!(Assignment::of(&snapshot, &web(), "eu-9").is_none());
}

#[tokio::test]
async fn controls_and_next_steps_are_described_in_words() {
    let mut objects = objects();
    let module = objects
        .modules
        .iter_mut()
        .find(|module| module.metadata.name.as_deref() == Some("web"))
        .unwrap();
    let mut held = Module::clone(module);
    let control = json!([{"control": "fleet.muster.dev/hold", "effect": "WithoutEffect", "message": "no candidate is here"}]);
    held.status.as_mut().unwrap().controls = serde_json::from_value(control).unwrap();
    *module = Arc::new(held);
    for proxy in &mut objects.proxies {
        let mut withdrawn = ProxyAssemblage::clone(proxy);
        for row in &mut withdrawn.spec.syncs {
            row.withdraw = Some(Withdraw::Prune);
        }
        *proxy = Arc::new(withdrawn);
    }
    let served = served(objects);
    let page = served.text("/module/web/on/eu-1").await;
    assert!(page.contains("withdraw (objects are deleted)"), "{page}");
    let page = served.text("/module/web").await;
    assert!(page.contains(": no effect: no candidate is here"), "{page}");
}

/// The pages show both options with commands to copy, and the shape for what a person must decide.
#[tokio::test]
async fn a_held_withdrawal_is_offered_with_both_ways_on() {
    let held = "2 clusters would be withdrawn at once; nothing is withdrawn until this is acknowledged: kubectl annotate --namespace fleet \
                module/web --overwrite fleet.muster.dev/acknowledge-withdrawal=0a1b";
    let mut objects =
        objects_with_attention(&[("eu-1", "WithdrawalHeld", held), ("eu-2", "WithdrawalHeld", held)]);
    let is_web = |module: &&mut Arc<Module>| module.metadata.name.as_deref() == Some("web");
    let web = objects.modules.iter_mut().find(is_web).unwrap();
    let mut deleted = Module::clone(web);
    deleted.metadata.namespace = Some("fleet".to_owned());
    deleted.metadata.deletion_timestamp = Some(Time(at("03:00:00")));
    let status = deleted.status.as_mut().unwrap();
    "WithdrawalHeld".clone_into(&mut status.conditions[0].reason);
    *web = Arc::new(deleted);
    let served = served(objects);
    for path in ["/", "/module/web", "/module/web/on/eu-1"] {
        let page = served.text(path).await;
        for part in [
            "muster rollout withdraw module/web --acknowledge -n fleet",
            "<strong>Or: </strong>",
            "kubectl patch -n fleet module/web",
            "class=\"badge needed\" title=\"waits for you\"",
        ] {
            assert!(page.contains(part), "{path}: {part}: {page}");
        }
        assert!(!page.contains("kubectl annotate"), "{path}: {page}");
    }
}

#[tokio::test]
async fn pages_lead_down_to_the_failing_object_and_say_the_commands() {
    let served = served(objects());
    let fleet = served.text("/").await;
    assert!(fleet.contains("href=\"./module/web/on/eu-1\""), "{fleet}");
    let module = served.text("/module/web").await;
    for part in [
        "href=\"../module/web/on/eu-1\"",
        "href=\"../module/web/revision/bbbbbbbb\"",
        "ClusterFailed",
        "<svg",
        "env=prod",
        "muster rollout retry module/web -n fleet",
        "kubectl get module.fleet.muster.dev web -o yaml -n fleet",
    ] {
        assert!(module.contains(part), "{part}: {module}");
    }
    let revision = served.text("/module/web/revision/aaaaaaaa").await;
    assert!(
        revision.contains("muster rollout undo module/web --to-revision aaaaaaaa -n fleet"),
        "{revision}"
    );
    let on = served.text("/module/web/on/eu-1").await;
    assert!(
        on.contains("Deployment web/web: ImagePullBackOff") && on.contains("href=\"../../../cluster/eu-1\""),
        "{on}"
    );
    let cluster = served.text("/cluster/eu-1").await;
    assert!(
        cluster.contains("href=\"../module/web/on/eu-1\"") && cluster.contains("muster hold eu-1"),
        "{cluster}"
    );
    let activity = served.text("/activity?only=problems").await;
    assert!(
        activity.contains("ClusterFailed") && !activity.contains("RolloutStarted"),
        "{activity}"
    );
    let activity = served.text("/activity?q=rolling+out").await;
    assert!(
        !activity.contains("ClusterFailed") && activity.contains("RolloutStarted"),
        "{activity}"
    );
}
