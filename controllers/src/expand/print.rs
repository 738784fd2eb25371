//! Fingerprints: all that we derive of an object as one hash, the same for the derived and for the live one.
//!
//! They let an index say "as derived" without keeping specs, and leave out what is not ours to say: `suspend`, other labels, other owners.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use muster_api::{
    digest,
    flux::{GitRepository, Kustomization},
    kind::GROUP,
};
use serde::Serialize;
use serde_json::Value;

use super::{derive::derived_annotations, labels};

/// The hash of what we derive of an object.
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
    print(&(
        without_suspend(&object.spec),
        labels,
        derived_annotations(object),
        owners,
    ))
}

/// The fingerprint of a GitRepository, derived or live: its spec alone, for sources are shared.
pub fn source_print(object: &GitRepository) -> Print {
    print(&without_suspend(&object.spec))
}

/// `suspend` is another's to set.
fn without_suspend(spec: &impl Serialize) -> Value {
    let mut spec = value(spec);
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("suspend");
    }
    spec
}

fn print(data: &impl Serialize) -> Print {
    Print(digest::sha256_hex(&[&digest::canonical(&value(data))]))
}

/// Flux's types are plain data with text keys, which always have a JSON form.
fn value(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or(Value::Null)
}
