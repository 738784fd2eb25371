//! Tables of the rollout and of the model.

use std::collections::BTreeMap;

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use muster_api::{
    labels::label::ROLLOUT_GROUP,
    zonerollout::{ZoneRolloutSpec, ZoneRolloutStatus},
};
use muster_zones::{
    decide::{Action, Decision, decide},
    model::{self, Group, Pod, Set, annotations},
    order,
    roll::Budget,
    scale::{
        Change, Facts, Settings,
        mirror::{Reference, Scale},
        pods::{Answer, Answered},
    },
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::registry::{Input, Table, product};

/// Keys that depend on which pods are deleted: the evictions that are checked.
const FOLLOWS: &[(&str, &[&str])] = &[("deletedPods", &["evictionAsked"])];

pub(super) const TABLES: &[Table] = &[
    product("reconcile.json", "decide::decide", pass)
        .unordered(UNORDERED)
        .follows(FOLLOWS),
    product("reconcile-probes.json", "decide::decide", pass)
        .unordered(UNORDERED)
        .follows(FOLLOWS),
    product("reconcile-safer.json", "decide::decide", pass)
        .unordered(UNORDERED)
        .follows(FOLLOWS),
    product("rollout-histories.json", "decide::decide", history),
    product(
        "max-unavailable.json",
        "model::annotations::max_unavailable",
        max_unavailable,
    ),
    product("pod-ready.json", "model::Pod::is_available", pod_ready),
    product("pod-order.json", "order::natural", pod_order),
    product("set-order.json", "model::groups", set_order),
    product("pods-of-set.json", "model::Set::with", pods_of_set),
];

/// Groups have no order, so neither have the results of several groups.
const UNORDERED: &[&str] = &["errors"];

/// The interval between passes.
const INTERVAL: SignedDuration = SignedDuration::from_secs(5);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pass {
    #[serde(default)]
    stateful_sets: Vec<Value>,
    #[serde(default)]
    pods: Vec<Value>,
    #[serde(default)]
    errors: Errors,
    #[serde(default)]
    zpdb: Zpdb,
    #[serde(default)]
    scale: ScaleRead,
    #[serde(default)]
    http: BTreeMap<String, Canned>,
}

/// The result of reading the `scale` subresource of a reference.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ScaleRead {
    spec_replicas: u32,
    status_replicas: u32,
    get_error: Option<String>,
}

/// The response of a pod.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Canned {
    pub status: u16,
    pub body: String,
    pub error: Option<String>,
    #[allow(dead_code, reason = "redirects are not followed")]
    pub location: Option<String>,
}

impl Canned {
    pub(super) fn answered(&self) -> Answered {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(Answer {
                status: self.status,
                body: self.body.clone(),
            }),
        }
    }
}

/// Everything outside of the group that a pass reads.
#[derive(Default)]
struct World {
    errors: Errors,
    scale: ScaleRead,
    http: BTreeMap<String, Canned>,
}

/// The results of writes.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Errors {
    patch: Option<String>,
    delete: Option<String>,
    update: Option<String>,
}

/// The responses of the budget.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Zpdb {
    answers: Vec<Option<String>>,
    lookup_error: Option<String>,
    partition_aware: bool,
}

/// A budget with scripted responses, which records its queries.
#[derive(Default)]
struct Scripted {
    zpdb: Zpdb,
    calls: Vec<Value>,
}

impl Budget for Scripted {
    fn counts_by_partition(&mut self, _: &Pod) -> Result<bool, String> {
        match &self.zpdb.lookup_error {
            Some(error) => Err(error.clone()),
            None => Ok(self.zpdb.partition_aware),
        }
    }

    fn allows(&mut self, pod: &Pod, if_zero: u32) -> Result<(), String> {
        let answer = self.zpdb.answers.get(self.calls.len()).cloned().flatten();
        let verdict = answer.as_deref().unwrap_or("allowed");
        self.calls
            .push(json!({"pod": pod.name, "maxUnavailableIfZero": if_zero, "answer": verdict}));
        answer.map_or(Ok(()), Err)
    }
}

/// The actions of a pass.
#[derive(Default)]
struct PassResult {
    deleted: Vec<Value>,
    statuses: Vec<Value>,
    patches: Vec<Value>,
    requests: Vec<String>,
    attempts: Vec<Value>,
    errors: Vec<Value>,
    totals: Map<String, Value>,
    failures: Map<String, Value>,
}

