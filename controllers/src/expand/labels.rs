//! The labels of what an assemblage is expanded into. They are for people and for lists; nothing is ever done to an object because of them.

use std::collections::BTreeMap;

use muster_api::{
    labels::{MUSTER, label},
    schema::MAX_LABEL,
};

/// The keys that are ours to set.
pub(crate) const KEYS: &[&str] = &[label::APP_MANAGED_BY, label::ASSEMBLAGE];

/// The labels of a Kustomization of `assemblage`.
pub(crate) fn of_kustomization(assemblage: &str) -> BTreeMap<String, String> {
    let mut labels = of_source();
    // The name of an object may be longer than the value of a label: then the owner reference alone tells.
    if assemblage.len() <= MAX_LABEL {
        labels.insert(label::ASSEMBLAGE.to_owned(), assemblage.to_owned());
    }
    labels
}

/// The labels of a source, which all assemblages of a namespace share.
pub(crate) fn of_source() -> BTreeMap<String, String> {
    BTreeMap::from([(label::APP_MANAGED_BY.to_owned(), MUSTER.to_owned())])
}

/// Whether the labels say that muster made the object.
pub(crate) fn is_ours(labels: &BTreeMap<String, String>) -> bool {
    labels
        .get(label::APP_MANAGED_BY)
        .is_some_and(|value| value == MUSTER)
}
