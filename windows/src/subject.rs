//! Whom windows are asked about.

use std::collections::BTreeMap;

use muster_api::module::ModuleKind;

/// What windows ask of a Cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
}

/// What windows ask of a Module or BootstrapModule.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// Which of the two.
    pub kind: ModuleKind,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}
