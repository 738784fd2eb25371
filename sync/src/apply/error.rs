//! Errors by object. The messages name the object, the action, and the server's reason.

use std::fmt;

use muster_api::conditions::SHARED_OBJECT;

use super::immutable;
use crate::{build::NameProblem, cluster::CallError, inventory::ObjectId};

/// An object that was refused or could not be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFailure {
    /// The object.
    pub id: ObjectId,
    /// CamelCase reason: the server's (`Forbidden`, `Invalid`, …) or ours.
    pub reason: String,
    /// What was tried and why it failed, for display. Never contains a value of a Secret.
    pub message: String,
    /// Whether the cluster, not the object, is the cause.
    pub of_cluster: bool,
}

/// Manifests that cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// API discovery failed.
    #[error("API discovery failed: {0}")]
    Discovery(#[source] CallError),
}

/// Objects that could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The inventory could not be written, so nothing was tried.
    #[error("the inventory cannot be written, so nothing is applied: {0}")]
    Ledger(#[source] LedgerError),
    /// Some objects were refused; all others of their stage were tried, later stages were not.
    #[error("{}", summary(.failures, *.not_tried))]
    Objects {
        /// The refused objects, in the order of applying; never empty.
        failures: Vec<ObjectFailure>,
        /// How many objects were not tried because an earlier stage failed.
        not_tried: usize,
    },
}

/// Why the inventory could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LedgerError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for ObjectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.message)
    }
}

impl ObjectFailure {
    /// A call that failed: `action` is what was tried, such as `dry-run` or `apply`.
    pub fn call(id: ObjectId, action: &str, error: &CallError) -> Self {
        let reason = error.reason().to_owned();
        let words = refusal_text(&id, error);
        let message = format!("{action} failed ({reason}): {words}");
        Self {
            id,
            reason,
            message,
            of_cluster: error.is_of_cluster(),
        }
    }

    /// Nothing was tried, because the cluster is unreachable.
    pub fn away(id: ObjectId, why: impl Into<String>) -> Self {
        Self {
            of_cluster: true,
            ..Self::ours(id, "Unreachable", format!("was not tried: {}", why.into()))
        }
    }

    /// Whether a retry is likely to succeed: the cluster is the cause, an object is still terminating or being
    /// established, or another client wrote first.
    pub fn is_transient(&self) -> bool {
        let passes = ["Conflict", "NotEstablished", "NotServed", "Terminating"];
        self.of_cluster || passes.contains(&self.reason.as_str())
    }

    /// Whether the server answered. If so, nothing was written.
    pub fn is_answered(&self) -> bool {
        !self.of_cluster && self.reason != "TooLong"
    }

    /// A refused dry run, with advice if there is any.
    pub(super) fn refused(id: ObjectId, error: &CallError, advice: Option<String>) -> Self {
        let mut failure = Self::call(id, "dry-run", error);
        if let Some(advice) = advice.filter(|_| failure.reason == "Invalid") {
            failure.message = format!("{}; {advice}", failure.message);
        }
        failure
    }

    /// An immutable field differs, and force is not set.
    pub(super) fn immutable(id: ObjectId, error: &CallError, fields: &[String]) -> Self {
        let mut failure = Self::call(id, "dry-run", error);
        failure.message = format!(
            "{}; {} cannot be changed: set spec.force, or the annotation kustomize.toolkit.fluxcd.io/force: enabled on the \
             object, to delete it and create it again",
            failure.message,
            fields.join(", "),
        );
        failure
    }

    /// A kind that the cluster does not serve.
    pub(super) fn unknown_kind(id: ObjectId, api_version: &str) -> Self {
        let message = format!(
            "cannot be applied: no matches for kind {:?} in version {api_version:?}; is its CRD installed?",
            id.kind
        );
        Self::ours(id, "NoKindMatch", message)
    }

    pub(super) fn no_namespace(id: ObjectId) -> Self {
        Self::ours(
            id,
            "NoNamespace",
            "namespace not specified; set it in the manifest or with spec.targetNamespace",
        )
    }

    /// An object that no API server accepts.
    pub(super) fn invalid_name(id: ObjectId, problem: &NameProblem) -> Self {
        Self::ours(
            id,
            "InvalidName",
            format!("cannot be applied: its name or namespace {problem}"),
        )
    }

    /// The id of the object would be read back as that of another object.
    pub(super) fn misread_name(id: ObjectId) -> Self {
        let problem = NameProblem::Misread;
        Self::ours(id, "MisreadName", format!("is not applied: its name {problem}"))
    }

    pub(super) fn no_metadata(id: ObjectId) -> Self {
        Self::ours(id, "Invalid", "has no metadata")
    }

