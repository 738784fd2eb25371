//! All served resources at one moment: the built-in kinds and those of established definitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{Resource, builtin};

/// The resources of one version of a group, by plural.
pub(crate) type Resources = BTreeMap<String, Arc<Resource>>;

/// The served resources; shared by all requests that start before the next change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    groups: BTreeMap<(String, String), Resources>,
}

impl Catalog {
    /// The catalog with the built-in kinds.
    pub(crate) fn builtin() -> Self {
        let mut catalog = Self::default();
        for resource in builtin::all() {
            catalog.insert(resource.clone());
        }
        catalog
    }

    /// Adds or replaces a resource.
    pub(crate) fn insert(&mut self, resource: Arc<Resource>) {
        let key = (resource.group.clone(), resource.version.clone());
        self.groups
            .entry(key)
            .or_default()
            .insert(resource.plural.clone(), resource);
    }

    /// Removes all versions of a resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        for ((g, _), resources) in &mut self.groups {
            if g == group {
                resources.remove(plural);
            }
        }
        self.groups.retain(|_, resources| !resources.is_empty());
    }

    /// The resource at a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?.get(plural)
    }

    /// The resource of a kind.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.version(group, version)?
            .values()
            .find(|resource| resource.kind == kind)
    }

    /// The resources of a group and version.
    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&Resources> {
        self.groups.get(&(group.to_owned(), version.to_owned()))
    }

    /// All groups and versions, in order of names.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&str, &str, &Resources)> {
        self.groups
            .iter()
            .map(|((group, version), resources)| (group.as_str(), version.as_str(), resources))
    }

    /// All groups except the core group, each with its versions, the preferred one first.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<(&str, &Resources)>> {
        let mut groups: BTreeMap<&str, Vec<(&str, &Resources)>> = BTreeMap::new();
        for (group, version, resources) in self.versions().filter(|(group, ..)| !group.is_empty()) {
            groups.entry(group).or_default().push((version, resources));
        }
        for versions in groups.values_mut() {
            versions.sort_by(|a, b| priority(b.0).cmp(&priority(a.0)).then_with(|| a.0.cmp(b.0)));
        }
        groups
    }

    /// The resource of a store.
    pub(crate) fn of_store(&self, storage: &crate::status::GroupResource) -> Option<&Arc<Resource>> {
        let start = (storage.group.clone(), String::new());
        let versions = self
            .groups
            .range(start..)
            .take_while(|((group, _), _)| *group == storage.group);
        versions
            .into_iter()
            .find_map(|(_, resources)| resources.get(&storage.resource))
    }

    /// One resource per store: with these every object is visited once.
    pub(crate) fn stores(&self) -> BTreeMap<crate::status::GroupResource, Arc<Resource>> {
        let all = self.groups.values().flat_map(BTreeMap::values);
        all.filter(|resource| resource.storage == resource.group_resource())
            .map(|resource| (resource.storage.clone(), resource.clone()))
            .collect()
    }
}

/// Kubernetes' order of versions: GA over beta over alpha, then the higher number; others last.
fn priority(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse() else {
        return (0, 0, 0);
    };
    let (stability, tail) = match &rest[digits..] {
        "" => (3, ""),
        beta if beta.starts_with("beta") => (2, &beta[4..]),
        alpha if alpha.starts_with("alpha") => (1, &alpha[5..]),
        _ => return (0, 0, 0),
    };
    (stability, major, tail.parse().unwrap_or_default()) // `v1beta` counts as its zeroth
}

/// The current catalog, replaced as a whole.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    current: RwLock<Arc<Catalog>>,
}

impl Registry {
    /// A registry with the built-in kinds.
    pub(crate) fn builtin() -> Self {
        use std::sync::LazyLock;
        static BUILTIN: LazyLock<Arc<Catalog>> = LazyLock::new(|| Arc::new(Catalog::builtin()));
        Self {
            current: RwLock::new(BUILTIN.clone()),
        }
    }

    /// The current catalog.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.current.read().clone()
    }

    /// Changes the catalog.
    pub(crate) fn change(&self, edit: impl FnOnce(&mut Catalog)) {
        let mut current = self.current.write();
        edit(Arc::make_mut(&mut current));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_kubernetes_does() {
        let mut versions = [
            "foo1",
            "v1alpha2",
            "v2",
            "v1beta1",
            "v10",
            "v1",
            "v3beta2",
            "v1alpha10",
        ];
        versions.sort_by(|a, b| priority(b).cmp(&priority(a)).then_with(|| a.cmp(b)));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v3beta2",
                "v1beta1",
                "v1alpha10",
                "v1alpha2",
                "foo1"
            ]
        );
    }
}
