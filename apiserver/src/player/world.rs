//! What a player knows of its cluster, and what to look at again because it changed.

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
use super::shelf::{Key, Seen, Shelf, controller};

/// A kind that is played.
pub(super) trait Played:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + 'static
{
    /// Its name.
    const KIND: Kind;
    /// The objects of this kind.
    fn shelf_mut(world: &mut World) -> &mut Shelf<Self>;
    /// An object whose kind is known when the program runs.
    fn erase(self) -> Object;
}

/// What is called with each kind.
pub(super) trait VisitKind {
    /// What it answers.
    type Out;
    /// The call.
    fn visit<K: Played>(&self) -> Self::Out;
}

/// What is called with an object in its own type.
pub(super) trait VisitObject {
    /// What it answers.
    type Out;
    /// The call.
    fn visit<K: Played>(self, object: &K) -> Self::Out;
}

macro_rules! kinds {
    ($($kind:ident, $shelf:ident;)*) => {
        /// The kinds that are played or made by playing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind { $(#[doc = stringify!($kind)] $kind,)* }

        impl Kind {
            /// The kind of this name.
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

        /// The cluster as it is known.
        #[derive(Debug, Default)]
        pub(crate) struct World {
            $(#[doc = stringify!($kind)] pub $shelf: Shelf<$kind>,)*
            /// What to look at again.
            pub dirty: BTreeSet<Item>,
        }

        impl World {
            /// Whether every kind was listed once.
            pub(crate) fn is_synced(&self) -> bool {
                true $(&& self.$shelf.is_synced)*
            }
        }

        $(impl Played for $kind {
            const KIND: Kind = Kind::$kind;
            fn shelf_mut(world: &mut World) -> &mut Shelf<Self> { &mut world.$shelf }
            fn erase(self) -> Object { Object::$kind(Box::new(self)) }
        })*

        /// Calls a function with each kind.
        pub(crate) fn each_kind<V: VisitKind>(visitor: &V) -> Vec<V::Out> {
            vec![$(visitor.visit::<$kind>(),)*]
        }

        impl Object {
            /// Calls a function with the object in its own type.
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

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    /// The kind.
    pub kind: Kind,
    /// The object.
    pub key: Key,
}

impl World {
    /// Takes in what a watch tells.
    pub(super) fn take<K: Played>(&mut self, event: Event<K>, now: Timestamp) {
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

    /// Takes in a version of an object.
    pub(super) fn put<K: Played>(&mut self, object: K, now: Timestamp) {
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

    /// A write of ours has deleted the object at once.
    pub(super) fn doom<K: Played>(&mut self, meta: &ObjectMeta) {
        K::shelf_mut(self).doom(meta);
        self.touch::<K>(meta);
    }

    /// Marks an object and what looks at it.
    fn touch<K: Played>(&mut self, meta: &ObjectMeta) {
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
                // A Deployment that recreates waits for pods, not only for its ReplicaSets.
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
                    .map(|seen| Key::of(&seen.object.metadata));
                self.dirty.extend(services.map(|key| Item {
                    kind: Kind::Service,
                    key,
                }));
                self.touch_budgets(&key.namespace);
            }
            // Their size is what budgets are a part of.
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet => self.touch_budgets(&key.namespace),
            Kind::Node => {
                let sets = self
                    .daemon_sets
                    .all()
                    .map(|seen| (Kind::DaemonSet, &seen.object.metadata));
                let unplaced = |pod: &&Seen<Pod>| !is_placed(&pod.object);
                let pods = self
                    .pods
                    .all()
                    .filter(unplaced)
                    .map(|seen| (Kind::Pod, &seen.object.metadata));
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

    /// How many pods the controllers of these pods want together, each once; an error says which controller is not there. A pod without
    /// one does not count.
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

    /// The uid of what says how many pods there are to be, and how many: of a Deployment's ReplicaSet the Deployment.
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

    /// Marks the pods that take annotations from this object, directly or by a ReplicaSet.
    fn touch_descendants(&mut self, meta: &ObjectMeta) {
        let sets = self
            .replica_sets
            .controlled_by(meta)
            .into_iter()
            .map(|seen| &seen.object.metadata);
        let pods = sets
            .chain([meta])
            .flat_map(|owner| self.pods.controlled_by(owner));
        let items = pods.map(|seen| Item {
            kind: Kind::Pod,
            key: Key::of(&seen.object.metadata),
        });
        let items: Vec<Item> = items.collect();
        self.dirty.extend(items);
    }

    /// What holds for an object: its own annotations, then those of what controls it.
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
        }; // none is empty
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

/// Pod, ReplicaSet, Deployment: no chain of controllers is longer.
const LONGEST_CHAIN: usize = 3;

/// Whether a pod has a node.
pub(super) fn is_placed(pod: &Pod) -> bool {
    pod.spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.as_deref().is_some_and(|name| !name.is_empty()))
}