    pub(super) fn labels_are_no_map(id: ObjectId) -> Self {
        Self::ours(id, "Invalid", "metadata.labels is not a map")
    }

    pub(super) fn duplicate(id: ObjectId) -> Self {
        Self::ours(
            id,
            "Duplicate",
            "occurs twice once spec.targetNamespace is set; rename one of them",
        )
    }

    pub(super) fn terminating(id: ObjectId) -> Self {
        Self::ours(
            id,
            "Terminating",
            "is being deleted; it is created again once it is gone",
        )
    }

    pub(super) fn overtaken(id: ObjectId) -> Self {
        Self::ours(
            id,
            "Conflict",
            "was changed by another client each time that its fields were about to be taken over; retrying",
        )
    }

    pub(super) fn not_served(id: ObjectId, api_version: &str, kind: &str) -> Self {
        Self::ours(
            id,
            "NotServed",
            format!("is established, but {kind} in version {api_version:?} is not served yet"),
        )
    }

    pub(super) fn not_established(id: ObjectId, why: &str) -> Self {
        Self::ours(id, "NotEstablished", format!("is not established: {why}"))
    }

    pub(super) fn not_gone(id: ObjectId) -> Self {
        Self::ours(
            id,
            "Terminating",
            "was deleted to be re-created, but is not gone yet; its finalizers are still pending",
        )
    }

    /// Another Kustomization holds the object and declares it differently.
    pub(super) fn shared(id: ObjectId, holder: &str, field: &str) -> Self {
        Self::ours(
            id,
            SHARED_OBJECT,
            format!(
                "is managed by {holder}, and {field} is declared differently there: declare the same in both, or remove the object from one of \
                 them"
            ),
        )
    }

    /// It is unknown which other Kustomizations declare the object.
    pub(super) fn unknown_declarers(id: ObjectId, what: &str, why: &str) -> Self {
        Self::ours(id, "DeclarersUnknown", format!("{what}: {why}"))
    }

    /// Whether another Kustomization holds the object and declares it differently.
    pub fn is_shared(&self) -> bool {
        self.reason == SHARED_OBJECT
    }

    fn ours(id: ObjectId, reason: &str, message: impl Into<String>) -> Self {
        Self {
            id,
            reason: reason.to_owned(),
            message: message.into(),
            of_cluster: false,
        }
    }
}

/// The server's message, truncated if it is long. A server quotes invalid values, so for a Secret only the fields are
/// named.
fn refusal_text(id: &ObjectId, error: &CallError) -> String {
    match error {
        CallError::Refused(status) if id.group.is_empty() && id.kind == "Secret" => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let fields: Vec<&str> = causes
                .map(|cause| cause.field.as_str())
                .filter(|field| !field.is_empty())
                .collect();
            let withheld = "the server's message is withheld, because it may quote the Secret";
            if fields.is_empty() {
                withheld.to_owned()
            } else {
                bounded(format!("{} ({withheld})", fields.join(", ")))
            }
        }
        CallError::Refused(_)
        | CallError::Deadline(_)
        | CallError::TooLong(_)
        | CallError::Unreachable { .. }
        | CallError::Garbled(_)
        | CallError::Request(_) => bounded(error.to_string()),
    }
}

/// The maximum length of a server's message in bytes, short enough that the counts of other failures still fit into a
/// condition.
const WORDS_MAX: usize = 4096;

fn bounded(mut words: String) -> String {
    if words.len() > WORDS_MAX {
        let cut = words.len() - words.floor_char_boundary(WORDS_MAX);
        words.truncate(words.len() - cut);
        words = format!("{words}… ({cut} bytes more)");
    }
    words
}

/// The first failed object in full, then counts.
pub fn summary(failures: &[ObjectFailure], not_tried: usize) -> String {
    let mut text = failures.first().map(ToString::to_string).unwrap_or_default();
    if failures.len() > 1 {
        text = format!("{text}; and {} more failed", failures.len() - 1);
    }
    if not_tried > 0 {
        text = format!("{text}; {not_tried} of later stages not tried");
    }
    text
}

