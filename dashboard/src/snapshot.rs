//! What is known of a fleet at one moment: what every page is computed from.

use std::sync::OnceLock;

use jiff::Timestamp;
use muster_api::module::ModuleKind;
use serde::Serialize;

use crate::{Fleet, ModuleRef, Objects};

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
    /// Whether it is about a cluster: it, what was assigned to it, or what became of a module there. The last begins with names.
    pub fn is_about_cluster(&self, name: &str) -> bool {
        if ["Cluster", "ProxyAssemblage", "RemoteAssemblage"].contains(&&*self.kind) {
            return self.name == name;
        }
        let is_module = [ModuleKind::Module, ModuleKind::BootstrapModule]
            .iter()
            .any(|kind| kind.as_str() == self.kind);
        let begins = self.note.split_once(": ").map_or("", |(names, _)| names);
        let named = begins.split(" and ").next().unwrap_or_default();
        is_module && named.split(", ").any(|named| named == name)
    }

    /// Whether it is about a module.
    pub fn is_about(&self, module: &ModuleRef) -> bool {
        self.kind == module.kind.as_str() && self.name == module.name
    }
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
        }
    }

    /// The view of the fleet; computed when it is first asked for.
    pub fn fleet(&self) -> &Fleet {
        self.fleet.get_or_init(|| Fleet::of(&self.objects))
    }
}
