//! The webhooks: a request to the admission server is parsed, reviewed step by step, and answered.
//!
//! `no-downscale` and `zpdb-validation` are answered by every replica. `prepare-downscale` and `pod-eviction` write,
//! and are answered only while this process certainly holds its lease: other replicas deny them, and the client
//! retries.

use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use http::StatusCode;
use kube::ResourceExt;
use muster_api::{
    ZoneRollout,
    labels::label::ROLLOUT_GROUP,
    names,
    zonerollout::{InFlight, Operation},
};
use muster_zones::{
    admit::{
        Fact, Read, Request, Response, Review, Step, Webhook, Write, WriteError,
        no_downscale::NoDownscale,
        prepare::Prepare,
        serve::{self, HttpAnswer},
    },
    budget::{self, Facts, Verdict},
    model::{Pod, Set},
    scale::times::begun,
};
use serde_json::Value;

use super::{Error, Zones, act, pods::ask_all, read::answered};
use crate::{
    admission::server::{Answer, Answers, WebhookRequest},
    lease::Leadership,
    runtime::{CallError, call::error_chain},
};

/// The paths of the webhooks: those of rollout-operator.
pub mod path {
    /// Denies a downscale of objects with the label `grafana.com/no-downscale`.
    pub const NO_DOWNSCALE: &str = "/admission/no-downscale";
    /// Prepares a downscale of objects with the label `grafana.com/prepare-downscale`.
    pub const PREPARE_DOWNSCALE: &str = "/admission/prepare-downscale";
    /// Reviews evictions.
    pub const POD_EVICTION: &str = "/admission/pod-eviction";
    /// Validates ZoneAwarePodDisruptionBudgets.
    pub const ZPDB_VALIDATION: &str = "/admission/zpdb-validation";
}

/// How many times an eviction is judged again after a conflict of the record.
const TRIES: usize = 5;
/// The response if another process is the leader.
const NOT_LEADING: &str = "this replica of muster zones is not the leader, or cannot be sure of it: retry";

/// The handler of reviews.
pub struct Reviews {
    zones: Arc<Zones>,
    /// The right to answer reviews that write; not set before this process is the leader.
    leadership: OnceLock<Option<Leadership>>,
}

impl Reviews {
    /// The handler of a process that is not the leader yet.
    pub fn new(zones: Arc<Zones>) -> Arc<Self> {
        Arc::new(Self {
            zones,
            leadership: OnceLock::new(),
        })
    }

    /// Marks this process as the leader; without a lease it is the only process.
    pub fn lead(&self, leadership: Option<Leadership>) {
        // A process becomes the leader once: a second call is unreachable.
        let _ = self.leadership.set(leadership);
    }

    /// The handlers for the admission server.
    pub fn answers(self: &Arc<Self>) -> Answers {
        let reviews = Arc::clone(self);
        Arc::new(move |webhook_request| {
            let reviews = Arc::clone(&reviews);
            async move { reviews.answer(webhook_request).await }.boxed()
        })
    }

    async fn answer(&self, webhook_request: WebhookRequest) -> Answer {
        let route = match webhook_request.path.as_str() {
            path::NO_DOWNSCALE => "admission-no-downscale",
            path::PREPARE_DOWNSCALE => "admission-prepare-downscale",
            path::POD_EVICTION => "admission-pod-eviction",
            path::ZPDB_VALIDATION => "admission-zpdb-validation",
            _ => return Answer::text(StatusCode::NOT_FOUND, "404 page not found"),
        };
        let metrics = &self.zones.metrics;
        let mut reviewing =
            metrics.review(webhook_request.method.as_str(), route, webhook_request.body.len());
        let answer = match serve::read(&webhook_request.content_type, &webhook_request.body) {
            Ok(review) => {
                let response = self.review(&webhook_request, &review).await;
                serve::write(&review, &response)
            }
            Err(refusal) => refusal,
        };
        reviewing.answered(answer.status, answer.body.len());
        http(answer)
    }

    async fn review(&self, webhook_request: &WebhookRequest, review: &Review) -> Response {
        let request = review.request.clone();
        match webhook_request.path.as_str() {
            path::NO_DOWNSCALE => self.steps(NoDownscale::new(request)).await,
            path::PREPARE_DOWNSCALE if !self.leads() => not_leading(),
            path::PREPARE_DOWNSCALE => self.prepare(request).await,
            path::ZPDB_VALIDATION => validate(&request),
            _ => self.evict(webhook_request, &request).await,
        }
    }

