//! Decides whether an eviction is allowed, with the codes, texts and reasons of rollout-operator.
//!
//! Without partitions: no other zone may be disturbed, and fewer pods of the pod's own zone than the limit. With
//! partitions: fewer pods of that partition in other zones than the limit. An allowed eviction is recorded before the
//! answer is sent, and the pod counts as not ready from then on.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::zonerollout::{InFlight, Operation, OperationKind, Why};
use serde_json::Value;

use super::{
    config::{Budget, Partition},
    known::KnownBudgets,
    message::Disturbed,
    ready::counts_as_ready,
};
use crate::model::{Pod, Set};

/// How long an allowed eviction counts if its pod keeps running: another webhook may have denied it.
pub const MEMORY: SignedDuration = SignedDuration::from_secs(120);

/// The request to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// The origin of the request.
    pub origin: EvictionOrigin,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrigin {
    /// The webhook `/admission/pod-eviction`.
    Eviction,
    /// The rollout in the same process, with the limit that applies if the budget's own limit is 0.
    Rollout(u32),
}

/// What was read for a request. An error is the API server's message.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The budgets of the namespace.
    pub budgets: &'a KnownBudgets,
    /// The pod to evict or delete.
    pub pod: Result<Pod, String>,
    /// The StatefulSet that controls the pod; `None` if the pod names no StatefulSet as its controller.
    pub owner: Option<Result<Set, String>>,
    /// The StatefulSets of the namespace.
    pub sets: Result<Vec<Set>, String>,
    /// The pods of the namespace.
    pub pods: Result<Vec<Pod>, String>,
    /// Pods in flight, as recorded in the ZoneRollouts of the namespace.
    pub in_flight: &'a [InFlight],
    /// Operations in progress, as recorded in the same ZoneRollouts: pods that a downscale removes may disappear at any
    /// time.
    pub operations: &'a [Operation],
    /// The current time.
    pub now: Timestamp,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The reason: the label `reason` of `rollout_operator_zpdb_eviction_requests_total`.
    pub reason: Reason,
    /// Message for the user if the eviction is denied; a warning if it is allowed; may be empty.
    pub message: String,
    /// The entry to record before the answer is sent.
    pub record: Option<Box<InFlight>>,
}

/// Why an eviction is allowed or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The budget is met.
    Allowed,
    /// The pod serves no traffic: pending, finished, or being deleted.
    PodNotReady,
    /// No budget selects the pod.
    PodNotInScope,
    /// Not a request to evict a pod.
    InvalidRequest,
    /// The pod cannot be read.
    PodNotFound,
    /// More than one budget selects the pod.
    ManyBudgets,
    /// The pod's StatefulSet cannot be read, or its controller is not a StatefulSet.
    SetNotFound,
    /// The limit is 0.
    LimitZero,
    /// Fewer than two zones are known.
    TooFewSets,
    /// The expression does not match the pod's name.
    PartitionNotIdentified,
    /// Pods of the zones cannot be read.
    PodsNotRead,
    /// The limit is reached, or another zone is disturbed.
    Denied,
}

impl EvictionOrigin {
    /// How an allowed pod is removed, for the record.
    fn why(self) -> Why {
        match self {
            Self::Eviction => Why::Eviction,
            Self::Rollout(_) => Why::Deletion,
        }
    }
}

impl Reason {
    /// Value of the label `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::PodNotReady => "pod-not-ready",
            Self::PodNotInScope => "pod-not-in-scope",
            Self::InvalidRequest => "invalid-request",
            Self::PodNotFound => "pod-not-found",
            Self::ManyBudgets => "cfg-not-found",
            Self::SetNotFound => "sts-no-found",
            Self::LimitZero => "max-unavailable-0",
            Self::TooFewSets => "min-sts-not-found",
            Self::PartitionNotIdentified => "partition-not-identified",
            Self::PodsNotRead => "err: sts-pod-status-not-determined",
            Self::Denied => "denied",
        }
    }

    /// The status code of the answer, and the value of the label `status`.
    pub fn code(self) -> u16 {
        match self {
            Self::Allowed | Self::PodNotReady | Self::PodNotInScope => 200,
            Self::InvalidRequest
            | Self::PodNotFound
            | Self::ManyBudgets
            | Self::TooFewSets
            | Self::PartitionNotIdentified => 400,
            Self::LimitZero => 403,
            Self::Denied => 429,
            Self::SetNotFound | Self::PodsNotRead => 500,
        }
    }
}

