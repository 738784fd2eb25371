//! Validation of bindings without evaluating them.

use std::collections::BTreeMap;

use super::{Problems, names};
use crate::sync::Binding;

/// The variable that holds the cluster's name.
pub const CLUSTER_NAME: &str = "CLUSTER_NAME";
/// Prefix of the variables that hold the cluster's labels.
pub const CLUSTER_LABEL_PREFIX: &str = "CLUSTER_LABEL_";

/// Why a binding is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindingError {
    /// Neither value nor objectFieldRef.
    #[error("binding {0:?} has neither value nor objectFieldRef: set one")]
    Neither(String),
    /// Both value and objectFieldRef.
    #[error("binding {0:?} has both value and objectFieldRef: remove one")]
    Both(String),
    /// A reference to a Secret.
    #[error(
        "binding {0:?} reads a Secret, and values of bindings are shown in specs: read a ConfigMap instead"
    )]
    Secret(String),
    /// Not a JSON pointer.
    #[error("binding {name:?} has the fieldPath {path:?}: write a JSON pointer such as /data/host")]
    Pointer {
        /// The variable's name.
        name: String,
        /// The rejected field path.
        path: String,
    },
    /// The name of a built-in variable.
    #[error("binding {0:?} is a built-in variable: choose another name")]
    Given(String),
    /// A duplicate name.
    #[error("binding {name:?} is also defined in {other}: rename one")]
    Twice {
        /// The variable's name.
        name: String,
        /// The other field that defines the variable.
        other: String,
    },
}

/// Checks both lists; a name may occur only once across them.
pub(super) fn check(found: &mut Problems, downstream: &[Binding], control_plane: &[Binding]) {
    let mut used: BTreeMap<&str, String> = BTreeMap::new();
    let lists = [
        ("spec.sync.bindings", downstream),
        ("spec.controlPlaneBindings", control_plane),
    ];
    for (list, bindings) in lists {
        for (index, binding) in bindings.iter().enumerate() {
            let field = format!("{list}[{index}]");
            found.name(format!("{field}.name"), &binding.name, names::variable);
            found.check(&field, definition(binding));
            match used.get(binding.name.as_str()) {
                Some(other) => {
                    let twice = BindingError::Twice {
                        name: binding.name.clone(),
                        other: other.clone(),
                    };
                    found.check(format!("{field}.name"), Err::<(), _>(twice));
                }
                None => {
                    used.insert(&binding.name, field);
                }
            }
        }
    }
}

fn definition(binding: &Binding) -> Result<(), BindingError> {
    let name = || binding.name.clone();
    if binding.name == CLUSTER_NAME || binding.name.starts_with(CLUSTER_LABEL_PREFIX) {
        return Err(BindingError::Given(name()));
    }
    match (&binding.value, &binding.object_field_ref) {
        (None, None) => Err(BindingError::Neither(name())),
        (Some(_), Some(_)) => Err(BindingError::Both(name())),
        (None, Some(reference)) if reference.kind == "Secret" => Err(BindingError::Secret(name())),
        (None, Some(reference)) if !is_pointer(&reference.field_path) => Err(BindingError::Pointer {
            name: name(),
            path: reference.field_path.clone(),
        }),
        (Some(_), None) | (None, Some(_)) => Ok(()),
    }
}

/// Whether the path is a JSON pointer, or begins with a variable.
fn is_pointer(path: &str) -> bool {
    path.starts_with('/') || path.starts_with("$(")
}
