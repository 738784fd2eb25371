//! The history of a module: the result of each revision.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use kube::{Client, api::ListParams};
use muster_api::{
    ModuleRevision,
    labels::label,
    module::{ModuleSpec, ModuleStatus},
    node::NodeRevision,
};
use muster_controllers::runtime::Api;
use muster_dashboard::{Fleet, History, Kind, ModuleView, Objects};
use serde::Serialize;
use serde_json::Value;

use crate::{ObjectAddress, name::ModuleName, nodes};

/// A module and its revisions.
pub struct Read {
    /// Spec of the module.
    pub spec: ModuleSpec,
    /// Revisions of the module.
    pub history: History,
}

/// Reads a module and its revisions.
pub async fn read(client: &Client, namespace: &str, module: &ModuleName) -> anyhow::Result<Read> {
    let mut object = ObjectAddress::of(client, namespace, module).get().await?;
    let mut field = |name: &str| object.data.get_mut(name).map(Value::take);
    let spec: ModuleSpec = serde_json::from_value(field("spec").unwrap_or_default())
        .with_context(|| format!("the spec of {module} cannot be read by this version of muster"))?;
    let status: Option<ModuleStatus> = field("status")
        .map(serde_json::from_value)
        .transpose()
        .with_context(|| format!("the status of {module} cannot be read by this version of muster"))?;
    let revisions: Api<ModuleRevision> = Api::namespaced(client.clone(), namespace);
    let labels = format!(
        "{}={},{}={}",
        label::MODULE,
        module.name,
        label::MODULE_KIND,
        module.kind
    );
    let all = revisions.list(&ListParams::default().labels(&labels)).await;
    let mut all = all.context("listing modulerevisions")?.items;
    all.retain(|revision| {
        let about = &revision.spec.module_ref;
        Kind::from(about.kind) == module.kind && about.name == module.name
    });
    let history = History::of(&module.to_string(), &spec, status.as_ref(), &all);
    Ok(Read { spec, history })
}

/// The revisions of a rollout.
pub async fn read_history(client: &Client, namespace: &str, module: &ModuleName) -> anyhow::Result<History> {
    if module.kind == Kind::ClusterUpgrade {
        bail!(
            "no revisions are kept for {module}: a version is never rolled back; next: muster why {module}"
        );
    }
    if !module.is_of_nodes() {
        return Ok(read(client, namespace, module).await?.history);
    }
    let mut objects = nodes::read_node_objects(client).await?;
    nodes::find_node_module(&Fleet::of_nodes(&objects), &module.name)?;
    let revisions: Api<NodeRevision> = Api::all(client.clone());
    let all = revisions.list(&ListParams::default()).await;
    let all = all.context("listing noderevisions")?.items;
    objects.revisions = all.into_iter().map(Arc::new).collect();
    let objects = Objects {
        nodes: objects,
        ..Objects::default()
    };
    let history = History::of_module(&objects, &module.reference());
    history.with_context(|| format!("reading {module}"))
}

/// The modules of a namespace: `modules/v1`.
#[derive(Debug, Serialize)]
pub struct Standings {
    /// Version of this schema.
    pub schema: &'static str,
    /// One entry per module.
    pub modules: Vec<ModuleStanding>,
}

/// The status of a module.
#[derive(Debug, Serialize)]
pub struct ModuleStanding {
    /// Kind and name: `module/podinfo`.
    pub module: String,
    /// The version that the module asks for.
    pub version: String,
    /// Reason of the Ready condition.
    pub reason: String,
    /// How many clusters have that version, out of how many.
    pub clusters: String,
}

impl Standings {
    /// Builds the list from a fleet.
    pub fn of(fleet: &Fleet) -> Self {
        let standing = |view: &ModuleView| ModuleStanding {
            module: format!("{}/{}", view.kind.as_str().to_lowercase(), view.name),
            version: view.version.clone(),
            reason: view.reason.clone(),
            clusters: view.summary.clusters.clone(),
        };
        Self {
            schema: "modules/v1",
            modules: fleet.modules.iter().map(standing).collect(),
        }
    }
}