impl Verdict {
    /// Whether the eviction is allowed.
    pub fn allowed(&self) -> bool {
        self.reason.code() == 200
    }

    fn of(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            record: None,
        }
    }
}

impl Request {
    /// Reads the `request` of an AdmissionReview; if a field is missing, the error is the answer.
    pub fn from_review(request: &Value) -> Result<Self, Verdict> {
        let text = |key: &str| request[key].as_str().unwrap_or_default();
        let refuse = |message: String| Err(Verdict::of(Reason::InvalidRequest, message));
        if text("operation") != "CREATE" {
            return refuse(format!(
                "request operation is not create, got: {}",
                text("operation")
            ));
        }
        if text("subResource") != "eviction" {
            return refuse(format!(
                "request SubResource is not eviction, got: {}",
                text("subResource")
            ));
        }
        if text("namespace").is_empty() || text("name").is_empty() {
            return refuse("request did not include both a namespace and a name".to_owned());
        }
        Ok(Self {
            namespace: text("namespace").to_owned(),
            name: text("name").to_owned(),
            dry_run: request["dryRun"].as_bool().unwrap_or_default(),
            origin: EvictionOrigin::Eviction,
        })
    }
}

/// Whether a recorded pod may still be removed. A deletion ends only with its pod, or with the resourceVersion that it
/// is bound to: a late delete request of a former leader must find its entry. An eviction may be denied by another
/// webhook, so it ends when its pod stops running, or after [`MEMORY`]. Entries that have ended must be removed: a pod
/// that runs again must not count a second time.
pub fn is_under_way(entry: &InFlight, pod: Option<&Pod>, now: Timestamp) -> bool {
    let may_go = |pod: &Pod| match (entry.why, &entry.resource_version) {
        (Why::Deletion, None) => true,
        (Why::Deletion, version) => pod.stuck_version == *version,
        (Why::Eviction, _) => pod.phase == "Running",
    };
    pod.is_some_and(|pod| pod.uid == entry.uid && may_go(pod)) && counts(entry, now)
}

/// Records an allowed removal. An earlier deletion entry of the same pod is kept: the deletion may arrive after the
/// eviction has ceased to count.
pub fn put_on_record(in_flight: &mut Vec<InFlight>, record: InFlight) {
    in_flight.retain(|entry| entry.uid != record.uid || entry.why != record.why);
    in_flight.push(record);
}

fn counts(entry: &InFlight, now: Timestamp) -> bool {
    entry.why == Why::Deletion || now.duration_since(entry.since.0) < MEMORY
}

/// Decides a request to evict or delete a pod.
pub fn judge(request: &Request, facts: &Facts<'_>) -> Verdict {
    decide(request, facts).unwrap_or_else(|refusal| refusal)
}

