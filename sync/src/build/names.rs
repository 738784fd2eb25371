//! Names that no API server accepts, found before a request is sent.
//!
//! Only what *every* API server refuses: a rule that is too strict would reject a working object. Kinds of Kubernetes'
//! own groups are checked by their validation rules; for all others (custom resources, aggregated APIs) a name only has
//! to be a path segment.

use muster_api::{
    path::{self, SegmentError},
    validate::{NameError, names},
};

/// Why no API server accepts an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// The name or the namespace cannot be part of a path.
    #[error("cannot be part of a URL: {0}")]
    Segment(#[from] SegmentError),
    /// The name or the namespace is invalid for the kind.
    #[error("is not a name that an API server accepts: {0}")]
    Dns(#[from] NameError),
    /// The kind is not an identifier.
    #[error("is not a valid kind: use letters, digits and hyphens, starting with a letter")]
    Kind,
    /// The id in the inventory would be read back as that of another object.
    #[error(
        "would be recorded as the name of another object, because inventories write \":\" as \"__\": use neither \"__\" nor \"_:\" in it"
    )]
    Misread,
}

/// Checks an `apiVersion`.
pub fn api_version(text: &str) -> Result<(), NameProblem> {
    Ok(path::api_version(text)?)
}

/// Checks a kind.
pub fn kind(text: &str) -> Result<(), NameProblem> {
    let inner = |byte: u8| byte == b'-' || byte.is_ascii_alphanumeric();
    let well = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(inner);
    well.then_some(()).ok_or(NameProblem::Kind)
}

/// Checks the name of a namespace.
pub fn namespace(text: &str) -> Result<(), NameProblem> {
    path::check(text)?;
    Ok(names::dns_label(text)?)
}

/// Checks the name of an object.
pub fn name(group: &str, kind: &str, text: &str) -> Result<(), NameProblem> {
    path::check(text)?;
    match (group, kind) {
        ("", "Namespace" | "Service") => names::dns_label(text)?,
        // An IP address, a driver name in mixed case, or a generated name.
        ("networking.k8s.io", "IPAddress") | ("storage.k8s.io", "CSIDriver") | ("", "Event") => {}
        (
            ""
            | "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apps"
            | "autoscaling"
            | "batch"
            | "coordination.k8s.io"
            | "discovery.k8s.io"
            | "networking.k8s.io"
            | "node.k8s.io"
            | "policy"
            | "scheduling.k8s.io"
            | "storage.k8s.io",
            _,
        ) => names::dns_subdomain(text)?,
        _ => {}
    }
    Ok(())
}