    fn leads(&self) -> bool {
        let leadership = self.leadership.get();
        leadership.is_some_and(|leadership| leadership.as_ref().is_none_or(|right| right.check().is_ok()))
    }

    async fn prepare(&self, request: Request) -> Response {
        let zones = &self.zones;
        if request.namespace != zones.settings.namespace {
            return other_namespace(&request.namespace, &zones.settings.namespace);
        }
        let use_zone_tracker = zones.settings.use_zone_tracker;
        self.steps(Prepare::new(request, zones.scaling(), use_zone_tracker))
            .await
    }

    /// Runs the steps of a review until it is answered: the number of steps is bounded.
    async fn steps(&self, mut webhook: impl Webhook) -> Response {
        let zones = &self.zones;
        let mut fact = Fact::Begin;
        loop {
            fact = match webhook.advance(fact, zones.clock.now()) {
                Step::Answer(response) => return response,
                Step::Read(Read::Parent {
                    resource,
                    name,
                    namespace,
                }) => Fact::Parent(zones.reader.parent(&namespace, &resource, &name).await),
                Step::Read(Read::Zones { group, set, .. }) => Fact::Zones(Box::new(
                    zones
                        .reader
                        .zones(group.as_deref(), &set, zones.clock.now())
                        .await,
                )),
                Step::Write(write) => Fact::Written(self.write(*write).await),
                Step::Ask(requests) => Fact::Answers(ask_all(&*zones.pods, &requests).await),
            };
        }
    }

    async fn write(&self, write: Write) -> Result<String, WriteError> {
        let zones = &self.zones;
        let refused = |error: CallError| {
            if error.is_conflict() {
                WriteError::Conflict
            } else {
                WriteError::Failed(answered(&error))
            }
        };
        let version = if let Some(version) = write.version {
            version
        } else {
            let made = act::create_rollout(zones, &write.group).await.map_err(refused)?;
            let made = made.ok_or(WriteError::Conflict)?;
            made.resource_version().unwrap_or_default()
        };
        act::replace_status(zones, &write.group, &version, write.status)
            .await
            .map_err(refused)
    }

    async fn evict(&self, webhook_request: &WebhookRequest, request: &Request) -> Response {
        let metrics = &self.zones.metrics;
        metrics.evicting();
        let verdict = self.judged(webhook_request, request).await;
        metrics.evicted(verdict.as_ref().ok());
        match verdict {
            Ok(verdict) if verdict.allowed() => Response {
                warnings: Some(verdict.message)
                    .into_iter()
                    .filter(|text| !text.is_empty())
                    .collect(),
                ..Response::allow()
            },
            Ok(verdict) => Response {
                code: Some(verdict.reason.code()),
                ..Response::deny(verdict.message)
            },
            Err(response) => response,
        }
    }

    /// The verdict on an eviction, recorded if it is allowed; or a response without a verdict.
    async fn judged(&self, webhook_request: &WebhookRequest, request: &Request) -> Result<Verdict, Response> {
        let zones = &self.zones;
        // It was parsed from JSON already.
        let body: Value = serde_json::from_slice(&webhook_request.body).unwrap_or_default();
        let eviction = match budget::Request::from_review(&body["request"]) {
            Ok(eviction) => eviction,
            Err(verdict) => return Ok(verdict),
        };
        if !self.leads() {
            return Err(not_leading());
        }
        if !zones.rows.knows_budgets() {
            return Err(too_many("the budgets of the namespace are not read yet: retry"));
        }
        if request.namespace != zones.settings.namespace {
            return Err(other_namespace(&request.namespace, &zones.settings.namespace));
        }
        let _turn = zones.turn.lock().await;
        for _ in 0..TRIES {
            let judged = self.judge(&eviction).await.map_err(|error| unread(&error))?;
            let Some(record) = judged.verdict.record.clone() else {
                return Ok(judged.verdict);
            };
            match self.record(&judged, *record).await {
                Ok(()) => return Ok(judged.verdict),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(unread(&error)),
            }
        }
        Err(too_many(&format!(
            "the ZoneRollout was changed by another writer in each of {TRIES} tries: retry"
        )))
    }