pub(super) fn pass(input: &Input<'_>) -> anyhow::Result<Value> {
    let pass: Pass = input.parse()?;
    let now: Timestamp = input.now.context("a pass has an instant")?.parse()?;
    let mut budget = Scripted {
        zpdb: pass.zpdb,
        ..Scripted::default()
    };
    let mut records = BTreeMap::new();
    let world = World {
        errors: pass.errors,
        scale: pass.scale,
        http: pass.http,
    };
    let outcome = one(
        &pass.stateful_sets,
        &pass.pods,
        &world,
        &mut budget,
        &mut records,
        now,
    )?;
    let mut answer = outcome.answer();
    answer.insert("evictionAsked".to_owned(), Value::Array(budget.calls));
    Ok(Value::Object(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct History {
    passes: Vec<Moment>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Moment {
    #[serde(default)]
    #[allow(dead_code, reason = "for people")]
    event: Option<String>,
    #[serde(default)]
    changed: Vec<Value>,
    #[serde(default)]
    gone: Vec<String>,
}

/// Several passes over one cluster; the status is carried from one to the next.
fn history(input: &Input<'_>) -> anyhow::Result<Value> {
    let history: History = input.parse()?;
    let mut now: Timestamp = input.now.context("a pass has an instant")?.parse()?;
    let mut objects: BTreeMap<(String, String), Value> = BTreeMap::new();
    let mut records = BTreeMap::new();
    let mut passes = Vec::new();
    for event in history.passes {
        for mut object in event.changed {
            let text = |pointer: &str| {
                object
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let key = (text("/kind"), text("/metadata/name"));
            made_again(objects.get(&key), &mut object);
            objects.insert(key, object);
        }
        objects.retain(|(kind, name), _| kind != "Pod" || !event.gone.contains(name));
        let of = |kind: &str| -> Vec<Value> {
            let of_kind = objects.iter().filter(|((of, _), _)| of == kind);
            of_kind.map(|(_, object)| object.clone()).collect()
        };
        let (sets, pods) = (of("StatefulSet"), of("Pod"));
        let outcome = one(
            &sets,
            &pods,
            &World::default(),
            &mut Scripted::default(),
            &mut records,
            now,
        )?;
        passes.push(Value::Object(outcome.answer()));
        now += INTERVAL;
    }
    Ok(json!({ "passes": passes }))
}

/// A pod that replaces a deleted one is another pod; the corpus gives both the same UID.
fn made_again(before: Option<&Value>, object: &mut Value) {
    let is_going = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
    let Some(before) = before else { return };
    let uid = before["metadata"]["uid"].as_str().unwrap_or_default();
    if object["kind"] == "Pod" {
        let again = is_going(before) && !is_going(object);
        object["metadata"]["uid"] = if again {
            format!("{uid}+").into()
        } else {
            uid.into()
        };
    }
}

/// One pass over all groups, including its actions.
fn one(
    sets: &[Value],
    pods: &[Value],
    world: &World,
    budget: &mut Scripted,
    records: &mut BTreeMap<String, ZoneRolloutStatus>,
    now: Timestamp,
) -> anyhow::Result<PassResult> {
    let (sets, pods) = complete_objects(sets, pods);
    let sets = sets.iter().map(Set::from_value).collect::<Result<Vec<_>, _>>()?;
    let pods = pods.iter().map(Pod::from_value).collect::<Result<Vec<_>, _>>()?;
    let mut outcome = PassResult::default();
    for (name, sets) in model::groups(sets) {
        let record = records.entry(name.clone()).or_default();
        let spec = ZoneRolloutSpec {
            group: name.clone(),
            ..ZoneRolloutSpec::default()
        };
        let group = Group::new(&name, sets, &pods).with(spec, record.clone());
        let decision = outcome.decided(group, world, budget, now)?;
        *record = decision.status;
        let refused = outcome.carry_out(decision.actions, &world.errors);
        let error = decision.error.or(refused);
        outcome.totals.insert(name.clone(), json!(1));
        outcome.failures.insert(name, json!(u8::from(error.is_some())));
        outcome.errors.extend(error.map(Value::from));
    }
    Ok(outcome)
}

impl PassResult {
    /// Fetches missing facts and decides again, until there is a decision; a rejected patch is one more fact.
    fn decided(
        &mut self,
        mut group: Group,
        world: &World,
        budget: &mut Scripted,
        now: Timestamp,
    ) -> anyhow::Result<Decision> {
        let settings = Settings {
            namespace: "test".to_owned(),
            cluster_domain: "cluster.local.".to_owned(),
            timeout: SignedDuration::from_secs(10),
        };
        let mut facts = Facts::default();
        for _ in 0..1_000 {
            let decision = decide(&group, &facts, &settings, budget, now);
            for reference in &decision.read {
                facts
                    .scales
                    .insert(reference.clone(), world.scale.read(reference));
            }
            for ask in &decision.ask {
                let request = format!("{} {}", ask.method.as_str(), ask.url);
                let canned = world.http.get(&request).map_or_else(unknown, Canned::answered);
                self.requests.push(request);
                facts.answers.insert(ask.clone(), canned);
            }
            if !decision.read.is_empty() || !decision.ask.is_empty() {
                continue;
            }
            let patch = decision.actions.iter().find_map(|action| match action {
                Action::Scale(Change::Replicas(patch)) => Some(patch),
                _ => None,
            });
            match (patch, &world.errors.patch) {
                (Some(patch), Some(error)) => {
                    self.attempts
                        .push(format!("patch statefulsets/{}", patch.set).into());
                    facts.refused = Some(decision.refused(error.clone()));
                    group.status = decision.status;
                }
                _ => return Ok(decision),
            }
        }
        anyhow::bail!("nothing was decided after a thousand readings")
    }

    /// Executes actions in order; the first error ends the pass.
    fn carry_out(&mut self, actions: Vec<Action>, errors: &Errors) -> Option<String> {
        for action in actions {
            if let Action::Scale(change) = &action {
                let patch = patch(change);
                match &errors.patch {
                    // Only statuses of references get here: their errors are only logged.
                    Some(_) => self
                        .attempts
                        .push(format!("patch {}", patch["target"].as_str().unwrap_or_default()).into()),
                    None => self.patches.push(patch),
                }
                continue;
            }
            let (attempt, refusal) = match &action {
                Action::Scale(_) => continue,
                Action::Delete(delete) => (format!("delete pods/{}", delete.pod), &errors.delete),
                Action::Record(record) => (
                    format!("update statefulsets/{}/status", record.set),
                    &errors.update,
                ),
            };
            if let Some(refusal) = refusal {
                self.attempts.push(attempt.into());
                return Some(action.refused(refusal));
            }
            match action {
                Action::Scale(_) => {}
                Action::Delete(delete) => self.deleted.push(delete.pod.into()),
                Action::Record(record) => {
                    let status = json!({"statefulSet": record.set, "currentRevision": record.revision});
                    self.statuses.push(status);
                }
            }
        }
        None
    }

    /// In the vocabulary of the corpus: counters only for groups that failed.
    fn answer(self) -> Map<String, Value> {
        let mut answer = Map::new();
        let failed = self.failures.values().any(|failed| failed == 1);
        for (key, list) in [
            ("deletedPods", self.deleted),
            ("statusUpdates", self.statuses),
            ("patches", self.patches),
            (
                "httpRequests",
                self.requests.into_iter().map(Value::from).collect(),
            ),
            ("failedAttempts", self.attempts),
            ("errors", self.errors),
        ] {
            answer.insert(key.to_owned(), Value::Array(list));
        }
        if failed {
            answer.insert("reconcilesTotal".to_owned(), Value::Object(self.totals));
            answer.insert("reconcilesFailedTotal".to_owned(), Value::Object(self.failures));
        }
        answer
    }
}

impl ScaleRead {
    /// The only kind of references in the tables.
    fn read(&self, reference: &Reference) -> Result<Scale, String> {
        if (reference.api_version.as_str(), reference.kind.as_str()) != ("my.group/v1", "CustomResource") {
            return Err(format!("no matches for kind {:?}", reference.kind));
        }
        match &self.get_error {
            Some(error) => Err(error.clone()),
            None => Ok(Scale {
                spec: self.spec_replicas,
                status: self.status_replicas,
            }),
        }
    }
}

fn unknown() -> Answered {
    Ok(Answer {
        status: 500,
        body: "unknown server error".to_owned(),
    })
}

fn patch(change: &Change) -> Value {
    match change {
        Change::Replicas(patch) => json!({
            "target": format!("statefulsets/{}", patch.set),
            "type": "strategic-merge",
            "body": json!({"spec": {"replicas": patch.to}}).to_string(),
        }),
        Change::WriteBack { reference, replicas } => json!({
            "target": format!("{}/{}s/{}/status", reference.api_version, reference.kind.to_lowercase(), reference.name),
            "type": "merge",
            "body": json!({"status": {"replicas": replicas}}).to_string(),
        }),
    }
}

/// Completes objects to the form they have in a cluster: the original's tests omit UIDs, owners, and sometimes the pods
/// themselves.
pub(super) fn complete_objects(sets: &[Value], pods: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let mut sets = sets.to_vec();
    let mut pods = pods.to_vec();
    if pods.is_empty() {
        pods = sets.iter().flat_map(ready_pods).collect();
    }
    for set in &mut sets {
        if set["metadata"]["uid"].is_null() {
            let name = set["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            set["metadata"]["uid"] = uid(&name).into();
        }
    }
    for pod in &mut pods {
        if pod["metadata"]["uid"].is_null() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let set = name.rsplit_once('-').map_or(name.as_str(), |(set, _)| set);
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set, "uid": uid(set), "controller": true}]);
            pod["metadata"]["uid"] = uid(&name).into();
        }
    }
    (sets, pods)
}

fn uid(name: &str) -> String {
    format!("uid-{name}")
}

fn ready_pods(set: &Value) -> Vec<Value> {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    let revision = &set["status"]["updateRevision"];
    let replicas = set["status"]["replicas"].as_u64().unwrap_or_default();
    let set_uid = set["metadata"]["uid"]
        .as_str()
        .map_or_else(|| uid(name), str::to_owned);
    let pod = |ordinal| {
        let name_of_pod = format!("{name}-{ordinal}");
        json!({
            "metadata": {
                "name": name_of_pod, "uid": uid(&name_of_pod), "labels": {"controller-revision-hash": revision},
                "ownerReferences": [{"kind": "StatefulSet", "name": name, "uid": set_uid, "controller": true}],
            },
            "status": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}]},
        })
    };
    (0..replicas).map(pod).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MaxUnavailable {
    annotation: Option<String>,
    replicas: Option<u32>,
}

