//! Reviews of changes of replicas: the webhooks `no-downscale` and `prepare-downscale`, as steps of a machine without I/O.
//!
//! ```text
//!   bytes ─► serve::read ─► Request ─► NoDownscale | Prepare ─► Step ─► the executor reads, writes, asks ─► Fact ─► Step ─► ..
//!                                                                └─► Answer ─► serve::write ─► bytes
//! ```
//!
//! Invariant: every input has an answer; none ends the process.
//! Invariant: a dry run writes nothing and asks no pod.
//! Invariant: a downscale is allowed only after its operation is on record, its pods are prepared, and its time is on record.

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

/// A review that is answered step by step.
pub trait Webhook {
    /// What is to be done next, after what came of the step before; [`Fact::Begin`] first. `now` is the time of the call.
    fn advance(&mut self, fact: Fact, now: Timestamp) -> Step;
}

/// What the executor does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Read from the API server, never from a cache.
    Read(Read),
    /// Write a ZoneRollout.
    Write(Box<Write>),
    /// Ask these pods, all of them at once; the answers come in the same order.
    Ask(Vec<Ask>),
    /// Answer the review; nothing comes after it.
    Answer(Response),
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The object that a subresource `scale` belongs to.
    Parent {
        /// Resource, such as `statefulsets`.
        resource: String,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// A set with its pods; where it is in a group, all sets of the group, the ZoneRollout and the zone tracker's ConfigMap.
    Zones {
        /// Namespace.
        namespace: String,
        /// Value of the label `rollout-group`; nothing where the set has none.
        group: Option<String>,
        /// The set.
        set: String,
    },
}

/// A write of the status of a group's ZoneRollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Namespace.
    pub namespace: String,
    /// Value of the label `rollout-group`.
    pub group: String,
    /// The resourceVersion that it replaces; nothing: the ZoneRollout is made, and there must be none.
    pub version: Option<String>,
    /// The whole status.
    pub status: ZoneRolloutStatus,
}

/// What came of a step.
#[derive(Clone, Debug)]
pub enum Fact {
    /// The review has come in.
    Begin,
    /// Of [`Read::Parent`].
    Parent(Result<Value, ReadError>),
    /// Of [`Read::Zones`].
    Zones(Box<Zones>),
    /// Of [`Step::Write`]: the new resourceVersion.
    Written(Result<String, WriteError>),
    /// Of [`Step::Ask`], in its order.
    Answers(Vec<Answered>),
}

/// What was read of a group. Errors are what the API server said.
#[derive(Clone, Debug)]
pub struct Zones {
    /// The sets.
    pub sets: Result<Vec<Set>, String>,
    /// The pods of the namespace, at least those of the sets.
    pub pods: Result<Vec<Pod>, String>,
    /// The data of the zone tracker's ConfigMap, if it is there.
    pub tracker: Result<Option<BTreeMap<String, String>>, String>,
    /// The ZoneRollout, if it is there.
    pub record: Result<Option<Record>, String>,
}

/// A ZoneRollout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Its resourceVersion.
    pub version: String,
    /// Its status.
    pub status: ZoneRolloutStatus,
}

/// Why an object was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// There is none, in the words of the API server.
    NotFound(String),
    /// Anything else.
    Failed(String),
}

/// Why a write was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Another write came first.
    Conflict,
    /// Anything else; it may have been made all the same.
    Failed(String),
}

/// The answer where a step is not followed by what comes of it: a mistake of the executor, and closed.
fn refused_to_go_on() -> Step {
    Step::Answer(Response::deny(
        "the review was not answered step by step".to_owned(),
    ))
}
