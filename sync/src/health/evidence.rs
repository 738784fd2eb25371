//! Evidence: whether the health of a custom resource is about its state after our apply. Pure.
//!
//! kstatus reads the status of an object, but cannot tell whether its controller wrote it before or after the last
//! change. Kinds of Kubernetes itself have rules that prove it, or need no controller. Every other object that our
//! apply created or changed needs one of these:
//!
//! | evidence | when |
//! |---|---|
//! | observed | `observedGeneration` is the generation, in the status or in the condition that the verdict rests on |
//! | re-judged | our apply created the object, and the condition that the verdict rests on was written since |
//! | assumed | every check for `settle` found the same |
//!
//! A StatefulSet of a rollout group is proven by its ZoneRollout ([`super::zones`]); without one it is assumed, too.
//!
//! Invariant: an object without a Ready condition is never proven, only assumed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use muster_api::{
    conditions::bounded,
    evidence::{Assumed, Progress},
    schema::MAX_LABEL,
};
use muster_health::Expressions;
use serde_json::{Map, Value};

use super::{
    Health, State,
    fields::{integer, list, string_at},
    judged::Zone,
};
use crate::inventory::ObjectId;

/// API groups of Kubernetes itself. Other groups under `k8s.io` are served by custom resource definitions.
const KUBERNETES: [&str; 23] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// The reason of an object that reports healthy, without evidence that this is about its current state.
pub(super) const NO_EVIDENCE: &str = "NoEvidence";

/// Whether the kinds of a group are custom resources.
pub fn is_custom(group: &str) -> bool {
    !KUBERNETES.contains(&group)
}

/// Whether an object needs evidence after a change: a custom resource, or a StatefulSet, which may belong to a rollout
/// group.
pub fn may_need_evidence(id: &ObjectId) -> bool {
    is_custom(&id.group) || may_have_zones(id)
}

/// What an apply changed, as far as the object's controller must react to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was created, with these conditions.
    Created(Conditions),
    /// The generation rose or, if the kind has none, the content changed.
    Updated,
    /// No change, or only labels and annotations.
    Nothing,
}

/// Status and reason of the conditions that health can depend on, by type.
pub type Conditions = BTreeMap<String, (String, String)>;

/// The state of an object before it is applied.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    uid: Option<String>,
    generation: Option<i64>,
    /// The content, for kinds without generations.
    content: Option<Value>,
}

impl Before {
    pub(crate) fn of(object: &Value) -> Self {
        let generation = integer(object, "/metadata/generation");
        Self {
            uid: string_at(object, "/metadata/uid").map(str::to_owned),
            content: generation.is_none().then(|| content(object)),
            generation,
        }
    }
}

/// What was changed to get from `before` to `after`.
pub(crate) fn change(before: Option<&Before>, after: &Value) -> Change {
    let Some(before) = before.filter(|before| before.uid.as_deref() == string_at(after, "/metadata/uid"))
    else {
        return Change::Created(conditions_of(after));
    };
    let now = Before::of(after);
    if now.generation == before.generation && now.content == before.content {
        Change::Nothing
    } else {
        Change::Updated
    }
}

/// An object without the parts that the server and the controller write.
fn content(object: &Value) -> Value {
    let counts = |field: &str| !matches!(field, "metadata" | "status");
    let fields = object.as_object().into_iter().flatten();
    let fields = fields.filter(|(field, _)| counts(field));
    Value::Object(
        fields
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect::<Map<_, _>>(),
    )
}

fn conditions_of(object: &Value) -> Conditions {
    let part = |condition: &Value, field: &str| string_at(condition, field).unwrap_or_default().to_owned();
    list(object, "/status/conditions")
        .filter(|condition| matches!(string_at(condition, "/type"), Some("Ready" | "Stalled")))
        .map(|condition| {
            let state = (part(condition, "/status"), part(condition, "/reason"));
            (part(condition, "/type"), state)
        })
        .collect()
}

/// The evidence that an object needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// None: the object did not change, or its kind is built into Kubernetes and has no zones.
    Nothing,
    /// A condition that the controller wrote since the object was created.
    Answer(Conditions),
    /// The controller has observed the current generation.
    Observation,
}

