//! The player's cache of its cluster, and the objects to process after a change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::settings::{self, Settings, Speeds};
use super::shelf::{Key, Observed, Shelf, controller};

/// A kind that the player watches.
pub(super) trait SimulatedKind:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + 'static
{
    /// The kind.
    const KIND: Kind;
    /// The cache of this kind.
    fn shelf_mut(world: &mut World) -> &mut Shelf<Self>;
    /// Wraps the object in the enum of all kinds.
    fn erase(self) -> Object;
}

/// A visitor of all kinds.
pub(super) trait VisitKind {
    /// Result of the visit.
    type Out;
    /// Visits a kind.
    fn visit<K: SimulatedKind>(&self) -> Self::Out;
}

/// A visitor of an object with its own type.
pub(super) trait VisitObject {
    /// Result of the visit.
    type Out;
    /// Visits an object.
    fn visit<K: SimulatedKind>(self, object: &K) -> Self::Out;
}

macro_rules! kinds {
    ($($kind:ident, $shelf:ident;)*) => {
        /// The kinds that the player simulates or creates.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind { $(#[doc = stringify!($kind)] $kind,)* }

        impl Kind {
            /// Finds a kind by name.
            pub(crate) fn named(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($kind) => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }

        /// An object of any of the kinds.
        #[derive(Clone, Debug)]
        pub(crate) enum Object { $(#[doc = stringify!($kind)] $kind(Box<$kind>),)* }

        /// The cluster as known to the player.
        #[derive(Debug, Default)]
        pub(crate) struct World {
            $(#[doc = stringify!($kind)] pub $shelf: Shelf<$kind>,)*
            /// Objects to process.
            pub dirty: BTreeSet<Item>,
        }

        impl World {
            /// Whether every kind was listed once.
            pub(crate) fn is_synced(&self) -> bool {
                true $(&& self.$shelf.is_synced)*
            }
        }

        $(impl SimulatedKind for $kind {
            const KIND: Kind = Kind::$kind;
            fn shelf_mut(world: &mut World) -> &mut Shelf<Self> { &mut world.$shelf }
            fn erase(self) -> Object { Object::$kind(Box::new(self)) }
        })*

        /// Calls a visitor with each kind.
        pub(crate) fn each_kind<V: VisitKind>(visitor: &V) -> Vec<V::Out> {
            vec![$(visitor.visit::<$kind>(),)*]
        }

        impl Object {
            /// Calls a visitor with the object in its own type.
            pub(crate) fn visit<V: VisitObject>(&self, visitor: V) -> V::Out {
                match self { $(Self::$kind(object) => visitor.visit(&**object),)* }
            }
        }
    };
}

kinds! {
    ControllerRevision, revisions;
    DaemonSet, daemon_sets;
    Deployment, deployments;
    EndpointSlice, slices;
    Job, jobs;
    Node, nodes;
    PersistentVolumeClaim, claims;
    Pod, pods;
    PodDisruptionBudget, budgets;
    ReplicaSet, replica_sets;
    Service, services;
    StatefulSet, stateful_sets;
}

/// An object to process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace and name.
    pub key: Key,
}

impl World {
    /// Stores a watch event.
    pub(super) fn take<K: SimulatedKind>(&mut self, event: Event<K>, now: Timestamp) {
        match event {
            Event::Apply(object) | Event::InitApply(object) => self.put(object, now),
            Event::Delete(object) => {
                if K::shelf_mut(self).remove(object.meta()) {
                    self.touch::<K>(object.meta());
                }
            }
            Event::Init => K::shelf_mut(self).begin_list(),
            Event::InitDone => {
                for gone in K::shelf_mut(self).end_list() {
                    self.touch::<K>(gone.meta());
                }
            }
        }
    }

    /// Stores a version of an object.
    pub(super) fn put<K: SimulatedKind>(&mut self, object: K, now: Timestamp) {
        let meta = object.meta().clone();
        let (before, is_new) = K::shelf_mut(self).put(object, now);
        if !is_new {
            return;
        }
        self.touch::<K>(&meta);
        let Some(before) = before else { return };
        self.touch::<K>(before.meta());
        let annotations = |meta: &ObjectMeta| settings::own(meta.annotations.as_ref()).len();
        if annotations(&meta) + annotations(before.meta()) > 0 {
            self.touch_descendants(&meta);
        }
    }

    /// Records that a write of this player deleted the object immediately.
    pub(super) fn doom<K: SimulatedKind>(&mut self, meta: &ObjectMeta) {
        K::shelf_mut(self).doom(meta);
        self.touch::<K>(meta);
    }

    /// Marks an object, and the objects whose decisions depend on it.
    fn touch<K: SimulatedKind>(&mut self, meta: &ObjectMeta) {
        let key = Key::of(meta);
        if let Some(owner) = controller(meta)
            && let Some(kind) = Kind::named(&owner.kind)
        {
            let owner = Key {
                namespace: key.namespace.clone(),
                name: owner.name.clone(),
            };
            self.dirty.insert(Item {
                kind,
                key: owner.clone(),
            });
            if kind == Kind::ReplicaSet
                && let Some(set) = self.replica_sets.get(&owner)
            {
                // A Deployment with strategy `Recreate` depends on pods, not only on its ReplicaSets.
                if let Some(owner) = controller(&set.object.metadata) {
                    let key = Key {
                        namespace: key.namespace.clone(),
                        name: owner.name.clone(),
                    };
                    self.dirty.insert(Item {
                        kind: Kind::Deployment,
                        key,
                    });
                }
            }
        }
        match K::KIND {
            Kind::Pod => {
                let services = self
                    .services
                    .within(&key.namespace)
                    .map(|observed| Key::of(&observed.object.metadata));
                self.dirty.extend(services.map(|key| Item {
                    kind: Kind::Service,
                    key,
                }));
                self.touch_budgets(&key.namespace);
            }
            // Budgets depend on their size.
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet => self.touch_budgets(&key.namespace),
            Kind::Node => {
                let sets = self
                    .daemon_sets
                    .all()
                    .map(|observed| (Kind::DaemonSet, &observed.object.metadata));
                let unplaced = |pod: &&Observed<Pod>| !is_placed(&pod.object);
                let pods = self
                    .pods
                    .all()
                    .filter(unplaced)
                    .map(|observed| (Kind::Pod, &observed.object.metadata));
                self.dirty.extend(sets.chain(pods).map(|(kind, meta)| Item {
                    kind,
                    key: Key::of(meta),
                }));
            }
            _ => {}
        }
        self.dirty.insert(Item { kind: K::KIND, key });
    }

    fn touch_budgets(&mut self, namespace: &str) {
        let budgets = self.budgets.within(namespace);
        let items = budgets.map(|budget| Item {
            kind: Kind::PodDisruptionBudget,
            key: Key::of(&budget.object.metadata),
        });
        let items: Vec<Item> = items.collect();
        self.dirty.extend(items);
    }

    /// Total number of desired pods of the controllers of these pods, each controller counted once; the error tells
    /// which controller does not exist. A pod without a controller does not count.
    pub(super) fn scale(&self, pods: &[&Pod]) -> Result<i32, String> {
        let mut scales = BTreeMap::new();
        for pod in pods {
            let Some(owner) = controller(&pod.metadata) else {
                continue;
            };
            let found = self.scale_of(&pod.metadata, owner);
            let (uid, replicas) =
                found.ok_or_else(|| format!("found no controllers for pod {:?}", pod.name_any()))?;
            scales.insert(uid, replicas);
        }
        Ok(scales.values().sum())
    }

    /// The uid and the desired replicas of the controller: for a Deployment's ReplicaSet, of the Deployment.
    fn scale_of(&self, near: &ObjectMeta, owner: &OwnerReference) -> Option<(String, i32)> {
        let key = Key {
            namespace: near.namespace.clone().unwrap_or_default(), // pods have one
            name: owner.name.clone(),
        };
        let is_it = |meta: &ObjectMeta| meta.uid.as_deref() == Some(&owner.uid);
        let replicas = |wanted: Option<i32>| (owner.uid.clone(), wanted.unwrap_or(1));
        match Kind::named(&owner.kind)? {
            Kind::Deployment => {
                let object = &self.deployments.get(&key)?.object;
                is_it(&object.metadata).then(|| replicas(object.spec.as_ref().and_then(|spec| spec.replicas)))
            }
            Kind::ReplicaSet => {
                let object = &self.replica_sets.get(&key)?.object;
                let above = controller(&object.metadata).and_then(|above| self.scale_of(near, above));
                let own = || replicas(object.spec.as_ref().and_then(|spec| spec.replicas));
                is_it(&object.metadata).then(|| above.unwrap_or_else(own))
            }
            Kind::StatefulSet => {
                let object = &self.stateful_sets.get(&key)?.object;
                is_it(&object.metadata).then(|| replicas(object.spec.as_ref().and_then(|spec| spec.replicas)))
            }
            _ => None,
        }
    }

    /// Marks the pods that inherit annotations from this object, directly or through a ReplicaSet.
    fn touch_descendants(&mut self, meta: &ObjectMeta) {
        let sets = self
            .replica_sets
            .controlled_by(meta)
            .into_iter()
            .map(|observed| &observed.object.metadata);
        let pods = sets
            .chain([meta])
            .flat_map(|owner| self.pods.controlled_by(owner));
        let items = pods.map(|observed| Item {
            kind: Kind::Pod,
            key: Key::of(&observed.object.metadata),
        });
        let items: Vec<Item> = items.collect();
        self.dirty.extend(items);
    }

    /// The settings of an object: from its own annotations, then from those of its controllers.
    pub(super) fn settings(&self, meta: &ObjectMeta, speeds: &Speeds) -> Settings {
        let mut chain = vec![meta];
        while let Some(owner) = chain.last().and_then(|last| controller(last))
            && let Some(found) = self.owner(meta, &owner.kind, &owner.name, &owner.uid)
            && chain.len() < LONGEST_CHAIN
        {
            chain.push(found);
        }
        let annotations: Vec<_> = chain
            .iter()
            .filter_map(|meta| meta.annotations.as_ref())
            .collect();
        Settings::of(speeds, &annotations)
    }

    fn owner(&self, near: &ObjectMeta, kind: &str, name: &str, uid: &str) -> Option<&ObjectMeta> {
        let key = Key {
            namespace: near.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        }; // absent is empty
        let meta = match Kind::named(kind)? {
            Kind::Deployment => &self.deployments.get(&key)?.object.metadata,
            Kind::ReplicaSet => &self.replica_sets.get(&key)?.object.metadata,
            Kind::StatefulSet => &self.stateful_sets.get(&key)?.object.metadata,
            Kind::DaemonSet => &self.daemon_sets.get(&key)?.object.metadata,
            Kind::Job => &self.jobs.get(&key)?.object.metadata,
            _ => return None,
        };
        (meta.uid.as_deref() == Some(uid)).then_some(meta)
    }
}

/// Pod, ReplicaSet, Deployment: the longest chain of controllers.
const LONGEST_CHAIN: usize = 3;

/// Whether a pod is scheduled.
pub(super) fn is_placed(pod: &Pod) -> bool {
    pod.spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.as_deref().is_some_and(|name| !name.is_empty()))
}
