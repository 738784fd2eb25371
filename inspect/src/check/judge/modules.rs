//! Checks modules: what waits for a user, and what a user may have forgotten.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    ResourceExt,
    core::{DynamicObject, ObjectMeta},
};
use muster_api::{
    conditions::{HALTED, PAUSED, READY, STALLED, TAG_MOVED, find, is_true},
    control::Control,
    labels::annotation,
    module::{Attention, ModuleObject},
    reasons::{ObjectReason, Reason},
};
use muster_fleet::lists::Live;
use muster_fleet::text::{Age, counted};

use super::super::{
    code::Code,
    finding::{Finding, Level, each},
    world::World,
};

/// A temporary control that is older than this may be forgotten.
const LONG: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How many label keys are listed, and how many values of each.
const LABELS: usize = 5;

/// The parts of a module of either kind that are checked.
struct CheckedModule {
    /// `module/podinfo`.
    name: String,
    meta: ObjectMeta,
    conditions: Vec<Condition>,
    /// The clusters that need attention, from its status.
    attention: Vec<Attention>,
    observed: Option<i64>,
    suspended: bool,
}

impl CheckedModule {
    fn of<M: ModuleObject>(module: &M) -> Self {
        let name = module.meta().name.clone().unwrap_or_default(); // an object from the API server has one
        let status = module.status().cloned().unwrap_or_default();
        Self {
            name: format!("{}/{name}", M::KIND.as_str().to_lowercase()),
            meta: module.meta().clone(),
            conditions: status.conditions,
            attention: status.attention,
            observed: status.observed_generation,
            suspended: module.spec().suspend,
        }
    }

    fn ready(&self) -> Option<&Condition> {
        find(&self.conditions, READY)
    }

    fn ready_with_reason(&self, words: &[&str]) -> Option<&Condition> {
        self.ready()
            .filter(|ready| words.contains(&ready.reason.as_str()))
    }

    /// The message for this reason: of the module, or of a cluster while others still make progress.
    fn awaits(&self, word: Reason) -> Option<&str> {
        let clusters = || self.attention.iter().find(|one| one.reason == word.as_str());
        self.ready_with_reason(&[word.as_str()])
            .map(|ready| ready.message.as_str())
            .or_else(|| clusters().map(|one| one.message.as_str()))
    }

    /// Whether its rollout was stopped, or its revision is known to be bad.
    fn is_halted(&self) -> bool {
        let bad = [
            Reason::KnownBad.as_str(),
            Reason::Halted.as_str(),
            Reason::Aborted.as_str(),
        ];
        is_true(&self.conditions, HALTED) || self.ready_with_reason(&bad).is_some()
    }

    fn why(&self) -> String {
        format!("muster why {}", self.name)
    }
}

pub(crate) fn judge(world: &World) -> Vec<Finding> {
    // The error is reported once, by the checks of clusters.
    let Ok(live) = &world.live else {
        return Vec::new();
    };
    let mut all: Vec<CheckedModule> = live.modules.iter().map(CheckedModule::of).collect();
    all.extend(live.bootstrap_modules.iter().map(CheckedModule::of));
    if all.is_empty() {
        return vec![Finding::ok(
            Code::Selects,
            format!("there is no module in namespace {}", world.namespace),
        )];
    }
    let count = all.len();
    let mut findings = by_word(
        &all,
        Code::Selects,
        Level::Warning,
        &[ObjectReason::NoClusters.as_str()],
        || counted(count, "module selects clusters", "modules select clusters"),
    );
    for finding in findings.iter_mut().filter(|finding| finding.level != Level::Ok) {
        let message = finding.reason.take().unwrap_or_default();
        finding.reason = Some(format!("{message}; clusters have {}", labels(&live.clusters)));
    }
    findings.extend(by_word(
        &all,
        Code::Source,
        Level::Problem,
        &[
            Reason::SourceNotReady.as_str(),
            Reason::VerificationFailed.as_str(),
        ],
        || "no module waits for its source".to_owned(),
    ));
    findings.extend(paused(&all, world.now));
    findings.extend(held(live, &all, world.now));
    findings.extend(by_condition(
        &all,
        Code::Bad,
        Level::Problem,
        CheckedModule::is_halted,
        || "no module asks for a revision that is known to be bad".to_owned(),
    ));
    findings.extend(stalled(&all));
    findings.extend(each(
        Code::Withdrawal,
        || "no withdrawal waits for its acknowledgement".to_owned(),
        awaited(&all, Code::Withdrawal, Reason::WithdrawalHeld),
    ));
    findings.extend(observed(&all));
    findings.extend(moved(&all));
    findings
}

