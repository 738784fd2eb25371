//! `/admission/prepare-downscale`: pods are asked to prepare for shutdown before they are removed, one zone at a time.
//!
//! ```text
//!   read the parent of a scale ─► read the group ─► take the operation ─► ask the pods ─► put the time on record ─► allow
//!                                                        │ conflict: read again              │ conflict: read again
//!                          a pod, or the record, fails ─► leave the operation ─► un-prepare ─► release ─► deny
//! ```
//!
//! The set under review is never written: its resourceVersion must remain the one that the client has (GX6).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    labels::label::ROLLOUT_GROUP,
    zonerollout::{ZoneRolloutSpec, ZoneRolloutStatus},
};
use serde_json::Value;

use super::{
    Fact, Read, ReadError, Record, Step, Webhook, Write, WriteError, Zones, checks, refused_to_go_on,
    review::{Request, Response},
    scaled::{Kind, NotRead, Scaled, replicas_change, unsupported},
};
use crate::{
    model::Group,
    scale::{
        Settings,
        operation::{self, Downscale, Taken},
        pods::{AT_ONCE, Answer, Answered, Ask, Method},
        preparation::Preparation,
        times::{Times, Tracker, begun, seconds},
    },
};

/// How often the group is read again after a conflict.
const TRIES: u8 = 5;

/// The review of one request.
#[derive(Clone, Debug)]
pub struct Prepare {
    request: Request,
    settings: Settings,
    use_zone_tracker: bool,
    state: State,
    tries: u8,
}

/// The downscale, once its set has been read.
#[derive(Clone, Debug)]
struct Job {
    downscale: Downscale,
    group: Option<String>,
    preparation: Preparation,
    /// Requests to the pods that leave.
    posts: Vec<Ask>,
}

/// The fact that the review waits for, and the data that it needs afterwards.
#[derive(Clone, Debug)]
enum State {
    Begin,
    Parent(u32, u32),
    Checks(Job),
    Create(Job),
    Take(Job, Record),
    /// The number of pods that were asked so far, and the number in this step. Without a record the set is not in a
    /// group.
    Ask(Job, Option<Record>, usize, usize),
    /// The record before the write.
    Confirm(Job, Record),
    ConfirmAgain(Job),
    /// The last field is the reason why the downscale is denied.
    Leave(Job, Record, String),
    LeaveAgain(Job, String),
    /// The last field is the number of pods that were asked to cancel their preparation.
    Undo(Job, Option<Record>, String, usize),
    Release(Job, String),
    Done,
}

impl Prepare {
    /// Starts the review of a received request. `use_zone_tracker` is the flag of that name; it determines the texts of
    /// errors.
    pub fn new(request: Request, mut settings: Settings, use_zone_tracker: bool) -> Self {
        settings.namespace.clone_from(&request.namespace);
        Self {
            request,
            settings,
            use_zone_tracker,
            state: State::Begin,
            tries: 0,
        }
    }

    fn begin(&mut self) -> Step {
        if self.request.dry_run {
            return Step::Answer(Response::allow());
        }
        let warn = |which: &str, error: &NotRead| {
            let error = error.message();
            Step::Answer(Response::warn(format!(
                "can't decode {which} object, allowing the change, err: {error}"
            )))
        };
        let old = match Scaled::parse(self.request.old_object.as_ref()) {
            Ok(old) => old,
            Err(error) => return warn("old", &error),
        };
        let new = match Scaled::parse(self.request.object.as_ref()) {
            Ok(new) => new,
            Err(error) => return warn("new", &error),
        };
        if let Some(response) = replicas_change(old.replicas, new.replicas) {
            return Step::Answer(response);
        }
        let count = |replicas: Option<i32>| u32::try_from(replicas.unwrap_or_default()).unwrap_or_default();
        let (from, to) = (count(old.replicas), count(new.replicas));
        match old.kind {
            Kind::StatefulSet => self.set(from, to, &old),
            Kind::Scale if self.request.resource == "statefulsets" => {
                self.state = State::Parent(from, to);
                Step::Read(Read::Parent {
                    resource: self.request.resource.clone(),
                    namespace: self.request.namespace.clone(),
                    name: self.request.name.clone(),
                })
            }
            Kind::Scale => open(&format!("unsupported resource {}", self.request.resource)),
            Kind::Deployment | Kind::ReplicaSet => {
                open(&unsupported(old.kind.api_version(), old.kind.as_str()))
            }
        }
    }

