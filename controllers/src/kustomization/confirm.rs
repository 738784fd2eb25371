//! A fresh read before anything is deleted: the observed object may be outdated by then, for example after a spec was
//! reverted, or the object was deleted and re-created.
//!
//! Invariant: nothing is deleted for an object unless a read just before shows it as it was when the deletion was
//! decided.

use kube::{Resource, ResourceExt};
use muster_api::flux::Kustomization;

use super::Error;
use crate::{
    reconcile::Context,
    runtime::{Api, Key, call},
};

/// Reads the object again. An error unless it is the same object, with the same spec, and its deletion has neither
/// started nor been reverted since.
pub(super) async fn unchanged(object: &Kustomization, context: &Context) -> Result<(), Error> {
    let key = Key::of(object);
    let api: Api<Kustomization> = Api::namespaced(context.client.clone(), &key.namespace);
    let live = call(format!("reading Kustomization {key}"), api.get_opt(&key.name)).await?;
    if live.is_some_and(|live| same(object, &live)) {
        Ok(())
    } else {
        Err(Error::Changed(key))
    }
}

fn same(observed: &Kustomization, live: &Kustomization) -> bool {
    let (observed_meta, live_meta) = (observed.meta(), live.meta());
    observed.uid() == live.uid()
        && observed_meta.generation == live_meta.generation
        && observed_meta.deletion_timestamp == live_meta.deletion_timestamp
        && observed.spec == live.spec
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(change: &Value, expect: bool) {
        let observed = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "app", "namespace": "ns", "uid": "u", "generation": 2, "resourceVersion": "7"},
            "spec": {"interval": "1m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "src"}},
        });
        let mut live = observed.clone();
        json_patch::merge(&mut live, change);
        let [observed, live]: [Kustomization; 2] =
            [observed, live].map(|object| serde_json::from_value(object).unwrap());
        assert_eq!(same(&observed, &live), expect, "{change}");
    }

    #[test]
    fn only_what_decides_about_deleting_counts() {
        check(&json!({}), true);
        check(
            &json!({"metadata": {"resourceVersion": "8", "annotations": {"a": "b"}}}),
            true,
        );
        check(&json!({"status": {"observedGeneration": 2}}), true);
        check(&json!({"metadata": {"uid": "v"}}), false);
        check(&json!({"metadata": {"generation": 3}}), false);
        check(
            &json!({"metadata": {"deletionTimestamp": "2026-11-21T12:00:00Z"}}),
            false,
        );
        check(&json!({"spec": {"prune": false}}), false);
    }
}
