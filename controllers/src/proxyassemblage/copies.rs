//! Which copies of Secrets are in a cluster, as the annotation of its mirror says.

use std::collections::BTreeMap;

use kube::ResourceExt;
use muster_api::{Assemblage, labels::annotation, validate::names::dns_subdomain};
use serde_json::json;

/// What names of copies begin with.
pub const PREFIX: &str = "git-";

/// Copies by their names, with uid and version of the Secret that each was made of.
pub(super) type Copies = BTreeMap<String, String>;

/// The copies that are in the cluster, as its mirror says.
pub(super) fn recorded(live: Option<&Assemblage>) -> Copies {
    let text = live.and_then(|live| live.annotations().get(annotation::DISTRIBUTED));
    let mut copies: Copies = text
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    // It is data of the cluster, and names what is deleted there.
    copies.retain(|copy, _| copy.starts_with(PREFIX) && dns_subdomain(copy).is_ok());
    copies
}

/// As the mirror says it.
pub(super) fn record(copies: &Copies) -> Option<(String, String)> {
    (!copies.is_empty()).then(|| (annotation::DISTRIBUTED.to_owned(), json!(copies).to_string()))
}