fn decide(request: &Request, facts: &Facts<'_>) -> Result<Verdict, Verdict> {
    let refuse = |reason: Reason| move |message: &String| Verdict::of(reason, message);
    let pod = facts.pod.as_ref().map_err(refuse(Reason::PodNotFound))?;
    if pod.terminating || ["Pending", "Succeeded", "Failed"].contains(&pod.phase.as_str()) {
        return Ok(Verdict::of(Reason::PodNotReady, "pod is not ready"));
    }
    let budget = match facts.budgets.find(&pod.labels) {
        Ok(Some(budget)) => budget,
        Ok(None) => return Ok(Verdict::of(Reason::PodNotInScope, "")),
        Err(many) => return Err(Verdict::of(Reason::ManyBudgets, many.to_string())),
    };
    let own = owner(pod, facts)?;
    let limit = match (budget.limit.pods(own), request.origin) {
        (0, EvictionOrigin::Rollout(instead)) => instead,
        (limit, _) => limit,
    };
    if limit == 0 {
        return Err(Verdict::of(Reason::LimitZero, "max unavailable = 0"));
    }
    let zones = zones(budget, facts)
        .ok_or_else(|| Verdict::of(Reason::TooFewSets, "minimum number of StatefulSets not found"))?;
    if let Some(set) = scaled_down(&zones, facts) {
        let message = format!("a downscale of {set} is under way");
        return Err(Verdict::of(Reason::Denied, message));
    }
    let partition = Partition::of(budget.partition.as_ref(), &pod.name)
        .map_err(|error| Verdict::of(Reason::PartitionNotIdentified, error.to_string()))?;
    let pods = facts.pods.as_ref().map_err(|_| {
        Verdict::of(
            Reason::PodsNotRead,
            "unable to determine pod status in related StatefulSet",
        )
    })?;
    let count = Count {
        budget,
        pod,
        pods,
        in_flight: facts.in_flight,
        now: facts.now,
    };
    let disturbed = match &partition {
        None => count.by_zone(own, &zones, limit)?,
        Some(partition) => count.by_partition(own, &zones, limit, partition),
    };
    if let Some(message) = disturbed {
        return Err(Verdict::of(Reason::Denied, message));
    }
    Ok(Verdict {
        record: (!request.dry_run).then(|| {
            Box::new(InFlight {
                pod: pod.name.clone(),
                uid: pod.uid.clone(),
                set: own.name.clone(),
                resource_version: None,
                why: request.origin.why(),
                since: Time(facts.now),
            })
        }),
        ..Verdict::of(Reason::Allowed, "")
    })
}

/// The StatefulSet that controls the pod.
fn owner<'a>(pod: &Pod, facts: &'a Facts<'_>) -> Result<&'a Set, Verdict> {
    let refuse = |message: String| Verdict::of(Reason::SetNotFound, message);
    let Some(owner) = &pod.controller else {
        return Err(refuse("unable to find a StatefulSet pod owner".to_owned()));
    };
    if owner.kind != "StatefulSet" {
        return Err(refuse(format!(
            "pod owner is not a StatefulSet - {} has owner {} ({})",
            pod.name, owner.name, owner.kind
        )));
    }
    match &facts.owner {
        Some(Ok(set)) if set.owns(pod) => Ok(set),
        Some(Ok(set)) => Err(refuse(format!(
            "StatefulSet {} is not the one that controls pod {}: it was deleted and created again",
            set.name, pod.name
        ))),
        Some(Err(error)) => Err(refuse(format!(
            "unable to find StatefulSet {} by name: {error}",
            owner.name
        ))),
        None => Err(refuse(format!(
            "unable to find StatefulSet {} by name",
            owner.name
        ))),
    }
}

/// The StatefulSets that the budget selects, by name; `None` if they are unknown, or fewer than two.
fn zones<'a>(budget: &Budget, facts: &'a Facts<'_>) -> Option<Vec<&'a Set>> {
    let sets = facts.sets.as_ref().ok()?;
    let mut zones: Vec<&Set> = sets.iter().filter(|set| budget.selects(&set.labels)).collect();
    zones.sort_by(|one, other| one.name.cmp(&other.name));
    (zones.len() > 1).then_some(zones)
}

/// The zone that is being scaled down, if any: no other zone may be disturbed at the same time, and a pod in this zone
/// that was prepared to leave loses its preparation when it is re-created.
fn scaled_down<'a>(zones: &[&Set], facts: &Facts<'a>) -> Option<&'a str> {
    let is_of_zones = |operation: &&Operation| {
        operation.kind == OperationKind::Downscaling && zones.iter().any(|zone| zone.uid == operation.set_uid)
    };
    let operation = facts.operations.iter().find(is_of_zones)?;
    Some(&operation.set)
}

