//! The API server of the admission tables: sets, pods, the ConfigMap of the zone tracker, and ZoneRollouts with
//! compare-and-swap.
//!
//! Where rollout-operator writes an annotation or the ConfigMap, muster writes the ZoneRollout: writes are compared by
//! their times, and errors of the former are injected into the latter. A ZoneRollout exists where the ConfigMap does;
//! without a zone tracker it always exists.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_zones::{
    admit::{
        Fact, Read, ReadError, Record, Request, Response, Review, Step, Webhook, Write, WriteError, Zones,
    },
    model::{Pod, Set},
    scale::{
        Settings,
        pods::{Answered, Ask},
        preparation::{PATH, PORT, PREPARE},
        times::{self, LAST_DOWNSCALE, Tracker},
    },
};
use serde_json::{Map, Value, json};

/// The annotation in which rollout-operator keeps its times.
#[derive(Clone)]
pub(super) enum Mode {
    Annotation,
    /// The name of the ConfigMap.
    Tracker(String),
}

pub(super) struct Store {
    sets: Vec<Value>,
    pods: Vec<Value>,
    config_map: Option<BTreeMap<String, String>>,
    records: BTreeMap<String, Record>,
    mode: Mode,
    errors: BTreeMap<String, String>,
    pub now: Timestamp,
    writes: Vec<Value>,
    /// Writes as they were sent.
    sent: Vec<Value>,
    /// When reviews were allowed.
    allowed: BTreeMap<String, Timestamp>,
}

impl Store {
    pub(super) fn new(
        objects: Vec<Value>,
        mode: Mode,
        errors: BTreeMap<String, String>,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let mut store = Self {
            sets: Vec::new(),
            pods: Vec::new(),
            config_map: None,
            records: BTreeMap::new(),
            mode,
            errors,
            now,
            writes: Vec::new(),
            sent: Vec::new(),
            allowed: BTreeMap::new(),
        };
        for object in objects {
            match object["kind"].as_str() {
                Some("StatefulSet") => store.sets.push(object),
                Some("Pod") => store.pods.push(object),
                Some("ConfigMap") => store.config_map = Some(serde_json::from_value(object["data"].clone())?),
                kind => bail!("unknown kind {kind:?}"),
            }
        }
        Ok(store)
    }

