//! The objects that views are computed from, as read.

use std::sync::Arc;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{ResourceExt, core::DynamicObject};
use muster_api::{
    ClusterUpgrade, ModuleRevision, UpdatePlan, ZoneRollout,
    assemblage::{AssemblageStatus, ProxyAssemblage, RemoteAssemblage, TargetedAssemblageSpec},
    module::{BootstrapModule, Module},
    node::{NodeAssemblage, NodeBudget, NodeModule, NodeRevision},
};

use crate::{Happened, Kind};

/// The objects that a view is computed from, as read.
#[derive(Debug, Default)]
pub struct Objects {
    /// Modules.
    pub modules: Vec<Arc<Module>>,
    /// BootstrapModules.
    pub bootstrap_modules: Vec<Arc<BootstrapModule>>,
    /// ClusterUpgrades, where they are served.
    pub upgrades: Vec<Arc<ClusterUpgrade>>,
    /// ProxyAssemblages.
    pub proxies: Vec<Arc<ProxyAssemblage>>,
    /// RemoteAssemblages.
    pub remotes: Vec<Arc<RemoteAssemblage>>,
    /// Clusters, of whichever version is served.
    pub clusters: Vec<Arc<DynamicObject>>,
    /// ModuleRevisions; read where they are shown.
    pub revisions: Vec<Arc<ModuleRevision>>,
    /// ZoneRollouts, where they are served; read where they are shown.
    pub zones: Vec<Arc<ZoneRollout>>,
    /// UpdatePlans, where they are served; read where they are shown, without the objects that they were decided on.
    pub update_plans: Vec<Arc<UpdatePlan>>,
    /// What happened, newest first; read where it is shown.
    pub events: Vec<Arc<Happened>>,
    /// What rolls over the nodes of this cluster.
    pub nodes: NodeObjects,
}

/// What was assigned to a cluster, and what is known of that.
type Assigned<'a> = (&'a TargetedAssemblageSpec, Option<&'a AssemblageStatus>);

impl Objects {
    /// What was assigned to a cluster of modules of a kind.
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

/// The objects that a view of nodes is computed from, as read.
#[derive(Clone, Debug, Default)]
pub struct NodeObjects {
    /// NodeModules.
    pub modules: Vec<Arc<NodeModule>>,
    /// NodeAssemblages.
    pub assemblages: Vec<Arc<NodeAssemblage>>,
    /// Nodes.
    pub nodes: Vec<Arc<Node>>,
    /// The Leases of their agents; read where they are shown.
    pub leases: Vec<Arc<Lease>>,
    /// NodeRevisions; read where they are shown.
    pub revisions: Vec<Arc<NodeRevision>>,
    /// NodeBudgets; read where they are shown.
    pub budgets: Vec<Arc<NodeBudget>>,
}

impl NodeObjects {
    /// A NodeModule.
    pub(crate) fn module(&self, name: &str) -> Option<&NodeModule> {
        let mut modules = self.modules.iter();
        modules
            .find(|module| module.name_any() == name)
            .map(|module| &**module)
    }

    /// A Node.
    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.name_any() == name).map(|node| &**node)
    }

    /// What the node of this name gets, and what its agent reports.
    pub(crate) fn assemblage(&self, name: &str) -> Option<&NodeAssemblage> {
        let mut all = self.assemblages.iter();
        all.find(|assemblage| assemblage.name_any() == name)
            .map(|assemblage| &**assemblage)
    }
}
