//! Creates a client over the network from an accepted kubeconfig: the configuration is built field by field, so that
//! nothing from the environment (proxies, files, plugins) is used.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use kube::{Client, Config, config::AuthInfo};
use muster_sync::proxy::Proxy;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Map, Value};

use super::{connection::ConnectError, kubeconfig::Access};
use crate::runtime::sendable;

/// A server that sends nothing for this long counts as gone: longer than the 290 s of a quiet watch.
const READ_TIMEOUT: Duration = Duration::from_secs(310);
/// The timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a client from [`configuration`].
pub fn connect_over_network(access: &Access) -> Result<Client, ConnectError> {
    Ok(sendable::sendable_client(
        configuration(access)?,
        Client::try_from,
    )?)
}

/// The configuration of a client: TLS with only the CA of the kubeconfig, no proxy but its own, no retries that the
/// caller does not see.
pub fn configuration(access: &Access) -> Result<Config, ConnectError> {
    let server = access
        .server
        .parse::<http::Uri>()
        .map_err(|error| ConnectError::Field {
            field: "server",
            problem: error.to_string(),
        })?;
    let mut config = Config::new(server);
    config.root_cert = Some(certificates(&access.certificate_authority)?);
    config.tls_server_name.clone_from(&access.tls_server_name);
    config.proxy_url = proxy_url(access.proxy.as_ref())?;
    config.auth_info = credential(access)?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    config.default_retry = false;
    Ok(config)
}

fn proxy_url(proxy: Option<&Proxy>) -> Result<Option<http::Uri>, ConnectError> {
    let parse = |proxy: &Proxy| proxy.url().as_str().parse();
    proxy.map(parse).transpose().map_err(|_| ConnectError::Field {
        field: "proxy-url",
        problem: "it is not a valid URL".to_owned(),
    })
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, ConnectError> {
    let field = |problem: String| ConnectError::Field {
        field: "certificate-authority-data",
        problem,
    };
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = parsed.map_err(|error| field(format!("not PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(field("has no certificate".to_owned()));
    }
    Ok(certificates
        .into_iter()
        .map(|certificate| certificate.to_vec())
        .collect())
}

/// kube's form of a credential, only from values that passed the allow-list.
fn credential(access: &Access) -> Result<AuthInfo, ConnectError> {
    let mut fields = Map::new();
    let mut set = |field: &str, value: String| fields.insert(field.to_owned(), Value::String(value));
    if let Some(token) = &access.token {
        set("token", token.expose().to_owned());
    }
    if let Some((certificate, key)) = &access.client_certificate {
        set("client-certificate-data", STANDARD.encode(certificate));
        set("client-key-data", STANDARD.encode(key.expose()));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| ConnectError::Field {
        field: "user",
        problem: error.to_string(),
    })
}
