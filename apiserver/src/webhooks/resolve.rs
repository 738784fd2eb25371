//! Where the service of a webhook is: a cluster's proxy would know, here a function or an `ExternalName` says it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tower::util::BoxCloneSyncService;

use super::hook::Service;
use crate::status::GroupResource;
use crate::store::{ObjectKey, Store};

/// A service at a port, as a webhook configuration names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePort {
    /// The service's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The port, 443 if the configuration names none.
    pub port: u16,
}

/// A webhook that runs in this process. The URI is that of the request on the wire.
pub type HookService = BoxCloneSyncService<
    http::Request<Bytes>,
    http::Response<Bytes>,
    Box<dyn std::error::Error + Send + Sync>,
>;

/// Where requests to a service go.
#[derive(Clone)]
pub enum Endpoint {
    /// To this address, by HTTPS; the certificate is checked for `NAME.NAMESPACE.svc`.
    Address(SocketAddr),
    /// To this service, without socket and TLS: at home on paused time.
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

/// Finds services; `None` if there is none of this name.
pub(super) type Resolver = Arc<dyn Fn(&ServicePort) -> Option<Endpoint> + Send + Sync>;

/// What to connect to.
pub(super) enum Found {
    Endpoint(Endpoint),
    /// `HOST:PORT`, to be resolved by DNS.
    Host(String),
}

/// Where a service is. Without a resolver, or if that does not know it: where its `ExternalName` says.
pub(super) fn find(store: &Store, resolver: Option<&Resolver>, service: &Service) -> Result<Found, String> {
    let port = ServicePort {
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        port: service.port,
    };
    if let Some(endpoint) = resolver.and_then(|resolver| resolver(&port)) {
        return Ok(Found::Endpoint(endpoint));
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
    Ok(Found::Host(format!(
        "{}:{}",
        host.as_str().unwrap_or_default(),
        service.port
    )))
}
