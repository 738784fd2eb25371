//! Refusals that only re-creating the object can resolve: an immutable field. Pure.

use kube::core::Status;

/// Phrases that Kubernetes uses for immutable fields; there is no status code for it.
const WORDS: [&str; 6] = [
    "immutable",
    "may not be changed",
    "cannot be changed",
    // PersistentVolumeClaim, Service and Pod.
    "may not change",
    // RoleBinding: "cannot change roleRef".
    "cannot change",
    // StatefulSet and StorageClass: "updates to … are forbidden".
    "updates to ",
];

/// Phrases of policies and webhooks, which answer with any status code. Flux looks for the same two.
const WORDS_OF_POLICIES: [&str; 2] = ["is immutable", "immutable field"];

/// The immutable fields, if they are the only reason for the refusal: an object that is invalid for another reason
/// would be deleted and could not be created again. Never empty; if the refusal names no field, it is `the object`.
pub fn fields(status: &Status) -> Option<Vec<String>> {
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    if status.code != 422 || causes.is_empty() {
        let words: &[&str] = if status.code == 422 {
            &WORDS
        } else {
            &WORDS_OF_POLICIES
        };
        let refused = (400..500).contains(&status.code);
        return (refused && contains_phrase(&status.message, words)).then(|| vec!["the object".to_owned()]);
    }
    if !causes.iter().all(|cause| contains_phrase(&cause.message, &WORDS)) {
        return None;
    }
    let mut fields: Vec<String> = causes
        .iter()
        .map(|cause| {
            if cause.field.is_empty() {
                "the object".to_owned()
            } else {
                cause.field.clone()
            }
        })
        .collect();
    fields.dedup();
    Some(fields)
}

fn contains_phrase(message: &str, words: &[&str]) -> bool {
    let message = message.to_lowercase();
    words.iter().any(|word| message.contains(word))
}
