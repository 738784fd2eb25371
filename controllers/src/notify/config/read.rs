//! Receivers as written in the file, and their conversion.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use muster_api::selector::{Matcher, SelectorError};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    Project, Receiver, To,
    address::{normal, parse_address, url_of},
};
use crate::notify::phase::Phase;

/// The longest name of a receiver: it is used as a metric label and in an annotation key.
const MAX_NAME: usize = 40;

/// The configuration file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct File {
    #[serde(default)]
    pub link: Option<String>,
    pub receivers: Vec<RawReceiver>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Webhook,
    Slack,
    Github,
    Gitlab,
}

/// A receiver as written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawReceiver {
    pub name: String,
    kind: Kind,
    ca_file: Option<PathBuf>,
    modules: Option<serde_json::Value>,
    phases: Option<BTreeSet<Phase>>,
    /// The fields of its type: parsed separately, so that the error for an unknown one names the receiver.
    #[serde(flatten)]
    fields: serde_json::Map<String, serde_json::Value>,
}

/// The fields of a webhook.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Webhook {
    url: Option<String>,
    url_file: Option<PathBuf>,
    secret_file: Option<PathBuf>,
}

/// The fields of Slack: an incoming webhook, or a channel and a token.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Slack {
    url: Option<String>,
    url_file: Option<PathBuf>,
    channel: Option<String>,
    token_file: Option<PathBuf>,
    api: Option<String>,
}

/// The fields of a git host.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Git {
    repository: String,
    token_file: PathBuf,
    api: Option<String>,
}

/// The converted receiver, or why it is invalid.
pub(crate) fn receiver(
    written: &RawReceiver,
    directory: &Path,
    link: Option<&String>,
) -> Result<Receiver, String> {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let name = written.name.clone();
    if name.is_empty()
        || name.len() > MAX_NAME
        || !name.bytes().all(is_name)
        || name.starts_with('-')
        || name.ends_with('-')
    {
        return Err(format!(
            "write a name of a-z, 0-9 and -, at most {MAX_NAME} characters long"
        ));
    }
    let modules = selected(written.modules.as_ref())?;
    let every_phase = || Phase::ALL.iter().copied().collect();
    Ok(Receiver {
        name,
        modules,
        phases: written.phases.clone().unwrap_or_else(every_phase),
        link: link.cloned(),
        authorities: written.ca_file.as_ref().map(|file| directory.join(file)),
        to: to(written, directory)?,
    })
}

/// The modules of a receiver: all by default.
fn selected(written: Option<&serde_json::Value>) -> Result<Matcher, String> {
    let selector = match written {
        None => LabelSelector::default(),
        Some(written) => {
            let read = LabelSelector::deserialize(written).map_err(|error| format!("modules: {error}"))?;
            // An unknown field would select everything.
            if serde_json::to_value(&read).ok().as_ref() != Some(written) {
                return Err("modules: write matchLabels and matchExpressions, and nothing else".to_owned());
            }
            read
        }
    };
    Matcher::new(Some(&selector)).map_err(|error: SelectorError| format!("modules: {error}"))
}

fn to(written: &RawReceiver, directory: &Path) -> Result<To, String> {
    match written.kind {
        Kind::Webhook => {
            let webhook: Webhook = fields(written)?;
            Ok(To::Webhook {
                address: parse_address(
                    webhook.url.as_deref(),
                    webhook.url_file.map(|file| directory.join(file)),
                )?,
                secret: webhook.secret_file.map(|file| directory.join(file)),
            })
        }
        Kind::Slack => slack(fields(written)?, directory),
        Kind::Github => {
            let project = project(fields(written)?, directory, "/api/v3")?;
            if project.path.split('/').count() != 2 {
                return Err(format!("repository: {} names no repository", project.repository));
            }
            Ok(To::GitHub(project))
        }
        Kind::Gitlab => project(fields(written)?, directory, "/api/v4").map(To::GitLab),
    }
}

/// The fields of a type. The error names the field that is not allowed, or is missing.
fn fields<T: DeserializeOwned>(written: &RawReceiver) -> Result<T, String> {
    serde_json::from_value(written.fields.clone().into()).map_err(|error| error.to_string())
}

fn slack(slack: Slack, directory: &Path) -> Result<To, String> {
    let file = |file: PathBuf| directory.join(file);
    let is_incoming = slack.url.is_some() || slack.url_file.is_some();
    match (
        slack.channel.filter(|channel| !channel.is_empty()),
        slack.token_file,
    ) {
        (Some(channel), Some(token)) if !is_incoming => Ok(To::Channel {
            api: url_of(slack.api.as_deref().unwrap_or("https://slack.com/api"))?,
            channel,
            token: file(token),
        }),
        (None, None) if slack.api.is_none() => Ok(To::Incoming {
            address: parse_address(slack.url.as_deref(), slack.url_file.map(file))?,
        }),
        _ => Err("set channel and tokenFile (and api), or one of url and urlFile alone".to_owned()),
    }
}

/// A repository, and the API for its commit statuses: below a path of its own, unless it is GitHub itself.
fn project(git: Git, directory: &Path, usual_path: &str) -> Result<Project, String> {
    let repository = url_of(&git.repository)?;
    let path = repository
        .path()
        .trim_matches('/')
        .trim_end_matches(".git")
        .to_owned();
    if path.is_empty() {
        return Err(format!("repository: {} names no repository", git.repository));
    }
    let api = match (git.api, repository.host_str()) {
        (Some(api), _) => url_of(&api)?,
        (None, Some("github.com")) => url_of("https://api.github.com")?,
        (None, _) => {
            let mut api = repository;
            api.set_path(usual_path);
            api
        }
    };
    Ok(Project {
        api,
        repository: normal(&git.repository),
        path,
        token: directory.join(git.token_file),
    })
}