impl Need {
    /// The evidence that an object needs after a change. If the previously applied state is `unconfirmed`, the
    /// controller may not have reacted to it yet, even if this apply changed nothing.
    pub fn after(change: Option<&Change>, id: &ObjectId, unconfirmed: bool) -> Self {
        if !may_need_evidence(id) {
            return Self::Nothing;
        }
        match change {
            Some(Change::Created(conditions)) => Self::Answer(conditions.clone()),
            Some(Change::Updated) => Self::Observation,
            Some(Change::Nothing) | None if unconfirmed => Self::Observation,
            Some(Change::Nothing) | None => Self::Nothing,
        }
    }
}

/// Whether an object may belong to a rollout group: its labels are known only when it is read.
fn may_have_zones(id: &ObjectId) -> bool {
    (id.group.as_str(), id.kind.as_str()) == ("apps", "StatefulSet")
}

/// The health of a changed object: a status of an older generation does not count for the current one.
fn of_this_generation(object: &Value, health: Health, by_expressions: bool) -> Health {
    let Some(generation) = integer(object, "/metadata/generation") else {
        return health;
    };
    // Zero is not a generation: some kinds always write the field.
    let older = |observed: Option<i64>| observed.filter(|observed| *observed > 0 && *observed != generation);
    if let Some(observed) = older(number(object, "/status/observedGeneration")) {
        let kind = string_at(object, "/kind").unwrap_or_default();
        return Health::in_progress(
            "LatestGenerationNotObserved",
            format!("{kind} generation is {generation}, but latest observed generation is {observed}"),
        );
    }
    // Which condition the expressions use is unknown.
    let Some(condition) = rests_on(object, &health).filter(|_| !by_expressions) else {
        return health;
    };
    match older(number(condition, "/observedGeneration")) {
        Some(observed) => Health::in_progress(
            "ConditionNotObserved",
            format!(
                "generation is {generation}, but condition {} is about generation {observed}",
                string_at(condition, "/type").unwrap_or_default()
            ),
        ),
        None => health,
    }
}

/// The condition that a result is based on, if any.
fn rests_on<'a>(object: &'a Value, health: &Health) -> Option<&'a Value> {
    let kind = match health.state {
        State::Current => "Ready",
        State::Failed => "Stalled",
        State::InProgress | State::Terminating | State::NotFound => return None,
    };
    list(object, "/status/conditions").find(|condition| {
        string_at(condition, "/type") == Some(kind) && string_at(condition, "/status") == Some("True")
    })
}

/// An integer, or a string of digits: some kinds write generations as strings.
fn number(object: &Value, pointer: &str) -> Option<i64> {
    let value = object.pointer(pointer)?;
    let digits = value
        .as_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    value.as_i64().or_else(|| digits?.parse().ok()) // a number that does not fit is no generation
}

/// The progress of an object that performs a rollout itself: `status.progress`, if it is for the current generation.
pub(super) fn progress(object: &Value) -> Option<Progress> {
    let generation = integer(object, "/metadata/generation")?;
    if number(object, "/status/observedGeneration") != Some(generation) {
        return None;
    }
    let steps = |field: &str| {
        let steps = integer(object, &format!("/status/progress/{field}"))?;
        u32::try_from(steps).ok() // what cannot be counted is no progress
    };
    let waiting = string_at(object, "/status/progress/waiting").filter(|waiting| !waiting.is_empty());
    Some(Progress {
        done: steps("done")?,
        total: steps("total")?,
        waiting: waiting.map(|waiting| bounded(waiting, MAX_LABEL).into_owned()),
    })
}

/// Why there is no evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The condition may be from before our apply.
    Before(&'static str),
    /// There is no condition to rely on.
    NoReady,
    /// The status that the expressions read may be from before our apply.
    Unobserved,
    /// The StatefulSet belongs to a rollout group, but no ZoneRollout confirms that its zone is done.
    NoZoneRollout,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(condition) => write!(f, "{condition}=True is from before"),
            Self::NoReady => f.write_str("it has no Ready condition"),
            Self::Unobserved => f.write_str("its expression may be based on the previous status"),
            Self::NoZoneRollout => f.write_str("its rollout group has no ZoneRollout"),
        }
    }
}

