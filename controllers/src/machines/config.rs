//! The updaters of `muster machines` (`--updaters FILE`): a file of the process's operator. No object defines one.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::SignedDuration;
use muster_api::{update_plan::MAX_UPDATERS, validate::names::dns_label};
use muster_machines::{Acknowledgement, ClientConfig, UrlError, in_order};
use muster_sync::yaml::{self, YamlError};
use reqwest::Certificate;
use serde::Deserialize;
use thiserror::Error;

/// How long an updater may take for one machine by default.
const DEADLINE: SignedDuration = SignedDuration::from_mins(30);
/// How long one call to an updater may take by default: of the 8 s for all.
const CALL: Duration = Duration::from_secs(5);

/// Why the file is invalid.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// A field is invalid or unknown.
    #[error("{path}: {problem}")]
    Field {
        /// The path of the field.
        path: String,
        /// The error message.
        problem: String,
    },
    /// The client of an updater could not be set up.
    #[error("updater {name:?}: {problem}")]
    Updater {
        /// The name of the updater.
        name: String,
        /// The error message.
        problem: String,
    },
    /// There are too many updaters.
    #[error("there are {0} updaters: at most {MAX_UPDATERS} are allowed")]
    TooMany(usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    updaters: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default)]
    order: i32,
    client_config: ClientConfig,
    #[serde(default)]
    acknowledgement: Believed,
    deadline: Option<muster_api::Duration>,
    prepare_node: Option<PrepareNode>,
    drain_deadline: Option<muster_api::Duration>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
}

/// What is done to the Node before an updater is called, the weaker first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum PrepareNode {
    /// The Node is cordoned.
    Cordon,
    /// The Node is cordoned, and its pods are evicted.
    Drain,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Believed {
    #[default]
    Digest,
    Trust,
}

/// An external updater.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updater {
    /// The updater's name, in plans and messages.
    pub name: String,
    /// Its order number: updaters with the same number are ordered by name.
    pub order: i32,
    /// The URL of its hooks.
    pub client_config: ClientConfig,
    /// When its completion is accepted.
    pub acknowledgement: Acknowledgement,
    /// How long it may take for one machine.
    pub deadline: SignedDuration,
    /// What is done to the Node before it is called, unless it was done for a previous updater.
    pub prepare_node: Option<PrepareNode>,
    /// How long the drain of a Node may take.
    pub drain_deadline: SignedDuration,
    /// How long one call may take.
    pub timeout: Duration,
    /// The settings that are sent with each request.
    pub settings: BTreeMap<String, String>,
}

/// Reads the file: the updaters in order.
pub fn read(text: &[u8]) -> Result<Vec<Updater>, ConfigError> {
    let value = yaml::to_json(text)?;
    let file: File = serde_path_to_error::deserialize(&value).map_err(|error| ConfigError::Field {
        path: error.path().to_string(),
        problem: error.into_inner().to_string(),
    })?;
    if file.updaters.len() > MAX_UPDATERS {
        return Err(ConfigError::TooMany(file.updaters.len()));
    }
    let mut names = BTreeSet::new();
    let mut updaters = Vec::new();
    for entry in file.updaters {
        let refuse = |problem: String| ConfigError::Updater {
            name: entry.name.clone(),
            problem,
        };
        dns_label(&entry.name).map_err(|error| refuse(error.to_string()))?;
        if !names.insert(entry.name.clone()) {
            return Err(refuse("it is defined twice".to_owned()));
        }
        muster_machines::url(
            &entry.client_config,
            muster_machines::GROUP_VERSION,
            "UpdateMachine",
            None,
        )
        .map_err(|error: UrlError| refuse(error.to_string()))?;
        if let Some(bundle) = &entry.client_config.ca_bundle {
            authorities(bundle).map_err(refuse)?;
        }
        let within = |field: &str, deadline: Option<muster_api::Duration>| match deadline {
            None => Ok(DEADLINE),
            Some(deadline) if deadline.to_std().is_zero() => {
                Err(refuse(format!("{field} is 0s: it would fail at once")))
            }
            Some(deadline) => {
                SignedDuration::try_from(deadline.to_std()).map_err(|error| refuse(error.to_string()))
            }
        };
        if entry.drain_deadline.is_some() && entry.prepare_node != Some(PrepareNode::Drain) {
            return Err(refuse(
                "drainDeadline has no meaning without prepareNode: Drain".to_owned(),
            ));
        }
        let deadline = within("deadline", entry.deadline)?;
        let drain_deadline = within("drainDeadline", entry.drain_deadline)?;
        updaters.push(Updater {
            order: entry.order,
            client_config: entry.client_config,
            acknowledgement: match entry.acknowledgement {
                Believed::Digest => Acknowledgement::Digest,
                Believed::Trust => Acknowledgement::Trust,
            },
            deadline,
            prepare_node: entry.prepare_node,
            drain_deadline,
            timeout: CALL,
            settings: entry.settings,
            name: entry.name,
        });
    }
    in_order(&mut updaters, |updater| (updater.order, &updater.name));
    Ok(updaters)
}

/// The certificates of a `caBundle`.
pub fn authorities(bundle: &str) -> Result<Vec<Certificate>, String> {
    let pem = BASE64_STANDARD
        .decode(bundle)
        .map_err(|error| format!("clientConfig.caBundle is not base64: {error}"))?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(authorities) if !authorities.is_empty() => Ok(authorities),
        _ => Err("clientConfig.caBundle has no PEM certificate".to_owned()),
    }
}
