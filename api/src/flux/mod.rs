//! Flux's `GitRepository`, `OCIRepository` and `Kustomization`, as far as muster writes and reads them.
//!
//! The same types serve both modes (except `OCIRepository`, which only Flux reconciles): where Flux is installed,
//! muster writes these objects and reads Flux's status; elsewhere muster's own sync controllers reconcile them, with
//! CRDs generated from these types.
//!
//! Invariant: a field that is not modelled here is never lost when an object is read. It is kept in `other`, so that
//! the sync controllers can reject it by name instead of ignoring it.

mod gitrepository;
mod kustomization;
mod ocirepository;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use gitrepository::{
    Artifact, GitRepository, GitRepositoryRef, GitRepositorySpec, GitRepositoryStatus,
    GitRepositoryVerification,
};
pub use kustomization::{
    DeletionPolicy, DependencyReference, HealthCheckExpressions, Inventory, InventoryEntry,
    KubeConfigReference, Kustomization, KustomizationSpec, KustomizationStatus, ObjectReference, PostBuild,
    SecretKeyReference, SourceReference, SubstituteReference, SubstituteSourceKind,
};

pub use ocirepository::{OciRepository, OciRepositorySpec};

/// Reference to an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalObjectReference {
    /// Name of the object.
    #[schemars(length(max = 253))]
    pub name: String,
}

/// The commit of an artifact revision: what follows the last `:` of `<ref>@sha1:<hex>`, or the whole text.
///
/// Only this part is compared: the same commit may be reached through a tag, a branch or its hash.
pub fn commit_of(revision: &str) -> &str {
    revision.rsplit(':').next().unwrap_or(revision)
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::{GitRepository, Kustomization, commit_of};

    #[test]
    fn what_is_not_modelled_is_kept_by_its_name() {
        let object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": {"name": "app", "namespace": "default"},
            "spec": {
                "interval": "10m",
                "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": "app"},
                "kubeConfig": {"configMapRef": {"name": "access"}},
                "dependsOn": [{"name": "base", "readyExpr": "true"}],
                "decryption": {"provider": "sops"},
            },
        });
        let typed: Kustomization = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(typed.spec.other["decryption"], json!({"provider": "sops"}));
        assert_eq!(serde_json::to_value(&typed).unwrap(), object);
    }

    #[test]
    fn the_schemas_are_structural() {
        for crd in [GitRepository::crd(), Kustomization::crd()] {
            let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
            assert_no_open_properties(&schema["openAPIV3Schema"], "");
        }
    }

    /// An API server rejects `properties` in combination with `additionalProperties`.
    fn assert_no_open_properties(schema: &Value, path: &str) {
        assert!(
            schema.get("properties").is_none() || schema.get("additionalProperties").is_none(),
            "{path}: properties and additionalProperties"
        );
        assert!(
            schema.get("type").is_some() || schema.get("$ref").is_none(),
            "{path}: reference"
        );
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            assert_no_open_properties(property, &format!("{path}.{name}"));
        }
        if let Some(items) = schema.get("items") {
            assert_no_open_properties(items, &format!("{path}[]"));
        }
    }

    #[test]
    fn only_what_follows_the_last_colon_is_the_commit() {
        for (revision, commit) in [
            ("sha1:0a1b", "0a1b"),
            ("main@sha1:0a1b", "0a1b"),
            ("refs/tags/v1:2@sha1:0a1b", "0a1b"),
            ("0a1b", "0a1b"),
            ("", ""),
        ] {
            assert_eq!(commit_of(revision), commit, "{revision}");
        }
    }
}
