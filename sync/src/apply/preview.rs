//! What applying and pruning would change, determined without a write: by reads and server-side dry runs.
//!
//! Invariant: no value of a Secret leaves this module. [`MASK`] and the text after it show only whether a value is
//! equal or changed, and on which side it is.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use muster_api::labels::label;
use serde_json::{Map, Value};

use super::{
    CONCURRENCY, CallError, Cluster, Heir, Kind, ObjectFailure, Options, Owner, Plan, Prepared,
    drift::drifted,
    error::immutable_fields,
    handover, managed,
    managed::LAST_APPLIED,
    masked::{self, Sides},
    normalize::SERVER_METADATA,
    prepare::ObjectPolicy,
    shared::{OWNERSHIP, applied_from},
    takeover,
};
use crate::inventory::ObjectId;

pub use super::masked::MASK;

/// What would happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The object does not exist.
    Create,
    /// The object is different.
    Configure,
    /// An immutable field differs: the object would be deleted and created again.
    Recreate,
    /// The object is in the inventory and no longer in the manifests.
    Delete,
}

/// An object that would change, with its content before and after, without the fields that the server changes on its
/// own.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The object.
    pub id: ObjectId,
    /// What would happen to the object.
    pub fate: Fate,
    /// The current content; `None` if the object does not exist.
    pub before: Option<Value>,
    /// The content after the change; `None` if the object would be deleted.
    pub after: Option<Value>,
}

/// What would change, in the order of applying, deletions last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Objects whose content would change.
    pub changes: Vec<Change>,
    /// Objects whose only change would be field ownership.
    pub owned: Vec<ObjectId>,
    /// How many objects are up to date, or are skipped because of their annotations.
    pub unchanged: usize,
    /// Objects that could not be checked, or would be refused.
    pub failures: Vec<ObjectFailure>,
}

/// Which owner the previewed objects are labeled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The owner of the plan: its labels are added to the objects.
    OfPlan,
    /// The current owner: the ownership labels stay as they are.
    AsItIs,
}

/// Checks every object of a plan, and those that would be pruned, each with the API version that it was last applied
/// with.
pub async fn preview(
    cluster: &Cluster,
    plan: &Plan,
    ownership: Ownership,
    unwanted: &[(ObjectId, String)],
) -> Preview {
    let mut preview = Preview {
        failures: plan.failures.clone(),
        ..Preview::default()
    };
    let (namespaces, others): (Vec<_>, Vec<_>) =
        plan.objects.iter().partition(|object| is_namespace(&object.id));
    let mut previewer = Previewer {
        cluster,
        options: &plan.options,
        ownership,
        pending: BTreeSet::new(),
    };
    let results = previewer.all(&namespaces).await;
    previewer.pending = results
        .iter()
        .filter_map(|result| match result {
            Ok(ObjectPreview::Changed(change)) if change.fate == Fate::Create => Some(change.id.name.clone()),
            Ok(_) | Err(_) => None,
        })
        .collect();
    let results = results.into_iter().chain(previewer.all(&others).await);
    results.for_each(|result| preview.take(result));
    for result in previewer.unwanted(&plan.options.owner, unwanted).await {
        preview.take(result);
    }
    preview
}

impl Preview {
    fn take(&mut self, result: Result<ObjectPreview, ObjectFailure>) {
        match result {
            Ok(ObjectPreview::Changed(change)) if change.before == change.after => self.owned.push(change.id),
            Ok(ObjectPreview::Changed(change)) => self.changes.push(change),
            Ok(ObjectPreview::Unchanged) => self.unchanged += 1,
            Ok(ObjectPreview::Nothing) => {}
            Err(failure) => self.failures.push(failure),
        }
    }
}

enum ObjectPreview {
    Changed(Change),
    Unchanged,
    /// Does not exist, and should not.
    Nothing,
}

/// Which managers' fields of an object would be taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    /// Fields set with kubectl, and defaults that conflict with the manifest.
    peoples: bool,
    /// Whether fields set with kubectl are kept.
    merges: bool,
    /// Fields that Flux applied.
    fluxs: bool,
}

impl Taken {
    fn is_something(self) -> bool {
        self.peoples || self.fluxs
    }

    /// Whether an entry of `managedFields` would be taken over.
    fn holds(self, entry: &Value) -> bool {
        (self.peoples && !self.merges && takeover::is_peoples(entry))
            || (self.fluxs && managed::is_applied_by(entry, Heir::Builtin.predecessor()))
    }
}

struct Previewer<'a> {
    cluster: &'a Cluster,
    options: &'a Options,
    ownership: Ownership,
    /// Namespaces that would be created: no dry run is possible in them.
    pending: BTreeSet<String>,
}

