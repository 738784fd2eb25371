//! The update of one machine: one updater after the other, until each has acknowledged the digest of the plan.
//!
//! Nothing of it has to be kept over a restart but the instant at which a step began: an updater answers the same question again.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use muster_api::update_plan::UpdateNodeAction;

use crate::wire::Polled;

/// How long after a failure an updater is called again, and after which time Cluster API is to ask while nothing else is known.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub task: Task,
    /// How long it may take from its first attempt on.
    pub deadline: SignedDuration,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// An updater is called.
    Update {
        /// Its name.
        updater: String,
        /// When its end is believed.
        acknowledgement: Acknowledgement,
    },
    /// The Node is prepared for what updaters do to its machine, or given back.
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

/// When the end of an updater is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Its message says `digest=` and the digest that it was sent.
    #[default]
    Digest,
    /// It says that it is done. For updaters that know nothing of digests.
    Trust,
}

/// How far the update of a machine is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    step: usize,
    since: Option<Timestamp>,
    next: Option<Timestamp>,
    message: String,
    failed: Option<Failed>,
}

/// A step that did not end within its deadline, or that was aborted. Only a retry goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// When.
    pub at: Timestamp,
    /// The last words of the updater.
    pub message: String,
}

/// What Cluster API is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is to ask again.
    InProgress {
        /// After so many seconds, at least one.
        after: u32,
        /// What the updater said last.
        message: String,
    },
    /// Each updater has acknowledged the digest.
    Done,
    /// The step is over and the machine is not updated.
    Failed(Failed),
}

impl Progress {
    /// A step that began before a restart.
    pub fn resumed(step: usize, since: Timestamp) -> Self {
        Self {
            step,
            since: Some(since),
            ..Self::default()
        }
    }

    /// An update whose next step is this one, which did not begin. At the number of all steps it is over.
    pub fn at(step: usize) -> Self {
        Self {
            step,
            ..Self::default()
        }
    }

    /// A step that failed before a restart.
    pub fn failed(step: usize, failed: Failed) -> Self {
        Self {
            step,
            failed: Some(failed),
            ..Self::default()
        }
    }

    /// The number of the present step, from 0; that of all steps at the end.
    pub const fn step(&self) -> usize {
        self.step
    }

    /// The last words of its updater.
    pub fn words(&self) -> &str {
        &self.message
    }

    /// The step that is under way, and since when: what is kept over a restart.
    pub const fn began(&self) -> Option<(usize, Timestamp)> {
        match self.since {
            Some(since) => Some((self.step, since)),
            None => None,
        }
    }

    /// The step that is to be attempted now. Its time runs from its first attempt on: that other objects are marked later is
    /// not its fault.
    pub fn call<'a>(&mut self, steps: &'a [Step], now: Timestamp) -> Option<&'a Step> {
        let step = steps.get(self.step)?;
        self.expire(steps, now);
        if self.failed.is_some() || self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.since.get_or_insert(now);
        Some(step)
    }

    /// Takes what came of an attempt of the present step.
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
                    "{} says that it is done, but not with digest={digest}: {message:?}",
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

    /// What Cluster API is answered now.
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

    /// Ends the step that is under way, as a person asks for.
    pub fn abort(&mut self, reason: &str, now: Timestamp) {
        self.failed = Some(Failed {
            at: now,
            message: reason.to_owned(),
        });
    }

    /// Begins the step that failed once more; its time counts anew. Where the Node was prepared for it, that is done again: it may have
    /// been uncordoned since.
    pub fn retry(&mut self, steps: &[Step]) {
        if self.failed.is_some() {
            *self = Self::at(resumed_at(steps, self.step));
        }
    }

    /// Since when its next attempt is due; none: at once.
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

/// The step with which a retry of a failed step begins. What it repeats is acknowledged at once where it is as it was.
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