    /// The parent of a scale. If it does not exist there are no pods to lose; if it cannot be read there may be some.
    fn parent(&mut self, (from, to): (u32, u32), parent: Result<Value, ReadError>) -> Step {
        let error = match parent.map(|parent| Scaled::of(Kind::StatefulSet, &parent)) {
            Err(ReadError::NotFound(error)) => return open(&error),
            Ok(Ok(parent)) => return self.set(from, to, &parent),
            Err(ReadError::Failed(error)) => error,
            Ok(Err(error)) => error.message().to_owned(),
        };
        self.deny((from, to), &format!("reading the statefulset failed: {error}"))
    }

    fn set(&mut self, from: u32, to: u32, set: &Scaled) -> Step {
        let preparation = match set.preparation() {
            None => return Step::Answer(Response::allow()),
            Some(Err(why)) => return self.deny((from, to), &why),
            Some(Ok(preparation)) => preparation,
        };
        let group = set.labels.get(ROLLOUT_GROUP).filter(|group| !group.is_empty());
        let job = Job {
            downscale: Downscale {
                set: self.request.name.clone(),
                set_uid: set.uid.clone(),
                generation: set.generation,
                from,
                to,
            },
            group: group.cloned(),
            preparation,
            posts: Vec::new(),
        };
        self.read(job, State::Checks)
    }

    /// Reads the group, and continues with `state`.
    fn read(&mut self, job: Job, state: impl FnOnce(Job) -> State) -> Step {
        let read = Read::Zones {
            namespace: self.request.namespace.clone(),
            group: job.group.clone(),
            set: self.request.name.clone(),
        };
        self.state = state(job);
        Step::Read(read)
    }

    /// All checks that precede requests to pods, in the order of rollout-operator.
    fn check(&mut self, mut job: Job, zones: Zones, now: Timestamp) -> Step {
        let Ok(sets) = zones.sets else {
            return self.deny(job.range(), "finding other statefulsets failed.");
        };
        let tracker = zones
            .tracker
            .and_then(|data| Tracker::parse(&data.unwrap_or_default()));
        let (Ok(tracker), Ok(record)) = (tracker, zones.record) else {
            return self.deny(job.range(), checks::NOT_LOADED);
        };
        if record.is_none() && job.group.is_some() {
            // The record was lost, or never existed: the whole group waits.
            let write = self.write(&job, None, begun(None, &sets, now));
            self.state = State::Create(job);
            return write;
        }
        let record = record.unwrap_or_default();
        let pods = zones.pods.as_deref().unwrap_or_default();
        let group = job.group.clone().unwrap_or_default();
        let mut view = Group::new(&group, sets, pods).with(ZoneRolloutSpec::default(), record.status.clone());
        // If no pass has observed the completion of an operation yet, it was completed before it expired.
        let expires = record
            .status
            .operation
            .as_ref()
            .and_then(|present| present.expires.as_ref());
        operation::settle(&mut view, expires.map_or(now, |expires| expires.0.min(now)));
        let Some(set) = view.set(&self.request.name) else {
            return self.deny(job.range(), "the statefulset was not found.");
        };
        let times = Times {
            record: &view.status.last_downscale,
            tracker: &tracker,
        };
        let in_group = job.group.is_some();
        let others = checks::times(&view, &set.name, times, now).filter(|_| in_group);
        let held_up = || checks::held_up(&view, &set.name).filter(|_| in_group);
        let why = match &zones.pods {
            _ if others.is_some() => others,
            Err(_) => Some(checks::PODS_NOT_READ.to_owned()),
            Ok(_) => held_up().map(|held_up| held_up.message()),
        };
        if let Some(why) = why {
            return self.deny(job.range(), &why);
        }
        let leaving = job.downscale.to..job.downscale.from;
        let Ok(posts) = job.preparation.asks(set, &leaving, Method::Post, &self.settings) else {
            return self.deny(job.range(), checks::NOT_PREPARED);
        };
        job.posts = posts;
        job.downscale.set_uid.clone_from(&set.uid);
        job.downscale.generation = set.generation;
        if in_group {
            self.take(job, &view, record, now)
        } else {
            self.ask_next_pods(job, None, 0, now)
        }
    }

