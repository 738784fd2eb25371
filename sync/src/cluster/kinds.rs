//! Discovery cache: resource names and scopes of the kinds that were looked up.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::RwLock;

/// How a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Group, version, kind, and plural name.
    pub resource: ApiResource,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
}

/// The cached kinds, by `apiVersion` and kind. Bounded by what the cluster serves; an unknown kind is looked up each
/// time.
#[derive(Debug, Default)]
pub struct Kinds(RwLock<BTreeMap<String, BTreeMap<String, Kind>>>);

impl Kinds {
    /// A cached kind.
    pub fn get(&self, api_version: &str, kind: &str) -> Option<Kind> {
        self.0.read().get(api_version)?.get(kind).cloned()
    }

    /// Caches the server's list for an `apiVersion`, and returns it by kind.
    pub(crate) fn learn(&self, api_version: &str, list: &APIResourceList) -> BTreeMap<String, Kind> {
        let (group, version) = split_api_version(api_version);
        let kinds: BTreeMap<String, Kind> = list
            .resources
            .iter()
            // Subresources have the kind of their request body, not a kind of their own.
            .filter(|resource| !resource.name.contains('/'))
            .map(|resource| {
                let gvk = GroupVersionKind::gvk(group, version, &resource.kind);
                let resource_of_kind = ApiResource::from_gvk_with_plural(&gvk, &resource.name);
                (
                    resource.kind.clone(),
                    Kind {
                        resource: resource_of_kind,
                        namespaced: resource.namespaced,
                    },
                )
            })
            .collect();
        self.0.write().insert(api_version.to_owned(), kinds.clone());
        kinds
    }

    /// Drops every version of a group.
    pub(crate) fn drop_group(&self, group: &str) {
        self.0
            .write()
            .retain(|api_version, _| split_api_version(api_version).0 != group);
    }
}

/// Splits an `apiVersion` into group and version.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