/// Checks whether the health of a live object has the evidence that it needs; if not, returns what is missing.
fn prove(object: &Value, health: &Health, need: &Need) -> Result<(), Lack> {
    if *need == Need::Nothing {
        return Ok(());
    }
    let condition = rests_on(object, health).ok_or(Lack::NoReady)?;
    let generation = integer(object, "/metadata/generation");
    let observed = [
        number(object, "/status/observedGeneration"),
        number(condition, "/observedGeneration"),
    ];
    if generation.is_some() && observed.contains(&generation) {
        return Ok(());
    }
    let part = |field: &str| string_at(condition, field).unwrap_or_default();
    if let Need::Answer(created) = need {
        let before = created.get(part("/type"));
        if before.is_none_or(|(status, reason)| {
            (status.as_str(), reason.as_str()) != (part("/status"), part("/reason"))
        }) {
            return Ok(());
        }
    }
    Err(Lack::Before(match health.state {
        State::Failed => "Stalled",
        _ => "Ready",
    }))
}

/// An object whose health to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The object.
    pub id: ObjectId,
    /// The API version that it is read in.
    pub version: String,
    need: Need,
    /// Health expressions that replace the rules of the kind.
    pub(super) expressions: Option<Arc<Expressions>>,
    /// Whether the controller has written the status that the expressions read, since the object was created.
    pub(super) answered: bool,
    /// The zone of a StatefulSet of a rollout group.
    pub(super) zone: Option<Zone>,
    /// Since when every check has had the same result.
    steady: Option<Steady>,
    verdict: Verdict,
    /// The progress, if the object performs a rollout itself.
    progress: Option<Progress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Steady {
    state: State,
    since: Timestamp,
}

/// The result of the last check of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Not healthy yet.
    Pending,
    /// Healthy, with evidence. For an object that needs none, the evidence that would be missing, if any.
    Well(Option<Lack>),
    /// Assumed to be healthy, because evidence is missing.
    Assumed(Lack),
}

impl Target {
    /// An object that was applied at `applied`, or not changed by this apply (`None`).
    pub fn new(id: ObjectId, version: String, need: Need, applied: Option<Timestamp>) -> Self {
        let current = |since| Steady {
            state: State::Current,
            since,
        };
        Self {
            id,
            version,
            need,
            expressions: None,
            answered: false,
            zone: None,
            steady: applied.map(current),
            verdict: Verdict::Pending,
            progress: None,
        }
    }

    /// The same target, with the health expressions of its kind.
    #[must_use]
    pub fn judged_by(self, expressions: Option<Arc<Expressions>>) -> Self {
        Self { expressions, ..self }
    }

    /// Whether the target needs a reaction to its creation as evidence.
    pub(super) fn needs_answer(&self) -> bool {
        matches!(self.need, Need::Answer(_))
    }

    /// Whether evidence may be missing for this kind of object.
    fn may_lack_evidence(&self) -> bool {
        is_custom(&self.id.group) || self.zone.is_some()
    }

    fn prove(&self, live: &Value, health: &Health, need: &Need) -> Result<(), Lack> {
        if may_have_zones(&self.id) {
            let alone = self.zone.as_ref().is_some_and(|zone| !zone.has_rollout);
            return match need {
                Need::Answer(_) | Need::Observation if alone => Err(Lack::NoZoneRollout),
                _ => Ok(()),
            };
        }
        if self.expressions.is_none() {
            return prove(live, health, need);
        }
        let observed = number(live, "/status/observedGeneration");
        let is_observed = observed.is_some() && observed == integer(live, "/metadata/generation");
        match need {
            Need::Nothing => Ok(()),
            Need::Answer(_) if self.answered => Ok(()),
            Need::Answer(_) | Need::Observation if is_observed => Ok(()),
            // Which condition an expression uses is unknown, so a condition is no evidence.
            Need::Answer(_) | Need::Observation => Err(Lack::Unobserved),
        }
    }

    /// Whether the object was healthy at the last read.
    pub fn is_well(&self) -> bool {
        self.verdict != Verdict::Pending
    }

    /// Records that the object could not be read.
    pub fn missed(&mut self) {
        if !self.is_well() {
            self.steady = None;
        }
    }