    /// Reads everything, ZoneRollouts first, and judges.
    async fn judge(&self, eviction: &budget::Request) -> Result<Judged, Error> {
        let zones = &self.zones;
        let rollouts = zones.reader.rollouts().await?;
        let now = zones.clock.now();
        let words = |error: Error| match &error {
            Error::Call(call) => answered(call),
            error => error_chain(error),
        };
        let pod = zones.reader.pod(&eviction.name).await.map_err(words);
        let sets = zones.reader.sets().await.map(|(sets, _)| sets).map_err(words);
        let pods = zones.reader.pods().await.map_err(words);
        if let Ok(pods) = &pods {
            let is_under_way = |entry: &InFlight| {
                budget::is_under_way(entry, pods.iter().find(|pod| pod.uid == entry.uid), now)
            };
            zones.evicted.lock().retain(is_under_way);
        }
        let owner = owner(pod.as_ref().ok(), &sets);
        let set = owner.as_ref().and_then(|owner| owner.as_ref().ok());
        let group = set.and_then(|set| set.labels.get(ROLLOUT_GROUP)).cloned();
        let known = zones.rows.budgets.read().clone();
        let all = sets.clone().unwrap_or_default();
        let verdict = budget::judge(
            eviction,
            &Facts {
                budgets: &known,
                owner,
                pod,
                sets,
                pods,
                in_flight: &zones.in_flight(&rollouts),
                operations: &operations(&rollouts),
                now,
            },
        );
        Ok(Judged {
            verdict,
            group,
            rollouts,
            sets: all,
        })
    }

    /// Records an allowed eviction in the ZoneRollout of the pod's group.
    async fn record(&self, judged: &Judged, record: InFlight) -> Result<(), Error> {
        let zones = &self.zones;
        let Some(group) = &judged.group else {
            zones.evicted.lock().push(record);
            return Ok(());
        };
        let name = names::zone_rollout_name(group);
        let mut rollouts = judged.rollouts.iter();
        let Some(rollout) = rollouts.find(|rollout| rollout.name_any() == name) else {
            // It is created, and everything is read again.
            act::create_rollout(zones, group).await?;
            return Err(Error::Conflicts(name, 1));
        };
        let of_group = |set: &&Set| set.labels.get(ROLLOUT_GROUP) == Some(group);
        let sets: Vec<Set> = judged.sets.iter().filter(of_group).cloned().collect();
        let mut status = begun(rollout.status.as_ref(), &sets, zones.clock.now());
        budget::put_on_record(&mut status.in_flight, record);
        let version = rollout.resource_version().unwrap_or_default();
        act::replace_status(zones, group, &version, status).await?;
        Ok(())
    }
}

/// A verdict, and its input.
struct Judged {
    verdict: Verdict,
    /// The group of the pod's set, if it is in one.
    group: Option<String>,
    /// All StatefulSets.
    sets: Vec<Set>,
    /// The ZoneRollouts, which were read first.
    rollouts: Vec<ZoneRollout>,
}

/// The in-flight evictions and deletions in the groups of the namespace.
pub(super) fn operations(rollouts: &[ZoneRollout]) -> Vec<Operation> {
    let statuses = rollouts.iter().filter_map(|rollout| rollout.status.as_ref());
    statuses.filter_map(|status| status.operation.clone()).collect()
}

fn is_conflict(error: &Error) -> bool {
    match error {
        Error::Call(error) => error.is_conflict(),
        Error::Conflicts(..) => true,
        _ => false,
    }
}

/// The set that a pod names as its controller.
fn owner(pod: Option<&Pod>, sets: &Result<Vec<Set>, String>) -> Option<Result<Set, String>> {
    let owner = pod?.controller.as_ref()?;
    match sets {
        Err(error) => Some(Err(error.clone())),
        Ok(sets) => {
            let found = sets.iter().find(|set| set.name == owner.name).cloned();
            Some(found.ok_or_else(|| format!("statefulsets.apps {:?} not found", owner.name)))
        }
    }
}

/// Accepted if valid, or rejected with 400.
fn validate(request: &Request) -> Response {
    match budget::validate(request.object.as_ref().unwrap_or(&Value::Null)) {
        Ok(()) => Response::allow(),
        Err(error) => Response {
            code: Some(400),
            ..Response::deny(error.to_string())
        },
    }
}

fn not_leading() -> Response {
    too_many(NOT_LEADING)
}

fn unread(error: &Error) -> Response {
    Response {
        code: Some(500),
        ..Response::deny(error_chain(error))
    }
}

/// The client retries: kubectl drain does so every five seconds.
fn too_many(why: &str) -> Response {
    Response {
        code: Some(429),
        ..Response::deny(why.to_owned())
    }
}

fn other_namespace(namespace: &str, ours: &str) -> Response {
    Response::deny(format!(
        "muster zones works in namespace {ours}, and got a request for {namespace}: add a namespaceSelector to its webhooks"
    ))
}

fn http(answer: HttpAnswer) -> Answer {
    Answer {
        status: StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        content_type: answer.content_type,
        body: answer.body.into_bytes(),
    }
}
