//! Promise: the next cluster is touched only when the previous one is confirmed healthy at this version, whatever its
//! custom resources reported for the previous version. Each case is an operator that reacts to the second version of
//! its Widget in its own way.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{APPS, condition, is_ready, status_text},
};

/// How long health must last without evidence.
const SETTLE: u64 = 30;
/// How long the second version is observed: longer than the last of the status writes.
const WATCHED: u64 = SETTLE + 15;
const MINUTE: Duration = Duration::from_mins(1);
const CLUSTERS: [&str; 2] = ["eu-1", "eu-2"];

/// When the next cluster may be touched, in seconds after the first one.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Never: the first cluster is broken.
    Never,
    /// Immediately: the operator has nothing to do.
    Soon,
    /// Not before this time.
    From(u64),
}

/// An operator, described by the statuses it writes, with seconds after the apply.
struct Case {
    name: &'static str,
    /// The manifest of the second version.
    second: fn(&str) -> String,
    answers: Vec<(u64, Value)>,
    next: Next,
    /// Whether missing evidence is reported.
    assumed: bool,
}

fn widget(name: &str, size: u8, label: &str) -> String {
    format!(
        "apiVersion: example.test/v1\nkind: Widget\nmetadata: {{name: {name}, namespace: {APPS}, labels: {{release: {label}}}}}\nspec: {{size: {size}}}\n"
    )
}

fn another_spec(name: &str) -> String {
    widget(name, 2, "a")
}

fn another_label(name: &str) -> String {
    widget(name, 1, "b")
}

/// The first Widget stays unchanged, and a second one is added.
fn another_object(name: &str) -> String {
    format!(
        "{}---\n{}",
        widget(name, 1, "a"),
        widget(&format!("{name}-new"), 1, "a")
    )
}

fn ready(status: &str, reason: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": ""}]})
}

fn cases() -> Vec<Case> {
    let beats = (1..WATCHED).map(|beat| (beat, ready("True", &format!("Beat{beat}"))));
    let broken = || ready("False", "Broken");
    let case = |name, second, answers, next, assumed| Case {
        name,
        second,
        answers,
        next,
        assumed,
    };
    let old = json!({"conditions": [
        {"type": "Ready", "status": "True", "reason": "ReconciledOldSpec", "message": "", "observedGeneration": 1}]});
    vec![
        case(
            "breaks-late",
            another_spec,
            vec![(20, broken())],
            Next::Never,
            false,
        ),
        case("beats", another_spec, beats.collect(), Next::From(SETTLE), true),
        case(
            "progresses-and-breaks",
            another_spec,
            vec![(1, ready("Unknown", "Progressing")), (20, broken())],
            Next::Never,
            false,
        ),
        case(
            "has-a-phase",
            another_object,
            vec![(1, json!({"phase": "Creating"}))],
            Next::From(SETTLE),
            true,
        ),
        case(
            "reconciles-the-old-spec",
            another_spec,
            vec![(5, old), (20, broken())],
            Next::Never,
            false,
        ),
        case("is-relabelled", another_label, Vec::new(), Next::Soon, false),
        case(
            "breaks-after-settle",
            another_spec,
            vec![(SETTLE + 5, broken())],
            Next::From(SETTLE),
            true,
        ),
    ]
}

async fn install(bed: &Bed) {
    for cluster in bed.clusters() {
        let definition = json!({
            "metadata": {"name": "widgets.example.test"},
            "spec": {
                "group": "example.test", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        });
        let inside = bed.inside(&cluster, "");
        inside.create(kinds::DEFINITION, definition).await;
        let established = async || {
            let definition = inside.get(kinds::DEFINITION, "widgets.example.test").await;
            let reported = definition
                .as_ref()
                .and_then(|definition| condition(definition, "Established"));
            let is = reported.is_some_and(|reported| reported["status"] == "True");
            if is {
                Ok(())
            } else {
                Err(format!("{definition:?}"))
            }
        };
        bed.wait_until("Widgets are served", MINUTE, established).await;
    }
}

/// Creates a module for each case, whose Widget is healthy in every cluster at its first version.
async fn deploy(bed: &Bed, names: &[&str]) {
    for name in names {
        let version = format!("{name}-v1");
        bed.commit_version(name, &widget(name, 1, "a"), &version);
        let mut spec = bed.spec(name, &version);
        spec["sync"]["package"]["settle"] = json!(format!("{SETTLE}s"));
        spec["sync"]["package"]["timeout"] = json!("2m");
        let module = json!({"metadata": {"name": name}, "spec": spec});
        bed.fleet().create(kinds::MODULE, module).await;
    }
    let all_ready = async || {
        answer_new(bed, names).await;
        for name in names {
            let version = format!("{name}-v1");
            let module = bed.module(name).await;
            if module["status"]["source"]["tag"] != version.as_str() || !is_ready(&module) {
                return Err(status_text(&module));
            }
        }
        Ok(())
    };
    bed.wait_until("version 1 is everywhere", MINUTE, all_ready).await;
}

/// The operators report the creation.
async fn answer_new(bed: &Bed, names: &[&str]) {
    for cluster in bed.clusters() {
        for name in names {
            let widget = bed.inside(&cluster, APPS).get(kinds::WIDGET, name).await;
            if widget.is_some_and(|widget| widget["status"].is_null()) {
                answer(bed, &cluster, name, ready("True", "Good")).await;
            }
        }
    }
}

async fn answer(bed: &Bed, cluster: &str, widget: &str, status: Value) {
    let objects = bed.inside(cluster, APPS);
    objects
        .patch_status(kinds::WIDGET, widget, json!({"status": status}))
        .await;
}

async fn until_there(bed: &Bed, cluster: &str, name: &str, is: impl Fn(&Value) -> bool) {
    let poll = async || {
        let widget = bed.inside(cluster, APPS).get(kinds::WIDGET, name).await;
        let widget = widget.filter(&is);
        widget.map(|_| ()).ok_or_else(|| format!("{name} does not exist"))
    };
    bed.wait_until(&format!("{name} is in {cluster}"), MINUTE, poll)
        .await;
}

/// The Widget that the second version changes or creates.
fn changed(case: &Case) -> String {
    if (case.second)(case.name).contains("---") {
        format!("{}-new", case.name)
    } else {
        case.name.to_owned()
    }
}

async fn has_second(bed: &Bed, cluster: &str, case: &Case) -> bool {
    let widget = bed.inside(cluster, APPS).get(kinds::WIDGET, &changed(case)).await;
    widget.is_some_and(|widget| {
        let is_new = changed(case) != case.name;
        is_new || widget["spec"]["size"] == 2 || widget["metadata"]["labels"]["release"] == "b"
    })
}

/// The objects that the first cluster reports as without evidence.
async fn assumed(bed: &Bed, name: &str) -> Option<u64> {
    let proxy = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "eu-1").await?;
    let states = proxy["status"]["syncs"].as_array()?;
    let state = states.iter().find(|state| state["name"] == name)?;
    state["assumed"]["count"].as_u64()
}

