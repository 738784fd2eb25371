//! Admission reviews of replica changes: the webhooks `no-downscale` and `prepare-downscale`, as state machines without
//! I/O.
//!
//! ```text
//!   bytes ─► serve::read ─► Request ─► NoDownscale | Prepare ─► Step ─► the executor reads, writes, asks ─► Fact ─► Step ─► ..
//!                                                                └─► Answer ─► serve::write ─► bytes
//! ```
//!
//! Invariant: every input has an answer; none ends the process. Invariant: a dry run writes nothing and sends no
//! request to pods. Invariant: a downscale is allowed only after its operation is recorded, its pods are prepared, and
//! its time is recorded.

pub mod checks;
pub mod no_downscale;
pub mod prepare;
pub mod review;
pub mod scaled;
pub mod serve;

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::zonerollout::ZoneRolloutStatus;
use serde_json::Value;

pub use self::review::{Request, Response, Review};
use crate::{
    model::{Pod, Set},
    scale::pods::{Answered, Ask},
};

/// An admission review that is answered step by step.
pub trait Webhook {
    /// The next step, given the result of the previous one; starts with [`Fact::Begin`]. `now` is the time of the call.
    fn advance(&mut self, fact: Fact, now: Timestamp) -> Step;
}

/// The next step for the executor.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Read from the API server, never from a cache.
    Read(Read),
    /// Write a ZoneRollout.
    Write(Box<Write>),
    /// Send requests to these pods, all at once; the answers must be in the same order.
    Ask(Vec<Ask>),
    /// Answer the review; this is the last step.
    Answer(Response),
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The parent object of a subresource `scale`.
    Parent {
        /// Resource, such as `statefulsets`.
        resource: String,
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
    },
    /// A set with its pods; if it is in a group, also all sets of the group, the ZoneRollout and the zone tracker's
    /// ConfigMap.
    Zones {
        /// Namespace of the set.
        namespace: String,
        /// Value of the label `rollout-group`; `None` if the set has no such label.
        group: Option<String>,
        /// Name of the set.
        set: String,
    },
}

/// A write of the status of a group's ZoneRollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Namespace of the ZoneRollout.
    pub namespace: String,
    /// Value of the label `rollout-group`.
    pub group: String,
    /// The resourceVersion to replace; `None`: the ZoneRollout is created, and must not exist.
    pub version: Option<String>,
    /// The complete new status.
    pub status: ZoneRolloutStatus,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub enum Fact {
    /// The review was received.
    Begin,
    /// The result of [`Read::Parent`].
    Parent(Result<Value, ReadError>),
    /// The result of [`Read::Zones`].
    Zones(Box<Zones>),
    /// The result of [`Step::Write`]: the new resourceVersion.
    Written(Result<String, WriteError>),
    /// The answers to [`Step::Ask`], in the same order.
    Answers(Vec<Answered>),
}

/// What was read of a group. Errors are the API server's messages.
#[derive(Clone, Debug)]
pub struct Zones {
    /// The sets of the group.
    pub sets: Result<Vec<Set>, String>,
    /// The pods of the namespace, at least those of the sets.
    pub pods: Result<Vec<Pod>, String>,
    /// The data of the zone tracker's ConfigMap, if it exists.
    pub tracker: Result<Option<BTreeMap<String, String>>, String>,
    /// The ZoneRollout, if it exists.
    pub record: Result<Option<Record>, String>,
}

/// The recorded state of a group: the status of its ZoneRollout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The resourceVersion of the ZoneRollout.
    pub version: String,
    /// The status of the ZoneRollout.
    pub status: ZoneRolloutStatus,
}

/// Why an object could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The object does not exist; contains the API server's message.
    NotFound(String),
    /// Any other error.
    Failed(String),
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Another write came first (conflict).
    Conflict,
    /// Any other error; the write may still have succeeded.
    Failed(String),
}

/// The answer if the executor returns a result that does not match the step: a bug of the executor, which denies the
/// request.
fn refused_to_go_on() -> Step {
    Step::Answer(Response::deny(
        "the admission review was processed out of order".to_owned(),
    ))
}
