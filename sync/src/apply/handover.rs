//! Hands objects over between the built-in sync and Flux, so that a cluster can move from one to the other and back.
//! Pure, except for [`hand_over`].
//!
//! Both use server-side apply, each with its own field manager. If one takes over and applies a revision that lacks a
//! field, that field would stay, because it is still owned by the inactive manager. So the entry in `managedFields` is
//! first moved to the new manager: when a manager applies without a field that it owns, the field is removed. Nothing
//! else in the object changes, and no field of any other manager.
//!
//! Invariant: only objects that carry the ownership labels of the Kustomization are handed over; an object of another
//! owner may have the same name.

use futures::{StreamExt, stream};
use muster_api::labels::manager;
use serde_json::{Value, json};

use super::{CONCURRENCY, CallError, Cluster, FIELD_MANAGER, Kind, LOOKS, ObjectFailure, Owner, managed};
use crate::inventory::ObjectId;

/// The sync that takes over what the other one applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heir {
    /// The built-in sync, after Flux.
    Builtin,
    /// Flux's kustomize-controller, after the built-in sync.
    Flux,
}

/// The result of a handover. An object in neither list did not exist, does not belong to the owner, or was handed over
/// already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Objects whose fields were handed over.
    pub objects: Vec<ObjectId>,
    /// Objects that could not be read or written.
    pub failures: Vec<ObjectFailure>,
}

impl Heir {
    /// The field manager of the sync that takes over.
    pub(super) const fn manager(self) -> &'static str {
        match self {
            Self::Builtin => FIELD_MANAGER,
            Self::Flux => manager::FLUX_SYNC,
        }
    }

    /// The field manager of the sync that it takes over from.
    pub(super) const fn predecessor(self) -> &'static str {
        match self {
            Self::Builtin => Self::Flux.manager(),
            Self::Flux => Self::Builtin.manager(),
        }
    }
}

/// The JSON patch that transfers the predecessor's fields in `live` to the heir; `None` if the predecessor owns none,
/// or the object does not belong to `owner`.
pub(super) fn handover_patch(live: &Value, owner: &Owner, heir: Heir) -> Option<Value> {
    if !owner.owns(live) {
        return None;
    }
    let theirs = |entry: &Value| managed::is_applied_by(entry, heir.predecessor());
    let entries = managed::merged(managed::entries(live), theirs, heir.manager())?;
    Some(
        [managed::replaced(&entries), managed::on_version(live)]
            .into_iter()
            .collect(),
    )
}

/// Hands over the objects of `owner` that are still managed by the predecessor. Each is given with the API version that
/// it was last applied with. A failure does not stop the others.
pub async fn hand_over(
    cluster: &Cluster,
    owner: &Owner,
    objects: &[(ObjectId, String)],
    heir: Heir,
) -> HandedOver {
    // By index: the compiler cannot prove that a closure over references is Send once it is part of a future.
    let tries = (0..objects.len()).map(|index| {
        let (id, version) = &objects[index];
        hand_over_one(cluster, owner, id, version, heir)
    });
    let fates: Vec<_> = stream::iter(tries).buffered(CONCURRENCY).collect().await;
    let mut all = HandedOver::default();
    for ((id, _), fate) in objects.iter().zip(fates) {
        match fate {
            Ok(true) => all.objects.push(id.clone()),
            Ok(false) => {}
            Err(failure) => all.failures.push(failure),
        }
    }
    all
}

/// Whether the object was written.
async fn hand_over_one(
    cluster: &Cluster,
    owner: &Owner,
    id: &ObjectId,
    version: &str,
    heir: Heir,
) -> Result<bool, ObjectFailure> {
    let failed = |action: &'static str| move |error| ObjectFailure::call(id.clone(), action, &error);
    let kind = cluster.kind_in_any_version(id, version).await;
    let Some(kind) = kind.map_err(failed("discovery"))? else {
        return Ok(false);
    };
    for _ in 0..LOOKS {
        let live = cluster.get(&kind, id).await.map_err(failed("reading it"))?;
        let Some(patch) = live.and_then(|live| handover_patch(&live, owner, heir)) else {
            return Ok(false);
        };
        let written = send_patch(cluster, &kind, id, &patch).await;
        if written.map_err(failed("handing it over"))?.is_some() {
            return Ok(true);
        }
    }
    Err(ObjectFailure::overtaken(id.clone()))
}