/// Input for counting the disturbed pods.
struct Count<'a> {
    budget: &'a Budget,
    pod: &'a Pod,
    pods: &'a [Pod],
    in_flight: &'a [InFlight],
    now: Timestamp,
}

impl Count<'_> {
    /// The first other zone that is disturbed, or the pod's own zone if its limit is reached.
    fn by_zone(&self, own: &Set, zones: &[&Set], limit: u32) -> Result<Option<String>, Verdict> {
        if !zones.iter().any(|zone| zone.uid == own.uid) {
            let message = format!(
                "ZoneAwarePodDisruptionBudget {} does not select StatefulSet {}: its pods cannot be counted",
                self.budget.name, own.name
            );
            return Err(Verdict::of(Reason::SetNotFound, message));
        }
        for zone in zones.iter().filter(|zone| zone.uid != own.uid) {
            let disturbed = self.zone(zone, SignedDuration::ZERO, |_| true).0;
            if disturbed.sum() > 0 {
                return Ok(Some(disturbed.text(&zone.name)));
            }
        }
        let disturbed = self.zone(own, SignedDuration::ZERO, |_| true).0;
        if disturbed.sum() >= limit {
            return Ok(Some(disturbed.text(&own.name)));
        }
        let shrinking = zones.iter().find(|zone| self.has_surplus(zone));
        Ok(shrinking.map(|zone| format!("a downscale of {} is under way", zone.name)))
    }

    /// Whether a zone has surplus pods because it was scaled down: its controller removes them at any time, regardless
    /// of the record.
    fn has_surplus(&self, zone: &Set) -> bool {
        let mut pods = self.pods.iter();
        pods.any(|pod| zone.owns(pod) && zone.is_surplus(pod))
    }

    /// A description of the partition's disturbed pods in the other zones, if their number reaches the limit.
    fn by_partition(&self, own: &Set, zones: &[&Set], limit: u32, partition: &str) -> Option<String> {
        let mut sum = Disturbed::default();
        for zone in zones.iter().filter(|zone| zone.uid != own.uid) {
            let expression = self.budget.partition.as_ref();
            let of_partition = |pod: &Pod| {
                Partition::of(expression, &pod.name).is_ok_and(|of| of.as_deref() == Some(partition))
            };
            let (disturbed, counted) = self.zone(zone, self.budget.delay, of_partition);
            sum.not_ready += disturbed.not_ready;
            // Each zone has one pod of each partition: if none was found, the pod is unknown.
            let absent = counted == 0 && disturbed.sum() == 0;
            sum.unknown += disturbed.unknown + u32::from(absent);
        }
        (sum.sum() >= limit).then(|| sum.text(&format!("partition {partition}")))
    }

    /// The number of disturbed pods among the given pods of a zone, and the number of counted pods. Missing pods count
    /// regardless of the filter.
    fn zone(&self, zone: &Set, delay: SignedDuration, which: impl Fn(&Pod) -> bool) -> (Disturbed, u32) {
        let of_zone: Vec<&Pod> = self.pods.iter().filter(|pod| zone.owns(pod)).collect();
        let counted: Vec<&&Pod> = of_zone.iter().filter(|pod| which(pod)).collect();
        // The pod itself is removed anyway, ready or not.
        let disturbed = |pod: &&&&Pod| {
            pod.uid != self.pod.uid && !counts_as_ready(pod, self.evicted(pod), delay, self.now)
        };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let disturbed = Disturbed {
            not_ready: number(counted.iter().filter(disturbed).count()),
            unknown: zone.expected_pods().saturating_sub(number(of_zone.len())),
        };
        (disturbed, number(counted.len()))
    }

    fn evicted(&self, pod: &Pod) -> bool {
        self.in_flight
            .iter()
            .any(|entry| entry.uid == pod.uid && counts(entry, self.now))
    }
}
