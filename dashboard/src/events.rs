//! Events about the fleet.

use jiff::Timestamp;
use serde::Serialize;

use crate::{Kind, ModuleRef};

/// An event about an object of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetEvent {
    /// When it happened; for repeated events, the last time.
    pub at: Timestamp,
    /// Whether it is a warning.
    pub warning: bool,
    /// Reason, one CamelCase word.
    pub reason: String,
    /// Human-readable message.
    pub note: String,
    /// Kind of the involved object.
    pub kind: String,
    /// Name of the involved object.
    pub name: String,
    /// Component that reported the event.
    pub by: String,
}

impl FleetEvent {
    /// Whether the event is about a cluster or node, its assignment, or a module there. Events about a module begin
    /// with the names of the clusters.
    pub fn is_about_unit(&self, kind: Kind, name: &str) -> bool {
        let (own, rolls): (&[&str], &[Kind]) = match kind {
            Kind::Module | Kind::BootstrapModule | Kind::ClusterUpgrade => (
                &["Cluster", "ProxyAssemblage", "RemoteAssemblage"],
                &[Kind::Module, Kind::BootstrapModule, Kind::ClusterUpgrade],
            ),
            Kind::NodeModule => (&["Node", "NodeAssemblage"], &[Kind::NodeModule]),
        };
        if own.contains(&&*self.kind) {
            return self.name == name;
        }
        let is_module = rolls.iter().any(|kind| kind.as_str() == self.kind);
        let begins = self.note.split_once(": ").map_or("", |(names, _)| names);
        let named = begins.split(" and ").next().unwrap_or_default();
        is_module && named.split(", ").any(|named| named == name)
    }

    /// Whether the event is about a module.
    pub fn is_about(&self, module: &ModuleRef) -> bool {
        self.kind == module.kind.as_str() && self.name == module.name
    }
}