    fn take(&mut self, job: Job, view: &Group, mut record: Record, now: Timestamp) -> Step {
        match operation::take(
            view,
            &job.downscale,
            &self.request.uid,
            self.settings.timeout,
            now,
        ) {
            Taken::Busy(other) => self.deny(job.range(), &checks::busy(&other)),
            Taken::By(operation) => {
                record.status.operation = Some(operation);
                let write = self.write(&job, Some(&record), record.status.clone());
                self.state = State::Take(job, record);
                write
            }
        }
    }

    /// Asks the next pods; when all are prepared, records the time.
    fn ask_next_pods(&mut self, job: Job, record: Option<Record>, asked: usize, now: Timestamp) -> Step {
        let next: Vec<Ask> = job.posts.iter().skip(asked).take(AT_ONCE).cloned().collect();
        let operation = record
            .as_ref()
            .and_then(|record| record.status.operation.as_ref());
        let expires = operation.and_then(|operation| operation.expires.as_ref());
        if expires.is_some_and(|expires| now >= expires.0) {
            // After the expiry pods may be un-prepared.
            return self.fail(job, record, checks::NOT_PREPARED.to_owned());
        }
        if !next.is_empty() {
            self.state = State::Ask(job, record, asked + next.len(), next.len());
            return Step::Ask(next);
        }
        match record {
            Some(record) => self.confirm(job, record, now),
            None => self.allow(&job),
        }
    }

    /// Records the time, if this review still holds the operation.
    fn confirm(&mut self, job: Job, record: Record, now: Timestamp) -> Step {
        if !operation::is_held(
            record.status.operation.as_ref(),
            &job.downscale,
            &self.request.uid,
        ) {
            return self.deny(job.range(), checks::OVERTAKEN);
        }
        let mut status = record.status.clone();
        status
            .last_downscale
            .insert(job.downscale.set.clone(), Time(seconds(now)));
        let write = self.write(&job, Some(&record), status);
        self.state = State::Confirm(job, record);
        write
    }

    /// A pod or a write failed: this review gives up its hold on the operation.
    fn fail(&mut self, job: Job, record: Option<Record>, why: String) -> Step {
        let Some(mut record) = record else {
            return self.undo(job, None, why, 0);
        };
        if !operation::is_held(
            record.status.operation.as_ref(),
            &job.downscale,
            &self.request.uid,
        ) {
            return self.deny(job.range(), &why);
        }
        if let Some(operation) = &mut record.status.operation {
            operation.admission_uids.retain(|uid| *uid != self.request.uid);
        }
        let write = self.write(&job, Some(&record), record.status.clone());
        self.state = State::Leave(job, record, why);
        write
    }

    /// The hold on the operation was given up: pods are un-prepared, unless another review holds the same downscale.
    fn left(&mut self, job: Job, record: Record, why: String) -> Step {
        let operation = record.status.operation.as_ref();
        if operation.is_some_and(|operation| !operation.admission_uids.is_empty()) {
            return self.deny(job.range(), &why);
        }
        self.undo(job, Some(record), why, 0)
    }

    /// Un-prepares the next pods; their answers are ignored.
    fn undo(&mut self, job: Job, record: Option<Record>, why: String, asked: usize) -> Step {
        let next = job.posts.iter().skip(asked).take(AT_ONCE).cloned();
        let next: Vec<Ask> = next
            .map(|ask| Ask {
                method: Method::Delete,
                ..ask
            })
            .collect();
        if !next.is_empty() {
            self.state = State::Undo(job, record, why, asked + next.len());
            return Step::Ask(next);
        }
        let Some(record) = record else {
            return self.deny(job.range(), &why);
        };
        let mut status = record.status.clone();
        status.operation = None;
        let write = self.write(&job, Some(&record), status);
        self.state = State::Release(job, why);
        write
    }

