//! Deletes an object or a collection.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Call, admit, decode, read, respond};
use crate::admission::Operation;
use crate::core::{Live, RACES};
use crate::http::Body;
use crate::meta;
use crate::removal::{self, Propagation};
use crate::resources::versions;
use crate::status::{self, ApiError, GroupResource};
use crate::store::{Object, ObjectKey, PageQuery, Stored, Write};
use crate::webhooks::Hooks;

/// `DeleteOptions`, from the body or else from the query.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeleteOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orphan_dependents: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

impl DeleteOptions {
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|values| !values.is_empty())
    }

    /// Restricts the deletion to the object with this version. Returns whether that is new: a version given by the
    /// client is kept.
    pub(super) fn require_version(&mut self, version: String) -> bool {
        let wanted = &mut self.preconditions.get_or_insert_default().resource_version;
        let is_new = wanted.is_none();
        wanted.get_or_insert(version);
        is_new
    }

    /// The object to delete has this version now.
    pub(super) fn follow_version(&mut self, version: String) {
        if let Some(wanted) = self
            .preconditions
            .as_mut()
            .and_then(|wanted| wanted.resource_version.as_mut())
        {
            *wanted = version;
        }
    }

    /// The options for webhooks.
    fn to_json(&self) -> Value {
        let mut shown = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let own = serde_json::to_value(self).unwrap_or_default(); // these values always serialize
        for (field, value) in own.as_object().into_iter().flatten() {
            shown[field] = value.clone();
        }
        shown
    }
}

/// Result of a deletion.
enum DeleteOutcome {
    /// The object was removed.
    Gone,
    /// The object is terminating, because of finalizers or a grace period.
    Terminating,
}

pub(super) async fn one(call: &Call<'_>) -> Result<http::Response<Body>, ApiError> {
    if !call.target.subresource.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let options = options(call)?;
    let (object, outcome) = delete(call, &options, &call.key()).await?;
    match outcome {
        DeleteOutcome::Terminating => respond::respond_object(call, 200, &object),
        DeleteOutcome::Gone if returns_object(&call.resource.kind) => {
            respond::respond_object(call, 200, &object)
        }
        DeleteOutcome::Gone => {
            let status = status::deleted(&call.group_resource(), &call.target.name, object.uid());
            respond::formatted(call, 200, &status)
        }
    }
}

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Kinds whose deletion returns the object although it was removed.
fn returns_object(kind: &str) -> bool {
    matches!(
        kind,
        "Pod"
            | "Service"
            | "ServiceAccount"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "PodTemplate"
            | "ResourceQuota"
    )
}

pub(super) async fn collection(call: &Call<'_>) -> Result<http::Response<Body>, ApiError> {
    if call.resource.is("", "Namespace") {
        return Err(ApiError::method_not_allowed());
    }
    let options = options(call)?;
    let selector = read::request_selector(call)?;
    let namespace = (!call.target.namespace.is_empty()).then_some(call.target.namespace.as_str());
    let matches = |object: &Stored| selector.matches(object);
    let query = PageQuery {
        namespace,
        filter: Some(&matches),
        ..PageQuery::default()
    };
    let page = call
        .core
        .store
        .page(&call.resource.storage, &query)
        .map_err(|_| ApiError::expired("the list expired"))?;
    for object in &page.items {
        match delete(call, &options, object.key()).await {
            Ok(_) => {}
            Err(error) if error.code == 404 => {} // already deleted by another client, as requested
            Err(error) => return Err(error),
        }
    }
    respond::respond_list(
        call,
        &page,
        &json!({"resourceVersion": page.revision.to_string()}),
    )
}

fn options(call: &Call<'_>) -> Result<DeleteOptions, ApiError> {
    if !call.body.is_empty() {
        let value = decode::decode_object(&call.content_type, &call.body)?.value;
        return serde_json::from_value(value)
            .map_err(|error| ApiError::bad_request(&format!("unable to decode DeleteOptions: {error}")));
    }
    let grace = call.query.get("gracePeriodSeconds");
    let policy = call.query.get("propagationPolicy");
    Ok(DeleteOptions {
        grace_period_seconds: grace.parse().ok(), // absent or not a number: the default
        orphan_dependents: call.query.flag("orphanDependents"),
        propagation_policy: (!policy.is_empty()).then(|| policy.to_owned()),
        dry_run: call.query.dry_run()?.then(|| vec!["All".to_owned()]),
        preconditions: None,
    })
}

async fn delete(
    call: &Call<'_>,
    options: &DeleteOptions,
    key: &ObjectKey,
) -> Result<(Object, DeleteOutcome), ApiError> {
    if call.resource.is("", "Namespace") && IMMORTAL.contains(&key.name.as_str()) {
        return Err(ApiError::forbidden(
            &call.group_resource(),
            &key.name,
            "this namespace may not be deleted",
            &[],
        ));
    }
    for _ in 0..RACES {
        let live = live(call, options, key)?;
        if let Some(hooks) = call.core.webhooks.hooks(&call.core.store)
            && doomed(call, options, &live)?.is_some()
        {
            admitted(call, options, &hooks, &live).await?;
        }
        if let Some(done) = try_delete(call, options, key, live)? {
            return Ok(done);
        }
    }
    Err(ApiError::modified(&call.group_resource(), &key.name))
}

