//! The update of one machine: the updaters run one after the other, until each has acknowledged the digest of the plan.
//!
//! Only the start time of the step must survive a restart: an updater gives the same answer again.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use muster_api::update_plan::UpdateNodeAction;

use crate::wire::Polled;

/// The delay until an updater is called again after a failure, and the default `retryAfterSeconds` for Cluster API.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The action of the step.
    pub task: Task,
    /// Maximum duration, from the first attempt on.
    pub deadline: SignedDuration,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Calls an updater.
    Update {
        /// The name of the updater.
        updater: String,
        /// When its success is accepted.
        acknowledgement: Acknowledgement,
    },
    /// Cordons, drains or uncordons the Node around the calls of updaters.
    Node(UpdateNodeAction),
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Update { updater, .. } => write!(f, "updater {updater}"),
            Self::Node(action) => action.fmt(f),
        }
    }
}

impl Task {
    fn believes(&self, message: &str, digest: &str) -> bool {
        match self {
            Self::Update { acknowledgement, .. } => acknowledgement.believes(message, digest),
            Self::Node(_) => true,
        }
    }
}

/// When the success of an updater is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Its message contains `digest=` and the digest that it was sent.
    #[default]
    Digest,
    /// It reports success. For updaters that do not know digests.
    Trust,
}

/// The progress of a machine's update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    step: usize,
    since: Option<Timestamp>,
    next: Option<Timestamp>,
    message: String,
    failed: Option<Failed>,
}

/// A step that missed its deadline or was aborted. Only a retry continues the update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The time of the failure.
    pub at: Timestamp,
    /// The last message of the updater, or the reason of the abort.
    pub message: String,
}

/// The answer to Cluster API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Cluster API must ask again.
    InProgress {
        /// Seconds until then, at least one.
        after: u32,
        /// The step, and the last message of its updater.
        message: String,
    },
    /// Each updater has acknowledged the digest.
    Done,
    /// The step failed, and the machine is not updated.
    Failed(Failed),
}

impl Progress {
    /// Resumes a step that began before a restart.
    pub fn resumed(step: usize, since: Timestamp) -> Self {
        Self {
            step,
            since: Some(since),
            ..Self::default()
        }
    }

    /// An update whose next step is this one, not started yet. If `step` is the number of all steps, the update is
    /// done.
    pub fn at(step: usize) -> Self {
        Self {
            step,
            ..Self::default()
        }
    }

    /// Resumes after a step that failed before a restart.
    pub fn failed(step: usize, failed: Failed) -> Self {
        Self {
            step,
            failed: Some(failed),
            ..Self::default()
        }
    }

    /// The index of the current step, from 0; the number of steps when all are done.
    pub const fn step(&self) -> usize {
        self.step
    }

    /// The last message of the step's updater.
    pub fn last_message(&self) -> &str {
        &self.message
    }

    /// The current step and its start time, which must survive a restart.
    pub const fn began(&self) -> Option<(usize, Timestamp)> {
        match self.since {
            Some(since) => Some((self.step, since)),
            None => None,
        }
    }

    /// The step to attempt now. Its deadline counts from its first attempt, so time spent on marking other objects does
    /// not count.
    pub fn call<'a>(&mut self, steps: &'a [Step], now: Timestamp) -> Option<&'a Step> {
        let step = steps.get(self.step)?;
        self.expire(steps, now);
        if self.failed.is_some() || self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.since.get_or_insert(now);
        Some(step)
    }

    /// Records the result of an attempt of the current step.
    pub fn take(&mut self, steps: &[Step], digest: &str, polled: Polled, now: Timestamp) {
        let Some(step) = steps.get(self.step) else { return };
        self.expire(steps, now);
        if self.failed.is_some() {
            return;
        }
        let (after, message) = match polled {
            Polled::Done { message } if step.task.believes(&message, digest) => {
                *self = Self {
                    step: self.step + 1,
                    ..Self::default()
                };
                return;
            }
            Polled::Done { message } => {
                let words = format!(
                    "{} reports success, but not with digest={digest}: {message:?}",
                    step.task
                );
                (AGAIN, words)
            }
            Polled::InProgress { after, message } => (SignedDuration::from_secs(after.into()), message),
            Polled::Failed { message } => (AGAIN, message),
        };
        self.next = Some(now + after);
        self.message = message;
    }

    /// The answer to Cluster API now.
    pub fn reply(&mut self, steps: &[Step], now: Timestamp) -> Reply {
        let Some(step) = steps.get(self.step) else {
            return Reply::Done;
        };
        self.expire(steps, now);
        if let Some(failed) = &self.failed {
            return Reply::Failed(failed.clone());
        }
        let left = self.next.map_or(AGAIN, |next| next.duration_since(now));
        let after = u32::try_from(left.as_secs()).unwrap_or_default().max(1);
        let (number, all) = (self.step + 1, steps.len());
        let message = match self.message.as_str() {
            "" => format!("step {number} of {all}, {}", step.task),
            words => format!("step {number} of {all}, {}: {words}", step.task),
        };
        Reply::InProgress { after, message }
    }

    /// Fails the current step, on request of a user.
    pub fn abort(&mut self, reason: &str, now: Timestamp) {
        self.failed = Some(Failed {
            at: now,
            message: reason.to_owned(),
        });
    }

    /// Restarts the failed step with a new deadline. If the Node was prepared for it, that is repeated too: it may have
    /// been uncordoned since.
    pub fn retry(&mut self, steps: &[Step]) {
        if self.failed.is_some() {
            *self = Self::at(resumed_at(steps, self.step));
        }
    }

    /// The time of the next attempt; `None` if it is due at once.
    pub const fn next(&self) -> Option<Timestamp> {
        self.next
    }

    fn expire(&mut self, steps: &[Step], now: Timestamp) {
        let (Some(step), Some(since), None) = (steps.get(self.step), self.since, &self.failed) else {
            return;
        };
        let at = since + step.deadline;
        if at <= now {
            let message = match self.message.as_str() {
                "" => format!("{} gave no answer", step.task),
                words => words.to_owned(),
            };
            self.failed = Some(Failed { at, message });
        }
    }
}

/// The step that a retry of a failed step starts with. Steps that it repeats succeed at once if nothing changed.
pub fn resumed_at(steps: &[Step], failed: usize) -> usize {
    let is_update = |step: &Step| matches!(step.task, Task::Update { .. });
    let prepares = |step: &Step| {
        matches!(
            step.task,
            Task::Node(UpdateNodeAction::Cordon | UpdateNodeAction::Drain)
        )
    };
    if !steps.get(failed).is_some_and(is_update) {
        return failed;
    }
    steps[..failed].iter().rposition(prepares).unwrap_or(failed)
}

impl Acknowledgement {
    fn believes(self, message: &str, digest: &str) -> bool {
        match self {
            Self::Trust => true,
            Self::Digest => {
                let mut words =
                    message.split(|sign: char| sign.is_whitespace() || sign == ',' || sign == ';');
                words.any(|word| word.strip_prefix("digest=") == Some(digest))
            }
        }
    }
}
