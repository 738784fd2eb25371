//! The agent's configuration: a file on the host, and the only definition of the names that objects may use.
//!
//! ```yaml
//! prefixes: [/etc/netplan, /etc/frr]
//! reloaders:
//!   netplan: {argv: [/usr/sbin/netplan, apply], timeout: 30s}
//!   frr: {argv: [/usr/bin/systemctl, reload, frr], timeout: 20s, environment: {LANG: C}}
//! services:
//!   frr: {argv: [/usr/bin/systemctl, is-active, frr], timeout: 5s}
//! checkTargets: ["10.0.0.0/8:179"]
//! secrets: {bgp-password: /etc/frr-secrets/bgp-password}
//! server: https://10.0.0.1:6443
//! dialTimeout: 3s
//! dialTries: 3
//! ```

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use http::{Uri, uri::Scheme};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    duration,
    paths::{self, PathProblem},
};

/// Maximum timeout of a reloader or of a service's check.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(10);
/// Maximum length of the name of a reloader, a service or a secret.
pub(crate) const MAX_NAME: usize = 63;
/// Maximum number of entries in each list of the configuration.
pub(crate) const MAX_ENTRIES: usize = 256;
/// Default number of connection attempts before a check fails: one lost packet is not a failure.
pub const DIAL_TRIES: u32 = 3;

/// What objects may use on this node. The default allows nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Directories below which files may be written, absolute.
    pub prefixes: Vec<String>,
    /// The programs that `reload` names.
    pub reloaders: BTreeMap<String, Program>,
    /// The programs that `checks.services` names.
    pub services: BTreeMap<String, Program>,
    /// Addresses that `checks.tcp` may name.
    pub check_targets: Vec<CheckTarget>,
    /// Secrets that contents may name: the absolute path of the file with each secret.
    pub secrets: BTreeMap<String, String>,
    /// The API server of this node, as its kubelet uses it.
    pub server: Option<Server>,
    /// How connections of checks are opened.
    pub dial: Dial,
}

/// A program of the host, with its arguments and environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Program {
    /// The absolute path of the program, and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// Its process group is killed after this time.
    pub timeout: Duration,
    /// Its complete environment.
    pub environment: BTreeMap<String, String>,
}

/// Addresses and the port that a check may connect to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckTarget {
    /// The addresses.
    pub network: IpNet,
    /// The port.
    pub port: u16,
}

/// An API server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Server {
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// How connections of checks are opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dial {
    /// Timeout of one attempt.
    pub timeout: Duration,
    /// Number of attempts, without a pause in between.
    pub tries: u32,
}

impl Default for Dial {
    fn default() -> Self {
        Self {
            timeout: duration::DIAL_TIMEOUT,
            tries: DIAL_TRIES,
        }
    }
}

/// An invalid value in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// The path of the field, such as `reloaders.netplan.argv`.
    pub field: String,
    /// The problem.
    pub problem: ConfigProblem,
}