    /// Records the result of a check; returns the health as far as there is evidence. `live` is `None` if nothing could
    /// be read.
    pub fn found(
        &mut self,
        live: Option<&Value>,
        health: Health,
        now: Timestamp,
        settle: Duration,
    ) -> Health {
        self.verdict = Verdict::Pending;
        self.progress = match &self.zone {
            Some(zone) => Some(zone.progress.clone()),
            None => live.filter(|_| is_custom(&self.id.group)).and_then(progress),
        };
        let health = match live {
            Some(live) if self.need != Need::Nothing => {
                of_this_generation(live, health, self.expressions.is_some())
            }
            Some(_) | None => health,
        };
        let counts = health.is_current() || health.terminal;
        let Some(live) = live.filter(|_| counts) else {
            self.steady = None;
            if counts {
                self.verdict = Verdict::Well(None);
            }
            return health;
        };
        let steady = self.steady.filter(|steady| steady.state == health.state);
        let since = steady.map_or(now, |steady| steady.since);
        self.steady = Some(Steady {
            state: health.state,
            since,
        });
        let settled = Duration::try_from(now.duration_since(since)).unwrap_or_default() >= settle; // not before its start
        let lack = self.prove(live, &health, &self.need).err();
        match lack {
            Some(lack) if !settled => Health::in_progress(
                NO_EVIDENCE,
                format!("waiting for evidence from its controller: {lack}"),
            ),
            _ if !health.is_current() => health,
            Some(lack) => {
                self.verdict = Verdict::Assumed(lack);
                health
            }
            None => {
                let lacks = self
                    .may_lack_evidence()
                    .then(|| self.prove(live, &health, &Need::Observation).err());
                self.verdict = Verdict::Well(lacks.flatten());
                health
            }
        }
    }

    /// The time from `now` until the object can be assumed to be healthy.
    fn until_settled(&self, now: Timestamp, settle: Duration) -> Option<Duration> {
        let since = self
            .steady
            .filter(|_| !self.is_well() && self.need != Need::Nothing)?
            .since;
        let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default(); // not before its start
        Some(settle.saturating_sub(passed))
    }
}

/// The objects whose health to wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// The targets.
    pub targets: Vec<Target>,
    /// Objects that were assumed healthy when they were last confirmed, if that still applies.
    pub before: Option<Assumed>,
    /// The highest number of completed steps so far, over the objects that perform a rollout themselves.
    done: u32,
    /// Time of the last check.
    checked: Option<Timestamp>,
}

impl Watch {
    /// Indices of the targets that the next check reads: those that are not healthy yet, or all of them for a final
    /// check.
    pub(super) fn due(&self) -> Vec<usize> {
        let pending: Vec<usize> = (0..self.targets.len())
            .filter(|index| !self.targets[*index].is_well())
            .collect();
        if pending.is_empty() {
            (0..self.targets.len()).collect()
        } else {
            pending
        }
    }

    /// Records that nothing could be read.
    pub fn missed(&mut self) {
        self.targets.iter_mut().for_each(Target::missed);
    }

    /// The time from `now` until the first target can be assumed to be healthy.
    pub fn until_settled(&self, now: Timestamp, settle: Duration) -> Option<Duration> {
        let each = self.targets.iter();
        each.filter_map(|target| target.until_settled(now, settle)).min()
    }

    /// Creates a watch for the objects of a run, with those that were assumed healthy when they were last confirmed.
    pub fn new(targets: Vec<Target>, before: Option<Assumed>) -> Self {
        Self {
            targets,
            before,
            ..Self::default()
        }
    }

    /// The combined progress of all objects that perform a rollout themselves. It is `waiting` if every unhealthy one
    /// is.
    pub fn progress(&self) -> Option<Progress> {
        let mut sum: Option<Progress> = None;
        for progress in self.targets.iter().filter_map(|target| target.progress.as_ref()) {
            let sum = sum.get_or_insert_default();
            sum.done = sum.done.saturating_add(progress.done);
            sum.total = sum.total.saturating_add(progress.total);
        }
        let mut pending = self.targets.iter().filter(|target| !target.is_well()).peekable();
        let first = pending
            .peek()
            .and_then(|target| target.progress.as_ref()?.waiting.clone());
        let all = pending.all(|target| {
            target
                .progress
                .as_ref()
                .is_some_and(|progress| progress.waiting.is_some())
        });
        sum.map(|sum| Progress {
            waiting: first.filter(|_| all),
            ..sum
        })
    }