/// Deletes without calling webhooks.
pub(super) fn delete_object(
    call: &Call<'_>,
    options: &DeleteOptions,
    key: &ObjectKey,
) -> Result<(), ApiError> {
    for _ in 0..RACES {
        if try_delete(call, options, key, live(call, options, key)?)?.is_some() {
            return Ok(());
        }
    }
    Err(ApiError::modified(&call.group_resource(), &key.name))
}

/// The object, if it matches the preconditions.
fn live(call: &Call<'_>, options: &DeleteOptions, key: &ObjectKey) -> Result<Live, ApiError> {
    let there = call.core.store.get(&call.resource.storage, key);
    let live = Live::read(
        &call.core.store,
        there.ok_or_else(|| ApiError::not_found(&call.group_resource(), &key.name))?,
    );
    check_preconditions(&call.group_resource(), options, &live)?;
    Ok(live)
}

/// The object marked for deletion; `None` if it is being deleted already.
fn doomed(call: &Call<'_>, options: &DeleteOptions, live: &Live) -> Result<Option<Value>, ApiError> {
    let propagation = propagation(call, options)?;
    let (grace, now) = (options.grace_period_seconds, call.core.clock.now());
    Ok(removal::doomed(
        &call.resource,
        &live.value,
        propagation,
        grace,
        now,
    ))
}

/// Deletes the object that was read; `None` after a conflict with another writer.
fn try_delete(
    call: &Call<'_>,
    options: &DeleteOptions,
    key: &ObjectKey,
    live: Live,
) -> Result<Option<(Object, DeleteOutcome)>, ApiError> {
    let Some(doomed) = doomed(call, options, &live)? else {
        return Ok(Some((live.object, DeleteOutcome::Terminating)));
    };
    let is_due = removal::is_due(&call.resource, &doomed);
    let outcome = if is_due {
        DeleteOutcome::Gone
    } else {
        DeleteOutcome::Terminating
    };
    if options.is_dry_run() {
        return Ok(Some((Stored::unsaved(&doomed), outcome)));
    }
    // An object that is removed immediately keeps its last state: watchers see no deletionTimestamp.
    let write = match (is_due, meta::is_terminating(&live.value)) {
        (false, _) => Write::Put(doomed),
        (true, true) => Write::Remove(doomed),
        (true, false) => Write::Remove(Arc::unwrap_or_clone(live.value)),
    };
    let expected = Some(live.object.revision);
    let store = &call.core.store;
    let written = store.commit(&call.resource.storage, key, expected, &write);
    Ok(written.ok().map(|object| (object, outcome)))
}

/// Calls the webhooks for a deletion. For a collection, the request has no object name.
async fn admitted(
    call: &Call<'_>,
    options: &DeleteOptions,
    hooks: &Hooks,
    live: &Live,
) -> Result<(), ApiError> {
    let old = versions::presented(&call.resource, Value::clone(&live.value));
    let attributes = admit::attributes(call, Operation::Delete, options.is_dry_run(), None);
    let mut attributes = attributes.about(&call.target.name, None, Some(old));
    attributes.options = options.to_json();
    hooks.mutate(call.core, &mut attributes, &call.warnings).await?;
    hooks.validate(call.core, &attributes, &call.warnings).await
}

pub(super) fn check_preconditions(
    named: &GroupResource,
    options: &DeleteOptions,
    live: &Live,
) -> Result<(), ApiError> {
    let Some(wanted) = &options.preconditions else {
        return Ok(());
    };
    let name = meta::name(&live.value);
    for (what, wanted, current) in [
        ("UID", &wanted.uid, meta::uid(&live.value)),
        (
            "ResourceVersion",
            &wanted.resource_version,
            meta::resource_version(&live.value),
        ),
    ] {
        if let Some(wanted) = wanted
            && wanted != current
        {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({current}). The object might have been deleted and then recreated"
            );
            return Err(ApiError::conflict(named, name, &why));
        }
    }
    Ok(())
}

fn propagation(call: &Call<'_>, options: &DeleteOptions) -> Result<Propagation, ApiError> {
    match (options.propagation_policy.as_deref(), options.orphan_dependents) {
        (Some("Background"), None) | (None, Some(false)) => Ok(Propagation::Background),
        (Some("Foreground"), None) => Ok(Propagation::Foreground),
        (Some("Orphan"), None) | (None, Some(true)) => Ok(Propagation::Orphan),
        // Jobs and replication controllers have kept the default of their first versions.
        (None, None) if matches!(call.resource.kind.as_str(), "Job" | "ReplicationController") => {
            Ok(Propagation::Orphan)
        }
        (None, None) => Ok(Propagation::Unsaid),
        (Some(other), _) => Err(ApiError::new(
            422,
            "Invalid",
            &format!(
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"{other}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            ),
            Value::Null,
        )),
    }
}
