//! A Kustomization that is being deleted: its deletion policy decides whether the applied objects are deleted.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Resource, ResourceExt, core::CustomResourceExt};
use muster_api::{
    flux::{DeletionPolicy, Kustomization},
    labels::finalizer,
};
use muster_sync::{
    apply::{self, Owner, error::summary},
    inventory::Inventory,
};
use serde::de::DeserializeOwned;

use super::{
    Error, Kustomizations, confirm, declarers::Others, outcome::ReconcileOutcome, plan, prune::prune_wait,
    settings, status::Writer,
};
use crate::{
    reconcile::Context,
    runtime::{Api, CallError, Key, call, finalizers},
};

/// The first wait until objects that are being deleted are checked again.
const POLL_MIN: Duration = Duration::from_secs(1);

/// The longest such wait: an object that is blocked for hours is checked twice a minute.
const POLL_MAX: Duration = Duration::from_secs(30);

/// How long one round of deleting may take: if the cluster does not respond, each of eight concurrent calls takes its
/// full deadline.
const ROUND: Duration = Duration::from_mins(5);

/// The wait before objects that could not be deleted are retried.
const RETRY: Duration = Duration::from_secs(15);

pub(super) async fn finalize(
    writer: &mut Writer,
    kustomizations: &Kustomizations,
) -> Result<ReconcileOutcome, Error> {
    let object = writer.object().clone();
    let inventory = writer.inventory();
    let context = &kustomizations.context;
    if !inventory.is_empty() && deletes(&object) && !swept_away(&object, context).await? {
        let remaining = empty(writer, kustomizations).await?;
        if let Some(outcome) = remaining {
            return Ok(outcome);
        }
    }
    finalizers::remove(&context.client, &object, finalizer::FLUX).await?;
    Ok(ReconcileOutcome::Gone)
}

/// Whether the policy deletes the objects. A suspended Kustomization leaves everything.
fn deletes(object: &Kustomization) -> bool {
    let spec = &object.spec;
    let by_policy = match spec.deletion_policy.unwrap_or_default() {
        DeletionPolicy::MirrorPrune => spec.prune,
        DeletionPolicy::Delete | DeletionPolicy::WaitForTermination => true,
        DeletionPolicy::Orphan => false,
    };
    by_policy && !spec.suspend.unwrap_or_default()
}

/// Whether the object is deleted because its CRD or namespace is, which is not a request to empty a cluster.
async fn swept_away(object: &Kustomization, context: &Context) -> Result<bool, CallError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(context.client.clone());
    let namespaces: Api<Namespace> = Api::all(context.client.clone());
    Ok(going(&definitions, Kustomization::crd_name()).await?
        || going(&namespaces, &object.namespace().unwrap_or_default()).await?)
}

async fn going<K>(api: &Api<K>, name: &str) -> Result<bool, CallError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let found = call(format!("reading {} {name}", K::kind(&())), api.get_opt(name)).await?;
    Ok(found.is_none_or(|found| found.meta().deletion_timestamp.is_some()))
}

/// Deletes what the inventory lists. Returns the message for the status if the Kustomization must stay.
async fn empty(
    writer: &mut Writer,
    kustomizations: &Kustomizations,
) -> Result<Option<ReconcileOutcome>, Error> {
    let object = &writer.object().clone();
    let mut inventory = writer.inventory();
    let namespace = object.namespace().unwrap_or_default();
    let owner = Owner {
        name: object.name_any(),
        namespace: namespace.clone(),
    };
    let held = |message, inventory: &Inventory| {
        Ok(Some(ReconcileOutcome::Finalizing {
            failed: true,
            message,
            inventory: inventory.to_status(),
            after: RETRY,
        }))
    };
    let remote = settings::remote(&object.spec);
    if remote.is_none() && object.spec.kube_config.is_some() {
        let message =
            "the cluster of spec.kubeConfig cannot be reached by the built-in sync: it has no secretRef";
        return held(message.to_owned(), &inventory);
    }
    let cluster = match kustomizations.targets.cluster(&namespace, remote.as_ref()).await {
        Ok(cluster) => cluster,
        Err(error) => return held(format!("failed to build kube client: {error}"), &inventory),
    };
    let others = match Others::new(Key::of(object), remote.as_ref(), &cluster, kustomizations).await {
        Ok(others) => others,
        Err(why) => return held(why, &inventory),
    };
    if let Some(outcome) = Box::pin(plan::cleanup(writer, &owner, &cluster, &others, kustomizations)).await? {
        return Ok(Some(outcome));
    }
    // Its Jobs are recorded, and are deleted with the rest.
    inventory = writer.inventory();
    // Until everything that deletes knows the inventory without them.
    let _alone = kustomizations.targets.lock(others.identity()).write_owned().await;
    confirm::unchanged(object, &kustomizations.context).await?;
    let all = inventory.pruned_by(&Inventory::default());
    let pruning = apply::prune(&cluster, &owner, &all, &others);
    let Ok(pruned) = tokio::time::timeout(ROUND, pruning).await else {
        let message = format!("deleting took longer than {} s; it is retried", ROUND.as_secs());
        return held(message, &inventory);
    };
    for id in pruned.settled() {
        inventory.remove(id);
    }
    kustomizations.inventories.settle(object, &inventory);
    kustomizations.wake(&pruned.heirs);
    if !pruned.failures.is_empty() {
        return held(summary(&pruned.failures, pruned.blocked.len()), &inventory);
    }
    let waits = object.spec.deletion_policy == Some(DeletionPolicy::WaitForTermination);
    Ok(
        prune_wait(&pruned, waits).map(|message| ReconcileOutcome::Finalizing {
            failed: false,
            message,
            inventory: inventory.to_status(),
            after: poll(object, kustomizations.context.clock.now()),
        }),
    )
}

/// The wait until the next check: the longer it has taken already, the longer.
fn poll(object: &Kustomization, now: Timestamp) -> Duration {
    let since = object
        .metadata
        .deletion_timestamp
        .as_ref()
        .map_or(now, |time| time.0);
    // A negative span, as with a clock behind the server's, counts as zero.
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    (elapsed / 8).clamp(POLL_MIN, POLL_MAX)
}
