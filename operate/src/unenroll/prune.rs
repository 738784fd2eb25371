//! Withdraws all modules from a cluster before it is removed: its Cluster loses its labels, so that no module selects
//! it, and modules withdraw as usual.

use std::{collections::BTreeMap, time::Duration};

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    core::DynamicObject,
};
use muster_api::{
    ProxyAssemblage, RemoteAssemblage, Shared,
    assemblage::{AssemblageStatus, Intent, SyncPhase, SyncRow},
    labels::manager,
};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call_within};
use muster_fleet::apply::DEADLINE;
use serde_json::{Value, json};

use super::PAUSE;
use crate::{
    enroll::management::{PLACE, Plane},
    steps::{Step, StepRefusal},
};

/// The modules that have a row in the cluster's assemblages.
pub(crate) async fn rows(plane: &Plane, cluster: &str) -> Step<Vec<String>> {
    read(plane, cluster)
        .await
        .map_err(|error| StepRefusal::of_call(PLACE, &error))
}

async fn read(plane: &Plane, cluster: &str) -> Result<Vec<String>, CallError> {
    let proxies: Api<ProxyAssemblage> = Api::namespaced(plane.client.clone(), &plane.namespace);
    let remotes: Api<RemoteAssemblage> = Api::namespaced(plane.client.clone(), &plane.namespace);
    let proxy = call_within(
        DEADLINE,
        format!("reading ProxyAssemblage {cluster}"),
        proxies.get_opt(cluster),
    )
    .await?;
    let remote = call_within(
        DEADLINE,
        format!("reading RemoteAssemblage {cluster}"),
        remotes.get_opt(cluster),
    )
    .await?;
    let mut all = proxy.map_or_else(Vec::new, |proxy| held(&proxy.spec.syncs, proxy.status.as_ref()));
    let bootstrap = remote.map_or_else(Vec::new, |remote| {
        held(&remote.spec.syncs, remote.status.as_ref())
    });
    all.extend(bootstrap.into_iter().map(|name| format!("{name} (bootstrap)")));
    Ok(all)
}

/// The rows that have, or may have, objects in the cluster. The row of a withdrawn module only preserves its token.
fn held(rows: &[Shared<SyncRow>], status: Option<&AssemblageStatus>) -> Vec<String> {
    let reports = status.map_or(&[][..], |status| &status.syncs);
    let is_gone = |row: &Shared<SyncRow>| {
        let mut of_row = reports
            .iter()
            .filter(|state| state.name == row.name && state.token == row.token);
        of_row.any(|state| state.state == SyncPhase::Withdrawn)
    };
    let rows = rows.iter().filter(|row| match row.intent() {
        Intent::Carry { .. } => true,
        Intent::Withdraw(_) => !is_gone(row),
        Intent::Bare => false,
    });
    rows.map(|row| row.name.clone()).collect()
}

/// Removes the labels and waits until no module has a row there.
pub(crate) async fn empty(plane: &Plane, cluster: &DynamicObject, limit: Duration) -> Step<()> {
    let name = cluster.name_any();
    let without = plane.selecting(&BTreeMap::new()).await;
    let without = without.map_err(|error| {
        StepRefusal::unknown(format!("cannot tell which modules select {name}: {error:#}"))
    })?;
    if !without.is_empty() {
        return Err(StepRefusal::failed(format!(
            "{} would still select {name} without any labels, so it cannot be emptied",
            without.join(", ")
        ))
        .remedy("change their selectors to exclude it (usually in git), and run this again; or keep what is there: --keep-resources"));
    }
    let nothing: BTreeMap<&String, Value> = cluster.labels().keys().map(|key| (key, Value::Null)).collect();
    let patch = Patch::Merge(json!({"metadata": {"labels": nothing}}));
    let parameters = PatchParams {
        field_manager: Some(manager::CLI.to_owned()),
        ..PatchParams::default()
    };
    let clusters: Api<DynamicObject> = Api::namespaced_with(
        plane.client.clone(),
        &plane.namespace,
        &plane.version.api_resource(),
    );
    let patching = clusters.patch_metadata(&name, &parameters, &patch);
    call_within(
        DEADLINE,
        format!("removing the labels of Cluster {name}"),
        patching,
    )
    .await
    .map_err(|error| StepRefusal::of_call(PLACE, &error))?;
    let mut left = Vec::new();
    let going = async {
        loop {
            left = read(plane, &name).await?;
            if left.is_empty() {
                return Ok::<(), CallError>(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(limit, going).await {
        Ok(done) => done.map_err(|error| StepRefusal::of_call(PLACE, &error)),
        Err(_elapsed) => Err(StepRefusal::failed(format!(
            "within {} s these modules were not withdrawn from {name}: {}",
            limit.as_secs(),
            left.join(", ")
        ))
        .remedy(format!("why: muster tree cluster/{name}"))
        .remedy("the Cluster has no labels any more; run this again, or with --force to leave what they applied there")),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::assemblage::{SyncState, Withdraw};

    use super::*;

    #[test]
    fn only_what_is_confirmed_to_be_gone_is_not_held() {
        let carried: SyncRow = serde_json::from_value(json!({
            "name": "carried", "token": 1, "source": {"git": {"url": "https://example.com/x", "version": {"tag": "v1"}}},
        }))
        .unwrap();
        let withdrawn = |name: &str, token| SyncRow::withdrawal(name, token, Withdraw::Prune).into();
        let rows = [
            carried.into(),
            withdrawn("going", 2),
            withdrawn("old", 3),
            withdrawn("gone", 4),
            SyncRow::bare("bare", 5).into(),
        ];
        let state = |name: &str, token, state| {
            Shared::from(SyncState {
                name: name.to_owned(),
                token: Some(token),
                state,
                ..SyncState::default()
            })
        };
        let status = AssemblageStatus {
            syncs: vec![
                state("carried", 1, SyncPhase::Succeeded),
                state("going", 2, SyncPhase::Withdrawing),
                // About an earlier row.
                state("old", 2, SyncPhase::Withdrawn),
                state("gone", 4, SyncPhase::Withdrawn),
            ],
            ..AssemblageStatus::default()
        };
        assert_eq!(held(&rows, Some(&status)), ["carried", "going", "old"]);
        assert_eq!(held(&rows, None), ["carried", "going", "old", "gone"]);
    }
}
