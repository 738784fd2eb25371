//! Fingerprints: all that we derive of an object as one hash, the same for the derived and for the live one.
//!
//! They let an index say "as derived" without keeping specs, and leave out what is not ours to say: `suspend`, other labels, other owners.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use muster_api::{
    digest,
    flux::{Kustomization, KustomizationSpec},
    kind::GROUP,
};
use serde::Serialize;

use super::{
    derive::derived_annotations,
    flux_object::{SourceKind, content},
    labels,
};

/// The hash of what we derive of an object. The derived and the live one are of one type, so that equal ones are equal texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Print(String);

/// The fingerprint of a Kustomization, derived or live: its spec, our labels and annotations on it, and the assemblage that owns it.
pub fn kustomization_print(object: &Kustomization) -> Print {
    let labels: BTreeMap<&String, &String> = object
        .labels()
        .iter()
        .filter(|(key, _)| labels::KEYS.contains(&key.as_str()))
        .collect();
    let owners: Vec<&OwnerReference> = object
        .owner_references()
        .iter()
        .filter(|owner| owner.api_version.starts_with(GROUP))
        .collect();
    let spec = KustomizationSpec {
        suspend: None,
        ..object.spec.clone()
    };
    print(&(spec, labels, derived_annotations(object), owners))
}

/// The fingerprint of a source, derived or live: its spec alone, for sources are shared.
pub fn source_print(object: &impl SourceKind) -> Print {
    print(&object.spec(None))
}

/// The fingerprint of what a source says by which it is named: defaults of the kind are no part of it.
pub fn content_print(object: &impl SourceKind) -> Print {
    print(&content(object))
}

/// `suspend` is another's to set. Flux's types are plain data with text keys, which always have a JSON form.
fn print(data: &impl Serialize) -> Print {
    Print(digest::sha256_hex(&[
        &serde_json::to_string(data).unwrap_or_default()
    ]))
}
