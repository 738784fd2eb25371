//! The connection to the API server: to the address that the kubelet uses, with the token that this node's pod copies.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use data_encoding::BASE64URL_NOPAD;
use http::{
    HeaderValue, Request, StatusCode, Uri,
    header::{AUTHORIZATION, InvalidHeaderValue},
};
use kube::{Client, Config, client::Body};
use muster_controllers::{
    node::NAMESPACE,
    runtime::{
        call::error_chain,
        sendable::{self, ConfigError},
    },
};
use muster_node::{ApiServer, Server};
use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::Value;
use thiserror::Error;
use tokio::{runtime::Handle, time::timeout};
use tower::{BoxError, service_fn};

/// The file of the token, in the agent's own directory.
pub const TOKEN: &str = "token";
/// The file of the API server's CA certificate, in the agent's own directory.
pub const AUTHORITY: &str = "ca.crt";

/// Why there is no connection yet.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// A file does not exist yet, or cannot be read.
    #[error("{}: {error}: the pod of DaemonSet {NAMESPACE}/muster-node-agent on this node writes it", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The file contains no certificate.
    #[error("{} has no readable certificate", .0.display())]
    Authority(PathBuf),
    /// The token is not a valid header value.
    #[error("{} is not a token: {error}", .file.display())]
    Token {
        /// The file.
        file: PathBuf,
        /// The error.
        error: InvalidHeaderValue,
    },
    /// The configuration has no API server.
    #[error(
        "the configuration has no server: write the server of the kubelet's kubeconfig, such as server: https://10.0.0.1:6443"
    )]
    NoServer,
    /// The address or the certificate is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The files used for a connection.
#[derive(Clone, Debug)]
pub struct Access {
    token: PathBuf,
    authority: PathBuf,
}

/// The node that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The name of the node.
    pub node: String,
    /// The uid of its Node.
    pub uid: Option<String>,
}

impl Access {
    /// Uses the files in the agent's own directory.
    pub fn new(directory: &Path) -> Self {
        Self {
            token: directory.join(TOKEN),
            authority: directory.join(AUTHORITY),
        }
    }

    /// A client that reads the token again when the API server rejects it.
    pub fn client(&self, server: Option<&Server>) -> Result<Client, ConnectError> {
        let inner = self.open(server.ok_or(ConnectError::NoServer)?)?;
        let token = Arc::new(Mutex::new(self.token()?));
        let access = self.clone();
        let service = service_fn(move |mut request: Request<Body>| {
            let (inner, token, access) = (inner.clone(), Arc::clone(&token), access.clone());
            async move {
                let sent = token.lock().clone();
                request.headers_mut().insert(AUTHORIZATION, sent);
                let answer = inner.send(request).await?;
                if answer.status() == StatusCode::UNAUTHORIZED
                    && let Ok(read) = access.token()
                {
                    // The caller retries failed requests.
                    *token.lock() = read;
                }
                Ok::<_, BoxError>(answer)
            }
        });
        Ok(Client::new(service, NAMESPACE))
    }

    /// The node that the token is bound to, if the token names one.
    pub fn claim(&self) -> Option<Claim> {
        claim(&fs::read_to_string(&self.token).ok()?)
    }

    fn open(&self, server: &Server) -> Result<Client, ConnectError> {
        let pem = read(&self.authority)?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let certificates = certificates.map_err(|_| ConnectError::Authority(self.authority.clone()))?;
        if certificates.is_empty() {
            return Err(ConnectError::Authority(self.authority.clone()));
        }
        let mut config = Config::new(address(server)?);
        config.root_cert = Some(
            certificates
                .iter()
                .map(|certificate| certificate.to_vec())
                .collect(),
        );
        // This crate retries on its own: with a limit, and only requests that may be repeated.
        config.default_retry = false;
        Ok(sendable::sendable_client(config, Client::try_from)?)
    }

