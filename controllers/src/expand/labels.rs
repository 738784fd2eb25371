//! The labels of derived objects. They are for people and for lists; muster never decides anything by them.

use std::collections::BTreeMap;

use muster_api::{
    labels::{MUSTER, label},
    schema::MAX_LABEL,
};

/// The label keys that muster sets.
pub(crate) const KEYS: &[&str] = &[label::APP_MANAGED_BY, label::ASSEMBLAGE];

/// The labels of a Kustomization of `assemblage`.
pub(crate) fn of_kustomization(assemblage: &str) -> BTreeMap<String, String> {
    let mut labels = of_source();
    // An object's name may be longer than a label's value: then only the owner reference identifies it.
    if assemblage.len() <= MAX_LABEL {
        labels.insert(label::ASSEMBLAGE.to_owned(), assemblage.to_owned());
    }
    labels
}

/// The labels of a source, which all assemblages of a namespace share.
pub(crate) fn of_source() -> BTreeMap<String, String> {
    BTreeMap::from([(label::APP_MANAGED_BY.to_owned(), MUSTER.to_owned())])
}

/// Whether the labels state that muster created the object.
pub(crate) fn has_muster_labels(labels: &BTreeMap<String, String>) -> bool {
    labels
        .get(label::APP_MANAGED_BY)
        .is_some_and(|value| value == MUSTER)
}
