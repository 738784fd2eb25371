//! What else declares the objects of a Kustomization in the same cluster: the inventories of all Kustomizations of this
//! process, as watched and as written, and those that an agent applies in the cluster itself.
//!
//! Invariant: the known inventory of a Kustomization of this process is never older than its last write. Invariant:
//! what cannot be read is an error, and after an error nothing is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::Stream;
use kube::{ResourceExt, runtime::reflector::Store};
use muster_api::{flux::Kustomization, labels::SYSTEM_NAMESPACE, names};
use muster_sync::{
    apply::{Cluster, Declarers, Owner, Successor, shared::applied_from},
    inventory::{Inventory, ObjectId},
};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    Kustomizations,
    settings::{self, RemoteTarget},
    targets::Identity,
};
use crate::runtime::{Api, Changes, Key, Unreadable, call, call::error_chain, version::is_as_new};

/// The number of written inventories that are kept before those that the watch has delivered are dropped.
const SLACK: usize = 256;

/// Objects that a note names; of more only the number is given.
const NAMED_MAX: usize = 3;

/// The inventories of the Kustomizations of this process.
pub(super) struct Inventories {
    store: Store<Kustomization>,
    unreadable: Arc<Unreadable>,
    written: Mutex<BTreeMap<Key, WrittenInventory>>,
    /// Kustomizations that objects were handed over to.
    heirs: Changes<Key>,
}

/// An inventory that the watch may not have delivered yet.
#[derive(Clone)]
struct WrittenInventory {
    uid: Option<String>,
    /// The resourceVersion of the object that has it; `None` if it is about to be written.
    version: Option<String>,
    inventory: Arc<Inventory>,
}

impl WrittenInventory {
    /// Whether the watched object is at least as new as this.
    fn is_superseded_by(&self, object: &Kustomization) -> bool {
        if self.uid != object.uid() {
            return true;
        }
        let watched = object.metadata.resource_version.as_deref();
        self.version.is_some() && watched.is_some() && is_as_new(watched, self.version.as_deref())
    }
}

impl Inventories {
    pub(super) fn new(store: Store<Kustomization>, unreadable: Arc<Unreadable>) -> Self {
        Self {
            store,
            unreadable,
            written: Mutex::default(),
            heirs: Changes::default(),
        }
    }

    /// The keys of Kustomizations that objects are handed over to, starting now.
    pub(super) fn heirs(&self) -> impl Stream<Item = Key> + Send + 'static + use<> {
        self.heirs.subscribe(BTreeSet::new())
    }

    /// Notifies that objects were handed over to this Kustomization.
    pub(super) fn hand_over(&self, key: &Key) {
        self.heirs.announce(key);
    }

    /// The inventory of a Kustomization.
    pub(super) fn of(&self, object: &Kustomization) -> Arc<Inventory> {
        let written = self.written.lock().get(&Key::of(object)).cloned();
        match written {
            Some(written) if !written.is_superseded_by(object) => written.inventory,
            Some(_) | None => Arc::new(in_status(object)),
        }
    }

    /// Whether this process has written a newer version of the object than this one.
    pub(super) fn is_newer_than(&self, object: &Kustomization) -> bool {
        let written = self.written.lock();
        let written = written.get(&Key::of(object));
        written.is_some_and(|written| written.version.is_some() && !written.is_superseded_by(object))
    }

    /// Records an object whose status was written.
    pub(super) fn wrote(&self, object: &Kustomization) {
        self.put(object, object.resource_version(), in_status(object));
    }

    /// Records the inventory that is about to be written: what is no longer in it was deleted or handed over.
    pub(super) fn settle(&self, object: &Kustomization, inventory: &Inventory) {
        self.put(object, None, inventory.clone());
    }

    fn put(&self, object: &Kustomization, version: Option<String>, inventory: Inventory) {
        let entry = WrittenInventory {
            uid: object.uid(),
            version,
            inventory: Arc::new(inventory),
        };
        let mut written = self.written.lock();
        written.insert(Key::of(object), entry);
        if written.len() > SLACK && written.len().is_multiple_of(SLACK) {
            written.retain(|key, written| {
                let object = self.store.get(&key.object_ref());
                object.is_some_and(|object| !written.is_superseded_by(&object))
            });
        }
    }
}