    /// Continues after a write.
    fn written(&mut self, state: State, written: Result<String, WriteError>, now: Timestamp) -> Step {
        let reads_again = written == Err(WriteError::Conflict) && self.tries < TRIES;
        self.tries += u8::from(reads_again);
        match (state, written) {
            (State::Create(job), Ok(_)) => self.read(job, State::Checks),
            (State::Take(job, mut record), Ok(version)) => {
                record.version = version;
                self.ask_next_pods(job, Some(record), 0, now)
            }
            (State::Confirm(job, _), Ok(_)) => self.allow(&job),
            (State::Leave(job, mut record, why), Ok(version)) => {
                record.version = version;
                self.left(job, record, why)
            }
            (State::Create(job) | State::Take(job, _), Err(_)) if reads_again => {
                self.read(job, State::Checks)
            }
            (State::Confirm(job, _), Err(_)) if reads_again => self.read(job, State::ConfirmAgain),
            (State::Leave(job, _, why), Err(_)) if reads_again => {
                self.read(job, |job| State::LeaveAgain(job, why))
            }
            (State::Create(job), Err(_)) => self.deny(job.range(), checks::NOT_LOADED),
            (State::Take(job, _), Err(_)) => self.deny(job.range(), checks::NOT_RECORDED),
            (State::Confirm(job, record), Err(_)) => self.fail(
                job,
                Some(record),
                checks::not_timed(self.use_zone_tracker).to_owned(),
            ),
            (State::Leave(job, _, why), Err(_)) | (State::Release(job, why), _) => {
                self.deny(job.range(), &why)
            }
            _ => refused_to_go_on(),
        }
    }

    fn write(&self, job: &Job, before: Option<&Record>, status: ZoneRolloutStatus) -> Step {
        let write = Write {
            namespace: self.request.namespace.clone(),
            group: job.group.clone().unwrap_or_default(),
            version: before.map(|record| record.version.clone()),
            status,
        };
        Step::Write(Box::new(write))
    }

    fn allow(&self, job: &Job) -> Step {
        let subject = self.subject(job.range());
        Step::Answer(Response {
            message: Some(format!(
                "{subject} is allowed -- all pods successfully prepared for shutdown."
            )),
            ..Response::allow()
        })
    }

    fn deny(&self, range: (u32, u32), why: &str) -> Step {
        Step::Answer(Response::deny(format!(
            "{} is not allowed because {why}",
            self.subject(range)
        )))
    }

    fn subject(&self, (from, to): (u32, u32)) -> String {
        let Request {
            resource,
            name,
            namespace,
            ..
        } = &self.request;
        format!("downscale of {resource}/{name} in {namespace} from {from} to {to} replicas")
    }
}

impl Job {
    fn range(&self) -> (u32, u32) {
        (self.downscale.from, self.downscale.to)
    }
}

impl Webhook for Prepare {
    fn advance(&mut self, fact: Fact, now: Timestamp) -> Step {
        match (std::mem::replace(&mut self.state, State::Done), fact) {
            (State::Begin, Fact::Begin) => self.begin(),
            (State::Parent(from, to), Fact::Parent(parent)) => self.parent((from, to), parent),
            (State::Checks(job), Fact::Zones(zones)) => self.check(job, *zones, now),
            (State::Ask(job, record, asked, step), Fact::Answers(answers)) => {
                let is_prepared = |answered: &Answered| answered.as_ref().is_ok_and(Answer::is_success);
                if answers.len() == step && answers.iter().all(is_prepared) {
                    self.ask_next_pods(job, record, asked, now)
                } else {
                    self.fail(job, record, checks::NOT_PREPARED.to_owned())
                }
            }
            (State::Undo(job, record, why, asked), Fact::Answers(_)) => self.undo(job, record, why, asked),
            (State::ConfirmAgain(job), Fact::Zones(zones)) => match zones.record {
                Ok(Some(record)) => self.confirm(job, record, now),
                Ok(None) | Err(_) => self.deny(job.range(), checks::not_timed(self.use_zone_tracker)),
            },
            (State::LeaveAgain(job, why), Fact::Zones(zones)) => match zones.record {
                Ok(Some(record)) => self.fail(job, Some(record), why),
                Ok(None) | Err(_) => self.deny(job.range(), &why),
            },
            (state, Fact::Written(written)) => self.written(state, written, now),
            _ => refused_to_go_on(),
        }
    }
}

/// Allowed with a warning, as in rollout-operator.
fn open(why: &str) -> Step {
    Step::Answer(Response::warn(format!("{why}, allowing the change")))
}
