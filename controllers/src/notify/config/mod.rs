//! Who is told (`--notify-config`): a file of whoever runs the process. Nothing in it comes from an object, and no value of a Secret is in
//! it, only the files that have them: they are read for each message, so that a new one counts at once.

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

pub(crate) use self::address::Address;
pub(super) use self::address::secret;
use self::address::{PLACES, link, normal, text_of};
use super::{decide::Manner, phase::Phase, standing::Rollout};

/// Receivers of one process: each takes an annotation of each ModuleRevision.
const MAX_RECEIVERS: usize = 16;

/// Why nobody can be told. Nothing in it comes from a Secret.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: it cannot be read", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// A field is wrong, or known to nobody.
    #[error("the file of receivers is not as it must be")]
    Field(#[from] serde_json::Error),
    /// A receiver cannot be used.
    #[error("receiver {name:?}: {why}")]
    Receiver {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// The file as a whole cannot be used.
    #[error("{0}")]
    Whole(String),
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The receivers, each by its name.
    pub receivers: Vec<Receiver>,
}

/// Somebody who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// By which it is known in annotations and metrics.
    pub name: String,
    /// Of which modules.
    pub modules: Matcher,
    /// At which phases.
    pub phases: BTreeSet<Phase>,
    /// Where people look on, if anywhere.
    pub link: Option<String>,
    /// Authorities to trust besides the machine's: a file of PEM.
    pub authorities: Option<PathBuf>,
    /// How.
    pub to: To,
}

/// How somebody is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// A POST of JSON, signed if there is a secret.
    Webhook {
        /// Where.
        address: Address,
        /// The file with the key of signatures.
        secret: Option<PathBuf>,
    },
    /// A message in a channel, which is edited.
    Channel {
        /// Where the methods are: `https://slack.com/api`.
        api: Url,
        /// Which channel.
        channel: String,
        /// The file with the token.
        token: PathBuf,
    },
    /// Messages by an incoming webhook, which cannot be edited.
    Incoming {
        /// Where.
        address: Address,
    },
    /// Commit statuses of a repository at GitHub.
    GitHub(Project),
    /// Commit statuses of a project at GitLab.
    GitLab(Project),
}

/// A repository, and where its host takes statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The begin of all addresses.
    pub api: Url,
    /// The repository, as modules have it.
    pub repository: String,
    /// Its path at the host: `acme/fleet`.
    pub path: String,
    /// The file with the token.
    pub token: PathBuf,
}

impl Config {
    /// Reads a file; files that it names are beside it, unless they are named in full.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = text_of(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path.parent().unwrap_or_else(|| Path::new("")))
    }

    /// Reads the text of a file in a folder.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let written: read::File = serde_json::from_value(yaml::to_json(text)?)?;
        if written.receivers.is_empty() || written.receivers.len() > MAX_RECEIVERS {
            return Err(ConfigError::Whole(format!(
                "receivers: name from 1 to {MAX_RECEIVERS}"
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
                return Err(refused("the name stands twice".to_owned()));
            }
            receivers.push(read::receiver(&receiver, folder, link.as_ref()).map_err(refused)?);
        }
        Ok(Self { receivers })
    }
}

impl Receiver {
    /// What it wants to know.
    pub const fn manner(&self) -> Manner {
        match self.to {
            To::Webhook { .. } | To::GitHub(_) => Manner::Phases,
            To::Channel { .. } => Manner::Progress,
            To::Incoming { .. } => Manner::FirstAndLast,
            To::GitLab(_) => Manner::States,
        }
    }

    /// Whether a rollout of a repository is its concern.
    pub fn is_about(&self, repository: &str) -> bool {
        match &self.to {
            To::GitHub(project) | To::GitLab(project) => project.repository == normal(repository),
            To::Webhook { .. } | To::Channel { .. } | To::Incoming { .. } => true,
        }
    }

    /// Where people look on.
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