fn in_status(object: &Kustomization) -> Inventory {
    let status = object.status.as_ref();
    Inventory::from_status(status.and_then(|status| status.inventory.as_ref()))
}

/// The other declarations in the cluster of one Kustomization.
pub(super) struct Others<'a> {
    kustomizations: &'a Kustomizations,
    own: Key,
    remote: Option<RemoteTarget>,
    cluster: Cluster,
    identity: Identity,
    /// The objects found to be managed by others, and by which.
    held: Mutex<BTreeMap<ObjectId, String>>,
}

impl<'a> Others<'a> {
    /// The error is a message if the identity of the cluster is unknown.
    pub(super) async fn new(
        own: Key,
        remote: Option<&RemoteTarget>,
        cluster: &Cluster,
        kustomizations: &'a Kustomizations,
    ) -> Result<Self, String> {
        let identity = kustomizations.targets.identity(&own.namespace, remote).await?;
        Ok(Self {
            kustomizations,
            own,
            remote: remote.cloned(),
            cluster: cluster.clone(),
            identity,
            held: Mutex::default(),
        })
    }

    /// The cluster.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The mark of objects that are applied there, if they are applied through `spec.kubeConfig`.
    pub(super) async fn mark(&self) -> Result<Option<String>, String> {
        if self.remote.is_none() {
            return Ok(None);
        }
        let home = self.kustomizations.targets.home().await?;
        Ok(Some(names::applied_from(home)))
    }

    /// A note about the objects that others manage, if there are any.
    pub(super) fn shared_objects_message(&self) -> Option<String> {
        let held = self.held.lock();
        let named: Vec<String> = held
            .iter()
            .take(NAMED_MAX)
            .map(|(id, holder)| format!("{id} is managed by {holder}"))
            .collect();
        let more = match held.len() - named.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        (!named.is_empty()).then(|| format!("declared here too, and not applied: {}{more}", named.join("; ")))
    }

    /// Whether another Kustomization of this process is certainly applied to another cluster. Makes no call, and is
    /// checked for each one in the fleet before its inventory is read.
    fn is_elsewhere(&self, other: &Kustomization) -> bool {
        let remote = settings::remote(&other.spec);
        if remote.is_none() && other.spec.kube_config.is_some() {
            // Nothing of it is applied here.
            return true;
        }
        let namespace = other.namespace().unwrap_or_default();
        let targets = &self.kustomizations.targets;
        match (&self.remote, &remote) {
            (Some(own), Some(remote)) => {
                targets.are_two_clusters((&self.own.namespace, own), (&namespace, remote))
            }
            (_, None) | (None, Some(_)) => false,
        }
    }

    /// Whether another Kustomization of this process is applied to the same cluster.
    async fn is_beside(&self, other: &Kustomization) -> Result<bool, String> {
        if self.is_elsewhere(other) {
            return Ok(false);
        }
        let namespace = other.namespace().unwrap_or_default();
        let remote = settings::remote(&other.spec);
        if remote == self.remote && (remote.is_none() || namespace == self.own.namespace) {
            return Ok(true);
        }
        let targets = &self.kustomizations.targets;
        let identity = targets.known_identity(&namespace, remote.as_ref());
        let identity = identity.await.map_err(|why| {
            format!(
                "cannot tell which cluster {} is applied to: {why}",
                kustomization_name(&Key::of(other))
            )
        })?;
        Ok(identity == self.identity)
    }

    /// The Kustomizations of this process that declare an object in this cluster; first those that are not being
    /// deleted.
    async fn declaring(&self, id: &ObjectId) -> Result<Vec<Arc<Kustomization>>, String> {
        let inventories = &self.kustomizations.inventories;
        let mut declaring = Vec::new();
        for other in inventories.store.state() {
            if Key::of(&*other) != self.own
                && !self.is_elsewhere(&other)
                && inventories.of(&other).contains(id)
                && self.is_beside(&other).await?
            {
                declaring.push(other);
            }
        }
        declaring.sort_by_key(|other| (other.metadata.deletion_timestamp.is_some(), Key::of(&**other)));
        Ok(declaring)
    }