/// All operators at once, each with its own module.
pub async fn means_true(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    install(&bed).await;
    let cases = cases();
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    deploy(&bed, &names).await;
    for case in &cases {
        let version = format!("{}-v2", case.name);
        bed.commit_version(case.name, &(case.second)(case.name), &version);
        bed.target(case.name, &version).await;
    }
    let mut applied: BTreeMap<&str, Instant> = BTreeMap::new();
    let mut touched: BTreeMap<&str, Duration> = BTreeMap::new();
    let mut missing: BTreeSet<&str> = BTreeSet::new();
    let mut answered: BTreeMap<&str, usize> = BTreeMap::new();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(WATCHED) + MINUTE {
        for case in &cases {
            let Some(since) = applied.get(case.name) else {
                if has_second(&bed, "eu-1", case).await {
                    applied.insert(case.name, Instant::now());
                }
                continue;
            };
            let done = answered.entry(case.name).or_default();
            while let Some((at, status)) = case.answers.get(*done)
                && since.elapsed() >= Duration::from_secs(*at)
            {
                answer(&bed, "eu-1", &changed(case), status.clone()).await;
                *done += 1;
            }
            if !touched.contains_key(case.name) && has_second(&bed, "eu-2", case).await {
                touched.insert(case.name, since.elapsed());
            }
            if assumed(&bed, case.name).await == Some(1) {
                missing.insert(case.name);
            }
        }
        let watched = |case: &Case| {
            let since = applied.get(case.name);
            since.is_some_and(|since| since.elapsed() > Duration::from_secs(WATCHED))
        };
        if cases.iter().all(watched) {
            break;
        }
        bed.pass(Duration::from_millis(200)).await;
    }
    for case in &cases {
        let at = touched.get(case.name);
        // Tolerance for the poll interval of this test.
        let early = |at: &Duration, from: u64| *at + Duration::from_secs(1) < Duration::from_secs(from);
        let holds = match case.next {
            Next::Never => at.is_none(),
            Next::Soon => at.is_some_and(|at| *at < Duration::from_secs(SETTLE / 2)),
            Next::From(from) => at.is_some_and(|at| !early(at, from)),
        };
        assert!(
            holds,
            "{}: the next cluster was touched after {at:?}, not {:?}",
            case.name, case.next
        );
        assert_eq!(
            missing.contains(case.name),
            case.assumed,
            "{}: what was assumed",
            case.name
        );
    }
}

/// The agent is killed while health settles, in a cluster whose clock is a minute ahead: settling restarts, and the
/// operator reports before it ends.
pub async fn means_true_after_a_restart(ground: Ground) {
    let mut bed = Bed::new(ground).await;
    if bed.is_real() {
        bed.join("eu-1", &[("env", "prod")], &[]).await;
    } else {
        bed.join_with_clock("eu-1", SignedDuration::from_mins(1)).await;
    }
    bed.join("eu-2", &[("env", "prod")], &[]).await;
    for cluster in CLUSTERS {
        bed.start_agent(cluster);
    }
    install(&bed).await;
    deploy(&bed, &["web"]).await;
    bed.commit_version("web", &another_spec("web"), "web-v2");
    bed.target("web", "web-v2").await;
    until_there(&bed, "eu-1", "web", |widget| widget["spec"]["size"] == 2).await;
    let applied = Instant::now();
    bed.pass(Duration::from_secs(10)).await;
    bed.crash_agent("eu-1").await;
    bed.start_agent("eu-1");
    // After settling would have ended without the restart, and before it ends with it.
    bed.pass(Duration::from_secs(SETTLE + 5).saturating_sub(applied.elapsed()))
        .await;
    answer(&bed, "eu-1", "web", ready("False", "Broken")).await;
    bed.pass(Duration::from_secs(SETTLE)).await;
    let second = bed.inside("eu-2", APPS).get(kinds::WIDGET, "web").await.unwrap();
    assert_eq!(second["spec"]["size"], 1, "the next cluster was touched");
}
