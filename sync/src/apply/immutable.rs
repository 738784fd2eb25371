//! Refusals that only a new object can get around: a field that cannot be changed. Pure.

use kube::core::Status;

/// The words by which the rules of Kubernetes say so; there is no code for it.
const WORDS: [&str; 6] = [
    "immutable",
    "may not be changed",
    "cannot be changed",
    // A claim's, a Service's, and a Pod's.
    "may not change",
    // A RoleBinding's: "cannot change roleRef".
    "cannot change",
    // A StatefulSet's and a StorageClass's: "updates to … are forbidden".
    "updates to ",
];

/// The words of policies and webhooks, which answer with any code: Flux's two.
const WORDS_OF_POLICIES: [&str; 2] = ["is immutable", "immutable field"];

/// The fields that cannot be changed, if the server refuses for that and for nothing else: an object that is invalid
/// besides would be deleted and could not be created again. Never empty; a refusal that names no field gives `the object`.
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
        return (refused && says(&status.message, words)).then(|| vec!["the object".to_owned()]);
    }
    if !causes.iter().all(|cause| says(&cause.message, &WORDS)) {
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

fn says(message: &str, words: &[&str]) -> bool {
    let message = message.to_lowercase();
    words.iter().any(|word| message.contains(word))
}
