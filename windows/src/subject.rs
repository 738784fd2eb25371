//! The cluster and the module that windows are evaluated for.

use std::collections::BTreeMap;

use muster_api::module::ModuleKind;

/// The parts of a Cluster that windows use.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Labels of the Cluster.
    pub labels: &'a BTreeMap<String, String>,
    /// Annotations of the Cluster.
    pub annotations: &'a BTreeMap<String, String>,
}

/// The parts of a Module or BootstrapModule that windows use.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// Module or BootstrapModule.
    pub kind: ModuleKind,
    /// Name of the module.
    pub name: &'a str,
    /// Labels of the module.
    pub labels: &'a BTreeMap<String, String>,
}