    /// The start of the health timeout: it restarts with each completed step, and does not run while the objects wait.
    pub fn runs_since(&mut self, since: Timestamp, now: Timestamp) -> Timestamp {
        let before = self.checked.replace(now);
        let Some(progress) = self.progress() else {
            return since;
        };
        if progress.done > self.done {
            self.done = progress.done;
            return now;
        }
        match before.filter(|_| progress.waiting.is_some()) {
            // Overflows only at the end of time.
            Some(before) => since
                .checked_add(now.duration_since(before))
                .unwrap_or(now)
                .min(now),
            None => since,
        }
    }

    /// Whether an object was assumed healthy in the last check because evidence was missing.
    pub fn assumes(&self) -> bool {
        let mut each = self.targets.iter();
        each.any(|target| matches!(target.verdict, Verdict::Assumed(_)))
    }

    /// The assumed objects, to be stored, with the `settle` time used. An object that was assumed before and needed no
    /// evidence this time is still assumed, unless it has evidence by now.
    pub fn assumed(&self, settle: Duration) -> Option<Assumed> {
        let named = |target: &Target, lack: Lack| format!("{} ({lack})", target.id);
        let mut assumed = Vec::new();
        let mut unproven = Vec::new();
        for target in &self.targets {
            match target.verdict {
                Verdict::Assumed(lack) => assumed.push(named(target, lack)),
                Verdict::Well(Some(lack)) if target.need == Need::Nothing => {
                    unproven.push(named(target, lack));
                }
                Verdict::Well(_) | Verdict::Pending => {}
            }
        }
        let before = self.before.as_ref();
        let counted = |objects: usize| u32::try_from(objects).unwrap_or(u32::MAX);
        let kept = before.map_or(0, |before| {
            before.count.min(counted(assumed.len() + unproven.len()))
        });
        let count = kept.max(counted(assumed.len()));
        let unproven: BTreeSet<String> = unproven.into_iter().collect();
        let kept_first = before.filter(|before| unproven.contains(&before.first));
        let first = assumed
            .into_iter()
            .next()
            .or_else(|| kept_first.map(|before| before.first.clone()))
            .or_else(|| unproven.into_iter().next())
            .filter(|_| count > 0)?;
        Some(Assumed {
            count,
            first,
            settle: muster_api::Duration::from_millis(u64::try_from(settle.as_millis()).unwrap_or(u64::MAX)),
        })
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use serde_json::json;

    use super::*;

    const START: &str = "2026-11-21T12:00:00Z";
    const SETTLE: Duration = Duration::from_secs(30);

    fn at(second: i64) -> Timestamp {
        START.parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(second)
    }

    fn widget(generation: i64, status: Value) -> Value {
        json!({
            "apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "u", "generation": generation},
            "status": status,
        })
    }

    fn put(object: &mut Value, more: Value) {
        let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) else {
            return;
        };
        object.extend(more);
    }

    fn ready(more: Value) -> Value {
        let mut ready = json!({"type": "Ready", "status": "True", "reason": "Good"});
        put(&mut ready, more);
        json!({"conditions": [ready]})
    }

    fn target(need: Need) -> Target {
        Target::new(
            "ns_w_example.test_Widget".parse().unwrap(),
            "v1".into(),
            need,
            Some(at(0)),
        )
    }

    fn found(target: &mut Target, live: &Value, second: i64) -> String {
        let health = target.found(
            Some(live),
            super::super::health_of(live, at(second)),
            at(second),
            SETTLE,
        );
        match target.verdict {
            Verdict::Pending => format!("{}: {}", health.state.as_str(), health.message),
            Verdict::Well(_) => "well".to_owned(),
            Verdict::Assumed(lack) => format!("assumed: {lack}"),
        }
    }

    /// The result for an object of generation 2, right away and after the settle time.
    #[track_caller]
    fn check(need: &Need, status: Value, expect: &[&str]) {
        let (mut target, live) = (target(need.clone()), widget(2, status));
        let mut got = vec![found(&mut target, &live, 0)];
        if expect.len() > 1 {
            assert_eq!(found(&mut target, &live, 29), got[0]);
            got.push(found(&mut target, &live, 30));
        }
        assert_eq!(got, expect, "{live:#}");
    }