    /// One set with a number of pods, in no group.
    pub(super) fn of_one_set(pods: u32) -> Self {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "set", "namespace": "test", "uid": "uid-set",
                "labels": {PREPARE: "true"}, "annotations": {PORT: "80", PATH: "p"}},
            "spec": {"replicas": pods, "serviceName": "service"},
        });
        Self {
            sets: vec![set],
            pods: (0..pods).map(|ordinal| pod("set", "uid-set", ordinal)).collect(),
            config_map: None,
            records: BTreeMap::new(),
            mode: Mode::Annotation,
            errors: BTreeMap::new(),
            now: Timestamp::UNIX_EPOCH,
            writes: Vec::new(),
            sent: Vec::new(),
            allowed: BTreeMap::new(),
        }
    }

    pub(super) fn settings() -> Settings {
        Settings {
            namespace: "test".to_owned(),
            cluster_domain: "cluster.local.".to_owned(),
            timeout: SignedDuration::from_secs(10),
        }
    }

    /// Sets of upstream's tests have neither replicas nor pods: they are derived from the status and from the pods that
    /// leave.
    pub(super) fn add_what_upstream_leaves_out(&mut self, review: &Value) {
        let under_review = review["request"]["name"].as_str().unwrap_or_default().to_owned();
        for set in &mut self.sets {
            if !set["spec"]["replicas"].is_null() {
                continue;
            }
            let name = set["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            set["spec"]["replicas"] = set["status"]["replicas"].clone();
            set["metadata"]["uid"] = json!(name);
            let replicas = |object: &str| {
                review["request"][object]["spec"]["replicas"]
                    .as_u64()
                    .unwrap_or_default()
            };
            if name == under_review {
                let leaving =
                    (replicas("object")..replicas("oldObject")).filter_map(|ordinal| ordinal.try_into().ok());
                self.pods
                    .extend(leaving.map(|ordinal| pod(&name, &name, ordinal)));
            }
        }
    }

    pub(super) fn downscale_to_none(&self) -> Request {
        let replicas = self
            .sets
            .first()
            .and_then(|set| set["spec"]["replicas"].as_u64())
            .unwrap_or_default();
        self.review("review", "set", u32::try_from(replicas).unwrap(), 0)
            .unwrap()
    }

    /// A review of a scale-down of a set.
    pub(super) fn review(&self, uid: &str, set: &str, from: u32, to: u32) -> anyhow::Result<Request> {
        let stored = self.sets.iter().find(|stored| stored["metadata"]["name"] == set);
        let with = |replicas: u32| -> anyhow::Result<Value> {
            let mut object = stored.context("the set is there")?.clone();
            object["spec"]["replicas"] = json!(replicas);
            Ok(object)
        };
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": uid, "name": set, "namespace": "test", "operation": "UPDATE",
            "resource": {"group": "apps", "version": "v1", "resource": "statefulsets"},
            "object": with(to)?, "oldObject": with(from)?,
        }});
        Ok(Review::parse(review.to_string().as_bytes())
            .map_err(anyhow::Error::msg)?
            .request)
    }

    /// Runs a review until its response.
    pub(super) fn run(
        &mut self,
        webhook: &mut dyn Webhook,
        answered: &mut dyn FnMut(&Ask) -> Answered,
    ) -> anyhow::Result<Response> {
        let mut fact = Fact::Begin;
        loop {
            fact = match webhook.advance(fact, self.now) {
                Step::Answer(answer) => return Ok(answer),
                Step::Ask(asks) => Fact::Answers(asks.iter().map(&mut *answered).collect()),
                step => self.carry_out(step)?,
            };
        }
    }

    /// The reads and writes of a case.
    pub(super) fn carry_out(&mut self, step: Step) -> anyhow::Result<Fact> {
        Ok(match step {
            Step::Read(Read::Parent { resource, name, .. }) => Fact::Parent(self.parent(&resource, &name)),
            Step::Read(Read::Zones { group, set, .. }) => {
                Fact::Zones(Box::new(self.zones(group.as_deref(), &set)?))
            }
            Step::Write(write) => Fact::Written(self.write(*write)),
            step => bail!("{step:?} is for others"),
        })
    }

    fn parent(&self, resource: &str, name: &str) -> Result<Value, ReadError> {
        if let Some(error) = self.errors.get(&format!("get {resource}")) {
            return Err(ReadError::Failed(error.clone()));
        }
        let found = self
            .sets
            .iter()
            .find(|set| set["metadata"]["name"] == name)
            .cloned();
        found.ok_or_else(|| ReadError::NotFound(format!("{resource}.apps {name:?} not found")))
    }

    fn zones(&self, group: Option<&str>, name: &str) -> anyhow::Result<Zones> {
        let error = |request: &str| self.errors.get(request).cloned();
        let is_meant = |set: &&Value| match group {
            Some(group) => set["metadata"]["labels"]["rollout-group"] == group,
            None => set["metadata"]["name"] == name,
        };
        let sets = self.sets.iter().filter(is_meant).map(Set::from_value);
        let sets: Vec<Set> = sets.collect::<Result<_, _>>()?;
        let pods: Vec<Pod> = self.pods.iter().map(Pod::from_value).collect::<Result<_, _>>()?;
        let there_is_one = match &self.mode {
            Mode::Annotation => true,
            Mode::Tracker(_) => self.config_map.is_some() || !self.records.is_empty(),
        };
        let record = group.and_then(|group| self.records.get(group).cloned());
        let record = record.or_else(|| there_is_one.then(Record::default));
        Ok(Zones {
            sets: error("list statefulsets").map_or(Ok(sets), Err),
            pods: error("list pods").map_or(Ok(pods), Err),
            tracker: error("get configmaps").map_or_else(|| Ok(self.config_map.clone()), Err),
            record: Ok(record),
        })
    }

    fn write(&mut self, write: Write) -> Result<String, WriteError> {
        let present = self.records.get(&write.group).cloned();
        let record = present.clone().unwrap_or_default();
        let is_made = write.version.is_none();
        if write.version.is_some_and(|version| version != record.version) || (is_made && present.is_some()) {
            return Err(WriteError::Conflict);
        }
        let request = match &self.mode {
            Mode::Annotation => "patch statefulsets",
            Mode::Tracker(_) if is_made => "create configmaps",
            Mode::Tracker(_) => "update configmaps",
        };
        // Every write that keeps the operation records a time, even if it is the same one.
        let is_timed = is_made || record.status.operation == write.status.operation;
        let before = record.status.last_downscale;
        if let Some(error) = self.errors.get(request).filter(|_| is_timed) {
            return Err(WriteError::Failed(error.clone()));
        }
        if is_timed {
            self.record_write(is_made, &before, &write.status.last_downscale);
        }
        self.sent
            .push(json!({"target": format!("zonerollouts/{}", write.group)}));
        let version = format!("{}+", record.version);
        let record = Record {
            version: version.clone(),
            status: write.status,
        };
        self.records.insert(write.group, record);
        Ok(version)
    }

    /// A write of times, in the vocabulary of the table.
    fn record_write(
        &mut self,
        is_made: bool,
        before: &BTreeMap<String, Time>,
        after: &BTreeMap<String, Time>,
    ) {
        match self.mode.clone() {
            Mode::Annotation => {
                let changed = after.iter().filter(|(set, time)| before.get(*set) != Some(*time));
                self.writes.extend(changed.map(|(set, time)| {
                    let body = json!({"metadata": {"annotations": {LAST_DOWNSCALE: times::rfc3339(time.0)}}});
                    json!({"verb": "patch", "target": format!("statefulsets/{set}"), "type": "strategic-merge", "body": body.to_string()})
                }));
            }
            Mode::Tracker(name) => {
                let data = Tracker::written(&self.config_map.clone().unwrap_or_default(), after);
                let verb = if is_made { "create" } else { "update" };
                self.writes
                    .push(json!({"verb": verb, "target": format!("configmaps/{name}"), "body": data}));
            }
        }
    }

    pub(super) fn sent(&self) -> Vec<Value> {
        self.sent.clone()
    }

    pub(super) fn writes(&self) -> Vec<Value> {
        self.writes.clone()
    }

    /// The ConfigMap with all times.
    pub(super) fn config_map(&self) -> Value {
        let times = self
            .records
            .values()
            .flat_map(|record| record.status.last_downscale.clone())
            .collect();
        json!(Tracker::written(
            &self.config_map.clone().unwrap_or_default(),
            &times
        ))
    }

    /// The final times of all sets.
    pub(super) fn recorded(&self) -> Value {
        if let Mode::Tracker(_) = self.mode {
            return self.config_map();
        }
        let annotated = self.sets.iter().filter_map(|set| {
            let time = set["metadata"]["annotations"][LAST_DOWNSCALE].as_str()?;
            Some((set["metadata"]["name"].as_str()?.to_owned(), json!(time)))
        });
        let times = self
            .records
            .values()
            .flat_map(|record| record.status.last_downscale.clone());
        let times = times.map(|(set, time)| (set, json!(times::rfc3339(time.0))));
        Value::Object(annotated.chain(times).collect::<Map<_, _>>())
    }

    /// Applies an allowed change: the API server stores it, and the StatefulSet controller reconciles it.
    pub(super) fn scaled(&mut self, review: &str, name: &str, to: u32) {
        self.allowed.insert(review.to_owned(), self.now);
        for set in self.sets.iter_mut().filter(|set| set["metadata"]["name"] == name) {
            let generation = json!(set["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
            set["metadata"]["generation"] = generation.clone();
            set["spec"]["replicas"] = json!(to);
            set["status"]["observedGeneration"] = generation;
            for count in ["replicas", "readyReplicas", "updatedReplicas"] {
                set["status"][count] = json!(to);
            }
        }
        self.pods.retain(|pod| {
            let ordinal = pod["metadata"]["name"]
                .as_str()
                .and_then(|pod| pod.strip_prefix(name)?.strip_prefix('-'));
            ordinal
                .and_then(|ordinal| ordinal.parse::<u32>().ok())
                .is_none_or(|ordinal| ordinal < to)
        });
    }

    pub(super) fn allowed_at(&self, review: &str) -> Value {
        json!(self.allowed.get(review).map(|at| times::rfc3339(*at)))
    }
}

fn pod(set: &str, uid: &str, ordinal: u32) -> Value {
    json!({
        "metadata": {"name": format!("{set}-{ordinal}"), "uid": format!("{uid}-{ordinal}"),
            "ownerReferences": [{"kind": "StatefulSet", "name": set, "uid": uid, "controller": true}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}]},
    })
}
