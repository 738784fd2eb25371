//! The access to a repository: its URL, the credentials of its Secret, and failures in Flux's terms.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use muster_api::{
    flux::{GitRepository, LocalObjectReference},
    reasons::Reason,
    sync::GitSource,
};
use muster_sync::{
    proxy::Proxy,
    source::{Credentials, KeyRing, Remote, SourceError, SourceErrorClass},
};

use crate::hosts::NotAllowed;
use crate::{
    reconcile::Context,
    runtime::{Api, CallError, call, call::error_chain},
};

/// Where the content of a GitRepository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryAccess {
    /// The field of the object that names the Secrets.
    pub at: &'static str,
    pub namespace: String,
    pub url: String,
    /// The Secret with the credentials.
    pub secret: Option<String>,
    /// The Secret with the proxy.
    pub proxy: Option<String>,
    /// Patterns of files that are left out.
    pub ignore: Option<String>,
}

/// The reason of a Secret with credentials that cannot be read.
const CREDENTIALS: &str = "AuthenticationFailed";

/// Why a repository could not be accessed or fetched.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Flux's reason for it.
    pub reason: &'static str,
    pub message: String,
    pub class: SourceErrorClass,
}

impl RepositoryAccess {
    pub(crate) fn of(object: &GitRepository) -> Self {
        let name = |reference: &Option<LocalObjectReference>| Some(reference.as_ref()?.name.clone());
        Self {
            at: "spec",
            namespace: object.namespace().unwrap_or_default(),
            url: object.spec.url.clone(),
            secret: name(&object.spec.secret_ref),
            proxy: name(&object.spec.proxy_secret_ref),
            ignore: object.spec.ignore.clone(),
        }
    }

    /// The source of a module in this namespace.
    pub(crate) fn of_module(namespace: &str, git: &GitSource) -> Self {
        Self {
            at: "spec.sync.source.git",
            namespace: namespace.to_owned(),
            url: git.url.clone(),
            secret: git.secret_ref.as_ref().map(|secret| secret.name.clone()),
            proxy: git.proxy_secret_ref.as_ref().map(|secret| secret.name.clone()),
            ignore: None,
        }
    }

    /// The repository as far as it is known without reading Secrets: without credentials.
    pub(crate) fn remote(&self) -> Remote {
        Remote {
            ignore: self.ignore.clone(),
            ..Remote::new(self.url.clone())
        }
    }
}

/// The repository with the values of its Secrets.
pub(crate) async fn enter(address: &RepositoryAccess, context: &Context) -> Result<Remote, Failure> {
    let mut remote = address.remote();
    if let Some(name) = &address.secret {
        let data = secret(address, name, "secretRef", CREDENTIALS, context).await?;
        remote.credentials = Some(Credentials::from_secret(&data)?);
    }
    if let Some(name) = &address.proxy {
        remote.proxy = Some(proxy(address, name, context).await?);
    }
    Ok(remote)
}

/// The public keys of the Secret that `verify.secretRef` names.
pub(crate) async fn verification_keys(
    address: &RepositoryAccess,
    name: &str,
    context: &Context,
) -> Result<KeyRing, Failure> {
    let reason = Reason::VerificationFailed.as_str();
    let data = secret(address, name, "verify.secretRef", reason, context).await?;
    Ok(KeyRing::from_secret(&data)?)
}

/// The values of the Secret that a field of the spec names; `reason` is used if the Secret does not exist.
async fn secret(
    address: &RepositoryAccess,
    name: &str,
    field: &str,
    reason: &'static str,
    context: &Context,
) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let RepositoryAccess { namespace, at, .. } = address;
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let read = call(format!("reading Secret {namespace}/{name}"), secrets.get(name)).await;
    let secret = read
        .map_err(|error| Failure::of_secret(namespace, name, (reason, &format!("{at}.{field}")), &error))?;
    let data = secret.data.unwrap_or_default();
    Ok(data.into_iter().map(|(key, value)| (key, value.0)).collect())
}

/// The proxy of a Secret, if this process may use it.
async fn proxy(address: &RepositoryAccess, name: &str, context: &Context) -> Result<Proxy, Failure> {
    let data = secret(address, name, "proxySecretRef", CREDENTIALS, context).await?;
    let RepositoryAccess { namespace, at, .. } = address;
    let refused = |reason, why: String| Failure {
        reason,
        message: format!("Secret {namespace}/{name}, which {at}.proxySecretRef names: {why}"),
        class: SourceErrorClass::Missing,
    };
    let proxy =
        Proxy::from_secret(&data).map_err(|error| refused("AuthenticationFailed", error.to_string()))?;
    match context.options.proxy_hosts.admit(&proxy.origin()) {
        Ok(_) => Ok(proxy),
        Err(NotAllowed::Host(host)) => Err(refused(
            "AccessDenied",
            format!("proxy {host} is not allowed; start this process with --proxy-hosts {host}"),
        )),
        Err(error @ NotAllowed::Address(_)) => Err(refused("AuthenticationFailed", error.to_string())),
    }
}

impl Failure {
    fn of_secret(
        namespace: &str,
        name: &str,
        (reason, field): (&'static str, &str),
        error: &CallError,
    ) -> Self {
        let message = if error.is_not_found() {
            format!("Secret {namespace}/{name} does not exist; create it, or correct {field}")
        } else {
            error_chain(error)
        };
        Self {
            reason,
            message,
            class: SourceErrorClass::Missing,
        }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let class = error.class();
        let reason = match &error {
            _ if error.is_verification() => Reason::VerificationFailed.as_str(),
            SourceError::Unauthorized { .. }
            | SourceError::ProxyUnauthorized { .. }
            | SourceError::GitHubApp { .. }
            | SourceError::Credentials { .. }
            | SourceError::HostKey { .. }
            | SourceError::KeyRefused { .. } => "AuthenticationFailed",
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
