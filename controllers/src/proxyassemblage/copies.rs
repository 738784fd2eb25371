//! The copies of Secrets in a cluster, as recorded by an annotation of its mirror.

use std::collections::BTreeMap;

use kube::ResourceExt;
use muster_api::{Assemblage, labels::annotation, validate::names::dns_subdomain};
use serde_json::json;

/// The prefix of the names of copies.
pub const PREFIX: &str = "git-";

/// Copies by name, with the uid and resourceVersion of their original Secrets.
pub(super) type Copies = BTreeMap<String, String>;

/// The copies in the cluster, as recorded by its mirror.
pub(super) fn recorded(live: Option<&Assemblage>) -> Copies {
    let text = live.and_then(|live| live.annotations().get(annotation::DISTRIBUTED));
    let mut copies: Copies = text
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    // The annotation is data from the cluster, and names what is deleted there.
    copies.retain(|copy, _| copy.starts_with(PREFIX) && dns_subdomain(copy).is_ok());
    copies
}

/// The value of the annotation.
pub(super) fn recorded_copies(copies: &Copies) -> Option<(String, String)> {
    (!copies.is_empty()).then(|| (annotation::DISTRIBUTED.to_owned(), json!(copies).to_string()))
}