/// Sends a patch. Returns the resulting object; `None` if the object has changed in the meantime or is gone.
pub(super) async fn send_patch(
    cluster: &Cluster,
    kind: &Kind,
    id: &ObjectId,
    patch: &Value,
) -> Result<Option<Value>, CallError> {
    match cluster.patch(kind, id, patch).await {
        Ok(written) => Ok(Some(written)),
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// `live` with `managedFields`. The server starts tracking them at the first apply, and attributes earlier fields to
/// `before-first-apply`; a dry run that applies nothing triggers that.
pub(super) async fn accounted(
    cluster: &Cluster,
    kind: &Kind,
    id: &ObjectId,
    mut live: Value,
) -> Result<Value, CallError> {
    if !managed::entries(&live).is_empty() {
        return Ok(live);
    }
    let nothing = json!({
        "apiVersion": live["apiVersion"], "kind": live["kind"],
        "metadata": {"name": live["metadata"]["name"], "namespace": live["metadata"]["namespace"]},
    });
    let mut begun = cluster.apply(kind, id, &nothing, true).await?;
    if let Some(entries) = begun.pointer_mut("/metadata/managedFields").map(Value::take) {
        live["metadata"]["managedFields"] = entries;
    }
    Ok(live)
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use super::*;

    const NAME: &str = "kustomize.toolkit.fluxcd.io/name";
    const NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";

    fn owner() -> Owner {
        Owner {
            name: "app".into(),
            namespace: "flux".into(),
        }
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": manager, "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    }

    fn live(labels: Value, entries: Value) -> Value {
        json!({"metadata": {"resourceVersion": "7", "labels": labels, "managedFields": entries}})
    }

    fn ours() -> Value {
        json!({NAME: "app", NAMESPACE: "flux"})
    }

    /// Checks the entries after the handover, using the patch and the version that it is for.
    #[track_caller]
    fn check(heir: Heir, entries: Value, expect: Value) {
        let expect = (!expect.is_null()).then(|| {
            json!([
                {"op": "add", "path": "/metadata/managedFields", "value": expect},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            ])
        });
        assert_eq!(handover_patch(&live(ours(), entries), &owner(), heir), expect);
    }

    #[test]
    fn an_entry_is_renamed_or_merged_in_either_direction() {
        let x = json!({"f:data": {"f:x": {}}});
        let y = json!({"f:data": {"f:y": {}}});
        let both = json!({"f:data": {"f:x": {}, "f:y": {}}});
        let others = [
            entry("autoscaler", "Update", x.clone()),
            entry("kubectl-edit", "Update", y.clone()),
            entry("operator", "Apply", both.clone()),
        ];
        for (heir, from, to) in [
            (Heir::Flux, "muster-sync", "kustomize-controller"),
            (Heir::Builtin, "kustomize-controller", "muster-sync"),
        ] {
            check(heir, json!([]), Value::Null);
            check(heir, json!([entry(to, "Apply", x.clone())]), Value::Null);
            check(heir, json!(others), Value::Null);
            // Renamed: everything else is as before.
            let mut renamed = entry(from, "Apply", both.clone());
            renamed["manager"] = json!(to);
            check(
                heir,
                json!([entry(from, "Apply", both.clone())]),
                json!([renamed]),
            );
            // Merged: the heir's entry has the fields of both, and no entry of another manager has changed.
            let [scaler, person, operator] = others.clone();
            check(
                heir,
                json!([
                    scaler,
                    entry(from, "Apply", y.clone()),
                    person,
                    entry(to, "Apply", x.clone()),
                    operator
                ]),
                json!([scaler, person, operator, entry(to, "Apply", both.clone())]),
            );
        }
    }

    #[test]
    fn what_was_not_applied_by_the_predecessor_stays_as_it_is() {
        let x = json!({"f:status": {"f:x": {}}});
        check(
            Heir::Flux,
            json!([entry("muster-sync", "Update", x.clone())]),
            Value::Null,
        );
        let mut status = entry("muster-sync", "Apply", x);
        status["subresource"] = json!("status");
        check(Heir::Flux, json!([status]), Value::Null);
    }

    #[test]
    fn an_object_of_another_owner_or_of_none_is_left_alone() {
        let entries = json!([entry("muster-sync", "Apply", json!({"f:data": {}}))]);
        for labels in [
            Value::Null,
            json!({}),
            json!({NAME: "app"}),
            json!({NAME: "other", NAMESPACE: "flux"}),
            json!({NAME: "app", NAMESPACE: "other"}),
        ] {
            let live = live(labels, entries.clone());
            assert_eq!(handover_patch(&live, &owner(), Heir::Flux), None, "{live}");
        }
        assert!(handover_patch(&live(ours(), entries), &owner(), Heir::Flux).is_some());
    }
}
