//! API objects with arbitrary names: [`kube::Api`], but with each name and namespace encoded as one path segment.
//!
//! kube's request builder inserts names into the URL unescaped: a request to delete `settings?v=2` would delete
//! `settings`, and a space makes the URL invalid. Here they are percent-encoded first, as client-go does it, and what
//! cannot be a segment (`..`) is rejected before anything is sent.
//!
//! Invariant: product code accesses objects only this way (enforced by a house test).

use std::fmt::Debug;

use futures::Stream;
use http::{HeaderValue, header::ACCEPT};
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::{
    Client, Error, Resource, Result,
    api::{
        DeleteParams, Evict, EvictParams, ListParams, Log, LogParams, ObjectList, PartialObjectMeta, Patch,
        PatchParams, PostParams, Request, WatchEvent,
    },
    core::{DynamicResourceScope, NamespaceResourceScope, request},
};
use muster_api::path::{self, SegmentError};
use serde::{Serialize, de::DeserializeOwned};

/// The media type of a response without spec and status.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The objects of a kind, in one namespace or in all; its methods are those of [`kube::Api`].
#[derive(Clone, Debug)]
pub struct Api<K> {
    inner: kube::Api<K>,
    /// Why no request is sent: the namespace or the kind cannot be part of a path.
    refused: Option<String>,
}

impl<K: Resource> Api<K> {
    fn of(inner: kube::Api<K>, refused: Option<String>) -> Self {
        let url = inner.resource_url();
        let refused = refused.or_else(|| {
            let error = path::collection(url).err()?;
            Some(format!("{url:?} is not a path of an API server: {error}"))
        });
        Self { inner, refused }
    }

    /// All objects of a kind known at run time.
    pub fn all_with(client: Client, kind: &K::DynamicType) -> Self {
        Self::of(kube::Api::all_with(client, kind), None)
    }

    /// The objects of a kind known at run time, in a namespace.
    pub fn namespaced_with(client: Client, namespace: &str, kind: &K::DynamicType) -> Self
    where
        K: Resource<Scope = DynamicResourceScope>,
    {
        let (namespace, refused) = encoded(namespace);
        Self::of(kube::Api::namespaced_with(client, &namespace, kind), refused)
    }
}

impl<K: Resource> Api<K>
where
    K::DynamicType: Default,
{
    /// All objects of a kind.
    pub fn all(client: Client) -> Self {
        Self::of(kube::Api::all(client), None)
    }

    /// The objects of a kind in a namespace.
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        let (namespace, refused) = encoded(namespace);
        Self::of(kube::Api::namespaced(client, &namespace), refused)
    }
}

/// A namespace as kube's builder must insert it, and why it is invalid, if so.
fn encoded(namespace: &str) -> (String, Option<String>) {
    match path::segment(namespace) {
        Ok(namespace) => (namespace.into_owned(), None),
        Err(error) => (
            String::new(),
            Some(format!(
                "{namespace:?} cannot be the name of a namespace: {error}"
            )),
        ),
    }
}

fn refusal(words: String) -> Error {
    Error::BuildRequest(request::Error::Validation(words))
}

impl<K> Api<K> {
    /// kube's own API, for watchers, which take no names; fails where each request would be rejected.
    pub fn for_watching(self) -> Result<kube::Api<K>> {
        match self.refused {
            Some(words) => Err(refusal(words)),
            None => Ok(self.inner),
        }
    }

    fn open(&self) -> Result<&kube::Api<K>> {
        match &self.refused {
            Some(words) => Err(refusal(words.clone())),
            None => Ok(&self.inner),
        }
    }

    fn encoded_name<'a>(&self, name: &'a str) -> Result<(&kube::Api<K>, std::borrow::Cow<'a, str>)> {
        let api = self.open()?;
        let name = path::segment(name)
            .map_err(|error: SegmentError| refusal(format!("{name:?} cannot be a name: {error}")))?;
        Ok((api, name))
    }
}