/// The labels of clusters, as `env=dev|prod, region=eu`.
fn labels(clusters: &[DynamicObject]) -> String {
    let mut values_by_key: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in clusters.iter().flat_map(ResourceExt::labels) {
        values_by_key.entry(key).or_default().insert(value);
    }
    let parts = values_by_key.iter().take(LABELS).map(|(key, values)| {
        let shown: Vec<&str> = values.iter().copied().take(LABELS).collect();
        let more = if values.len() > LABELS { "|…" } else { "" };
        format!("{key}={}{more}", shown.join("|"))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        "no labels".to_owned()
    } else {
        parts.join(", ")
    }
}

/// A finding for modules whose Ready condition has one of these reasons.
fn by_word(
    all: &[CheckedModule],
    code: Code,
    level: Level,
    words: &[&str],
    well: impl FnOnce() -> String,
) -> Vec<Finding> {
    by_condition(
        all,
        code,
        level,
        |module| module.ready_with_reason(words).is_some(),
        well,
    )
}

/// A finding for modules that match, with the message of their Ready condition.
fn by_condition(
    all: &[CheckedModule],
    code: Code,
    level: Level,
    holds: impl Fn(&CheckedModule) -> bool,
    well: impl FnOnce() -> String,
) -> Vec<Finding> {
    let found = all.iter().filter(|module| holds(module));
    let found = found.filter_map(|module| Some((module, module.ready()?)));
    let found = found.map(|(module, ready)| {
        Finding::new(code, level, &ready.reason)
            .about(&module.name)
            .reason(&ready.message)
            .remedy(module.why())
    });
    each(code, well, found.collect())
}

fn paused(all: &[CheckedModule], now: Timestamp) -> Vec<Finding> {
    let found = all.iter().filter_map(|module| {
        let paused = find(&module.conditions, PAUSED).filter(|paused| paused.status == "True");
        let (word, since, go_on) = match paused {
            Some(paused) => (
                "paused",
                paused.last_transition_time.0,
                format!("muster rollout resume {}", module.name),
            ),
            None if module.suspended => (
                "suspended",
                module.ready()?.last_transition_time.0,
                "set spec.suspend: false where it is maintained".to_owned(),
            ),
            None => return None,
        };
        let long = now.duration_since(since) > LONG;
        long.then(|| {
            Finding::warning(Code::Paused, format!("{word} for {}", Age(since, now)))
                .about(&module.name)
                .reason("no further cluster starts meanwhile")
                .remedy(go_on)
        })
    });
    each(
        Code::Paused,
        || "no module has been paused for more than a week".to_owned(),
        found.collect(),
    )
}

/// Holds and pins on modules and on Clusters.
fn held(live: &Live, all: &[CheckedModule], now: Timestamp) -> Vec<Finding> {
    let clusters = live
        .clusters
        .iter()
        .map(|cluster| (format!("cluster/{}", cluster.name_any()), &cluster.metadata));
    let objects = all
        .iter()
        .map(|module| (module.name.clone(), &module.meta))
        .chain(clusters);
    let mut found = Vec::new();
    for (name, meta) in objects {
        for (key, value) in meta.annotations.iter().flatten() {
            let is_pin = key == annotation::PIN || key.starts_with(annotation::PIN_PREFIX);
            if key != annotation::HOLD && !is_pin {
                continue;
            }
            // An annotation that cannot be parsed stalls its module, which is another finding.
            let Ok(control) = Control::parse(value) else {
                continue;
            };
            let Some(at) = control
                .at
                .filter(|at| now.duration_since(*at) > LONG && control.holds(now))
            else {
                continue;
            };
            let (word, undo) = if is_pin {
                ("pinned", "unpin")
            } else {
                ("held", "release")
            };
            found.push(
                Finding::warning(Code::Held, format!("{word} for {}", Age(at, now)))
                    .about(name.clone())
                    .reason(control.provenance().trim().to_owned())
                    .remedy(format!("if it is no longer needed: muster {undo} --help")),
            );
        }
    }
    each(
        Code::Held,
        || "nothing has been held or pinned for more than a week".to_owned(),
        found,
    )
}

fn stalled(all: &[CheckedModule]) -> Vec<Finding> {
    let found = all
        .iter()
        .filter(|module| is_true(&module.conditions, STALLED) && !module.is_halted());
    let found = found.filter(|module| {
        module
            .ready_with_reason(&[ObjectReason::NoClusters.as_str(), Reason::WithdrawalHeld.as_str()])
            .is_none()
    });
    let found = found.filter_map(|module| {
        let stalled = find(&module.conditions, STALLED)?;
        Some(
            Finding::problem(
                Code::Stalled,
                format!("{}: it waits for a change by a user", stalled.reason),
            )
            .about(&module.name)
            .reason(&stalled.message)
            .remedy(module.why()),
        )
    });
    let mut found: Vec<Finding> = found.collect();
    found.extend(awaited(all, Code::Stalled, Reason::WaitingApproval));
    let held = || awaited(all, Code::Withdrawal, Reason::WithdrawalHeld);
    if found.is_empty() && !held().is_empty() {
        return found; // They wait for a user as well, and have their own code.
    }
    each(
        Code::Stalled,
        || "no module waits for a change by a user".to_owned(),
        found,
    )
}

/// The modules that wait for a user, each with the command to run.
fn awaited(all: &[CheckedModule], code: Code, word: Reason) -> Vec<Finding> {
    let found = all.iter().filter_map(|module| {
        let message = module.awaits(word)?;
        let (reason, command) = command_of(message);
        let remedy = match word {
            // The message names the clusters and both commands.
            Reason::WithdrawalHeld => format!("muster rollout withdraw {}", module.name),
            _ => command.map_or_else(
                || module.why(),
                |command| muster_dashboard::with_verbs(command, &module.name, None),
            ),
        };
        Some(
            Finding::warning(code, word.as_str())
                .about(&module.name)
                .reason(reason)
                .remedy(remedy),
        )
    });
    found.collect()
}

/// Splits a message from the command at its end, if it has one.
fn command_of(message: &str) -> (&str, Option<&str>) {
    let Some((reason, _)) = message.split_once("kubectl ") else {
        return (message, None);
    };
    let command = message.get(reason.len()..);
    let reason = reason.trim_end_matches([' ', ':']);
    (reason.strip_suffix("; next").unwrap_or(reason), command)
}

fn observed(all: &[CheckedModule]) -> Vec<Finding> {
    let found = all
        .iter()
        .filter(|module| module.observed != module.meta.generation);
    let found = found.map(|module| {
        let observed_generation = module.observed.map_or_else(
            || "nothing of it".to_owned(),
            |generation| format!("generation {generation}"),
        );
        let is = module.meta.generation.unwrap_or_default();
        Finding::warning(
            Code::Observed,
            format!("the controller has observed {observed_generation}, and it is at generation {is}"),
        )
        .about(&module.name)
        .reason("that is normal for a moment after a change; it lasts if no controller is running")
        .remedy("kubectl logs -n muster-system deployment/muster-controller")
    });
    each(
        Code::Observed,
        || "the controller has observed the current spec of every module".to_owned(),
        found.collect(),
    )
}

fn moved(all: &[CheckedModule]) -> Vec<Finding> {
    let found = all.iter().filter_map(|module| {
        let moved = find(&module.conditions, TAG_MOVED).filter(|moved| moved.status == "True")?;
        Some(
            Finding::warning(Code::Tag, "its tag names another commit than before")
                .about(&module.name)
                .reason(&moved.message)
                .remedy("tag the new commit with a new name; a version is the commit that its tag first pointed to"),
        )
    });
    each(Code::Tag, || "no tag has moved".to_owned(), found.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_ends_with_its_command() {
        let check = |message: &str, expect: (&str, Option<&str>)| assert_eq!(command_of(message), expect);
        check("broken", ("broken", None));
        check(
            "v2 waits for the approval of stage a; next: kubectl annotate m x=y",
            (
                "v2 waits for the approval of stage a",
                Some("kubectl annotate m x=y"),
            ),
        );
        check(
            "until that is acknowledged: kubectl annotate m x=y",
            ("until that is acknowledged", Some("kubectl annotate m x=y")),
        );
    }

    #[test]
    fn labels_are_named_within_bounds() {
        let cluster = |labels| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": "x", "labels": labels}})).unwrap()
        };
        assert_eq!(labels(&[cluster(json!({}))]), "no labels");
        let (one, other) = (
            cluster(json!({"env": "prod", "region": "eu"})),
            cluster(json!({"env": "dev"})),
        );
        assert_eq!(labels(&[one, other]), "env=dev|prod, region=eu");
        let many: Vec<DynamicObject> = (0..9)
            .map(|number| cluster(json!({"n": number.to_string()})))
            .collect();
        assert_eq!(labels(&many), "n=0|1|2|3|4|…");
    }
}
