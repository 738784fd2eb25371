//! Fields that are in the schema and whose behaviour is not built yet. A Module that sets one is Stalled, and nothing moves.

use crate::module::ModuleSpec;

/// The paths of all fields that are set and not built, in the order of the schema.
pub fn unsupported(spec: &ModuleSpec) -> Vec<&'static str> {
    let rollout = &spec.rollout;
    let fields = [(
        rollout.stages.iter().any(|stage| !stage.gates.is_empty()),
        "spec.rollout.stages[].gates",
    )];
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