/// Requests that kube's methods have no parameters for. Send them with the client.
impl<K: Resource> Api<K> {
    /// The request that creates an object.
    pub fn request_to_create(&self, by: &PostParams, body: Vec<u8>) -> Result<http::Request<Vec<u8>>> {
        let request = Request::new(self.open()?.resource_url()).create(by, body);
        request.map_err(Error::BuildRequest)
    }

    /// The request that replaces an object.
    pub fn request_to_replace(
        &self,
        name: &str,
        by: &PostParams,
        body: Vec<u8>,
    ) -> Result<http::Request<Vec<u8>>> {
        let (api, name) = self.encoded_name(name)?;
        let request = Request::new(api.resource_url()).replace(&name, by, body);
        request.map_err(Error::BuildRequest)
    }

    /// Patches the status of an object. The response contains only its metadata, of which this returns the
    /// resourceVersion; the watch delivers the new object.
    pub async fn patch_status_briefly<P: Serialize>(
        &self,
        name: &str,
        by: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<Option<String>>
    where
        K: Clone,
    {
        let (api, name) = self.encoded_name(name)?;
        let request = Request::new(api.resource_url()).patch_subresource("status", &name, by, patch);
        let mut request = request.map_err(Error::BuildRequest)?;
        request
            .headers_mut()
            .insert(ACCEPT, HeaderValue::from_static(METADATA));
        let client = api.clone().into_client();
        let answer: PartialObjectMeta<K> = client.request(request).await?;
        Ok(answer.metadata.resource_version)
    }

    /// The client for these requests.
    pub fn into_client(self) -> Client {
        self.inner.into_client()
    }
}

impl<K: Clone + DeserializeOwned + Debug> Api<K> {
    /// Evicts a pod: deletes it if its PodDisruptionBudget allows that.
    pub async fn evict(&self, name: &str, by: &EvictParams) -> Result<()>
    where
        K: Evict,
    {
        let (api, name) = self.encoded_name(name)?;
        api.evict(&name, by).await.map(drop)
    }

    /// Reads an object.
    pub async fn get(&self, name: &str) -> Result<K> {
        let (api, name) = self.encoded_name(name)?;
        api.get(&name).await
    }

    /// Reads an object, if it exists.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>> {
        let (api, name) = self.encoded_name(name)?;
        api.get_opt(&name).await
    }

    /// Reads the metadata of an object.
    pub async fn get_metadata(&self, name: &str) -> Result<PartialObjectMeta<K>> {
        let (api, name) = self.encoded_name(name)?;
        api.get_metadata(&name).await
    }

    /// Reads the metadata of an object, if it exists.
    pub async fn get_metadata_opt(&self, name: &str) -> Result<Option<PartialObjectMeta<K>>> {
        let (api, name) = self.encoded_name(name)?;
        api.get_metadata_opt(&name).await
    }

    /// Reads the subresource `scale` of an object.
    pub async fn get_scale(&self, name: &str) -> Result<Scale> {
        let (api, name) = self.encoded_name(name)?;
        api.get_scale(&name).await
    }

    /// Lists objects.
    pub async fn list(&self, by: &ListParams) -> Result<ObjectList<K>> {
        self.open()?.list(by).await
    }

    /// Lists the metadata of objects.
    pub async fn list_metadata(&self, by: &ListParams) -> Result<ObjectList<PartialObjectMeta<K>>> {
        self.open()?.list_metadata(by).await
    }

    /// Creates an object; its name is in its metadata.
    pub async fn create(&self, by: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        self.open()?.create(by, object).await
    }

    /// Deletes an object.
    pub async fn delete(&self, name: &str, by: &DeleteParams) -> Result<()> {
        let (api, name) = self.encoded_name(name)?;
        // The response is the former object or a Status, depending on finalizers; it is not needed.
        api.delete(&name, by).await.map(drop)
    }

