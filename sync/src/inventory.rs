//! The inventory: the objects that may exist because of a Kustomization.
//!
//! It is the source of truth for pruning: an id is recorded before the object is created, and removed after the object
//! is found to be gone. This module only does set operations on ids; storing them is up to the controller.
//!
//! Invariant: ids have Flux's format (`<namespace>_<name>_<group>_<kind>`, with the version next to it), so that each
//! sync can continue with what the other one applied.
//! Invariant: an object is recorded only if its id reads back as the same object ([`ObjectId::misread`]).

pub mod stage;

use std::{collections::BTreeMap, fmt, str::FromStr};

use muster_api::flux;

/// Separates the parts of an id. Only the name can contain it, so the other parts are split off first.
const SEPARATOR: char = '_';

/// Replaces a colon in the name of an RBAC object; Kubernetes allows colons in no other names.
const COLON: &str = "__";

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The identity of an object in a cluster, regardless of the API version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
}

/// A string that is not a valid id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an inventory id: expected <namespace>_<name>_<group>_<kind>")]
pub struct InvalidId(String);

/// A set of objects, each with the API version that it was last applied with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    objects: BTreeMap<ObjectId, String>,
    /// Entries that could not be parsed. They are kept: dropping one would orphan its object forever.
    unreadable: Vec<flux::InventoryEntry>,
}

impl ObjectId {
    /// Whether the object is a `batch` Job.
    pub fn is_job(&self) -> bool {
        self.group == "batch" && self.kind == "Job"
    }

    /// The id as written in an inventory.
    pub fn encode(&self) -> String {
        let name = if self.group == RBAC_GROUP {
            self.name.replace(':', COLON)
        } else {
            self.name.clone()
        };
        format!("{}_{name}_{}_{}", self.namespace, self.group, self.kind)
    }

    /// Whether the written id would be read back as another object, by us or by Flux, which reads `__` as a colon in
    /// every name. Such an object is not applied, because it could not be found again.
    pub fn misread(&self) -> bool {
        self.name.contains(COLON) || self.encode().parse().as_ref() != Ok(self)
    }

    /// The other object that the written id may have been recorded for, before such names were refused: the one with
    /// `__` in its name.
    pub fn misread_for(&self) -> Option<Self> {
        let ambiguous = self.group == RBAC_GROUP && self.name.contains(':');
        ambiguous.then(|| Self {
            name: self.name.replace(':', COLON),
            ..self.clone()
        })
    }

    /// The `apiVersion` of the object in `version`.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group)
        }
    }
}

impl fmt::Display for ObjectId {
    /// `Kind/namespace/name`, or `Kind/name` for cluster-scoped objects: the form used in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.kind, self.name)
        } else {
            write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
        }
    }
}

impl FromStr for ObjectId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId(text.to_owned());
        let (namespace, rest) = text.split_once(SEPARATOR).ok_or_else(invalid)?;
        let (rest, kind) = rest.rsplit_once(SEPARATOR).ok_or_else(invalid)?;
        let (name, group) = rest.rsplit_once(SEPARATOR).ok_or_else(invalid)?;
        // Names in other groups have no colons, so the id can only be for this object.
        let name = match group {
            RBAC_GROUP => name.replace(COLON, ":"),
            _ => name.to_owned(),
        };
        if name.is_empty() || kind.is_empty() {
            return Err(invalid());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name,
            group: group.to_owned(),
            kind: kind.to_owned(),
        })
    }
}

impl Inventory {
    /// Reads the inventory in a status.
    pub fn from_status(status: Option<&flux::Inventory>) -> Self {
        let mut inventory = Self::default();
        for entry in status.into_iter().flat_map(|status| &status.entries) {
            match entry.id.parse() {
                Ok(id) => inventory.insert(id, entry.version.clone()),
                Err(InvalidId(_)) => inventory.unreadable.push(entry.clone()),
            }
        }
        inventory
    }

    /// The inventory for a status, sorted.
    pub fn to_status(&self) -> flux::Inventory {
        let readable = self.objects.iter().map(|(id, version)| flux::InventoryEntry {
            id: id.encode(),
            version: version.clone(),
        });
        flux::Inventory {
            entries: readable.chain(self.unreadable.iter().cloned()).collect(),
        }
    }

    /// Adds an object, or changes the version that it was last applied with.
    pub fn insert(&mut self, id: ObjectId, version: String) {
        self.objects.insert(id, version);
    }

    /// Removes an object.
    pub fn remove(&mut self, id: &ObjectId) {
        self.objects.remove(id);
    }

    /// Whether the object is in the inventory.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.objects.contains_key(id)
    }

    /// Whether the inventory is empty.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.unreadable.is_empty()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len() + self.unreadable.len()
    }

    /// The objects with their versions, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &str)> {
        self.objects.iter().map(|(id, version)| (id, version.as_str()))
    }

    /// The union of both; for an object in both, the version in `newer` wins.
    #[must_use]
    pub fn merged(mut self, newer: &Self) -> Self {
        self.objects.extend(
            newer
                .objects
                .iter()
                .map(|(id, version)| (id.clone(), version.clone())),
        );
        for entry in &newer.unreadable {
            if !self.unreadable.contains(entry) {
                self.unreadable.push(entry.clone());
            }
        }
        self
    }

    /// The objects to prune: those that are here and not in `wanted`, last stage first.
    pub fn pruned_by(&self, wanted: &Self) -> Vec<(ObjectId, String)> {
        let mut gone: Vec<(ObjectId, String)> = self
            .objects
            .iter()
            .filter(|(id, _)| !wanted.contains(id))
            .map(|(id, version)| (id.clone(), version.clone()))
            .collect();
        // Within a stage the order is reversed too, so that what was created last is removed first.
        gone.sort_by_cached_key(|(id, _)| {
            std::cmp::Reverse((stage::of_id(id), stage::rank(&id.group, &id.kind), id.clone()))
        });
        gone
    }
}

impl FromIterator<(ObjectId, String)> for Inventory {
    fn from_iter<I: IntoIterator<Item = (ObjectId, String)>>(objects: I) -> Self {
        Self {
            objects: objects.into_iter().collect(),
            unreadable: Vec::new(),
        }
    }
}
