//! Writes that are refused if the kind in this cluster does not know all that they say.
//!
//! An older definition of Flux's drops what it does not know without a word. What muster says of a Kustomization is not optional: without
//! `deletionPolicy`, its deletion would empty the cluster.

use http::{Uri, uri::PathAndQuery};
use kube::{Error, ResourceExt, api::PostParams};
use muster_api::flux::Kustomization;

use crate::runtime::Api;

/// Creates a Kustomization.
pub(super) async fn create(
    api: &Api<Kustomization>,
    by: &PostParams,
    wanted: &Kustomization,
) -> kube::Result<Kustomization> {
    send(api, api.request_to_create(by, bytes(wanted)?)?).await
}

/// Replaces a Kustomization.
pub(super) async fn replace(
    api: &Api<Kustomization>,
    by: &PostParams,
    wanted: &Kustomization,
) -> kube::Result<Kustomization> {
    let request = api.request_to_replace(&wanted.name_any(), by, bytes(wanted)?)?;
    send(api, request).await
}

async fn send(api: &Api<Kustomization>, request: http::Request<Vec<u8>>) -> kube::Result<Kustomization> {
    api.clone().into_client().request(strict(request)).await
}

fn bytes(wanted: &Kustomization) -> kube::Result<Vec<u8>> {
    serde_json::to_vec(wanted).map_err(Error::SerdeError)
}

/// The client has no parameter for it.
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
