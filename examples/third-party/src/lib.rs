//! A custom rollout automation without Modules: it updates one cluster after another, in the order of their label
//! `sun`.
//!
//! It decides when a cluster gets an update, and leaves the rest to muster's assemblages: delivery to the cluster,
//! values per cluster, health, and removal.

use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
    runtime::wait::{self, await_condition},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// What to roll out, and to which clusters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// Used in the names of the assemblages and as field manager: other automations have other names.
    pub name: String,
    /// The namespace of the clusters.
    pub namespace: String,
    /// Label selector of clusters, as for `kubectl -l`.
    pub selector: String,
    /// The version of all rows; the clusters report it.
    pub version: String,
    /// Rows of `spec.syncs` for RemoteAssemblages: applied first, from the management cluster.
    #[serde(default)]
    pub remote: Vec<Value>,
    /// Rows for ProxyAssemblages: applied by the cluster's own agent.
    #[serde(default)]
    pub inside: Vec<Value>,
}

/// Why the round ended early. The remaining clusters keep what they have.
#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    /// A row failed in a cluster.
    #[error("{cluster}: {sync} failed: {message}")]
    Failed {
        /// The name of the cluster.
        cluster: String,
        /// The name of the row.
        sync: String,
        /// The message in the status of the assemblage.
        message: String,
    },
    /// A call to the management cluster failed.
    #[error("a request to the management cluster failed")]
    Call(#[from] kube::Error),
    /// A watch on an assemblage ended.
    #[error("watching an assemblage failed")]
    Watch(#[from] wait::Error),
}

/// Runs one round. Returns the updated clusters, in order.
pub async fn roll(client: &Client, round: &Round) -> Result<Vec<String>, RoundError> {
    let mut done = Vec::new();
    for cluster in clusters(client, round).await? {
        give(client, round, &cluster, "RemoteAssemblage", &round.remote).await?;
        give(client, round, &cluster, "ProxyAssemblage", &round.inside).await?;
        done.push(cluster);
    }
    Ok(done)
}

/// Removes everything, in reverse order. An assemblage is emptied first, which withdraws its rows: deleting it with
/// rows would release them.
pub async fn take_back(client: &Client, round: &Round) -> Result<(), RoundError> {
    for cluster in clusters(client, round).await?.iter().rev() {
        for kind in ["ProxyAssemblage", "RemoteAssemblage"] {
            let (assemblages, name) = (api(client, round, kind), format!("{cluster}-{}", round.name));
            if assemblages.get_opt(&name).await?.is_some() {
                write(client, round, cluster, kind, &[]).await?;
                let empty =
                    |object: Option<&DynamicObject>| object.is_none_or(|object| states(object).is_empty());
                await_condition(assemblages.clone(), &name, empty).await?;
                assemblages.delete(&name, &DeleteParams::default()).await?;
            }
        }
    }
    Ok(())
}

async fn clusters(client: &Client, round: &Round) -> Result<Vec<String>, RoundError> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster"));
    let clusters: Api<DynamicObject> = Api::namespaced_with(client.clone(), &round.namespace, &kind);
    let selected = ListParams::default().labels(&round.selector);
    let mut found = clusters.list(&selected).await?.items;
    found.sort_by_key(|cluster| (cluster.labels().get("sun").cloned(), cluster.name_any()));
    Ok(found.iter().map(ResourceExt::name_any).collect())
}

/// Writes the rows of a cluster, and waits until each of them is reported as succeeded, or one as terminally failed.
async fn give(
    client: &Client,
    round: &Round,
    cluster: &str,
    kind: &str,
    rows: &[Value],
) -> Result<(), RoundError> {
    if rows.is_empty() {
        return Ok(());
    }
    write(client, round, cluster, kind, rows).await?;
    let settled =
        |object: Option<&DynamicObject>| object.is_some_and(|object| verdict(object, rows, round).is_some());
    let name = format!("{cluster}-{}", round.name);
    let object = await_condition(api(client, round, kind), &name, settled).await?;
    match object.and_then(|object| verdict(&object, rows, round)) {
        Some(Err((sync, message))) => Err(RoundError::Failed {
            cluster: cluster.to_owned(),
            sync,
            message,
        }),
        Some(Ok(())) | None => Ok(()),
    }
}

async fn write(
    client: &Client,
    round: &Round,
    cluster: &str,
    kind: &str,
    rows: &[Value],
) -> Result<(), RoundError> {
    let named = |row: &Value| {
        let mut row = row.clone();
        row["digest"] = json!(round.version);
        row
    };
    let name = format!("{cluster}-{}", round.name);
    let assemblage = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": {"clusterRef": {"name": cluster}, "syncs": rows.iter().map(named).collect::<Vec<Value>>()},
    });
    let ours = PatchParams::apply(&round.name);
    api(client, round, kind)
        .patch(&name, &ours, &Patch::Apply(assemblage))
        .await?;
    Ok(())
}

/// `None` if there is no result yet. Status of another version is ignored.
fn verdict(object: &DynamicObject, rows: &[Value], round: &Round) -> Option<Result<(), (String, String)>> {
    let current: Vec<&Value> = states(object)
        .iter()
        .filter(|state| state["digest"] == round.version)
        .collect();
    if let Some(failed) = current
        .iter()
        .find(|state| state["state"] == "failed" && state["terminal"] == true)
    {
        let text = |field: &str| failed[field].as_str().unwrap_or_default().to_owned();
        return Some(Err((text("name"), text("message"))));
    }
    let succeeded = current
        .iter()
        .filter(|state| state["state"] == "succeeded")
        .count();
    (succeeded == rows.len()).then_some(Ok(()))
}

fn states(object: &DynamicObject) -> &[Value] {
    object.data["status"]["syncs"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

fn api(client: &Client, round: &Round, kind: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("fleet.muster.dev", "v1alpha1", kind));
    Api::namespaced_with(client.clone(), &round.namespace, &kind)
}
