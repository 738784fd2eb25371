//! Writing objects of ours into a cluster by server-side apply, and asking first whether that may be done.
//!
//! Invariant: fields that another manager owns are never taken: a conflict is an answer, not an obstacle.

use std::{fmt, time::Duration};

use kube::{
    Client,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use muster_api::labels::manager;
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call_within};
use serde_json::Value;

/// How long one call may take until the server counts as silent.
pub const DEADLINE: Duration = Duration::from_secs(15);

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was not there.
    Made,
    /// It was there, and is another now.
    Changed,
    /// It was so already.
    Same,
}

/// An object's kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: String,
    /// Its API version.
    pub api_version: String,
    /// Its namespace; none if its kind has none.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// What a manifest says of itself; a manifest of ours has all of it.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Self {
            kind: text("/kind").unwrap_or_default(),
            api_version: text("/apiVersion").unwrap_or_default(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name").unwrap_or_default(),
        }
    }

    /// Where it is found.
    pub fn api(&self, client: &Client) -> Api<DynamicObject> {
        let (group, version) = self
            .api_version
            .split_once('/')
            .unwrap_or(("", &self.api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &self.kind));
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }

    /// Reads its metadata, and nothing of its content.
    pub async fn metadata(&self, client: &Client) -> Result<Option<ObjectMeta>, CallError> {
        let api = self.api(client);
        let found = call_within(
            DEADLINE,
            format!("reading {self}"),
            api.get_metadata_opt(&self.name),
        )
        .await?;
        Ok(found.map(|object| object.metadata))
    }

    /// Deletes it; false if it was not there.
    pub async fn delete(&self, client: &Client, dry_run: bool) -> Result<bool, CallError> {
        let parameters = DeleteParams {
            dry_run,
            ..DeleteParams::background()
        };
        let api = self.api(client);
        let deleting = api.delete(&self.name, &parameters);
        match call_within(DEADLINE, format!("deleting {self}"), deleting).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Whether the command wrote the object before: only then does it change it again.
pub fn is_by_command(metadata: &ObjectMeta) -> bool {
    let managers = metadata.managed_fields.as_deref().unwrap_or_default();
    managers.iter().any(|entry| {
        entry.manager.as_deref() == Some(manager::CLI) && entry.operation.as_deref() == Some("Apply")
    })
}

/// Applies a manifest, or with `dry_run` asks whether it would be taken.
pub async fn apply(client: &Client, object: &Value, dry_run: bool) -> Result<Applied, CallError> {
    let name = ObjectRef::of(object);
    let before = name.metadata(client).await?;
    let parameters = PatchParams {
        dry_run,
        ..PatchParams::apply(manager::CLI)
    };
    let api = name.api(client);
    let manifest = Patch::Apply(object);
    let applying = api.patch_metadata(&name.name, &parameters, &manifest);
    let after = call_within(DEADLINE, format!("applying {name}"), applying).await?;
    Ok(match before {
        None => Applied::Made,
        Some(before) if before.resource_version == after.metadata.resource_version => Applied::Same,
        Some(_) => Applied::Changed,
    })
}