    /// Whether exactly this Kustomization still exists: the watch may not have delivered its deletion yet.
    async fn is_there(&self, other: &Kustomization) -> Result<bool, String> {
        let key = Key::of(other);
        let api: Api<Kustomization> =
            Api::namespaced(self.kustomizations.context.client.clone(), &key.namespace);
        let live = call(
            format!("reading Kustomization {key}"),
            api.get_metadata_opt(&key.name),
        )
        .await;
        let live = live.map_err(|error| error_chain(&error))?;
        Ok(live.is_some_and(|live| live.uid() == other.uid()))
    }

    /// A Kustomization that an agent applies in the cluster itself, and that declares the object.
    async fn of_agent(&self, id: &ObjectId) -> Result<Option<Successor>, String> {
        let is_own =
            self.identity == Identity::Local && self.kustomizations.context.namespace == SYSTEM_NAMESPACE;
        if self.remote.is_none() || is_own {
            return Ok(None);
        }
        let all = self.cluster.kustomizations(SYSTEM_NAMESPACE).await;
        let mut all = all.map_err(|error| {
            format!("cannot list the Kustomizations of namespace {SYSTEM_NAMESPACE} in the target cluster: {error}")
        })?;
        all.retain(|other| other.spec.kube_config.is_none() && in_status(other).contains(id));
        all.sort_by_key(|other| (other.metadata.deletion_timestamp.is_some(), Key::of(other)));
        Ok(all.first().map(|other| Successor {
            owner: Owner {
                name: other.name_any(),
                namespace: SYSTEM_NAMESPACE.to_owned(),
            },
            in_cluster: true,
        }))
    }
}

#[async_trait]
impl Declarers for Others<'_> {
    async fn holder(&self, id: &ObjectId, live: &Value) -> Result<Option<String>, String> {
        let holder = self.holder_of(id, live).await?;
        if let Some(holder) = &holder {
            self.held.lock().insert(id.clone(), holder.clone());
        }
        Ok(holder)
    }

    async fn heir(&self, id: &ObjectId) -> Result<Option<Successor>, String> {
        if let Some(unreadable) = self.kustomizations.inventories.unreadable.first() {
            return Err(format!(
                "{} cannot be read, so what it declares is not known; correct it: kubectl edit -n {} kustomizations.kustomize.toolkit.fluxcd.io/{}",
                kustomization_name(&unreadable),
                unreadable.namespace,
                unreadable.name
            ));
        }
        for other in self.declaring(id).await? {
            if self.is_there(&other).await? {
                return Ok(Some(Successor {
                    owner: Owner {
                        name: other.name_any(),
                        namespace: other.namespace().unwrap_or_default(),
                    },
                    in_cluster: settings::remote(&other.spec).is_none(),
                }));
            }
        }
        self.of_agent(id).await
    }
}

impl Others<'_> {
    async fn holder_of(&self, id: &ObjectId, live: &Value) -> Result<Option<String>, String> {
        let owner = Owner::of(live).map(|owner| Key::new(owner.namespace, owner.name));
        if let (None, Some(from)) = (&self.remote, applied_from(live))
            && from != names::applied_from(self.kustomizations.targets.home().await?)
        {
            let owner = owner
                .as_ref()
                .map_or_else(|| "a Kustomization".to_owned(), kustomization_name);
            return Ok(Some(format!(
                "{owner} of another cluster, which applies it through spec.kubeConfig"
            )));
        }
        let Some(owner) = owner.filter(|owner| *owner != self.own) else {
            return Ok(None);
        };
        let inventories = &self.kustomizations.inventories;
        if inventories.unreadable.contains(&owner) {
            return Ok(Some(format!(
                "{}, which cannot be read",
                kustomization_name(&owner)
            )));
        }
        let Some(other) = inventories.store.get(&owner.object_ref()) else {
            return Ok(None);
        };
        let holds = inventories.of(&other).contains(id) && self.is_beside(&other).await?;
        Ok(holds.then(|| kustomization_name(&owner)))
    }
}

fn kustomization_name(key: &Key) -> String {
    format!("Kustomization {key}")
}
