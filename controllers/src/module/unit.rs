//! What people annotate besides a module: a Cluster or a Node.

use std::collections::BTreeMap;

use super::reasons::Words;
use crate::registry::ClusterRow;

/// An object that people may annotate: a Cluster or a Node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// How it is named.
    pub words: &'static Words,
    /// Its name.
    pub name: &'a str,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
}

impl<'a> Unit<'a> {
    /// A cluster.
    pub(crate) const fn of_cluster(cluster: &'a ClusterRow) -> Self {
        Self {
            words: &Words::CLUSTERS,
            name: cluster.name.as_str(),
            annotations: &cluster.annotations,
        }
    }

    /// The object, as kubectl takes it: `node/n1`.
    pub(crate) fn object(&self) -> String {
        format!("{}/{}", self.words.unit, self.name)
    }
}
