//! The state of a fleet at one moment, from which every page is computed.

use std::sync::OnceLock;

use jiff::Timestamp;
use serde::Serialize;

use crate::{Fleet, Kind, Objects, UpdateView};

/// All objects of a namespace, read at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The namespace of modules and clusters.
    pub namespace: String,
    /// When the objects were read.
    pub at: Timestamp,
    /// The objects.
    pub objects: Objects,
    /// Whether every kind was read at least once. Until then a missing object may still exist.
    pub is_complete: bool,
    /// What cannot be read or parsed at present: objects of these kinds may be outdated.
    pub troubles: Vec<Trouble>,
    fleet: OnceLock<Fleet>,
    nodes: OnceLock<Fleet>,
}

/// A read error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// What cannot be read: the plural of a kind, or a kind and a name.
    pub what: String,
    /// Since when it cannot be read.
    pub since: Timestamp,
    /// The error message.
    pub message: String,
}

impl Snapshot {
    /// Creates a snapshot.
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

    /// The fleet of clusters; computed on first use.
    pub fn fleet(&self) -> &Fleet {
        self.fleet.get_or_init(|| Fleet::of(&self.objects))
    }

    /// The fleet that modules of a kind are rolled out to: clusters, or the nodes of this cluster. Computed on first
    /// use.
    pub fn fleet_of(&self, kind: Kind) -> &Fleet {
        match kind {
            Kind::Module | Kind::BootstrapModule | Kind::ClusterUpgrade => self.fleet(),
            Kind::NodeModule => self.nodes.get_or_init(|| Fleet::of_nodes(&self.objects.nodes)),
        }
    }

    /// What the start page shows: nodes if there are NodeModules but neither modules nor clusters.
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

    /// Whether there are NodeModules.
    pub const fn has_nodes(&self) -> bool {
        !self.objects.nodes.modules.is_empty()
    }
}
