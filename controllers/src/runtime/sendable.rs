//! What can be sent to an API server. kube's client takes for granted that it can, and panics where it cannot.

use std::net::IpAddr;

use http::{HeaderValue, Uri};
use kube::{Client, Config, config::AuthInfo};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use thiserror::Error;

use super::isolate::{Panicked, isolated};

/// The longest address of an API server, in bytes. The path of a request comes behind it, and both together have to stay below the 64 KiB of
/// an address; a name of a host has at most 253.
const ADDRESS_MAX: usize = 4096;

/// What a token must be.
pub const TOKEN: &str = "must be one line without control characters";
/// What the name of a server must be.
pub const SERVER_NAME: &str = "must be a DNS name or an IP address";

/// A configuration from which no client can be made.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A field cannot be sent as it is. Its value is not repeated.
    #[error("{field}: {problem}")]
    Field {
        /// The field, as a kubeconfig has it.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// kube refuses the configuration.
    #[error(transparent)]
    Kube(Box<kube::Error>),
    /// A defect, which is not to end the process.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl From<kube::Error> for ConfigError {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// Whether a token can stand in a header.
pub fn is_token(token: &str) -> bool {
    HeaderValue::from_str(&format!("Bearer {token}")).is_ok()
        && !token.chars().any(char::is_control)
        && !token.is_empty()
}

/// Whether a server can have that name.
pub fn is_server_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// What is wrong with the address of an API server, if anything is.
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
    // What is no number is taken for no port, and so for another one than is written.
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

/// Makes a client by `make`, once it is known that what the configuration has can be sent. White space around a token is left out, as a
/// line feed at the end of a file is no part of what it holds.
pub fn client(
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
    let said = serde_json::to_value(&config.auth_info).unwrap_or_default();
    let token = said.get("token").and_then(Value::as_str).unwrap_or_default();
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
