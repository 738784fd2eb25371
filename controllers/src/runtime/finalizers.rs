//! Adds and removes our finalizer, on the version that was observed.

use std::fmt::Debug;

use kube::{
    Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use muster_api::labels::manager;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Api, CallError, call};

/// Adds a finalizer.
pub(crate) async fn add<K>(client: &Client, object: &K, finalizer: &str) -> Result<K, CallError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let finalizers = object
        .finalizers()
        .iter()
        .cloned()
        .chain([finalizer.to_owned()])
        .collect();
    set(client, object, finalizers).await
}

/// Removes a finalizer. If the object is gone, nothing needs to be done.
pub(crate) async fn remove<K>(client: &Client, object: &K, finalizer: &str) -> Result<(), CallError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let finalizers = object
        .finalizers()
        .iter()
        .filter(|found| *found != finalizer)
        .cloned()
        .collect();
    match set(client, object, finalizers).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

async fn set<K>(client: &Client, object: &K, finalizers: Vec<String>) -> Result<K, CallError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let parameters = PatchParams {
        field_manager: Some(manager::CONTROLLER.to_owned()),
        ..PatchParams::default()
    };
    // The list is replaced as a whole, so it must be the observed one.
    let body = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": finalizers}});
    let what = format!("writing the finalizers of {} {namespace}/{name}", K::kind(&()));
    call(what, api.patch(&name, &parameters, &Patch::Merge(&body))).await
}
