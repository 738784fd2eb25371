//! The way into a repository: its address, the credentials of its Secret, and failures in Flux's words.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use muster_api::flux::GitRepository;
use muster_sync::source::{Credentials, Remote, SourceError, SourceErrorClass};

use crate::runtime::{Api, CallError, Context, call, call::explain};

/// What a GitRepository says about where its content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub namespace: String,
    pub url: String,
    /// The Secret with the credentials.
    pub secret: Option<String>,
    /// Patterns of files that are left out.
    pub ignore: Option<String>,
}

/// Why a repository could not be entered or fetched from.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Flux's word for it.
    pub reason: &'static str,
    pub message: String,
    pub class: SourceErrorClass,
}

impl Address {
    pub(crate) fn of(object: &GitRepository) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            url: object.spec.url.clone(),
            secret: object
                .spec
                .secret_ref
                .as_ref()
                .map(|reference| reference.name.clone()),
            ignore: object.spec.ignore.clone(),
        }
    }

    /// The repository as far as it can be read from what is here already: without credentials.
    pub(crate) fn remote(&self) -> Remote {
        Remote {
            url: self.url.clone(),
            credentials: None,
            ignore: self.ignore.clone(),
            timeout: None,
        }
    }
}

/// The repository with the credentials of its Secret.
pub(crate) async fn enter(address: &Address, context: &Context) -> Result<Remote, Failure> {
    let remote = address.remote();
    let Some(name) = &address.secret else {
        return Ok(remote);
    };
    let namespace = &address.namespace;
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let read = call(format!("reading Secret {namespace}/{name}"), secrets.get(name)).await;
    let secret = read.map_err(|error| Failure::of_secret(namespace, name, &error))?;
    let data = secret
        .data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect();
    Ok(remote.with_credentials(Credentials::from_secret(&data)?))
}

impl Failure {
    fn of_secret(namespace: &str, name: &str, error: &CallError) -> Self {
        let message = if error.is_not_found() {
            format!("Secret {namespace}/{name} is not there; create it, or correct spec.secretRef")
        } else {
            explain(error)
        };
        Self {
            reason: "AuthenticationFailed",
            message,
            class: SourceErrorClass::Missing,
        }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let class = error.class();
        let reason = match &error {
            SourceError::Unauthorized { .. } | SourceError::Credentials { .. } => "AuthenticationFailed",
            SourceError::Unsupported { .. } | SourceError::SchemeRefused { .. } => "Unsupported",
            SourceError::InvalidUrl { .. } => "URLInvalid",
            _ if class == SourceErrorClass::Invalid => "InvalidSpec",
            _ => "GitOperationFailed",
        };
        Self {
            reason,
            message: error.to_string(),
            class,
        }
    }
}
