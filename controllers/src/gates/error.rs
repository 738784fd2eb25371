//! Why a gate has no data.

use std::time::Duration;

use muster_api::{rollout::GateOperator, validate::UrlError};
use thiserror::Error;

use super::FetchError;
use crate::{bindings::ObjectId, hosts::NotAllowed, runtime::CallError};

/// Why a gate has no data, as a message for people.
#[derive(Debug, Error)]
pub enum GateError {
    /// Neither http nor condition: such a module is invalid, and its gates are not read.
    #[error("it has neither http nor condition")]
    Form,
    /// A host that is not allowed.
    #[error(
        "{0} is not one of the hosts that gates may query: start the controller with --gate-hosts {0} (and all other hosts of gates)"
    )]
    HostRefused(String),
    /// A URL whose scheme is not allowed.
    #[error("its url cannot be used: {0}")]
    Url(#[from] UrlError),
    /// A URL that cannot be parsed.
    #[error("its url cannot be used: {0}")]
    Address(String),
    /// No complete reading in time.
    #[error("there was no complete response within {} s (timeout)", .0.as_secs_f64())]
    Deadline(Duration),
    /// The Secret does not exist.
    #[error("Secret {0} (secretRef) does not exist in this namespace; create it")]
    NoSecret(String),
    /// The Secret is invalid.
    #[error("Secret {name}: {why}")]
    Credentials {
        /// The name of the Secret.
        name: String,
        /// What is wrong with it, without its values.
        why: String,
    },
    /// Credentials would be sent over plain http.
    #[error("its credentials would be sent unencrypted over http; use https")]
    Readable,
    /// A Secret or an object could not be read.
    #[error(transparent)]
    Read(#[from] CallError),
    /// The host sent no usable response.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The response is not JSON.
    #[error("its response is not JSON: {0}")]
    NotJson(serde_json::Error),
    /// Nested so deeply, with names so long, that its paths take too much memory.
    #[error("its response is nested too deeply, or has names that are too long")]
    Unwieldy,
    /// An invalid path: such a module is invalid, and its gates are not read.
    #[error(transparent)]
    JsonPath(#[from] muster_api::validate::JsonPathError),
    /// The path matches nothing.
    #[error("there is nothing at {0} in its response")]
    Nothing(String),
    /// The path matches something that cannot be compared.
    #[error("there is {found} at {path} in its response, not a value")]
    NoValue {
        /// The path of the value.
        path: String,
        /// The value found.
        found: &'static str,
    },
    /// Prometheus' value that is not a number.
    #[error("the value at {0} is NaN")]
    NotANumber(String),
    /// An ordering comparison of values without order.
    #[error("the value at {path} is {text:?}, no number, and {op} compares numbers")]
    NoNumber {
        /// The path of the value.
        path: String,
        /// The value found.
        text: String,
        /// The operator.
        op: GateOperator,
    },
    /// A kind that must not be read.
    #[error(
        "kind {kind} ({api_version}) is not allowed: start the controller with --binding-kinds {api_version}/{kind}; allowed are {}",
        .allowed.join(", ")
    )]
    KindRefused {
        /// The kind that the gate names.
        kind: String,
        /// The apiVersion of the kind.
        api_version: String,
        /// The kinds that may be read.
        allowed: Vec<String>,
    },
    /// The object does not exist.
    #[error("{0} does not exist")]
    ObjectMissing(ObjectId),
    /// The object does not have the condition.
    #[error("{object} has no condition {type_}")]
    ConditionMissing {
        /// The object that the gate names.
        object: ObjectId,
        /// The condition's type.
        type_: String,
    },
    /// The condition is about an earlier generation.
    #[error("condition {type_} of {object} is about generation {observed}, the object is at {current}")]
    Outdated {
        /// The object that the gate names.
        object: Box<ObjectId>,
        /// The condition's type.
        type_: String,
        /// The `observedGeneration` of the condition.
        observed: i64,
        /// The object's current generation.
        current: i64,
    },
    /// A bug in muster.
    #[error("its evaluation ended unexpectedly: please report this as a bug in muster")]
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
