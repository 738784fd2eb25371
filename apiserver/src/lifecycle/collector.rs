//! Garbage collection by owner references.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::core::Core;
use crate::meta;
use crate::removal::{FOREGROUND, ORPHAN, Propagation};
use crate::status::GroupResource;
use crate::store::ObjectId;

/// State of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The owner exists.
    Solid,
    /// The owner does not exist.
    Absent,
    /// The owner is being deleted and waits for its dependents.
    Waiting,
    /// Unknown: the kind is not served, or the reference is invalid. Then nothing is deleted.
    Unknown,
}

/// Checks an object with owner references.
pub(crate) fn dependent(core: &Arc<Core>, id: &ObjectId) {
    let Some(object) = core.store.get(&id.resource, &id.key) else {
        return;
    };
    let value = object.value();
    let found: Vec<(String, Owner)> = meta::owners(&value)
        .map(|reference| (uid_of(reference).to_owned(), find(core, id, &value, reference)))
        .collect();
    let any = |kind: Owner| found.iter().any(|(_, owner)| *owner == kind);
    if found.is_empty() || any(Owner::Unknown) {
        return;
    }
    if any(Owner::Solid) {
        let gone: Vec<&str> = found
            .iter()
            .filter(|(_, owner)| *owner != Owner::Solid)
            .map(|(uid, _)| uid.as_str())
            .collect();
        if !gone.is_empty() {
            forget_owners(core, id, &gone);
        }
        return;
    }
    let uid = object.uid();
    let has_dependents = !core.store.dependents(uid).is_empty();
    let propagation = match (
        any(Owner::Waiting) && has_dependents,
        meta::has_finalizer(&value, ORPHAN),
    ) {
        (true, _) => Propagation::Foreground,
        (false, true) => Propagation::Orphan,
        (false, false) if meta::has_finalizer(&value, FOREGROUND) => Propagation::Foreground,
        (false, false) => Propagation::Background,
    };
    if !object.is_terminating() {
        core.remove(id, uid, propagation);
    }
}

/// An object was deleted: its dependents may have to be deleted.
pub(crate) fn owner_gone(core: &Arc<Core>, uid: &str) {
    for (id, _) in core.store.dependents(uid) {
        dependent(core, &id);
    }
}

/// An object may be waiting for the deletion of its dependents.
pub(crate) fn owner_waiting(core: &Arc<Core>, uid: &str) {
    let Some((id, owner)) = core.store.find_uid(uid) else {
        return;
    };
    if !owner.is_terminating() {
        return;
    }
    let dependents = core.store.dependents(uid);
    let owner = owner.value();
    if meta::has_finalizer(&owner, ORPHAN) {
        for (dependent, _) in &dependents {
            forget_owners(core, dependent, &[uid]);
        }
        release(core, &id, ORPHAN);
    } else if meta::has_finalizer(&owner, FOREGROUND) {
        for (id, _) in &dependents {
            dependent(core, id);
        }
        let blocks = |object: &Value| {
            meta::owners(object).any(|o| uid_of(o) == uid && o["blockOwnerDeletion"].as_bool() == Some(true))
        };
        if !core
            .store
            .dependents(uid)
            .iter()
            .any(|(_, object)| blocks(&object.value()))
        {
            release(core, &id, FOREGROUND);
        }
    }
}

fn release(core: &Arc<Core>, id: &ObjectId, finalizer: &str) {
    core.edit(id, |object| {
        let mut object = object.clone();
        meta::remove_finalizer(&mut object, finalizer).then_some(object)
    });
}

fn forget_owners(core: &Arc<Core>, id: &ObjectId, uids: &[&str]) {
    core.edit(id, |object| {
        let mut object = object.clone();
        let rest: Vec<Value> = meta::owners(&object)
            .filter(|o| !uids.contains(&uid_of(o)))
            .cloned()
            .collect();
        meta::set_metadata(
            &mut object,
            "ownerReferences",
            if rest.is_empty() { Value::Null } else { rest.into() },
        );
        Some(object)
    });
}

fn uid_of(reference: &Value) -> &str {
    reference["uid"].as_str().unwrap_or_default()
}

fn find(core: &Arc<Core>, id: &ObjectId, object: &Value, reference: &Value) -> Owner {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let catalog = core.registry.catalog();
    let Some(kind) = catalog.find_kind(text("apiVersion"), text("kind")) else {
        return Owner::Unknown;
    };
    if kind.namespaced && id.key.namespace.is_empty() {
        complain(core, id, object, reference);
        return Owner::Unknown;
    }
    let Some((owner_id, owner)) = core.store.find_uid(text("uid")) else {
        return Owner::Absent;
    };
    if owner_id.resource != kind.storage || owner_id.key.name != text("name") {
        return Owner::Absent;
    }
    if kind.namespaced && owner_id.key.namespace != id.key.namespace {
        complain(core, id, object, reference);
        return Owner::Absent;
    }
    let waits = owner.is_terminating() && meta::has_finalizer(&owner.value(), FOREGROUND);
    if waits { Owner::Waiting } else { Owner::Solid }
}

/// The event with which the real collector reports an owner reference across namespaces.
fn complain(core: &Arc<Core>, id: &ObjectId, value: &Value, reference: &Value) {
    let namespace = if id.key.namespace.is_empty() {
        "default"
    } else {
        &id.key.namespace
    };
    let name = format!("{}.ownerref.{}", id.key.name, uid_of(reference));
    let shown = format!(
        "[{}/{}, namespace: {}, name: {}, uid: {}]",
        reference["apiVersion"].as_str().unwrap_or_default(),
        reference["kind"].as_str().unwrap_or_default(),
        id.key.namespace,
        reference["name"].as_str().unwrap_or_default(),
        uid_of(reference),
    );
    let now = core.clock.stamp();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": value["apiVersion"], "kind": value["kind"], "name": id.key.name,
            "namespace": id.key.namespace, "uid": meta::uid(value),
        },
        "reason": "OwnerRefInvalidNamespace", "type": "Warning",
        "message": format!("ownerRef {shown} does not exist in namespace {:?}", id.key.namespace),
        "source": {"component": "garbage-collector-controller"}, "reportingComponent": "garbage-collector-controller",
        "reportingInstance": "", "firstTimestamp": now, "lastTimestamp": now, "eventTime": null, "count": 1,
    });
    core.make(&GroupResource::new("", "events"), event);
}
