//! One probe of a downstream API server: whether it answers, accepts the credential, and has what Modules need.

use std::time::Duration;

use http::Request;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::APIResourceList};
use kube::Client;
use muster_api::{kind, labels::SYSTEM_NAMESPACE};

use super::identity::ObservedIdentity;
use crate::runtime::{Api, CallError, call::error_chain, call_within};

/// The timeout of a probe.
const SILENCE: Duration = Duration::from_secs(10);
/// The namespace whose uid identifies a cluster.
const IDENTITY_NAMESPACE: &str = "kube-system";

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// The server answered.
    Answered {
        /// What Modules need and the cluster lacks, as a message.
        missing: Option<String>,
        /// Whether everything was checked.
        thorough: bool,
    },
    /// The credential was rejected (401 or 403).
    Refused(String),
    /// Any other failure, including a timeout.
    Failed(String),
}

/// What a probe should check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// Whether the kind Assemblage is still served; otherwise that is assumed.
    pub(super) kind: bool,
    /// The cluster's identity.
    pub(super) identity: bool,
}

/// Runs one probe.
pub(super) async fn probe(client: &Client, checks: Ask) -> (Probe, Option<ObservedIdentity>) {
    let missing = match missing(client, checks.kind).await {
        Ok(missing) => missing,
        Err(error) => return (failed(&error), None),
    };
    let answered = Probe::Answered {
        missing,
        thorough: checks.kind,
    };
    if !checks.identity {
        return (answered, None);
    }
    match identity(client).await {
        Ok(observed) => (answered, Some(observed)),
        Err(error) => (failed(&error), None),
    }
}

fn failed(error: &CallError) -> Probe {
    if error.is_refused_credential() {
        Probe::Refused(error_chain(error))
    } else {
        Probe::Failed(error_chain(error))
    }
}

async fn missing(client: &Client, check_kind: bool) -> Result<Option<String>, CallError> {
    let namespace = read(client, SYSTEM_NAMESPACE).await?;
    if namespace.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()) {
        return Ok(Some(format!("namespace {SYSTEM_NAMESPACE} does not exist")));
    }
    if check_kind && !serves_assemblages(client).await? {
        return Ok(Some(format!(
            "kind Assemblage ({}) does not exist: `muster crds --downstream` prints it",
            kind::API_VERSION
        )));
    }
    Ok(None)
}

async fn serves_assemblages(client: &Client) -> Result<bool, CallError> {
    let what = format!("discovering the kinds of {}", kind::API_VERSION);
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

/// The uid of `kube-system`, which identifies the cluster. A valid credential may lack the right to read it.
async fn identity(client: &Client) -> Result<ObservedIdentity, CallError> {
    match read(client, IDENTITY_NAMESPACE).await {
        Ok(namespace) => Ok(namespace
            .and_then(|namespace| namespace.metadata.uid)
            .map_or(ObservedIdentity::Unreadable, ObservedIdentity::Seen)),
        Err(error) if error.code() == Some(403) => Ok(ObservedIdentity::Unreadable),
        Err(error) => Err(error),
    }
}

async fn read(client: &Client, namespace: &str) -> Result<Option<Namespace>, CallError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let what = format!("reading namespace {namespace}");
    call_within(SILENCE, what, namespaces.get_opt(namespace)).await
}

/// A GET request for a path.
pub(super) fn get(path: &str) -> kube::Result<Request<Vec<u8>>> {
    Request::get(path)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)
}
