//! Writes that are rejected if the CRD in that cluster lacks one of the fields (`fieldValidation=Strict`).
//!
//! An older CRD silently drops fields that it does not know. What muster writes is not optional: without
//! `deletionPolicy` the deletion of a Kustomization would empty the cluster, and a row without its newest field would
//! be applied in another way than intended.

use std::fmt::Debug;

use http::{Uri, uri::PathAndQuery};
use kube::{Error, Resource, ResourceExt, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};

use super::Api;

/// Creates an object.
pub async fn create<K>(api: &Api<K>, by: &PostParams, wanted: &K) -> kube::Result<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    send(api, api.request_to_create(by, bytes(wanted)?)?).await
}

/// Replaces an object.
pub async fn replace_object<K>(api: &Api<K>, by: &PostParams, wanted: &K) -> kube::Result<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let request = api.request_to_replace(&wanted.name_any(), by, bytes(wanted)?)?;
    send(api, request).await
}

async fn send<K>(api: &Api<K>, request: http::Request<Vec<u8>>) -> kube::Result<K>
where
    K: Resource + Clone + DeserializeOwned,
{
    api.clone().into_client().request(strict(request)).await
}

fn bytes<K: Serialize>(wanted: &K) -> kube::Result<Vec<u8>> {
    serde_json::to_vec(wanted).map_err(Error::SerdeError)
}

/// kube's client has no parameter for it.
fn strict(mut request: http::Request<Vec<u8>>) -> http::Request<Vec<u8>> {
    let uri = request.uri();
    let strict = format!(
        "{}?{}&fieldValidation=Strict",
        uri.path(),
        uri.query().unwrap_or_default()
    );
    if let Ok(strict) = strict.parse::<PathAndQuery>() {
        *request.uri_mut() = Uri::from(strict);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strict_write_says_so_beside_all_else() {
        let uri = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/a/kustomizations?&fieldManager=m";
        let request = http::Request::post(uri).body(Vec::new()).unwrap_or_default();
        let expect = format!("{uri}&fieldValidation=Strict");
        assert_eq!(strict(request).uri().to_string(), expect);
    }
}
