//! Which kind of assemblage carries which kind of module: the only difference between Modules and BootstrapModules.

use std::fmt::Debug;

use kube::{
    Resource,
    core::{
        NamespaceResourceScope,
        object::{HasSpec, HasStatus},
    },
};
use muster_api::{
    assemblage::{AssemblageStatus, ProxyAssemblage, RemoteAssemblage, TargetedAssemblageSpec},
    module::{BootstrapModule, Module, ModuleObject},
};
use serde::{Serialize, de::DeserializeOwned};

/// A kind of module, and how its rows are delivered.
pub trait Rolled: ModuleObject {
    /// The kind of assemblage that its rows are written to.
    type Assemblage: Carrier;
    /// Whether a cluster needs the agent's CRD and namespace before it can get a row.
    const NEEDS_AGENT: bool;
}

impl Rolled for Module {
    type Assemblage = ProxyAssemblage;
    const NEEDS_AGENT: bool = true;
}

impl Rolled for BootstrapModule {
    type Assemblage = RemoteAssemblage;
    const NEEDS_AGENT: bool = false;
}

/// A kind of assemblage of the management cluster.
pub trait Carrier:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasSpec<Spec = TargetedAssemblageSpec>
    + HasStatus<Status = AssemblageStatus>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
    /// Creates an assemblage.
    fn make(name: &str, spec: TargetedAssemblageSpec) -> Self;
}

impl Carrier for ProxyAssemblage {
    fn make(name: &str, spec: TargetedAssemblageSpec) -> Self {
        Self::new(name, spec)
    }
}

impl Carrier for RemoteAssemblage {
    fn make(name: &str, spec: TargetedAssemblageSpec) -> Self {
        Self::new(name, spec)
    }
}