    fn token(&self) -> Result<HeaderValue, ConnectError> {
        let text = read(&self.token)?;
        let text = String::from_utf8_lossy(&text);
        let header = HeaderValue::from_str(&format!("Bearer {}", text.trim()));
        let mut header = header.map_err(|error| ConnectError::Token {
            file: self.token.clone(),
            error,
        })?;
        header.set_sensitive(true);
        Ok(header)
    }
}

fn read(file: &Path) -> Result<Vec<u8>, ConnectError> {
    fs::read(file).map_err(|error| ConnectError::File {
        file: file.to_owned(),
        error,
    })
}

/// The claim of a token that is bound to a pod (KEP-4193); a token that cannot be decoded names no node.
pub fn claim(token: &str) -> Option<Claim> {
    let payload = token.trim().split('.').nth(1)?;
    let payload = BASE64URL_NOPAD.decode(payload.as_bytes()).ok()?;
    let payload: Value = serde_json::from_slice(&payload).ok()?;
    let node = payload.get("kubernetes.io")?.get("node")?;
    let text = |key: &str| node.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Claim {
        node: text("name")?,
        uid: text("uid"),
    })
}

fn address(server: &Server) -> Result<Uri, ConnectError> {
    let host = &server.host;
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.clone()
    };
    let uri = format!("https://{host}:{}/", server.port).parse();
    uri.map_err(|_| {
        ConnectError::Config(ConfigError::Field {
            field: "server",
            problem: "must name a host by its DNS name or IP address",
        })
    })
}

/// The check `apiServer`: it opens a new connection, so that an existing one from before a change cannot succeed in its
/// place.
pub struct Probe {
    access: Access,
    runtime: Handle,
}

impl Probe {
    /// Uses these files; requests run on this runtime.
    pub fn new(access: Access, runtime: Handle) -> Self {
        Self { access, runtime }
    }
}

impl ApiServer for Probe {
    fn answers(&self, server: &Server, limit: Duration) -> Result<(), String> {
        let probe = async {
            let client = self.access.open(server).map_err(|error| error.to_string())?;
            let request = Request::get("/readyz").body(Body::empty());
            let request = request.map_err(|error| error.to_string())?;
            let answer = timeout(limit, client.send(request)).await;
            let answer = answer.map_err(|_elapsed| format!("no answer within {limit:?}"))?;
            // A response 401 or 403 is a response too.
            match answer.map_err(|error| error_chain(&error))?.status() {
                status if status.is_server_error() => Err(format!("it answers {status}")),
                _ => Ok(()),
            }
        };
        self.runtime.block_on(probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_a_token() {
        let token = |payload: &str| format!("e30.{}.c2ln\n", BASE64URL_NOPAD.encode(payload.as_bytes()));
        let check = |token: &str, expect: Option<(&str, Option<&str>)>| {
            let read = claim(token).map(|claim| (claim.node, claim.uid));
            let expect = expect.map(|(node, uid)| (node.to_owned(), uid.map(str::to_owned)));
            assert_eq!(read, expect, "{token}");
        };
        let bound = r#"{"kubernetes.io":{"namespace":"muster-nodes","node":{"name":"n1","uid":"u1"},"pod":{"name":"p"}}}"#;
        check(&token(bound), Some(("n1", Some("u1"))));
        check(
            &token(r#"{"kubernetes.io":{"node":{"name":"n1"}}}"#),
            Some(("n1", None)),
        );
        check(&token(r#"{"kubernetes.io":{"pod":{"name":"p"}}}"#), None);
        check(&token("no JSON"), None);
        check("opaque", None);
        check("", None);
    }

    #[test]
    fn an_address_of_version_6_is_in_brackets() {
        let server = Server {
            host: "fd00::1".to_owned(),
            port: 6443,
        };
        assert_eq!(address(&server).unwrap().to_string(), "https://[fd00::1]:6443/");
    }
}
