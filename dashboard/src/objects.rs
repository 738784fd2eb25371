//! The objects that views are computed from.

use std::sync::Arc;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{ResourceExt, core::DynamicObject};
use muster_api::{
    ClusterUpgrade, ModuleRevision, UpdatePlan, ZoneRollout,
    assemblage::{AssemblageStatus, ProxyAssemblage, RemoteAssemblage, TargetedAssemblageSpec},
    module::{BootstrapModule, Module},
    node::{NodeAssemblage, NodeBudget, NodeModule, NodeRevision},
};

use crate::{FleetEvent, Kind};

/// The objects that a view is computed from.
#[derive(Debug, Default)]
pub struct Objects {
    /// Modules.
    pub modules: Vec<Arc<Module>>,
    /// BootstrapModules.
    pub bootstrap_modules: Vec<Arc<BootstrapModule>>,
    /// ClusterUpgrades, if their API is served.
    pub upgrades: Vec<Arc<ClusterUpgrade>>,
    /// ProxyAssemblages.
    pub proxies: Vec<Arc<ProxyAssemblage>>,
    /// RemoteAssemblages.
    pub remotes: Vec<Arc<RemoteAssemblage>>,
    /// Clusters, in the served version.
    pub clusters: Vec<Arc<DynamicObject>>,
    /// ModuleRevisions; read only for the pages that show them.
    pub revisions: Vec<Arc<ModuleRevision>>,
    /// ZoneRollouts, if their API is served; read only for the pages that show them.
    pub zones: Vec<Arc<ZoneRollout>>,
    /// UpdatePlans, if their API is served; read only for the pages that show them, without the stored objects that the
    /// decision was based on.
    pub update_plans: Vec<Arc<UpdatePlan>>,
    /// Events, newest first; read only for the pages that show them.
    pub events: Vec<Arc<FleetEvent>>,
    /// Objects that are rolled out to the nodes of this cluster.
    pub nodes: NodeObjects,
}

/// What is assigned to a cluster, and its reported status.
type Assigned<'a> = (&'a TargetedAssemblageSpec, Option<&'a AssemblageStatus>);

impl Objects {
    /// The assignments of a cluster for modules of a kind.
    pub(crate) fn assemblage(&self, kind: Kind, cluster: &str) -> Option<Assigned<'_>> {
        match kind {
            Kind::Module => {
                let mut all = self.proxies.iter();
                let found = all.find(|proxy| proxy.name_any() == cluster)?;
                Some((&found.spec, found.status.as_ref()))
            }
            Kind::BootstrapModule => {
                let mut all = self.remotes.iter();
                let found = all.find(|remote| remote.name_any() == cluster)?;
                Some((&found.spec, found.status.as_ref()))
            }
            Kind::ClusterUpgrade | Kind::NodeModule => None,
        }
    }
}

/// The objects that a view of nodes is computed from.
#[derive(Clone, Debug, Default)]
pub struct NodeObjects {
    /// NodeModules.
    pub modules: Vec<Arc<NodeModule>>,
    /// NodeAssemblages.
    pub assemblages: Vec<Arc<NodeAssemblage>>,
    /// Nodes.
    pub nodes: Vec<Arc<Node>>,
    /// Leases of the node agents; read only for the pages that show them.
    pub leases: Vec<Arc<Lease>>,
    /// NodeRevisions; read only for the pages that show them.
    pub revisions: Vec<Arc<NodeRevision>>,
    /// NodeBudgets; read only for the pages that show them.
    pub budgets: Vec<Arc<NodeBudget>>,
}

impl NodeObjects {
    /// Finds a NodeModule by name.
    pub(crate) fn module(&self, name: &str) -> Option<&NodeModule> {
        let mut modules = self.modules.iter();
        modules
            .find(|module| module.name_any() == name)
            .map(|module| &**module)
    }

    /// Finds a Node by name.
    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.name_any() == name).map(|node| &**node)
    }

    /// The NodeAssemblage of a node: its assignments, and the agent's reports.
    pub(crate) fn assemblage(&self, name: &str) -> Option<&NodeAssemblage> {
        let mut all = self.assemblages.iter();
        all.find(|assemblage| assemblage.name_any() == name)
            .map(|assemblage| &**assemblage)
    }
}
