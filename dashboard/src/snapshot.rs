//! What is known of a fleet at one moment: what every page is computed from.

use std::sync::OnceLock;

use jiff::Timestamp;
use serde::Serialize;

use crate::{Fleet, Kind, Objects, UpdateView};

/// What was read of a namespace, whole, at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The namespace of modules and clusters.
    pub namespace: String,
    /// When that was.
    pub at: Timestamp,
    /// The objects.
    pub objects: Objects,
    /// Everything was read at least once. Before, what is missing is not known to be absent.
    pub is_complete: bool,
    /// What cannot be read at present, or could not be understood: of this the objects may be old.
    pub troubles: Vec<Trouble>,
    fleet: OnceLock<Fleet>,
    nodes: OnceLock<Fleet>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// What: the plural of a kind, or a kind and a name.
    pub what: String,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub message: String,
}

impl Snapshot {
    /// What was read of a namespace.
    pub const fn new(
        namespace: String,
        at: Timestamp,
        objects: Objects,
        is_complete: bool,
        troubles: Vec<Trouble>,
    ) -> Self {
        Self {
            namespace,
            at,
            objects,
            is_complete,
            troubles,
            fleet: OnceLock::new(),
            nodes: OnceLock::new(),
        }
    }

    /// The view of the fleet; computed when it is first asked for.
    pub fn fleet(&self) -> &Fleet {
        self.fleet.get_or_init(|| Fleet::of(&self.objects))
    }

    /// The fleet that modules of a kind roll over: clusters, or the nodes of this cluster. Computed when it is first asked for.
    pub fn fleet_of(&self, kind: Kind) -> &Fleet {
        match kind {
            Kind::Module | Kind::BootstrapModule | Kind::ClusterUpgrade => self.fleet(),
            Kind::NodeModule => self.nodes.get_or_init(|| Fleet::of_nodes(&self.objects.nodes)),
        }
    }

    /// What the first page is about: where there are NodeModules, and neither modules nor clusters, the nodes.
    pub fn home(&self) -> Kind {
        let Objects {
            modules,
            bootstrap_modules,
            clusters,
            ..
        } = &self.objects;
        let is_empty = modules.is_empty() && bootstrap_modules.is_empty() && clusters.is_empty();
        if is_empty && self.has_nodes() {
            Kind::NodeModule
        } else {
            Kind::Module
        }
    }

    /// The UpdatePlans, the most urgent first.
    pub fn updates(&self) -> Vec<UpdateView> {
        let plans = self.objects.update_plans.iter();
        let mut views: Vec<UpdateView> = plans.map(|plan| UpdateView::of(plan)).collect();
        views.sort_by(|a, b| (a.shape.urgency(), &a.name).cmp(&(b.shape.urgency(), &b.name)));
        views
    }

    /// There are NodeModules.
    pub const fn has_nodes(&self) -> bool {
        !self.objects.nodes.modules.is_empty()
    }
}