/// The problem of a value in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigProblem {
    /// An unknown field, or a value of the wrong type.
    #[error("{0}")]
    Malformed(String),
    /// An invalid path.
    #[error("{0:?} {1}")]
    Path(String, PathProblem),
    /// A prefix that is, or is below, a path that no configuration may allow.
    #[error("{0:?} is never allowed: it is within {1}")]
    Refused(String, &'static str),
    /// A program without an absolute path.
    #[error("names no program: start with its absolute path")]
    EmptyArgv,
    /// A timeout that is not a duration, is zero, or is above [`MAX_TIMEOUT`].
    #[error("{0:?} is not a timeout between 1ms and 10m")]
    Timeout(String),
    /// A name with characters that objects must not use.
    #[error("{0:?} is not a name of at most {MAX_NAME} letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// A check target that is not `CIDR:port`.
    #[error("{0:?} is not a network and a port, such as 10.0.0.0/8:179")]
    Target(String),
    /// A server that is not an https URL.
    #[error("{0:?} is not the address of an API server, such as https://10.0.0.1:6443")]
    Server(String),
    /// An invalid environment variable.
    #[error("{0:?} is not an environment variable with a value without NUL")]
    Variable(String),
    /// More entries than [`MAX_ENTRIES`].
    #[error("has {0} entries, more than {MAX_ENTRIES}")]
    TooMany(usize),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawConfig {
    prefixes: Vec<String>,
    reloaders: BTreeMap<String, RawProgram>,
    services: BTreeMap<String, RawProgram>,
    check_targets: Vec<String>,
    secrets: BTreeMap<String, String>,
    server: Option<String>,
    dial_timeout: String,
    dial_tries: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawProgram {
    argv: Vec<String>,
    timeout: String,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

impl Config {
    /// Reads a configuration from parsed YAML or JSON; `null`, the value of an empty file, allows nothing.
    pub fn parse(value: &Value) -> Result<Self, ConfigError> {
        let raw = match value {
            Value::Null => RawConfig::default(),
            value => serde_path_to_error::deserialize(value).map_err(|error| {
                let problem = ConfigProblem::Malformed(error.inner().to_string());
                at(error.path().to_string(), problem)
            })?,
        };
        let counts = [
            ("prefixes", raw.prefixes.len()),
            ("reloaders", raw.reloaders.len()),
            ("services", raw.services.len()),
            ("checkTargets", raw.check_targets.len()),
            ("secrets", raw.secrets.len()),
        ];
        if let Some((field, count)) = counts.into_iter().find(|(_, count)| *count > MAX_ENTRIES) {
            return Err(at(field, ConfigProblem::TooMany(count)));
        }
        for (number, prefix) in raw.prefixes.iter().enumerate() {
            check_prefix(prefix).map_err(|problem| at(format!("prefixes[{number}]"), problem))?;
        }
        for (name, file) in &raw.secrets {
            check_name(name)
                .and_then(|()| check_path(file))
                .map_err(|problem| at(format!("secrets.{name}"), problem))?;
        }
        let targets = raw.check_targets.iter().enumerate();
        let targets = targets.map(|(number, text)| {
            let unreadable = || {
                at(
                    format!("checkTargets[{number}]"),
                    ConfigProblem::Target(text.clone()),
                )
            };
            check_target(text).ok_or_else(unreadable)
        });
        let server =
            |text: &String| server(text).ok_or_else(|| at("server", ConfigProblem::Server(text.clone())));
        Ok(Self {
            check_targets: targets.collect::<Result<_, _>>()?,
            reloaders: programs("reloaders", raw.reloaders)?,
            services: programs("services", raw.services)?,
            server: raw.server.as_ref().map(server).transpose()?,
            prefixes: raw.prefixes,
            secrets: raw.secrets,
            dial: Dial {
                timeout: duration::dial_timeout(&raw.dial_timeout),
                tries: u32::try_from(raw.dial_tries)
                    .ok()
                    .filter(|tries| *tries > 0)
                    .unwrap_or(DIAL_TRIES),
            },
        })
    }

    /// Whether a file may be written at this path: a prefix allows it, and it is not one of [`paths::REFUSED`]. The
    /// error says why not.
    pub fn allows_path(&self, path: &str) -> Result<(), String> {
        if let Some(directory) = paths::refused(path) {
            return Err(format!("files within {directory} are never written"));
        }
        let below = |prefix: &String| path != prefix && paths::is_within(path, prefix);
        if self.prefixes.iter().any(below) {
            return Ok(());
        }
        Err("it is not below a prefix in the node's configuration".to_owned())
    }

    /// Whether a check may connect to this address.
    pub fn allows_target(&self, target: SocketAddr) -> bool {
        let covers =
            |allowed: &CheckTarget| allowed.port == target.port() && allowed.network.contains(&target.ip());
        self.check_targets.iter().any(covers)
    }
}

fn at(field: impl Into<String>, problem: ConfigProblem) -> ConfigError {
    ConfigError {
        field: field.into(),
        problem,
    }
}

fn check_path(path: &str) -> Result<(), ConfigProblem> {
    paths::check(path).map_err(|problem| ConfigProblem::Path(path.to_owned(), problem))
}

fn check_prefix(prefix: &str) -> Result<(), ConfigProblem> {
    check_path(prefix)?;
    match paths::refused(prefix) {
        Some(directory) => Err(ConfigProblem::Refused(prefix.to_owned(), directory)),
        None => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), ConfigProblem> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(allowed) {
        return Err(ConfigProblem::Name(name.to_owned()));
    }
    Ok(())
}

fn programs(
    field: &str,
    raw: BTreeMap<String, RawProgram>,
) -> Result<BTreeMap<String, Program>, ConfigError> {
    raw.into_iter()
        .map(|(name, raw)| {
            check_name(&name).map_err(|problem| at(format!("{field}.{name}"), problem))?;
            let program =
                program(raw).map_err(|(part, problem)| at(format!("{field}.{name}.{part}"), problem))?;
            Ok((name, program))
        })
        .collect()
}

fn program(raw: RawProgram) -> Result<Program, (&'static str, ConfigProblem)> {
    let program = raw.argv.first().ok_or(("argv", ConfigProblem::EmptyArgv))?;
    check_path(program).map_err(|problem| ("argv[0]", problem))?;
    if let Some(argument) = raw.argv.iter().find(|argument| argument.contains('\0')) {
        return Err((
            "argv",
            ConfigProblem::Malformed(format!("{argument:?} contains a NUL")),
        ));
    }
    let timeout = duration::parse(&raw.timeout)
        .filter(|timeout| *timeout >= Duration::from_millis(1) && *timeout <= MAX_TIMEOUT)
        .ok_or_else(|| ("timeout", ConfigProblem::Timeout(raw.timeout.clone())))?;
    for (name, value) in &raw.environment {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(("environment", ConfigProblem::Variable(name.clone())));
        }
    }
    Ok(Program {
        argv: raw.argv,
        timeout,
        environment: raw.environment,
    })
}

fn check_target(text: &str) -> Option<CheckTarget> {
    let (network, port) = text.rsplit_once(':')?;
    Some(CheckTarget {
        network: network.parse().ok()?,
        port: port.parse().ok().filter(|port| *port > 0)?,
    })
}

fn server(text: &str) -> Option<Server> {
    let uri: Uri = text.parse().ok()?;
    let plain = uri.scheme() == Some(&Scheme::HTTPS)
        && matches!(uri.path(), "" | "/")
        && uri.query().is_none()
        && !uri.authority()?.as_str().contains('@');
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    (plain && !host.is_empty()).then(|| Server {
        host: host.to_owned(),
        port: uri.port_u16().unwrap_or(443),
    })
}