    #[test]
    fn what_counts_as_evidence() {
        let updated = Need::Observation;
        let created = Need::Answer(Conditions::new());
        let waits = "InProgress: waiting for evidence from its controller: Ready=True is from before";
        let before = [waits, "assumed: Ready=True is from before"];
        let no_ready = [
            "InProgress: waiting for evidence from its controller: it has no Ready condition",
            "assumed: it has no Ready condition",
        ];
        // No reaction needed.
        check(&Need::Nothing, ready(json!({})), &["well"]);
        check(&Need::Nothing, json!(null), &["well"]);
        // Observed.
        let with = |mut status: Value, observed: Value| {
            status["observedGeneration"] = observed;
            status
        };
        check(&updated, with(ready(json!({})), json!(2)), &["well"]);
        check(&updated, with(ready(json!({})), json!("2")), &["well"]);
        check(&updated, ready(json!({"observedGeneration": 2})), &["well"]);
        check(&updated, with(ready(json!({})), json!("two")), &before);
        check(&updated, with(ready(json!({})), json!("+2")), &before);
        let older = ["InProgress: Widget generation is 2, but latest observed generation is 1"; 2];
        check(&updated, with(ready(json!({})), json!(1)), &older);
        check(&updated, with(ready(json!({})), json!("1")), &older);
        let older = ["InProgress: generation is 2, but condition Ready is about generation 1"; 2];
        check(&updated, ready(json!({"observedGeneration": 1})), &older);
        check(&Need::Nothing, ready(json!({"observedGeneration": 1})), &["well"]);
        check(&updated, ready(json!({"observedGeneration": 0})), &before);
        check(
            &updated,
            with(ready(json!({"observedGeneration": 1})), json!(2)),
            &older,
        );
        // Observed in another condition.
        let other = json!({"conditions": [
            {"type": "Ready", "status": "True", "reason": "Good"}, {"type": "Synced", "status": "True", "observedGeneration": 2}]});
        check(&updated, other, &before);
        // Written since the object was created.
        check(&created, ready(json!({})), &["well"]);
        check(&updated, ready(json!({})), &before);
        let as_created = |status: &str, reason: &str| {
            Need::Answer(Conditions::from([(
                "Ready".into(),
                (status.into(), reason.into()),
            )]))
        };
        check(
            &as_created("True", "Good"),
            ready(json!({"message": "m", "lastTransitionTime": START})),
            &before,
        );
        check(&as_created("Unknown", "Good"), ready(json!({})), &["well"]);
        check(&as_created("True", "Pending"), ready(json!({})), &["well"]);
        // No condition to rely on.
        for need in [&updated, &created] {
            check(need, json!(null), &no_ready);
            check(need, with(json!({"phase": "Running"}), json!(2)), &no_ready);
        }
        check(
            &updated,
            ready(json!({"status": "False", "message": "m"})),
            &["InProgress: m"; 2],
        );
        // A failure from before the apply does not count yet.
        let stalled = |more: Value| {
            let mut stalled = ready(json!({"type": "Stalled", "message": "m"}));
            put(&mut stalled["conditions"][0], more);
            stalled
        };
        let waits = "InProgress: waiting for evidence from its controller: Stalled=True is from before";
        check(&updated, stalled(json!({})), &[waits, "Failed: m"]);
        check(
            &updated,
            stalled(json!({"observedGeneration": 2})),
            &["Failed: m"],
        );
        check(&created, stalled(json!({})), &["Failed: m"]);
    }

    #[test]
    fn each_check_must_find_it_well() {
        let well = widget(2, ready(json!({})));
        let unwell = widget(2, ready(json!({"status": "False", "message": "m"})));
        let waits = "InProgress: waiting for evidence from its controller: Ready=True is from before";
        let mut target = target(Need::Observation);
        assert_eq!(found(&mut target, &well, 10), waits);
        assert_eq!(found(&mut target, &unwell, 29), "InProgress: m");
        assert_eq!(found(&mut target, &well, 31), waits);
        // The object could not be read.
        target.missed();
        assert_eq!(found(&mut target, &well, 61), waits);
        assert_eq!(
            target.until_settled(at(71), SETTLE),
            Some(Duration::from_secs(20))
        );
        assert_eq!(
            found(&mut target, &well, 91),
            "assumed: Ready=True is from before"
        );
        assert_eq!(found(&mut target, &unwell, 92), "InProgress: m");
        assert_eq!(found(&mut target, &well, 93), waits);
        // The clock steps backwards.
        assert_eq!(found(&mut target, &well, 10), waits);
        // The object is found missing.
        target.found(None, Health::not_found(), at(100), SETTLE);
        assert_eq!(found(&mut target, &well, 123), waits);
    }

