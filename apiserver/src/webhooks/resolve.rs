//! Resolves the Service of a webhook: on a real cluster the service network does, here a function or an `ExternalName`.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tower::util::BoxCloneSyncService;

use super::hook::Service;
use crate::status::GroupResource;
use crate::store::{ObjectKey, Store};

/// A Service and port, from a webhook configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePort {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
    /// The port; 443 by default.
    pub port: u16,
}

/// A webhook in this process. The URI is the same as in a request over HTTPS.
pub type HookService = BoxCloneSyncService<
    http::Request<Bytes>,
    http::Response<Bytes>,
    Box<dyn std::error::Error + Send + Sync>,
>;

/// Destination of requests to a Service.
#[derive(Clone)]
pub enum Endpoint {
    /// This address, over HTTPS; the certificate must be valid for `NAME.NAMESPACE.svc`.
    Address(SocketAddr),
    /// This tower service, without socket and TLS: works on paused time.
    InProcess(HookService),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "Address({address})"),
            Self::InProcess(_) => f.write_str("InProcess"),
        }
    }
}

/// Resolves Services; `None` for an unknown one.
pub(super) type Resolver = Arc<dyn Fn(&ServicePort) -> Option<Endpoint> + Send + Sync>;

/// Destination of a connection.
pub(super) enum ResolvedEndpoint {
    Endpoint(Endpoint),
    /// `HOST:PORT`, resolved by DNS.
    Host(String),
}

/// Resolves a Service. Without a resolver, or if it returns `None`, by `ExternalName`.
pub(super) fn resolve_service(
    store: &Store,
    resolver: Option<&Resolver>,
    service: &Service,
) -> Result<ResolvedEndpoint, String> {
    let port = ServicePort {
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        port: service.port,
    };
    if let Some(endpoint) = resolver.and_then(|resolver| resolver(&port)) {
        return Ok(ResolvedEndpoint::Endpoint(endpoint));
    }
    let key = ObjectKey::new(&service.namespace, &service.name);
    let Some(object) = store.get(&GroupResource::new("", "services"), &key) else {
        return Err(format!("service {:?} not found", service.name));
    };
    let spec = &object.value()["spec"];
    let host = match spec["type"].as_str() {
        Some("ExternalName") => &spec["externalName"],
        _ => &spec["clusterIP"],
    };
    Ok(ResolvedEndpoint::Host(format!(
        "{}:{}",
        host.as_str().unwrap_or_default(),
        service.port
    )))
}
