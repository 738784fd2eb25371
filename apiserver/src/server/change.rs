//! Changes to existing objects: update, patch, apply and scale.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::identity::identify;
use super::options::{Options, Tracking, update_options};
use super::shape::{normalize_applied, problems, refuse_invalid, refuse_too_deep};
use super::{Call, admit};
use crate::admission::Operation;
use crate::apply::track_update;
use crate::core::{Live, RACES};
use crate::kinds::defaults;
use crate::lifecycle::metadata;
use crate::meta;
use crate::removal;
use crate::resources::{Resource, names, versions};
use crate::schema::{Changed, Schema};
use crate::status::ApiError;
use crate::store::{Object, Stored, Write};
use crate::webhooks::Hooks;

/// Changes an existing object. `wanted` returns the desired object for the current one, in the request's version, and
/// the parts of it that may differ; it is called again after a conflict with another writer.
pub(super) async fn change(
    call: &Call<'_>,
    options: &Options,
    tracking: Tracking,
    mut wanted: impl FnMut(&Live) -> Result<(Value, Changed), ApiError> + Send,
) -> Result<Object, ApiError> {
    for _ in 0..RACES {
        let live = Live::read(&call.core.store, call.live()?);
        let (new, changed) = wanted(&live)?;
        let (new, changed) = match call.core.webhooks.hooks(&call.core.store) {
            Some(hooks) => (admitted(call, options, &hooks, &live, new, tracking).await?, None),
            None => (
                prepared(call, options, &live, new, tracking, &changed)?,
                Some(&changed),
            ),
        };
        if let Some(object) = commit(call, options, &live, new, changed) {
            return Ok(object);
        }
    }
    Err(ApiError::modified(&call.group_resource(), &call.target.name))
}

/// The change after the webhooks, in stored form.
async fn admitted(
    call: &Call<'_>,
    options: &Options,
    hooks: &Hooks,
    live: &Live,
    mut new: Value,
    tracking: Tracking,
) -> Result<Value, ApiError> {
    let old = versions::presented(&call.resource, Value::clone(&live.value));
    defaults::fill(&call.resource, &mut new);
    if tracking == Tracking::Update {
        track_early(call, options, &old, &mut new);
    }
    let remake = |object| admit::remade(call, options, tracking, object);
    let attributes = admit::attributes(call, Operation::Update, options.dry_run, Some(&remake));
    let mut attributes = attributes.about(&call.target.name, Some(new), Some(old));
    hooks.mutate(call.core, &mut attributes, &call.warnings).await?;
    let mut new = attributes.object.take().unwrap_or_default(); // the caller passed it
    identify(call, &mut new)?;
    let tracked = if tracking == Tracking::Update {
        Tracking::Done
    } else {
        tracking
    };
    let stored = prepared(call, options, live, new, tracked, &Changed::Whole)?;
    attributes.object = Some(versions::presented(&call.resource, stored.clone()));
    hooks.validate(call.core, &attributes, &call.warnings).await?;
    Ok(stored)
}

/// Sets the managers of `new` according to the client's change.
fn track_early(call: &Call<'_>, options: &Options, old: &Value, new: &mut Value) {
    let resource = &*call.resource;
    let mut settled = new.clone();
    carry_over(call, old, &mut settled, &Changed::Whole);
    defaults::carry_over(resource, old, &mut settled);
    let api_version = resource.api_version();
    let how = update_options(call, options, &api_version, &Changed::Whole);
    track_update(Some(old), &mut settled, resource.type_ref(), &how);
    let managers = settled["metadata"]["managedFields"].take();
    meta::set_metadata(new, "managedFields", managers);
}

/// Stores a new version if it differs from the current one; `None` after a conflict with another writer. `changed`: the
/// parts that may differ, if the object was checked by the schema of this version.
pub(super) fn commit(
    call: &Call<'_>,
    options: &Options,
    live: &Live,
    new: Value,
    changed: Option<&Changed>,
) -> Option<Object> {
    if new == *live.value {
        return Some(live.object.clone());
    }
    if options.dry_run {
        return Some(Stored::unsaved(&new));
    }
    let write = if removal::is_due(&call.resource, &new) {
        Write::Remove(new)
    } else {
        Write::Put(new)
    };
    let expected = Some(live.object.revision);
    let store = &call.core.store;
    let object = store
        .commit(&call.resource.storage, &call.key(), expected, &write)
        .ok()?;
    if let Write::Put(new) = write {
        let settled = |new: &Value| settled_by(&call.resource, new, changed?);
        store.keep_parsed(live.object.revision, &object, new, settled);
    }
    Some(object)
}

