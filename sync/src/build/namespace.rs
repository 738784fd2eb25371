//! `targetNamespace`: applies to namespaced kinds, according to discovery and not to the manifest.

use kube::core::GroupVersionKind;
use serde_json::Value;

use super::{BuildErrors, Manifest, duplicates};

/// Moves all objects of namespaced kinds into one namespace, overriding their own. Two objects that become the same one
/// are an error.
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
