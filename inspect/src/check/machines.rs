//! Reads the state of in-place updates: extensions with Cluster API's hook, UpdatePlans, and what may replace their
//! Machines. Only reads.

use std::collections::BTreeMap;

use kube::{
    Client,
    api::ListParams,
    core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta},
};
use muster_api::{UpdatePlan, cluster, kind, update_plan::MachineUpdateState};
use muster_controllers::runtime::{Api, CallError, call::error_chain, call_within};
use muster_fleet::apply::DEADLINE;

use super::Read;

/// The group of ExtensionConfigs.
const RUNTIME: &str = "runtime.cluster.x-k8s.io";
/// The version of Cluster API's kinds that has in-place updates.
const VERSION: &str = "v1beta2";

/// The state of in-place updates.
pub(crate) struct Machines {
    /// The extensions of Cluster API; empty if the kind is not served.
    pub extensions: Read<Vec<DynamicObject>>,
    /// Unfinished updates, and what may replace their Machines.
    pub updates: Read<Updates>,
}

/// Unfinished updates, and what may replace their Machines.
#[derive(Default)]
pub(crate) struct Updates {
    /// UpdatePlans with a Machine that is not updated yet.
    pub plans: Vec<UpdatePlan>,
    /// MachineHealthChecks of the namespace.
    pub checks: Vec<DynamicObject>,
    /// Existing Machines by uid.
    pub machines: BTreeMap<String, ObjectMeta>,
}

/// Reads the state for the Machines of a namespace.
pub(crate) async fn read(client: &Client, namespace: &str) -> Machines {
    let (extensions, updates) = tokio::join!(extensions(client), updates(client, namespace));
    Machines {
        extensions: extensions.map_err(|error| error_chain(&error)),
        updates: updates.map_err(|error| error_chain(&error)),
    }
}

async fn extensions(client: &Client) -> Result<Vec<DynamicObject>, CallError> {
    if !serves(client, &format!("{RUNTIME}/{VERSION}"), "extensionconfigs").await? {
        return Ok(Vec::new());
    }
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(RUNTIME, VERSION, "ExtensionConfig"));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let all = ListParams::default();
    let list = call_within(DEADLINE, "listing ExtensionConfigs", api.list(&all)).await?;
    Ok(list.items)
}

/// Without an unfinished update nothing else is read.
async fn updates(client: &Client, namespace: &str) -> Result<Updates, CallError> {
    if !serves(client, kind::API_VERSION, "updateplans").await? {
        return Ok(Updates::default());
    }
    let all = ListParams::default();
    let api: Api<UpdatePlan> = Api::namespaced(client.clone(), namespace);
    let mut plans = call_within(DEADLINE, "listing UpdatePlans", api.list(&all))
        .await?
        .items;
    plans.retain(|plan| {
        let mut machines = plan.status.iter().flat_map(|status| &status.machines);
        machines.any(|machine| machine.state != MachineUpdateState::Updated)
    });
    let of_capi = format!("{}/{VERSION}", cluster::GROUP);
    if plans.is_empty() || !serves(client, &of_capi, "machinehealthchecks").await? {
        return Ok(Updates::default());
    }
    let of = |kind: &str| -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(cluster::GROUP, VERSION, kind));
        Api::namespaced_with(client.clone(), namespace, &kind)
    };
    let (checks, machines) = (of("MachineHealthCheck"), of("Machine"));
    let (checks, machines) = tokio::try_join!(
        call_within(DEADLINE, "listing MachineHealthChecks", checks.list(&all)),
        call_within(DEADLINE, "listing Machines", machines.list_metadata(&all)),
    )?;
    let machines = machines.items.into_iter().map(|machine| machine.metadata);
    Ok(Updates {
        plans,
        checks: checks.items,
        machines: machines
            .filter_map(|machine| Some((machine.uid.clone()?, machine)))
            .collect(),
    })
}

/// Whether a kind is served: one that is not needs no right to read it.
async fn serves(client: &Client, api_version: &str, plural: &str) -> Result<bool, CallError> {
    let what = format!("discovering the kinds of {api_version}");
    match call_within(DEADLINE, what, client.list_api_group_resources(api_version)).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == plural)),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
