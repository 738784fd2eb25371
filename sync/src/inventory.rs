//! The inventory: which objects may exist because of a Kustomization.
//!
//! It is *the* record for pruning: an id is written to it before the object is created and leaves it after the object was
//! seen gone. This module is pure set algebra on ids; who writes them where is the controller's.
//!
//! Invariant: ids are those of Flux (`<namespace>_<name>_<group>_<kind>`, version beside), so that either can go on with
//! what the other applied.
//! Invariant: an object goes into an inventory only if its id reads back as itself ([`ObjectId::misread`]).

pub mod stage;

use std::{collections::BTreeMap, fmt, str::FromStr};

use muster_api::flux;

/// The separator of the parts of an id. Of the parts only the name can hold it, and the others are read around it.
const SEPARATOR: char = '_';

/// How a colon in the name of an RBAC object is written; Kubernetes allows colons there and nowhere else.
const COLON: &str = "__";

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The identity of an object in a cluster, whatever version it is served in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
}

/// Why a text is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an inventory id: expected <namespace>_<name>_<group>_<kind>")]
pub struct InvalidId(String);

/// A set of objects, each with the version that it was last applied by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    objects: BTreeMap<ObjectId, String>,
    /// Entries that could not be read. They are carried along: dropping one would leave its object behind for ever.
    unreadable: Vec<flux::InventoryEntry>,
}

impl ObjectId {
    /// Whether it is a Job's.
    pub fn is_job(&self) -> bool {
        self.group == "batch" && self.kind == "Job"
    }

    /// The text of the id in an inventory.
    pub fn encode(&self) -> String {
        let name = if self.group == RBAC_GROUP {
            self.name.replace(':', COLON)
        } else {
            self.name.clone()
        };
        format!("{}_{name}_{}_{}", self.namespace, self.group, self.kind)
    }

    /// Whether the text of the id would be read as that of another object, by us or by Flux, which reads `__` as a colon in every name.
    /// Such an object is not applied: nothing could find it again.
    pub fn misread(&self) -> bool {
        self.name.contains(COLON) || self.encode().parse().as_ref() != Ok(self)
    }

    /// The other object that the text of the id may have been written for, before such names were refused: with `__` in its name.
    pub fn misread_for(&self) -> Option<Self> {
        let ambiguous = self.group == RBAC_GROUP && self.name.contains(':');
        ambiguous.then(|| Self {
            name: self.name.replace(':', COLON),
            ..self.clone()
        })
    }

    /// The `apiVersion` of the object when it is served in `version`.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group)
        }
    }
}

impl fmt::Display for ObjectId {
    /// `Kind/namespace/name`, or `Kind/name` for objects of the cluster: the form that people read.
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
        // In every other group it was written for what it is, if it was: no name of theirs has colons.
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
    /// The inventory that a status holds.
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

    /// The inventory as a status holds it, in one order whatever was done before.
    pub fn to_status(&self) -> flux::Inventory {
        let readable = self.objects.iter().map(|(id, version)| flux::InventoryEntry {
            id: id.encode(),
            version: version.clone(),
        });
        flux::Inventory {
            entries: readable.chain(self.unreadable.iter().cloned()).collect(),
        }
    }

    /// Adds an object, or changes the version that it was last applied by.
    pub fn insert(&mut self, id: ObjectId, version: String) {
        self.objects.insert(id, version);
    }

    /// Forgets an object.
    pub fn remove(&mut self, id: &ObjectId) {
        self.objects.remove(id);
    }

    /// Whether the object is in the inventory.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.objects.contains_key(id)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.unreadable.is_empty()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len() + self.unreadable.len()
    }

    /// The objects with their versions, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &str)> {
        self.objects.iter().map(|(id, version)| (id, version.as_str()))
    }

    /// Everything that is in either; where both hold an object, the version of `newer` counts.
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

    /// What is to be pruned: the objects that are here and not in `wanted`, last stage first.
    pub fn pruned_by(&self, wanted: &Self) -> Vec<(ObjectId, String)> {
        let mut gone: Vec<(ObjectId, String)> = self
            .objects
            .iter()
            .filter(|(id, _)| !wanted.contains(id))
            .map(|(id, version)| (id.clone(), version.clone()))
            .collect();
        // Within a stage the order of applying is reversed too, so that what was created last goes first.
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