    /// Patches an object.
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        by: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        let (api, name) = self.encoded_name(name)?;
        api.patch(&name, by, patch).await
    }

    /// Patches an object; the response contains only its metadata.
    pub async fn patch_metadata<P: Serialize + Debug>(
        &self,
        name: &str,
        by: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<PartialObjectMeta<K>> {
        let (api, name) = self.encoded_name(name)?;
        api.patch_metadata(&name, by, patch).await
    }

    /// Patches the status of an object.
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        by: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        let (api, name) = self.encoded_name(name)?;
        api.patch_status(&name, by, patch).await
    }

    /// Replaces an object.
    pub async fn replace(&self, name: &str, by: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        let (api, name) = self.encoded_name(name)?;
        api.replace(&name, by, object).await
    }

    /// Replaces the status of an object.
    pub async fn replace_status(&self, name: &str, by: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        let (api, name) = self.encoded_name(name)?;
        api.replace_status(&name, by, object).await
    }

    /// Watches objects from a resourceVersion on.
    pub async fn watch(
        &self,
        by: &kube::api::WatchParams,
        version: &str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<K>>> + use<K>> {
        self.open()?.watch(by, version).await
    }

    /// Reads the log of a container.
    pub async fn logs(&self, name: &str, by: &LogParams) -> Result<String>
    where
        K: Log,
    {
        let (api, name) = self.encoded_name(name)?;
        api.logs(&name, by).await
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::ClusterRole};
    use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
    use muster_apiserver::ApiServer;
    use serde_json::json;

    use super::*;
    use crate::runtime::{call, call::error_chain};

    fn role(name: &str) -> ClusterRole {
        serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
    }

    #[tokio::test]
    async fn a_name_is_that_of_one_object_whatever_it_contains() {
        let server = ApiServer::in_process().unwrap();
        let roles: Api<ClusterRole> = Api::all(server.client());
        for name in ["reader", "my role"] {
            roles.create(&PostParams::default(), &role(name)).await.unwrap();
        }
        let merge = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        for name in ["reader?v=2", "reader#2", "reader ", "READER"] {
            assert_eq!(roles.get_opt(name).await.unwrap(), None, "{name}");
            assert!(roles.get_metadata_opt(name).await.unwrap().is_none(), "{name}");
            let patched = roles.patch(name, &PatchParams::default(), &merge).await;
            assert!(
                matches!(patched, Err(Error::Api(status)) if status.code == 404),
                "{name}"
            );
            let deleted = roles.delete(name, &DeleteParams::default()).await;
            assert!(
                matches!(deleted, Err(Error::Api(status)) if status.code == 404),
                "{name}"
            );
        }
        let reader = roles.get("reader").await.unwrap();
        assert_eq!(reader.metadata.labels, None);
        roles
            .patch("my role", &PatchParams::default(), &merge)
            .await
            .unwrap();
        assert!(roles.get("my role").await.unwrap().metadata.labels.is_some());
        roles.delete("my role", &DeleteParams::default()).await.unwrap();
        assert_eq!(roles.get_opt("my role").await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_cannot_be_part_of_a_url_is_not_sent() {
        let server = ApiServer::in_process().unwrap();
        let client = server.client();
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let here: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let elsewhere: Api<ConfigMap> = Api::namespaced(client.clone(), "default/configmaps/a?");
        let above: Api<ConfigMap> = Api::namespaced(client.clone(), "..");
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.org", "v1/../../..", "Widget"));
        let widgets: Api<DynamicObject> = Api::all_with(client, &kind);
        let errors = [
            error_chain(&call("reading", roles.get("..")).await.unwrap_err()),
            error_chain(&call("reading", roles.get("a/../reader")).await.unwrap_err()),
            error_chain(
                &call("deleting", here.delete("", &DeleteParams::default()))
                    .await
                    .unwrap_err(),
            ),
            error_chain(
                &call("listing", elsewhere.list(&ListParams::default()))
                    .await
                    .unwrap_err(),
            ),
            error_chain(&call("reading", above.get("a")).await.unwrap_err()),
            error_chain(
                &call("listing", widgets.list(&ListParams::default()))
                    .await
                    .unwrap_err(),
            ),
        ];
        insta::assert_snapshot!(errors.join("\n"));
        assert!(widgets.for_watching().is_err());
        assert_eq!(server.recorder().requests().len(), 0);
    }
}
