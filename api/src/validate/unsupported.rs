//! Fields that are in the schema and whose behaviour is not built yet. A Module that sets one is Stalled, and nothing moves.

use crate::{
    module::ModuleSpec,
    rollout::{FailureAction, OnUnreachable, Unmatched},
};

/// The paths of all fields that are set and not built, in the order of the schema.
pub fn unsupported(spec: &ModuleSpec) -> Vec<&'static str> {
    let rollout = &spec.rollout;
    let fields = [
        (!spec.depends_on.is_empty(), "spec.dependsOn"),
        (rollout.batch.is_some(), "spec.rollout.batch"),
        (rollout.exclusive.is_some(), "spec.rollout.exclusive"),
        (!rollout.stages.is_empty(), "spec.rollout.stages"),
        (rollout.unmatched != Unmatched::Last, "spec.rollout.unmatched"),
        (
            rollout.on_failure.action != FailureAction::Halt,
            "spec.rollout.onFailure.action",
        ),
        (
            rollout.on_unreachable != OnUnreachable::Skip,
            "spec.rollout.onUnreachable",
        ),
    ];
    fields
        .into_iter()
        .filter_map(|(set, path)| set.then_some(path))
        .collect()
}

/// What a person is told about them.
pub fn unsupported_message(fields: &[&str]) -> String {
    let (verb, them) = if fields.len() == 1 {
        ("is", "it")
    } else {
        ("are", "them")
    };
    format!(
        "{} {verb} not supported by this version of muster: remove {them}; nothing moves until then",
        fields.join(", ")
    )
}
