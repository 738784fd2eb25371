//! Checks what can be sent to an API server: kube's client assumes that everything can, and panics otherwise.

use std::net::IpAddr;

use http::{HeaderValue, Uri};
use kube::{Client, Config, config::AuthInfo};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use thiserror::Error;

use super::isolate::{Panicked, isolated};

/// The longest URL of an API server, in bytes. The path of a request is appended to it, and both together must stay
/// below the 64 KiB of a URI; a host name has at most 253.
const ADDRESS_MAX: usize = 4096;

/// The problem of a token, as a message.
pub const TOKEN: &str = "must be one line without control characters";
/// The problem of a server name, as a message.
pub const SERVER_NAME: &str = "must be a DNS name or an IP address";

/// Why no client can be created from a configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A field cannot be sent. Its value is not repeated.
    #[error("{field}: {problem}")]
    Field {
        /// The field, as named in a kubeconfig.
        field: &'static str,
        /// The problem, without the value.
        problem: &'static str,
    },
    /// kube rejects the configuration.
    #[error(transparent)]
    Kube(Box<kube::Error>),
    /// A bug, which must not end the process.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl From<kube::Error> for ConfigError {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// Whether a token can be sent in a header.
pub fn is_token(token: &str) -> bool {
    HeaderValue::from_str(&format!("Bearer {token}")).is_ok()
        && !token.chars().any(char::is_control)
        && !token.is_empty()
}

/// Whether this is a valid server name.
pub fn is_server_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// The problem with the URL of an API server, if there is one.
pub fn problem_of_server(address: &Uri) -> Option<&'static str> {
    let authority = address.authority()?;
    if address.path().len() + authority.as_str().len() > ADDRESS_MAX {
        return Some("must not be longer than 4096 bytes");
    }
    let host = authority.host();
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match name {
        Some(name) => name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6()),
        None => is_server_name(host),
    };
    if !is_host {
        return Some("must name a host by its DNS name or IP address");
    }
    // An invalid port number would be treated as no port, and so as a different one than written.
    let behind = authority
        .as_str()
        .rsplit_once('@')
        .map_or(authority.as_str(), |(_, behind)| behind);
    let port = behind
        .get(host.len()..)
        .unwrap_or_default()
        .trim_start_matches(':');
    if !port.is_empty() && !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Some("must have a port from 1 to 65535, or none");
    }
    None
}

/// Creates a client by `make`, once it is checked that the configuration can be sent. White space around a token is
/// removed: a line feed at the end of a file is not part of its content.
pub fn sendable_client(
    mut config: Config,
    make: impl FnOnce(Config) -> kube::Result<Client>,
) -> Result<Client, ConfigError> {
    prepare(&mut config)?;
    Ok(isolated(|| make(config))??)
}

fn prepare(config: &mut Config) -> Result<(), ConfigError> {
    if let Some(problem) = problem_of_server(&config.cluster_url) {
        return Err(ConfigError::Field {
            field: "server",
            problem,
        });
    }
    if let Some(name) = &config.tls_server_name
        && !is_server_name(name)
    {
        return Err(ConfigError::Field {
            field: "tls-server-name",
            problem: SERVER_NAME,
        });
    }
    if config.auth_info.token.is_none() {
        return Ok(());
    }
    let refused = ConfigError::Field {
        field: "token",
        problem: TOKEN,
    };
    let serialized = serde_json::to_value(&config.auth_info).unwrap_or_default();
    let token = serialized
        .get("token")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let sent = token.trim();
    // Without a token kube looks for another credential.
    if !sent.is_empty() && !is_token(sent) {
        return Err(refused);
    }
    if sent != token {
        let trimmed: Result<AuthInfo, _> = serde_json::from_value(json!({"token": sent}));
        config.auth_info.token = trimmed.map_err(|_| refused)?.token;
    }
    Ok(())
}