    #[test]
    fn what_an_apply_did() {
        let live = |generation: Option<i64>, label: &str, size: u8| {
            json!({
                "metadata": {"uid": "u", "generation": generation, "labels": {"a": label}}, "spec": {"size": size},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": label}]},
            })
        };
        let change = |before: &Value, after: &Value| change(Some(&Before::of(before)), after);
        assert_eq!(
            change(&live(Some(1), "a", 1), &live(Some(1), "b", 1)),
            Change::Nothing
        );
        assert_eq!(
            change(&live(Some(1), "a", 1), &live(Some(2), "a", 2)),
            Change::Updated
        );
        // A kind without generations.
        assert_eq!(change(&live(None, "a", 1), &live(None, "b", 1)), Change::Nothing);
        assert_eq!(change(&live(None, "a", 1), &live(None, "a", 2)), Change::Updated);
        assert_eq!(
            change(&live(None, "a", 1), &live(Some(1), "a", 1)),
            Change::Updated
        );
        let expected = Conditions::from([("Ready".into(), ("True".into(), "a".into()))]);
        let mut other = live(Some(1), "a", 1);
        other["metadata"]["uid"] = "v".into();
        assert_eq!(
            change(&live(Some(1), "a", 1), &other),
            Change::Created(expected.clone())
        );
        assert_eq!(super::change(None, &other), Change::Created(expected));
    }

    #[test]
    fn custom_resources_alone_need_evidence() {
        let check = |group: &str, change: Option<&Change>, unconfirmed: bool, expect: &Need| {
            let id: ObjectId = format!("ns_w_{group}_Widget").parse().unwrap();
            assert_eq!(
                Need::after(change, &id, unconfirmed),
                *expect,
                "{group} {change:?} {unconfirmed}"
            );
        };
        let created = Change::Created(Conditions::new());
        for group in ["", "apps", "networking.k8s.io", "storage.k8s.io"] {
            check(group, Some(&created), true, &Need::Nothing);
        }
        for group in [
            "example.test",
            "gateway.networking.k8s.io",
            "snapshot.storage.k8s.io",
            "x.apps",
        ] {
            check(group, Some(&created), true, &Need::Answer(Conditions::new()));
            check(group, Some(&Change::Updated), false, &Need::Observation);
            check(group, Some(&Change::Nothing), false, &Need::Nothing);
            check(group, None, false, &Need::Nothing);
            check(group, None, true, &Need::Observation);
        }
    }

    /// An object that was assumed before is still assumed while there is no evidence.
    #[test]
    fn what_was_assumed_stays_so() {
        let first = |name: &str| format!("Widget/ns/{name} (Ready=True is from before)");
        let mut watch = Watch::default();
        for (name, status) in [
            ("a", ready(json!({}))),
            ("b", ready(json!({}))),
            ("c", ready(json!({"observedGeneration": 2}))),
        ] {
            let mut target = Target::new(
                format!("ns_{name}_example.test_Widget").parse().unwrap(),
                "v1".into(),
                Need::Nothing,
                None,
            );
            assert_eq!(found(&mut target, &widget(2, status), 0), "well");
            watch.targets.push(target);
        }
        assert_eq!(watch.assumed(SETTLE), None);
        let check = |watch: &mut Watch, count: u32, name: &str, expect: Option<(u32, &str)>| {
            let settle = muster_api::Duration::from_secs(30);
            watch.before = Some(Assumed {
                count,
                first: first(name),
                settle,
            });
            let expect = expect.map(|(count, name)| Assumed {
                count,
                first: first(name),
                settle,
            });
            assert_eq!(watch.assumed(SETTLE), expect);
        };
        check(&mut watch, 1, "b", Some((1, "b")));
        check(&mut watch, 5, "b", Some((2, "b")));
        check(&mut watch, 1, "c", Some((1, "a")));
        watch.targets.drain(..2);
        check(&mut watch, 1, "a", None);
    }
}
