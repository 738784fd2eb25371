//! The receivers of notifications (`--notify-config`): a file of the process's operator. Nothing in it comes from an
//! object, and it has no secret values, only the files with them: these are read for each message, so that a new value
//! is used at once.

mod address;
mod read;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use muster_api::selector::Matcher;
use muster_sync::yaml::{self, YamlError};
use reqwest::Url;
use thiserror::Error;

pub(crate) use self::address::ReceiverUrl;
pub(super) use self::address::secret;
use self::address::{PLACES, link, normal, text_of};
use super::{decide::Manner, phase::Phase, rollout_state::Rollout};

/// Receivers of one process at most: each adds an annotation to each ModuleRevision.
const MAX_RECEIVERS: usize = 16;

/// Why the configuration is invalid. Nothing in it comes from a Secret.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: it cannot be read", .path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error message.
        #[source]
        source: std::io::Error,
    },
    /// The file is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// A field is invalid or unknown.
    #[error("the file of receivers is invalid")]
    Field(#[from] serde_json::Error),
    /// A receiver is invalid.
    #[error("receiver {name:?}: {why}")]
    Receiver {
        /// The name of the receiver.
        name: String,
        /// The error message.
        why: String,
    },
    /// The file as a whole is invalid.
    #[error("{0}")]
    Whole(String),
}

/// The configuration of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The receivers; their names are unique.
    pub receivers: Vec<Receiver>,
}

/// A receiver of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The name in annotations and metrics.
    pub name: String,
    /// The modules it is notified about.
    pub modules: Matcher,
    /// The phases it is notified about.
    pub phases: BTreeSet<Phase>,
    /// The template of a link to more details, if any.
    pub link: Option<String>,
    /// Additional certificate authorities to trust: a PEM file.
    pub authorities: Option<PathBuf>,
    /// The protocol of the receiver.
    pub to: To,
}

/// The protocol of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// A POST of JSON, signed if there is a secret.
    Webhook {
        /// The URL of the webhook.
        address: ReceiverUrl,
        /// The file with the signing key.
        secret: Option<PathBuf>,
    },
    /// A message in a channel, which is edited.
    Channel {
        /// The base URL of the API methods: `https://slack.com/api`.
        api: Url,
        /// The id of the channel.
        channel: String,
        /// The file with the token.
        token: PathBuf,
    },
    /// Messages by an incoming webhook, which cannot be edited.
    Incoming {
        /// The URL of the webhook.
        address: ReceiverUrl,
    },
    /// Commit statuses of a repository at GitHub.
    GitHub(Project),
    /// Commit statuses of a project at GitLab.
    GitLab(Project),
}

/// A repository, and the API for its commit statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The base URL of the API.
    pub api: Url,
    /// The repository URL, as in modules.
    pub repository: String,
    /// Its path at the host: `acme/fleet`.
    pub path: String,
    /// The file with the token.
    pub token: PathBuf,
}

impl Config {
    /// Reads a file; relative paths in it are relative to its directory.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = text_of(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path.parent().unwrap_or_else(|| Path::new("")))
    }

    /// Reads the text of a file in a directory.
    pub fn parse(text: &str, directory: &Path) -> Result<Self, ConfigError> {
        let written: read::File = serde_json::from_value(yaml::to_json(text)?)?;
        if written.receivers.is_empty() || written.receivers.len() > MAX_RECEIVERS {
            return Err(ConfigError::Whole(format!(
                "receivers: from 1 to {MAX_RECEIVERS} are allowed"
            )));
        }
        let link = written.link.map(link).transpose().map_err(ConfigError::Whole)?;
        let mut names = BTreeSet::new();
        let mut receivers = Vec::new();
        for receiver in written.receivers {
            let name = receiver.name.clone();
            let refused = |why: String| ConfigError::Receiver {
                name: name.clone(),
                why,
            };
            if !names.insert(name.clone()) {
                return Err(refused("the name appears twice".to_owned()));
            }
            receivers.push(read::receiver(&receiver, directory, link.as_ref()).map_err(refused)?);
        }
        Ok(Self { receivers })
    }
}

impl Receiver {
    /// Which changes it is notified about.
    pub const fn manner(&self) -> Manner {
        match self.to {
            To::Webhook { .. } | To::GitHub(_) => Manner::Phases,
            To::Channel { .. } => Manner::Progress,
            To::Incoming { .. } => Manner::FirstAndLast,
            To::GitLab(_) => Manner::States,
        }
    }

    /// Whether it is notified about rollouts of a repository.
    pub fn is_about(&self, repository: &str) -> bool {
        match &self.to {
            To::GitHub(project) | To::GitLab(project) => project.repository == normal(repository),
            To::Webhook { .. } | To::Channel { .. } | To::Incoming { .. } => true,
        }
    }

    /// The link to more details.
    pub fn link_to(&self, rollout: &Rollout) -> Option<String> {
        let values = [
            &rollout.namespace,
            &rollout.kind.as_str().to_lowercase(),
            &rollout.module,
            &rollout.revision,
            &rollout.commit,
        ];
        let put = |link: String, (place, value): (&&str, &&String)| link.replace(place, value);
        let link = self.link.clone()?;
        Some(PLACES.iter().zip(values.iter()).fold(link, put))
    }
}