/// The fields that a refusal calls immutable.
pub(super) fn immutable_fields(error: &CallError) -> Option<Vec<String>> {
    match error {
        CallError::Refused(status) => immutable::fields(status),
        CallError::Deadline(_)
        | CallError::TooLong(_)
        | CallError::Unreachable { .. }
        | CallError::Garbled(_)
        | CallError::Request(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;
    use crate::apply::LedgerError;

    fn id(kind: &str) -> ObjectId {
        ObjectId {
            namespace: "default".into(),
            name: "a".into(),
            group: String::new(),
            kind: kind.into(),
        }
    }

    fn refused() -> CallError {
        let status = json!({"status": "Failure", "code": 422, "reason": "Invalid",
            "message": "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set",
            "details": {"causes": [{"field": "data", "message": "Forbidden: field is immutable when `immutable` is set"}]}});
        let status: Status = serde_json::from_value(status).unwrap();
        CallError::Refused(Box::new(status))
    }

    fn calls() -> Vec<CallError> {
        let garbled = serde_json::from_str::<Answer>("<html>").unwrap_err();
        let all = vec![
            refused(),
            CallError::Refused(Box::new(Status::failure("404 page not found", "").with_code(404))),
            CallError::Deadline(std::time::Duration::from_secs(30)),
            CallError::TooLong(crate::apply::RESPONSE_LIMIT),
            CallError::Unreachable {
                words: "client error (Connect): connection refused".into(),
                source: Box::new(kube::Error::LinesCodecMaxLineLengthExceeded),
            },
            CallError::Garbled(garbled),
            CallError::Request("invalid uri character".into()),
        ];
        for call in &all {
            // Add new variants above.
            match call {
                CallError::Refused(_)
                | CallError::Deadline(_)
                | CallError::TooLong(_)
                | CallError::Unreachable { .. }
                | CallError::Garbled(_)
                | CallError::Request(_) => {}
            }
        }
        all
    }

    #[derive(Debug, serde::Deserialize)]
    struct Answer {}

    fn lines<T: fmt::Display>(all: impl IntoIterator<Item = (String, T)>) -> String {
        let lines: Vec<String> = all
            .into_iter()
            .map(|(word, error)| format!("{word}: {error}"))
            .collect();
        lines.join("\n")
    }

    #[test]
    fn calls_that_did_not_succeed() {
        let all = calls().into_iter().map(|call| {
            let of = if call.is_of_cluster() { "cluster" } else { "object" };
            (format!("{} ({of})", call.reason()), call)
        });
        insta::assert_snapshot!(lines(all));
    }

    #[test]
    fn objects_that_could_not_be_applied() {
        let a = || id("ConfigMap");
        let fields = ["data".to_owned(), "binaryData".to_owned()];
        let all = [
            ObjectFailure::call(a(), "apply", &refused()),
            ObjectFailure::call(id("Secret"), "apply", &refused()),
            ObjectFailure::call(
                id("Secret"),
                "dry-run",
                &CallError::Refused(Box::new(
                    Status::failure("it quotes hunter2", "Conflict").with_code(409),
                )),
            ),
            ObjectFailure::call(
                a(),
                "discovery",
                &CallError::Deadline(std::time::Duration::from_secs(30)),
            ),
            ObjectFailure::immutable(a(), &refused(), &fields),
            ObjectFailure::unknown_kind(id("Gadget"), "example.org/v1"),
            ObjectFailure::no_namespace(a()),
            ObjectFailure::invalid_name(a(), &NameProblem::Kind),
            ObjectFailure::misread_name(a()),
            ObjectFailure::no_metadata(a()),
            ObjectFailure::labels_are_no_map(a()),
            ObjectFailure::duplicate(a()),
            ObjectFailure::terminating(a()),
            ObjectFailure::overtaken(a()),
            ObjectFailure::not_established(a(), "not within 30 s"),
            ObjectFailure::not_served(a(), "example.org/v1", "Gadget"),
            ObjectFailure::not_gone(a()),
            ObjectFailure::shared(a(), "Kustomization fleet/base", "data.key"),
            ObjectFailure::unknown_declarers(
                a(),
                "was not deleted",
                "Kustomization fleet/base cannot be read",
            ),
            ObjectFailure::away(a(), "NoKubeconfig: Secret fleet/eu-1 does not exist"),
        ];
        insta::assert_snapshot!(lines(all.map(|failure| {
            let passes = if failure.is_transient() { ", passes" } else { "" };
            (format!("{}{passes}", failure.reason), failure)
        })));
    }

    #[test]
    fn manifests_that_cannot_be_planned() {
        let deadline = CallError::Deadline(std::time::Duration::from_secs(30));
        let all = [("Discovery".to_owned(), PlanError::Discovery(deadline))];
        insta::assert_snapshot!(lines(all));
    }

    #[test]
    fn applications_that_failed() {
        let failures = vec![
            ObjectFailure::terminating(id("ConfigMap")),
            ObjectFailure::no_metadata(id("Secret")),
        ];
        let all = [
            ApplyError::Ledger(LedgerError("the object has been modified".into())),
            ApplyError::Objects {
                failures,
                not_tried: 3,
            },
        ];
        insta::assert_snapshot!(lines(all.map(|error| {
            let variant = match error {
                ApplyError::Ledger(_) => "Ledger",
                ApplyError::Objects { .. } => "Objects",
            };
            (variant.to_owned(), error)
        })));
    }
}