impl Previewer<'_> {
    async fn all(&self, objects: &[&Prepared]) -> Vec<Result<ObjectPreview, ObjectFailure>> {
        let previews: Vec<_> = objects.iter().map(|object| self.one(object)).collect();
        stream::iter(previews).buffered(CONCURRENCY).collect().await
    }

    async fn one(&self, object: &Prepared) -> Result<ObjectPreview, ObjectFailure> {
        if object.wishes.ignore {
            return Ok(ObjectPreview::Unchanged);
        }
        let id = &object.id;
        let failed = |action: &str, error: &CallError| ObjectFailure::call(id.clone(), action, error);
        let kind = self.cluster.kind(&object.api_version(), &id.kind).await;
        let Some(kind) = kind.map_err(|error| failed("discovery", &error))? else {
            return self.of_new_kind(object).await;
        };
        let live = self.cluster.get(&kind, id).await;
        let Some(live) = live.map_err(|error| failed("reading it", &error))? else {
            return self.absent(object, &kind).await;
        };
        let wishes = ObjectPolicy::of(&live);
        if object.wishes.if_not_present || wishes.ignore {
            return Ok(ObjectPreview::Unchanged);
        }
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            return Err(ObjectFailure::terminating(id.clone()));
        }
        let live = handover::accounted(self.cluster, &kind, id, live).await;
        let live = live.map_err(|error| failed("dry-run", &error))?;
        let body = self.body(object, Some(&live));
        let merges = object.wishes.merge || wishes.merge;
        let taken = Taken {
            peoples: takeover::takeover_patch(&live, &body, merges).is_some(),
            merges,
            fluxs: self.inherits(&live),
        };
        let dry_run = self.cluster.apply(&kind, id, &body, true).await;
        let refusal = match dry_run {
            Ok(dry_run) => return self.taken_over(object, &kind, live, dry_run, taken).await,
            Err(error) if taken.is_something() => {
                match self.without_leftovers(&kind, id, &live, &body, taken).await {
                    Ok(Some(after)) => return Ok(changed(id, Fate::Configure, Some(live), Some(after))),
                    Ok(None) => error,
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        match immutable_fields(&refusal) {
            None => {
                let advice = takeover::advice(id, &live, &body);
                Err(ObjectFailure::refused(id.clone(), &refusal, advice))
            }
            Some(_) if self.options.force || object.wishes.force || wishes.force => {
                Ok(changed(id, Fate::Recreate, Some(live), Some(body)))
            }
            Some(fields) => Err(ObjectFailure::immutable(id.clone(), &refusal, &fields)),
        }
    }

    /// The object without the fields that conflict with the manifest, and without those that applying removes after the
    /// takeover. `None` for kinds without strategic merge patch: custom resources.
    async fn without_leftovers(
        &self,
        kind: &Kind,
        id: &ObjectId,
        live: &Value,
        body: &Value,
        taken: Taken,
    ) -> Result<Option<Value>, CallError> {
        let patch = takeover::merge_patch(live, body, |entry| taken.holds(entry));
        match self.cluster.dry_merge(kind, id, &patch).await {
            Ok(after) => Ok(Some(after)),
            Err(CallError::Refused(status)) if status.code == 415 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether what Flux applied would be taken over.
    fn inherits(&self, live: &Value) -> bool {
        let owner = match self.ownership {
            Ownership::OfPlan => Some(self.options.owner.clone()),
            Ownership::AsItIs => Owner::of(live),
        };
        owner.is_some_and(|owner| handover::handover_patch(live, &owner, Heir::Builtin).is_some())
    }

    /// An object with fields that would be taken over: those that no other manager owns would be removed.
    async fn taken_over(
        &self,
        object: &Prepared,
        kind: &Kind,
        live: Value,
        dry_run: Value,
        taken: Taken,
    ) -> Result<ObjectPreview, ObjectFailure> {
        let id = &object.id;
        if !taken.is_something() {
            return Ok(configured(id, live, dry_run));
        }
        let foretold = takeover::predicted(&live, &dry_run, |entry| taken.holds(entry));
        let after = if foretold == dry_run {
            dry_run
        } else {
            // Defaults belong to users too if they created the object; the server sets them again.
            let after = self.cluster.dry_replace(kind, id, &foretold).await;
            after.map_err(|error| ObjectFailure::call(id.clone(), "dry-run", &error))?
        };
        Ok(changed(id, Fate::Configure, Some(live), Some(after)))
    }

    /// An object that does not exist: the result of a dry run, or the manifest if its namespace does not exist yet.
    async fn absent(&self, object: &Prepared, kind: &Kind) -> Result<ObjectPreview, ObjectFailure> {
        let id = &object.id;
        let body = self.body(object, None);
        if self.pending.contains(&id.namespace) {
            return Ok(changed(id, Fate::Create, None, Some(body)));
        }
        match self.cluster.apply(kind, id, &body, true).await {
            Ok(dry_run) => Ok(changed(id, Fate::Create, None, Some(dry_run))),
            Err(error) => Err(ObjectFailure::call(id.clone(), "dry-run", &error)),
        }
    }

    /// An object whose kind, or version of it, is added by a definition among the manifests.
    async fn of_new_kind(&self, object: &Prepared) -> Result<ObjectPreview, ObjectFailure> {
        let id = &object.id;
        let failed = |error: CallError| ObjectFailure::call(id.clone(), "discovery", &error);
        let served = self.cluster.kind_in_any_version(id, &object.version).await;
        let live = match served.map_err(failed)? {
            Some(kind) => self.cluster.get(&kind, id).await.map_err(failed)?,
            None => None,
        };
        match live {
            None => Ok(changed(id, Fate::Create, None, Some(self.body(object, None)))),
            Some(_) => Err(ObjectFailure::unknown_kind(id.clone(), &object.api_version())),
        }
    }

    /// The body that would be sent.
    fn body(&self, object: &Prepared, live: Option<&Value>) -> Value {
        let mut body = object.body.clone();
        let from = live.and_then(applied_from);
        if self.ownership == Ownership::OfPlan {
            // The sync sets this label, as it does the ownership labels.
            let labels = body
                .pointer_mut("/metadata/labels")
                .and_then(Value::as_object_mut);
            if let (Some(from), Some(labels)) = (from, labels) {
                labels.insert(label::APPLIED_FROM.to_owned(), from.into());
            }
            return body;
        }
        let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else {
            return body;
        };
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            for label in OWNERSHIP {
                match live.and_then(|live| live.pointer("/metadata/labels")?.get(label)) {
                    Some(owner) => labels.insert(label.to_owned(), owner.clone()),
                    None => labels.remove(label),
                };
            }
            // An empty map would be a field to own.
            if labels.is_empty() {
                metadata.remove("labels");
            }
        }
        body
    }

    async fn unwanted(
        &self,
        owner: &Owner,
        objects: &[(ObjectId, String)],
    ) -> Vec<Result<ObjectPreview, ObjectFailure>> {
        let previews: Vec<_> = objects
            .iter()
            .map(|(id, version)| self.pruned(owner, id, version))
            .collect();
        stream::iter(previews).buffered(CONCURRENCY).collect().await
    }

    /// An object that pruning would delete, by the same rules.
    async fn pruned(
        &self,
        owner: &Owner,
        id: &ObjectId,
        version: &str,
    ) -> Result<ObjectPreview, ObjectFailure> {
        let failed = |error: CallError| ObjectFailure::call(id.clone(), "reading it", &error);
        let Some(kind) = self
            .cluster
            .kind_in_any_version(id, version)
            .await
            .map_err(failed)?
        else {
            return Ok(ObjectPreview::Nothing);
        };
        let Some(live) = self.cluster.get(&kind, id).await.map_err(failed)? else {
            return Ok(ObjectPreview::Nothing);
        };
        let leaves = live.pointer("/metadata/deletionTimestamp").is_some();
        if leaves || !owner.owns(&live) || ObjectPolicy::of(&live).keep {
            return Ok(ObjectPreview::Nothing);
        }
        Ok(changed(id, Fate::Delete, Some(live), None))
    }
}

fn configured(id: &ObjectId, live: Value, dry_run: Value) -> ObjectPreview {
    if drifted(&live, &dry_run) {
        changed(id, Fate::Configure, Some(live), Some(dry_run))
    } else {
        ObjectPreview::Unchanged
    }
}

fn is_namespace(id: &ObjectId) -> bool {
    id.group.is_empty() && id.kind == "Namespace"
}

fn changed(id: &ObjectId, fate: Fate, before: Option<Value>, after: Option<Value>) -> ObjectPreview {
    let mut sides = Sides {
        before: before.map(content),
        after: after.map(content),
    };
    if id.group.is_empty() && id.kind == "Secret" {
        masked::secret(&mut sides);
    }
    let id = id.clone();
    let Sides { before, after } = sides;
    ObjectPreview::Changed(Change {
        id,
        fate,
        before,
        after,
    })
}

/// The declared part of an object: no status, nothing that the server or kubectl maintains.
fn content(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !SERVER_METADATA.contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
        metadata.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
    }
    object
}
