//! Events about the fleet.

use jiff::Timestamp;
use serde::Serialize;

use crate::{Kind, ModuleRef};

/// An event about an object of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Happened {
    /// When; of one that happened several times, the last time.
    pub at: Timestamp,
    /// It is worth a look: a warning.
    pub warning: bool,
    /// The one word.
    pub reason: String,
    /// For people.
    pub note: String,
    /// The kind of what it is about.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Who says so.
    pub by: String,
}

impl Happened {
    /// Whether it is about a cluster, or a node: it, what was assigned to it, or what became of a module there. The last begins with names.
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

    /// Whether it is about a module.
    pub fn is_about(&self, module: &ModuleRef) -> bool {
        self.kind == module.kind.as_str() && self.name == module.name
    }
}