fn max_unavailable(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: MaxUnavailable = input.parse()?;
    let annotation = input
        .annotation
        .map(|value| (annotations::MAX_UNAVAILABLE.to_owned(), value));
    let texts: annotations::Texts = annotation.into_iter().collect();
    Ok(annotations::max_unavailable(&texts, input.replicas.unwrap_or(1)).into())
}

fn pod_ready(input: &Input<'_>) -> anyhow::Result<Value> {
    Ok(Pod::from_value(input.value)?.is_available().into())
}

fn pod_order(input: &Input<'_>) -> anyhow::Result<Value> {
    let mut names: Vec<String> = input.parse()?;
    names.sort_by(|a, b| order::natural(a, b));
    Ok(json!(names))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetOrder {
    sets: Vec<NamedSet>,
    #[serde(default)]
    #[allow(
        dead_code,
        reason = "a set that is disturbed is the only one that is rolled: nothing is moved to the front"
    )]
    front: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedSet {
    name: String,
    group: Option<String>,
}

/// The original never reads a set without the label; here it belongs to the group without a name.
fn set_order(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: SetOrder = input.parse()?;
    let set = |set: NamedSet| Set {
        name: set.name,
        labels: [(ROLLOUT_GROUP.to_owned(), set.group.unwrap_or_default())].into(),
        ..Set::default()
    };
    let groups = model::groups(input.sets.into_iter().map(set).collect());
    let names = |sets: Vec<Set>| -> Vec<String> { sets.into_iter().map(|set| set.name).collect() };
    Ok(groups
        .into_iter()
        .map(|(group, sets)| (group, json!(names(sets))))
        .collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PodsOfSet {
    set: Value,
    pods: Vec<Value>,
}

fn pods_of_set(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: PodsOfSet = input.parse()?;
    let pods = input
        .pods
        .iter()
        .map(Pod::from_value)
        .collect::<Result<Vec<_>, _>>()?;
    let set = Set::from_value(&input.set)?.with(&pods);
    Ok(set.pods.iter().map(|pod| pod.name.clone()).collect())
}
