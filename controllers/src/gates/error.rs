//! Why nothing can be told.

use std::time::Duration;

use muster_api::{rollout::GateOperator, validate::UrlError};
use thiserror::Error;

use super::FetchError;
use crate::{bindings::ObjectId, hosts::NotAllowed, runtime::CallError};

/// Why a gate has no data, in words for people.
#[derive(Debug, Error)]
pub enum GateError {
    /// Neither http nor condition: such a module is invalid, and its gates are not read.
    #[error("it has neither http nor condition")]
    Form,
    /// A host that is not asked.
    #[error(
        "{0} is none of the hosts that gates may ask: start the controller with --gate-hosts {0} (and all others that are asked)"
    )]
    HostRefused(String),
    /// An address that is not asked.
    #[error("its url cannot be used: {0}")]
    Url(#[from] UrlError),
    /// An address that cannot be taken apart.
    #[error("its url cannot be used: {0}")]
    Address(String),
    /// No complete reading in time.
    #[error("there was no complete answer within {} s (timeout)", .0.as_secs_f64())]
    Deadline(Duration),
    /// The Secret is not there.
    #[error("there is no Secret {0} in this namespace, which secretRef names; create it")]
    NoSecret(String),
    /// The Secret is not fit.
    #[error("Secret {name}: {why}")]
    Credentials {
        /// The Secret.
        name: String,
        /// What is wrong with it, without its values.
        why: String,
    },
    /// Credentials would go over plain http.
    #[error("its credentials would go over http, where anybody can read them; use https")]
    Readable,
    /// A Secret or an object could not be read.
    #[error(transparent)]
    Read(#[from] CallError),
    /// The host did not give an answer.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Not JSON.
    #[error("its answer is not JSON: {0}")]
    NotJson(serde_json::Error),
    /// Nested so deep, with names so long, that paths in it take too much room.
    #[error("its answer is nested too deep, or has names that are too long")]
    Unwieldy,
    /// A path that is not taken: such a module is invalid, and its gates are not read.
    #[error(transparent)]
    JsonPath(#[from] muster_api::validate::JsonPathError),
    /// The path picks nothing.
    #[error("there is nothing at {0} in its answer")]
    Nothing(String),
    /// The path picks what cannot be compared.
    #[error("there is {found} at {path} in its answer, not a value")]
    NoValue {
        /// The path.
        path: String,
        /// What is there.
        found: &'static str,
    },
    /// Prometheus' word for no number.
    #[error("the value at {0} is NaN")]
    NotANumber(String),
    /// An order of what has none.
    #[error("the value at {path} is {text:?}, no number, and {op} compares numbers")]
    NoNumber {
        /// The path.
        path: String,
        /// What is there.
        text: String,
        /// How it is to be compared.
        op: GateOperator,
    },
    /// A kind that may not be read.
    #[error(
        "kind {kind} ({api_version}) may not be read: start the controller with --binding-kinds {api_version}/{kind}; allowed are {}",
        .allowed.join(", ")
    )]
    KindRefused {
        /// The kind.
        kind: String,
        /// Its apiVersion.
        api_version: String,
        /// What may be read.
        allowed: Vec<String>,
    },
    /// The object is not there.
    #[error("{0} is not there")]
    ObjectMissing(ObjectId),
    /// The condition is not there.
    #[error("{object} has no condition {type_}")]
    ConditionMissing {
        /// The object.
        object: ObjectId,
        /// The condition's type.
        type_: String,
    },
    /// The condition is about what the object was before.
    #[error("condition {type_} of {object} is about generation {observed}, the object is at {current}")]
    Outdated {
        /// The object.
        object: Box<ObjectId>,
        /// The condition's type.
        type_: String,
        /// What it is about.
        observed: i64,
        /// What the object is at.
        current: i64,
    },
    /// A defect of muster.
    #[error("its evaluation ended by itself: please report this as a defect of muster")]
    Panicked,
}

impl From<NotAllowed> for GateError {
    fn from(refusal: NotAllowed) -> Self {
        match refusal {
            NotAllowed::Address(why) => Self::Address(why),
            NotAllowed::Host(host) => Self::HostRefused(host),
        }
    }
}
