//! A Cluster or a Node, whose annotations may carry controls.

use std::collections::BTreeMap;

use super::reasons::Vocabulary;
use crate::registry::ClusterRow;

/// A Cluster or a Node with its annotations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// The vocabulary of its messages.
    pub words: &'static Vocabulary,
    /// Name of the object.
    pub name: &'a str,
    /// Annotations of the object.
    pub annotations: &'a BTreeMap<String, String>,
}

impl<'a> Unit<'a> {
    /// From a Cluster.
    pub(crate) const fn of_cluster(cluster: &'a ClusterRow) -> Self {
        Self {
            words: &Vocabulary::CLUSTERS,
            name: cluster.name.as_str(),
            annotations: &cluster.annotations,
        }
    }

    /// The object, for kubectl: `node/n1`.
    pub(crate) fn object(&self) -> String {
        format!("{}/{}", self.words.unit, self.name)
    }
}
