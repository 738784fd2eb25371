//! `targetNamespace`: for namespaced kinds, by discovery and not by the text.

use kube::core::GroupVersionKind;
use serde_json::Value;

use super::{BuildErrors, Manifest, duplicates};

/// Puts all objects of namespaced kinds into one namespace, whatever they say. Two objects that become the same one thereby are
/// an error.
pub fn set_namespace(
    manifests: &mut [Manifest],
    namespace: &str,
    is_namespaced: impl Fn(&GroupVersionKind) -> bool,
) -> Result<(), BuildErrors> {
    for manifest in manifests
        .iter_mut()
        .filter(|manifest| is_namespaced(&manifest.gvk()))
    {
        if let Some(Value::Object(metadata)) = manifest.object.get_mut("metadata") {
            metadata.insert("namespace".to_owned(), Value::String(namespace.to_owned()));
        }
    }
    BuildErrors::unless_empty(duplicates(manifests))
}