/// The schema by which all of `new` is settled: its next version needs to be checked only where it differs.
fn settled_by(resource: &Resource, new: &Value, changed: &Changed) -> Option<Arc<Schema>> {
    let schema = &resource.custom()?.schema;
    let is_settled = resource.is_stored_as_served() && schema.is_settled(new, changed);
    is_settled.then(|| Arc::clone(schema))
}

/// The last step of every change to an existing object: `new` is the desired object in the request's version, of
/// which the `changed` parts may differ. Returns what to store.
pub(super) fn prepared(
    call: &Call<'_>,
    options: &Options,
    live: &Live,
    mut new: Value,
    tracking: Tracking,
    changed: &Changed,
) -> Result<Value, ApiError> {
    let resource = &*call.resource;
    // This and other steps change metadata, too.
    let changed = changed.clone().and_member("metadata");
    let old = &*versions::presented_ref(resource, &live.value);
    let version = meta::resource_version(&new);
    if !version.is_empty() && version != "0" && version != meta::resource_version(old) {
        return Err(ApiError::modified(&call.group_resource(), meta::name(old)));
    }
    carry_over(call, old, &mut new, &changed);
    defaults::fill(resource, &mut new);
    defaults::carry_over(resource, old, &mut new);
    let mut causes = metadata::changes_refused(old, &new);
    causes.extend(names::check(resource, &new));
    causes.extend(problems(
        resource,
        &new,
        Some(old),
        &changed,
        call.target.subresource == "status",
    ));
    refuse_invalid(resource, &new, &causes)?;
    metadata::keep(old, &mut new);
    if tracking == Tracking::Applied {
        normalize_applied(resource, Some(old), &mut new);
    }
    if resource.counts_generations() && metadata::wants_changed(resource, old, &new, &changed) {
        meta::set_metadata(&mut new, "generation", (meta::generation(old) + 1).into());
    }
    if tracking == Tracking::Update {
        let api_version = resource.api_version();
        track_update(
            Some(old),
            &mut new,
            resource.type_ref(),
            &update_options(call, options, &api_version, &changed),
        );
    }
    versions::to_stored(resource, &mut new);
    refuse_too_deep(&new)?;
    Ok(new)
}

/// Copies from the old object what this endpoint does not write, where it may have changed.
fn carry_over(call: &Call<'_>, old: &Value, new: &mut Value, changed: &Changed) {
    let copy = |from: &Value, to: &mut Value, field: &str| match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => {
            if let Some(fields) = to.as_object_mut() {
                fields.remove(field);
            }
        }
    };
    match call.target.subresource.as_str() {
        "" | "scale" if call.resource.status && changed.member("status").is_some() => {
            copy(old, new, "status");
        }
        "" | "scale" => {}
        "finalize" => {
            let finalizers = new["spec"]["finalizers"].clone();
            let mut kept = old.clone();
            kept["spec"]["finalizers"] = if finalizers.is_null() {
                json!([])
            } else {
                finalizers
            };
            *new = kept;
        }
        sub => {
            let written = new["metadata"].take();
            keep_all_but(sub, old, new, changed);
            for field in ["resourceVersion", "managedFields", "uid"] {
                meta::set_metadata(new, field, written[field].clone());
            }
        }
    }
    if let (Some(metadata), true) = (new["metadata"].as_object_mut(), old["metadata"].is_object()) {
        restore(metadata, &old["metadata"]);
    }
}

/// Sets all fields of `new` but one from `old`. Equal fields are not copied: they are most of a large object.
fn keep_all_but(kept: &str, old: &Value, new: &mut Value, changed: &Changed) {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object_mut()) else {
        return;
    };
    new.retain(|name, _| name == kept || old.contains_key(name));
    for (name, value) in old.iter().filter(|(name, _)| *name != kept) {
        if changed.member(name).is_some() && new.get(name) != Some(value) {
            new.insert(name.clone(), value.clone());
        }
    }
}

/// Restores the metadata that clients cannot change.
fn restore(metadata: &mut Map<String, Value>, old: &Value) {
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
    ] {
        match old.get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}
