//! Fingerprints: a hash of everything that muster derives of an object, equal for the derived and the live object.
//!
//! An index can thus tell "as derived" without keeping specs. Fields that muster does not own are left out: `suspend`,
//! other labels, other owners.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use muster_api::{
    digest,
    flux::{Kustomization, KustomizationSpec},
    kind::GROUP,
    labels::annotation,
};
use serde::Serialize;

use super::{
    flux_object::{FluxObject, SourceKind, content},
    labels,
};

/// The hash of the derived part of an object. The derived and the live object are of one type, so equal objects
/// serialize equally.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Print(String);

/// The keys of the annotations that are derived from a package.
pub const ANNOTATIONS: &[&str] = &[annotation::SETTLE, annotation::ASSUME, annotation::PLAN];

/// The annotations derived from a package.
pub fn derived_annotations(object: &Kustomization) -> BTreeMap<&String, &String> {
    let derived = |key: &str| ANNOTATIONS.contains(&key);
    object
        .annotations()
        .iter()
        .filter(|(key, _)| derived(key))
        .collect()
}

/// The fingerprint of a Kustomization, derived or live: its spec, muster's labels and annotations on it, and the
/// assemblage that owns it.
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

/// The fingerprint of a source, derived or live: its spec alone, because sources are shared.
pub fn source_print(object: &impl SourceKind) -> Print {
    print(&object.spec(None))
}

/// The fingerprint of a source of either kind.
pub(super) fn source_object_print(object: &FluxObject) -> Print {
    match object {
        FluxObject::Git(object) => source_print(&**object),
        FluxObject::Oci(object) => source_print(&**object),
    }
}

/// The fingerprint of the part of a source that its name is derived from, without defaults of the kind.
pub fn content_print(object: &impl SourceKind) -> Print {
    print(&content(object))
}

/// `suspend` belongs to other managers. Flux's types are plain data with text keys, which always serialize.
fn print(data: &impl Serialize) -> Print {
    Print(digest::sha256_hex(&[
        &serde_json::to_string(data).unwrap_or_default()
    ]))
}
