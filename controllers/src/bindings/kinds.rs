//! Which kinds bindings may read.

use std::collections::BTreeSet;

use muster_api::cluster;

/// A kind that bindings may read, beyond ConfigMap and Cluster (`--binding-kinds`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BindingKind {
    /// `v1`, `apps/v1`, ...
    pub api_version: String,
    /// The kind's name in the singular, as in `kind`.
    pub kind: String,
}

/// The kinds that bindings may read: ConfigMap, Cluster, and those of the flag. Never Secret.
#[derive(Clone, Debug, Default)]
pub struct Kinds(BTreeSet<BindingKind>);

impl Kinds {
    /// The kinds that are always readable, and `more`.
    pub fn new(more: &BTreeSet<BindingKind>) -> Self {
        Self(more.clone())
    }

    /// Whether objects of this kind may be read.
    pub fn allow(&self, api_version: &str, kind: &str) -> bool {
        match (api_version, kind) {
            (_, "Secret") => false,
            ("v1", "ConfigMap") => true,
            (version, "Cluster")
                if version
                    .strip_prefix(cluster::GROUP)
                    .is_some_and(|rest| rest.starts_with('/')) =>
            {
                true
            }
            _ => self
                .0
                .iter()
                .any(|more| more.api_version == api_version && more.kind == kind),
        }
    }

    /// The kinds as text for messages.
    pub fn names(&self) -> Vec<String> {
        let always = ["ConfigMap".to_owned(), "Cluster".to_owned()];
        let more = self
            .0
            .iter()
            .filter(|more| more.kind != "Secret")
            .map(|more| more.kind.clone());
        always.into_iter().chain(more).collect()
    }
}
