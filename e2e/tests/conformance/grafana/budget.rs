//! Tables of the disruption budget: evictions and their inputs.

use std::collections::BTreeMap;

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::zonerollout::{InFlight, Why};
use muster_zones::{
    budget::{
        Budget, EvictionOrigin, Facts, KnownBudgets, Limit, Partition, Request, Verdict, counts_as_ready,
        is_under_way, judge, ready_time, ready_time_patch, validate,
    },
    model::{Pod, Set, SetStatus},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::registry::{Input, Table, product};

/// Keys that depend on a response that `safer` changes.
const FOLLOWS: &[(&str, &[&str])] = &[(
    "answers",
    &["evictionRequestsTotal", "pendingEvictions", "patches"],
)];
const REFUSED: &[(&str, &[&str])] = &[(
    "error",
    &[
        "delaySeconds",
        "generation",
        "group",
        "maxUnavailable",
        "maxUnavailablePercentage",
        "name",
        "regex",
        "selector",
    ],
)];

pub(super) const TABLES: &[Table] = &[
    product("zpdb-config.json", "muster_zones::budget::Budget::parse", config).follows(REFUSED),
    product("zpdb-eviction.json", "muster_zones::budget::judge", eviction)
        .follows(FOLLOWS)
        .unordered(&["pendingEvictions"]),
    product(
        "zpdb-eviction-probes.json",
        "muster_zones::budget::judge",
        eviction,
    )
    .follows(FOLLOWS),
    product("zpdb-known.json", "muster_zones::budget::Known", known),
    product("zpdb-limit.json", "muster_zones::budget::Limit::pods", limit),
    product(
        "zpdb-partition.json",
        "muster_zones::budget::Partition::of",
        partition,
    ),
    product(
        "zpdb-pod-counts-ready.json",
        "muster_zones::budget::counts_as_ready",
        pod_counts_ready,
    ),
    product("zpdb-ready-time.json", "muster_zones::budget::ready_time", ready),
    product(
        "zpdb-validation-webhook.json",
        "muster_zones::budget::validate",
        validation,
    ),
];

fn config(input: &Input<'_>) -> anyhow::Result<Value> {
    let budget = match Budget::parse(input.value) {
        Ok(budget) => budget,
        Err(error) => return Ok(json!({"error": error.to_string()})),
    };
    let (count, percentage) = match budget.limit {
        Limit::Count(count) => (count, 0),
        Limit::Percentage(percentage) => (0, percentage),
    };
    Ok(json!({
        "name": budget.name,
        "generation": budget.generation,
        "maxUnavailable": count,
        "maxUnavailablePercentage": percentage,
        "regex": budget.partition.as_ref().map(Partition::regex),
        "group": budget.partition.as_ref().map(Partition::group),
        "delaySeconds": budget.delay.as_secs(),
        "selector": budget.selector_text(),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownInput {
    events: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Event {
    Put(Value),
    Delete(Value),
    Find(BTreeMap<String, String>),
}

fn known(input: &Input<'_>) -> anyhow::Result<Value> {
    let mut known = KnownBudgets::default();
    let mut results = Vec::new();
    for event in input.parse::<KnownInput>()?.events {
        results.push(match event {
            Event::Put(object) => json!(known.put(&object).as_str()),
            Event::Delete(object) => json!(known.delete(&object).as_str()),
            Event::Find(labels) => match known.find(&labels) {
                Ok(found) => json!(found.map(|budget| &budget.name)),
                Err(error) => json!({"error": error.to_string()}),
            },
        });
    }
    let known: Map<String, Value> = known
        .iter()
        .map(|budget| (budget.name.clone(), budget.generation.into()))
        .collect();
    Ok(json!({"known": known, "results": results}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LimitInput {
    max_unavailable: u32,
    percentage: u32,
    desired: Option<u32>,
    reported: u32,
}

fn limit(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: LimitInput = input.parse()?;
    let limit = match input.max_unavailable {
        0 => Limit::Percentage(input.percentage),
        count => Limit::Count(count),
    };
    let set = Set {
        replicas: input.desired,
        status: SetStatus {
            replicas: input.reported,
            ..SetStatus::default()
        },
        ..Set::default()
    };
    Ok(limit.pods(&set).into())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionInput {
    regex: String,
    group: usize,
    pod: String,
}

fn partition(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: PartitionInput = input.parse()?;
    let expression = (!input.regex.is_empty())
        .then(|| Partition::new(&input.regex, input.group))
        .transpose()
        .map_err(anyhow::Error::msg)?;
    Ok(match Partition::of(expression.as_ref(), &input.pod) {
        Ok(partition) => json!({"partition": partition.unwrap_or_default()}),
        Err(error) => json!({"error": error.to_string()}),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CountsInput {
    pod: Value,
    delay_seconds: i64,
    eviction_allowed_seconds_ago: Option<i64>,
}

fn pod_counts_ready(input: &Input<'_>) -> anyhow::Result<Value> {
    let now = instant(input)?;
    let input: CountsInput = input.parse()?;
    let pod = Pod::from_value(&input.pod)?;
    let pending = input.eviction_allowed_seconds_ago.is_some_and(|ago| {
        let entry = InFlight {
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            set: String::new(),
            resource_version: None,
            why: Why::Eviction,
            since: Time(now - SignedDuration::from_secs(ago)),
        };
        is_under_way(&entry, Some(&pod), now)
    });
    Ok(counts_as_ready(&pod, pending, SignedDuration::from_secs(input.delay_seconds), now).into())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReadyInput {
    pod: Value,
    // Whether the write finds its pod is up to the API server, not a decision.
    #[serde(rename = "inCluster")]
    _in_cluster: bool,
}

fn ready(input: &Input<'_>) -> anyhow::Result<Value> {
    let now = instant(input)?;
    let pod = Pod::from_value(&input.parse::<ReadyInput>()?.pod)?;
    let read = ready_time(&pod);
    Ok(json!({
        "ready": read.ready,
        "found": read.since.is_some(),
        "since": read.since.map(|since| since.to_string()),
        "patch": ready_time_patch(&pod, now).map(|patch| patch.to_string()),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValidationInput {
    object: Value,
}

fn validation(input: &Input<'_>) -> anyhow::Result<Value> {
    Ok(match validate(&input.parse::<ValidationInput>()?.object) {
        Ok(()) => json!({"allowed": true}),
        Err(error) => json!({"allowed": false, "code": 400, "message": error.to_string()}),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EvictionInput {
    budgets: Vec<Value>,
    objects: Vec<Value>,
    steps: Vec<Step>,
    #[serde(default)]
    errors: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    review: Option<Value>,
    evict: Option<String>,
    #[serde(default)]
    dry_run: bool,
    delete: Option<String>,
    #[serde(default)]
    max_unavailable_if_zero: u32,
    observe: Option<Value>,
    pass_seconds: Option<i64>,
    restart: Option<bool>,
}

/// The cluster of a case, and the status of its ZoneRollout.
struct World {
    budgets: KnownBudgets,
    objects: Vec<Value>,
    errors: BTreeMap<String, String>,
    in_flight: Vec<InFlight>,
    now: Timestamp,
    answers: Vec<Value>,
    requests: BTreeMap<String, u64>,
    patches: Vec<Value>,
}

fn eviction(input: &Input<'_>) -> anyhow::Result<Value> {
    let now = instant(input)?;
    let input: EvictionInput = input.parse()?;
    let mut world = World {
        budgets: KnownBudgets::default(),
        objects: input.objects,
        errors: input.errors,
        in_flight: Vec::new(),
        now,
        answers: Vec::new(),
        requests: BTreeMap::new(),
        patches: Vec::new(),
    };
    for budget in &input.budgets {
        world.budgets.put(budget);
    }
    for step in &input.steps {
        world.step(step)?;
    }
    world.prune()?;
    Ok(json!({
        "answers": world.answers,
        "pendingEvictions": world.in_flight.iter().map(|entry| &entry.pod).collect::<Vec<_>>(),
        "evictionRequestsTotal": world.requests,
        "patches": world.patches,
    }))
}

impl World {
    fn step(&mut self, step: &Step) -> anyhow::Result<()> {
        if let Some(review) = &step.review {
            return self.review(&review["request"]);
        }
        if let Some(name) = &step.evict {
            return self.review(&json!({
                "operation": "CREATE",
                "subResource": "eviction",
                "namespace": "test-namespace",
                "name": name,
                "dryRun": step.dry_run,
            }));
        }
        if let Some(name) = &step.delete {
            let request = Request {
                namespace: "test-namespace".to_owned(),
                name: name.clone(),
                dry_run: false,
                origin: EvictionOrigin::Rollout(step.max_unavailable_if_zero),
            };
            let verdict = self.judge(&request)?;
            self.answer(&verdict, false);
        } else if let Some(object) = &step.observe {
            self.observe(object)?;
        } else if let Some(seconds) = step.pass_seconds {
            self.now += SignedDuration::from_secs(seconds);
        } else {
            // What survives a restart is in the status: nothing else is kept here.
            anyhow::ensure!(step.restart == Some(true), "an unknown step");
        }
        Ok(())
    }

    fn review(&mut self, request: &Value) -> anyhow::Result<()> {
        let verdict = match Request::from_review(request) {
            Ok(request) => self.judge(&request)?,
            Err(verdict) => verdict,
        };
        self.answer(&verdict, true);
        Ok(())
    }

    fn judge(&mut self, request: &Request) -> anyhow::Result<Verdict> {
        let pods = self.pods()?;
        self.prune()?;
        let pod = pods.iter().find(|pod| pod.name == request.name).cloned();
        let owner = pod.as_ref().and_then(|pod| pod.controller.clone());
        let sets = self.sets()?;
        let owner = owner.map(|owner| {
            let found = sets.iter().find(|set| set.name == owner.name).cloned();
            let missing = format!("statefulsets.apps {:?} not found", owner.name);
            self.read("get statefulsets", found.ok_or(missing))
        });
        let missing = format!("pods {:?} not found", request.name);
        let verdict = judge(
            request,
            &Facts {
                budgets: &self.budgets,
                pod: self.read("get pods", pod.ok_or(missing)),
                owner,
                sets: self.read("list statefulsets", Ok(sets)),
                pods: self.read("list pods", Ok(pods)),
                in_flight: &self.in_flight,
                operations: &[],
                now: self.now,
            },
        );
        if let Some(record) = verdict.record.clone() {
            self.in_flight.retain(|entry| entry.uid != record.uid);
            self.in_flight.push(*record);
        }
        Ok(verdict)
    }

    /// The response of the API server: the object, or the error that the case injects.
    fn read<T>(&self, what: &str, found: Result<T, String>) -> Result<T, String> {
        match self.errors.get(what) {
            Some(error) => Err(error.clone()),
            None => found,
        }
    }

    fn answer(&mut self, verdict: &Verdict, by_webhook: bool) {
        let code = verdict.reason.code();
        let mut answer = json!({"allowed": verdict.allowed()});
        match (verdict.allowed(), verdict.message.as_str()) {
            (true, "") => {}
            (true, warning) => answer["warnings"] = json!([warning]),
            (false, message) => {
                answer["message"] = message.into();
                answer["code"] = by_webhook.then_some(code).into();
            }
        }
        self.answers.push(answer);
        let key = format!("{} {code}", verdict.reason.as_str());
        *self.requests.entry(key).or_default() += 1;
    }

    fn observe(&mut self, object: &Value) -> anyhow::Result<()> {
        let pod = Pod::from_value(object)?;
        let same = |other: &&mut Value| other["kind"] == "Pod" && other["metadata"]["name"] == *pod.name;
        match self.objects.iter_mut().find(same) {
            Some(known) => *known = object.clone(),
            None => self.objects.push(object.clone()),
        }
        self.prune()?;
        if let Some(patch) = ready_time_patch(&pod, self.now) {
            let known = self
                .objects
                .iter_mut()
                .find(same)
                .context("the pod was just put")?;
            json_patch::merge(known, &patch);
            let target = format!("pods/{}", pod.name);
            let body = patch.to_string();
            self.patches
                .push(json!({"target": target, "type": "strategic-merge", "body": body}));
        }
        Ok(())
    }

    /// Removes completed entries from the status, as the controller does on watch events.
    fn prune(&mut self) -> anyhow::Result<()> {
        let pods = self.pods()?;
        let now = self.now;
        self.in_flight
            .retain(|entry| is_under_way(entry, pods.iter().find(|pod| pod.uid == entry.uid), now));
        Ok(())
    }

    fn pods(&self) -> anyhow::Result<Vec<Pod>> {
        let pods = self.objects.iter().filter(|object| object["kind"] == "Pod");
        Ok(pods.map(Pod::from_value).collect::<Result<_, _>>()?)
    }

    fn sets(&self) -> anyhow::Result<Vec<Set>> {
        let sets = self
            .objects
            .iter()
            .filter(|object| object["kind"] == "StatefulSet");
        Ok(sets.map(Set::from_value).collect::<Result<_, _>>()?)
    }
}

fn instant(input: &Input<'_>) -> anyhow::Result<Timestamp> {
    Ok(input.now.context("the file has no instant")?.parse()?)
}
