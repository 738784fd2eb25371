//! Refusals that only a new object can get around: a field that cannot be changed. Pure.

use kube::core::Status;

/// The words by which the rules of Kubernetes say so; there is no code for it. The last is a StatefulSet's.
const WORDS: [&str; 4] = [
    "immutable",
    "may not be changed",
    "cannot be changed",
    "updates to statefulset spec",
];

/// The fields that cannot be changed, if the server refuses for that and nothing else can be read from it.
/// The list is never empty; a refusal that names no field gives `the object`.
pub fn fields(status: &Status) -> Option<Vec<String>> {
    if status.code != 422 {
        return None;
    }
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    let mut fields: Vec<String> = causes
        .iter()
        .filter(|cause| says_so(&cause.message))
        .map(|cause| {
            if cause.field.is_empty() {
                "the object".to_owned()
            } else {
                cause.field.clone()
            }
        })
        .collect();
    fields.dedup();
    if !fields.is_empty() {
        return Some(fields);
    }
    (causes.is_empty() && says_so(&status.message)).then(|| vec!["the object".to_owned()])
}

fn says_so(message: &str) -> bool {
    let message = message.to_lowercase();
    WORDS.iter().any(|word| message.contains(word))
}
