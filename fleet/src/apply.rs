//! Writes muster's objects into a cluster by server-side apply, and checks first whether that is allowed.
//!
//! Invariant: fields that another manager owns are never forced: a conflict is reported.

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

/// The result of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The object did not exist.
    Made,
    /// The object was changed.
    Changed,
    /// The object was already as desired.
    Same,
}

/// Kind, API version, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// API version, such as `apps/v1`.
    pub api_version: String,
    /// Namespace; `None` for a cluster-scoped kind.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}

impl ObjectRef {
    /// Reads them from a manifest of muster, which has all of them.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Self {
            kind: text("/kind").unwrap_or_default(),
            api_version: text("/apiVersion").unwrap_or_default(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name").unwrap_or_default(),
        }
    }

    /// The API of the object's resource and namespace.
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

    /// Reads the object's metadata only.
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

    /// Deletes the object; false if it did not exist.
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

/// Whether this command wrote the object before: only then does it change it again.
pub fn is_by_command(metadata: &ObjectMeta) -> bool {
    let managers = metadata.managed_fields.as_deref().unwrap_or_default();
    managers.iter().any(|entry| {
        entry.manager.as_deref() == Some(manager::CLI) && entry.operation.as_deref() == Some("Apply")
    })
}

/// Applies a manifest, or with `dry_run` checks whether it would be accepted.
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
