//! A group of two zones with three pods each, and an executor of steps with compare-and-swap.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use muster_zones::{
    admit::{
        Fact, Read, ReadError, Record, Request, Response, Review, Step, Webhook, WriteError, Zones,
        prepare::Prepare,
    },
    model::{Pod, Set},
    scale::{
        Settings,
        pods::{Answer, Answered, Ask},
    },
};
use serde_json::{Value, json};

/// A function that answers for the pods.
pub(crate) type Answers = fn(&Ask) -> Answered;

/// A fake API server with pods.
pub(crate) struct Cluster {
    pub sets: Vec<Value>,
    pub pods: Vec<Value>,
    pub tracker: Option<BTreeMap<String, String>>,
    pub record: Option<Record>,
    pub now: Timestamp,
    /// How many writes fail with a conflict.
    pub conflicts: usize,
    /// The answers of pods, by method and URL.
    pub answers: Answers,
    /// All steps that were executed, in order.
    pub done: Vec<String>,
}

pub(crate) fn settings() -> Settings {
    Settings {
        namespace: "test".to_owned(),
        cluster_domain: "cluster.local.".to_owned(),
        timeout: SignedDuration::from_secs(10),
    }
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "test", "uid": format!("uid-{name}"), "generation": 4,
            "labels": {"rollout-group": "db", "grafana.com/prepare-downscale": "true", "grafana.com/min-time-between-zones-downscale": "1h"},
            "annotations": {"grafana.com/prepare-downscale-http-port": "80", "grafana.com/prepare-downscale-http-path": "/leave"}},
        "spec": {"replicas": 3, "serviceName": "db"},
        "status": {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "observedGeneration": 4, "updateRevision": "r"},
    })
}

pub(crate) fn pod(set: &str, ordinal: u32) -> Value {
    json!({
        "metadata": {"name": format!("{set}-{ordinal}"), "uid": format!("uid-{set}-{ordinal}"), "labels": {"controller-revision-hash": "r"},
            "ownerReferences": [{"kind": "StatefulSet", "name": set, "uid": format!("uid-{set}"), "controller": true}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "db", "ready": true, "state": {"running": {}}}]},
    })
}

#[allow(clippy::unnecessary_wraps, reason = "it is one of several answers")]
pub(crate) fn prepared(_: &Ask) -> Answered {
    Ok(Answer {
        status: 204,
        body: String::new(),
    })
}

#[allow(clippy::unnecessary_wraps, reason = "it is one of several answers")]
pub(crate) fn refused(_: &Ask) -> Answered {
    Ok(Answer {
        status: 500,
        body: "no".to_owned(),
    })
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let pods = ["a", "b"]
            .iter()
            .flat_map(|set| (0..3).map(|ordinal| pod(set, ordinal)));
        Self {
            sets: vec![set("a"), set("b")],
            pods: pods.collect(),
            tracker: None,
            record: Some(Record::default()),
            now: at("2026-01-01T00:00:00Z"),
            conflicts: 0,
            answers: prepared,
            done: Vec::new(),
        }
    }

    /// A review of a downscale of a set.
    pub(crate) fn review(&self, uid: &str, name: &str, to: u32) -> Request {
        let old = self
            .sets
            .iter()
            .find(|set| set["metadata"]["name"] == name)
            .unwrap();
        let mut new = old.clone();
        new["spec"]["replicas"] = json!(to);
        request(&json!({
            "uid": uid, "name": name, "namespace": "test", "operation": "UPDATE",
            "resource": {"group": "apps", "version": "v1", "resource": "statefulsets"},
            "object": new, "oldObject": old,
        }))
    }

    pub(crate) fn downscale(&mut self, uid: &str, name: &str, to: u32) -> Response {
        let mut webhook = Prepare::new(self.review(uid, name, to), settings(), false);
        self.run(&mut webhook)
    }

    pub(crate) fn run(&mut self, webhook: &mut dyn Webhook) -> Response {
        self.go_on(webhook, Fact::Begin, |_| false)
            .unwrap_or_else(|_| panic!("it was to be answered"))
    }

    /// Runs until the answer, or until the first step at which to stop.
    pub(crate) fn go_on(
        &mut self,
        webhook: &mut dyn Webhook,
        fact: Fact,
        stops: fn(&Step) -> bool,
    ) -> Result<Response, Step> {
        let mut step = webhook.advance(fact, self.now);
        loop {
            if stops(&step) {
                return Err(step);
            }
            let fact = match step {
                Step::Answer(answer) => return Ok(answer),
                step => self.carry_out(step),
            };
            step = webhook.advance(fact, self.now);
        }
    }

    pub(crate) fn carry_out(&mut self, step: Step) -> Fact {
        match step {
            Step::Read(Read::Parent { name, .. }) => {
                let found = self
                    .sets
                    .iter()
                    .find(|set| set["metadata"]["name"] == name)
                    .cloned();
                Fact::Parent(found.ok_or_else(|| ReadError::NotFound(format!("{name} not found"))))
            }
            Step::Read(Read::Zones { .. }) => Fact::Zones(Box::new(self.zones())),
            Step::Write(write) => {
                let version = self.record.as_ref().map(|record| record.version.clone());
                if self.conflicts > 0 || version != write.version {
                    self.conflicts = self.conflicts.saturating_sub(1);
                    self.done.push("conflict".to_owned());
                    return Fact::Written(Err(WriteError::Conflict));
                }
                let operation = write.status.operation.as_ref();
                let operation = operation.map_or_else(
                    || "none".to_owned(),
                    |operation| {
                        format!(
                            "{}->{} {:?}",
                            operation.set,
                            operation.to.unwrap(),
                            operation.admission_uids
                        )
                    },
                );
                let times: Vec<&String> = write.status.last_downscale.keys().collect();
                self.done
                    .push(format!("write operation {operation} times {times:?}"));
                let version = format!("{}+", version.unwrap_or_default());
                self.record = Some(Record {
                    version: version.clone(),
                    status: write.status,
                });
                Fact::Written(Ok(version))
            }
            Step::Ask(asks) => {
                self.done.extend(
                    asks.iter()
                        .map(|ask| format!("{} {}", ask.method.as_str(), ask.url)),
                );
                Fact::Answers(asks.iter().map(self.answers).collect())
            }
            Step::Answer(_) => panic!("an answer is the last step"),
        }
    }

    pub(crate) fn zones(&self) -> Zones {
        let read = |values: &[Value]| {
            values
                .iter()
                .map(|value| Set::from_value(value).unwrap())
                .collect()
        };
        Zones {
            sets: Ok(read(&self.sets)),
            pods: Ok(self
                .pods
                .iter()
                .map(|pod| Pod::from_value(pod).unwrap())
                .collect()),
            tracker: Ok(self.tracker.clone()),
            record: Ok(self.record.clone()),
        }
    }
}

pub(crate) fn request(request: &Value) -> Request {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    Review::parse(review.to_string().as_bytes()).unwrap().request
}
