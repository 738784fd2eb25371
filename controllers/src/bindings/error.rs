//! Why a binding has no value.

use thiserror::Error;

use super::object_id::ObjectId;
use crate::runtime::CallError;

/// Why a binding has no value, as text: the message of `BindingFailed`.
#[derive(Debug, Error)]
pub enum BindingError {
    /// Bindings that depend on each other in a cycle.
    #[error("the bindings form a cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// A name that is not defined.
    #[error("{place}: there is no variable {name}; known are {}", list(.known))]
    Unknown {
        /// Where the name is used.
        place: String,
        /// The undefined name.
        name: String,
        /// The defined names, sorted.
        known: Vec<String>,
    },
    /// `$(` without `)`, or with nothing in between.
    #[error("{place}: `$(` without a name and `)`; write `$$(` for the characters themselves")]
    Unterminated {
        /// Where it is used.
        place: String,
    },
    /// Two bindings with the same name, or a binding with a predefined name.
    #[error("binding {0} is defined twice, or has a predefined name")]
    Duplicate(String),
    /// Neither a value nor a reference, or both.
    #[error("binding {0} needs exactly one of value and objectFieldRef")]
    Form(String),
    /// A kind that must not be read.
    #[error("binding {binding}: kind {kind} ({api_version}) is not allowed; allowed are {}", .allowed.join(", "))]
    KindRefused {
        /// The name of the binding.
        binding: String,
        /// The kind that it names.
        kind: String,
        /// The apiVersion of the kind.
        api_version: String,
        /// The kinds that may be read.
        allowed: Vec<String>,
    },
    /// The object does not exist.
    #[error("binding {binding}: {object} does not exist")]
    ObjectMissing {
        /// The name of the binding.
        binding: String,
        /// The missing object.
        object: ObjectId,
    },
    /// The pointer matches no field.
    #[error("binding {}: {} has no field {}", .0.binding, .0.object, .0.pointer)]
    FieldMissing(Box<FieldPath>),
    /// The pointer matches a value that is not text.
    #[error("binding {}: field {} of {} is {found}; only strings, numbers and booleans can be bound", .place.binding, .place.pointer, .place.object)]
    NotScalar {
        /// The binding, object and pointer.
        place: Box<FieldPath>,
        /// The type of the value, such as `an object`.
        found: &'static str,
    },
    /// A value longer than 4 KiB.
    #[error("{place}: the value has {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// Where the value is used.
        place: String,
        /// The length in bytes.
        bytes: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// References to references, deeper than the limit.
    #[error("the bindings of one sync depend on objects of each other in more than {0} steps")]
    TooDeep(usize),
    /// A referenced object could not be read.
    #[error("a referenced object could not be read")]
    Read(#[from] CallError),
}

/// A field of an object, and the binding that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// The name of the binding.
    pub binding: String,
    /// The object that it names.
    pub object: ObjectId,
    /// The JSON pointer to the field.
    pub pointer: String,
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
