//! One probe of a downstream API server: does it answer, does it take the credential, has it what Modules need.

use std::time::Duration;

use http::Request;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::APIResourceList};
use kube::{Api, Client};
use muster_api::{kind, labels::SYSTEM_NAMESPACE};

use crate::runtime::{CallError, call::explain, call_within};

/// After so long without a complete answer an attempt has failed.
const SILENCE: Duration = Duration::from_secs(10);
/// The namespace whose uid tells one cluster from another.
const IDENTITY_NAMESPACE: &str = "kube-system";

/// The outcome of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// An answer.
    Answered {
        /// What Modules need and is not there, in words.
        missing: Option<String>,
        /// The kind was looked for, not taken to be as before.
        looked_for_kind: bool,
    },
    /// 401 or 403.
    Refused(String),
    /// Anything else, silence included.
    Failed(String),
}

/// Makes one attempt. `look_for_kind`: ask for the kind too; else it is taken to be there.
pub(super) async fn probe(client: &Client, look_for_kind: bool) -> Probe {
    match missing(client, look_for_kind).await {
        Ok(missing) => Probe::Answered {
            missing,
            looked_for_kind: look_for_kind,
        },
        Err(error) if error.is_refused_credential() => Probe::Refused(explain(&error)),
        Err(error) => Probe::Failed(explain(&error)),
    }
}

async fn missing(client: &Client, look_for_kind: bool) -> Result<Option<String>, CallError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = call_within(
        SILENCE,
        format!("reading namespace {SYSTEM_NAMESPACE}"),
        namespaces.get_opt(SYSTEM_NAMESPACE),
    )
    .await?;
    if namespace.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()) {
        return Ok(Some(format!("namespace {SYSTEM_NAMESPACE} is not there")));
    }
    if look_for_kind && !serves_assemblages(client).await? {
        return Ok(Some(format!(
            "kind Assemblage ({}) is not there: `muster crds --downstream` prints it",
            kind::API_VERSION
        )));
    }
    Ok(None)
}

async fn serves_assemblages(client: &Client) -> Result<bool, CallError> {
    let what = format!("asking for the kinds of {}", kind::API_VERSION);
    let discover = async {
        client
            .request::<APIResourceList>(get(&format!("/apis/{}", kind::API_VERSION))?)
            .await
    };
    match call_within(SILENCE, what, discover).await {
        Ok(list) => Ok(list
            .resources
            .iter()
            .any(|resource| resource.name == "assemblages")),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The uid of `kube-system`: which cluster this is. `None` if the credential may not read it.
pub(super) async fn identity(client: &Client) -> Result<Option<String>, CallError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match call_within(
        SILENCE,
        format!("reading namespace {IDENTITY_NAMESPACE}"),
        namespaces.get_opt(IDENTITY_NAMESPACE),
    )
    .await
    {
        Ok(namespace) => Ok(namespace.and_then(|namespace| namespace.metadata.uid)),
        Err(error) if error.is_refused_credential() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A GET of a path.
pub(super) fn get(path: &str) -> kube::Result<Request<Vec<u8>>> {
    Request::get(path)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)
}
