//! Why a binding has no value.

use thiserror::Error;

use super::object_id::ObjectId;
use crate::runtime::CallError;

/// Why a binding has no value, in words for people: the message of `BindingFailed`.
#[derive(Debug, Error)]
pub enum BindingError {
    /// Bindings that wait for each other.
    #[error("the bindings form a cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// A name that stands for nothing.
    #[error("{place}: there is no variable {name}; known are {}", list(.known))]
    Unknown {
        /// Where the name is used.
        place: String,
        /// The name.
        name: String,
        /// The names that could be used, sorted.
        known: Vec<String>,
    },
    /// `$(` without `)`, or with nothing in it.
    #[error("{place}: `$(` without a name and `)`; write `$$(` for the characters themselves")]
    Unterminated {
        /// Where.
        place: String,
    },
    /// Two bindings of one name, or one of a name that is given.
    #[error("binding {0} is defined twice, or has a name that muster gives")]
    Duplicate(String),
    /// Neither a value nor a reference, or both.
    #[error("binding {0} needs exactly one of value and objectFieldRef")]
    Form(String),
    /// A kind that may not be read.
    #[error("binding {binding}: kind {kind} ({api_version}) may not be read; allowed are {}", .allowed.join(", "))]
    KindRefused {
        /// The binding.
        binding: String,
        /// The kind.
        kind: String,
        /// Its apiVersion.
        api_version: String,
        /// What may be read.
        allowed: Vec<String>,
    },
    /// The object is not there.
    #[error("binding {binding}: {object} is not there")]
    ObjectMissing {
        /// The binding.
        binding: String,
        /// The object.
        object: ObjectId,
    },
    /// The pointer leads to nothing.
    #[error("binding {}: {} has no field {}", .0.binding, .0.object, .0.pointer)]
    FieldMissing(Box<Place>),
    /// The pointer leads to what is no text.
    #[error("binding {}: field {} of {} is {found}; only strings, numbers and booleans can be bound", .place.binding, .place.pointer, .place.object)]
    NotScalar {
        /// Where.
        place: Box<Place>,
        /// What is there.
        found: &'static str,
    },
    /// A value of more than 4 KiB.
    #[error("{place}: the value has {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// Where.
        place: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// References that lead on and on.
    #[error("the bindings of one sync need objects in more than {0} steps, one after another")]
    TooDeep(usize),
    /// A referenced object could not be read.
    #[error("a referenced object could not be read")]
    Read(#[from] CallError),
}

/// A field of an object, and the binding that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The binding.
    pub binding: String,
    /// The object.
    pub object: ObjectId,
    /// The JSON pointer.
    pub pointer: String,
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
