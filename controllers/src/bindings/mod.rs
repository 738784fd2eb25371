//! Bindings: variables of a sync, from values and from fields of objects, and their use as `$(NAME)`.
//!
//! ```text
//!   bindings + known (CLUSTER_NAME, CLUSTER_LABEL_<key>, …) ──► evaluate ──► values ──► substitute_package
//!                                                     ▲   └─► needs more objects ─┐
//!                                                     └────────── Objects ◄───────┘  (reads, caches, watches)
//! ```
//!
//! Invariant: nothing evaluates to an empty text because something is missing: a cycle, an unknown name, a missing
//! object or field is an error. Invariant: no Secret is read: values of bindings are visible in specs.

mod error;
mod evaluate;
mod kinds;
mod object_id;
mod objects;
mod package;

use std::collections::BTreeMap;

pub use self::{
    error::{BindingError, FieldPath},
    evaluate::{Evaluation, KnownObjects, evaluate},
    kinds::{BindingKind, Kinds},
    object_id::ObjectId,
    objects::Objects,
    package::{substitute_package, used_by},
};

/// The values of variables by name.
pub type Values = BTreeMap<String, String>;

/// The variable with the name of the cluster.
pub const CLUSTER_NAME: &str = "CLUSTER_NAME";
/// The prefix of variables with the labels of the cluster.
pub const CLUSTER_LABEL: &str = "CLUSTER_LABEL_";

/// The predefined variables of a cluster: its name, and each of its labels by key.
pub fn given(cluster: &str, labels: &BTreeMap<String, String>) -> Values {
    let labels = labels
        .iter()
        .map(|(key, value)| (format!("{CLUSTER_LABEL}{key}"), value.clone()));
    std::iter::once((CLUSTER_NAME.to_owned(), cluster.to_owned()))
        .chain(labels)
        .collect()
}
