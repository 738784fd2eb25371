//! Receivers as they are written, and what is made of them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use muster_api::selector::{Matcher, SelectorError};
use serde::Deserialize;

use super::{
    Project, Receiver, To,
    address::{address, normal, url_of},
};
use crate::notify::phase::Phase;

/// The longest name of a receiver: a label of a metric, and the name in an annotation key.
const MAX_NAME: usize = 40;

/// The file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    #[serde(default)]
    pub link: Option<String>,
    pub receivers: Vec<Written>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Webhook,
    Slack,
    Github,
    Gitlab,
}

/// A receiver as it is written: which fields go with which kind is checked by hand, for words that help.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Written {
    pub name: String,
    kind: Kind,
    url: Option<String>,
    url_file: Option<PathBuf>,
    secret_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    channel: Option<String>,
    api: Option<String>,
    repository: Option<String>,
    modules: Option<serde_json::Value>,
    phases: Option<BTreeSet<Phase>>,
}

/// A receiver that was written, or why it cannot be one.
pub fn receiver(written: &Written, folder: &Path, link: Option<&String>) -> Result<Receiver, String> {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let name = written.name.clone();
    if name.is_empty()
        || name.len() > MAX_NAME
        || !name.bytes().all(is_name)
        || name.starts_with('-')
        || name.ends_with('-')
    {
        return Err(format!("write a name of a-z, 0-9 and -, at most {MAX_NAME} long"));
    }
    let modules = selected(written.modules.as_ref())?;
    let every_phase = || Phase::ALL.iter().copied().collect();
    Ok(Receiver {
        name,
        modules,
        phases: written.phases.clone().unwrap_or_else(every_phase),
        link: link.cloned(),
        authorities: written.ca_file.as_ref().map(|file| folder.join(file)),
        to: to(written, folder)?,
    })
}

/// The modules of a receiver: all, unless it names some.
fn selected(written: Option<&serde_json::Value>) -> Result<Matcher, String> {
    let selector = match written {
        None => LabelSelector::default(),
        Some(written) => {
            let read = LabelSelector::deserialize(written).map_err(|error| format!("modules: {error}"))?;
            // A field that nobody knows would select everything.
            if serde_json::to_value(&read).ok().as_ref() != Some(written) {
                return Err("modules: write matchLabels and matchExpressions, and nothing else".to_owned());
            }
            read
        }
    };
    Matcher::new(Some(&selector)).map_err(|error: SelectorError| format!("modules: {error}"))
}

fn to(written: &Written, folder: &Path) -> Result<To, String> {
    let file = |file: &PathBuf| folder.join(file);
    let token = || {
        let token = written.token_file.as_ref().map(file);
        token.ok_or_else(|| "tokenFile: name the file with the token".to_owned())
    };
    let unused = |fields: &[(&str, bool)]| match fields.iter().find(|(_, given)| *given) {
        Some((field, _)) => Err(format!("{field} does not go with this kind")),
        None => Ok(()),
    };
    let Written {
        secret_file,
        token_file,
        channel,
        api,
        repository,
        url,
        url_file,
        ..
    } = written;
    let of_git = [("api", api.is_some()), ("repository", repository.is_some())];
    let given = [
        ("secretFile", secret_file.is_some()),
        ("channel", channel.is_some()),
        ("url", url.is_some()),
        ("urlFile", url_file.is_some()),
    ];
    match written.kind {
        Kind::Webhook => {
            unused(&of_git)?;
            unused(&[
                ("tokenFile", token_file.is_some()),
                ("channel", channel.is_some()),
            ])?;
            Ok(To::Webhook {
                address: address(url.as_deref(), url_file.as_ref().map(file))?,
                secret: secret_file.as_ref().map(file),
            })
        }
        Kind::Slack if token_file.is_some() || channel.is_some() => {
            unused(&[given[0], given[2], given[3], of_git[1]])?;
            let channel = channel.clone().filter(|channel| !channel.is_empty());
            Ok(To::Channel {
                api: api
                    .as_deref()
                    .map_or_else(|| url_of("https://slack.com/api"), url_of)?,
                channel: channel.ok_or("channel: name it, beside tokenFile")?,
                token: token()?,
            })
        }
        Kind::Slack => {
            unused(&of_git)?;
            unused(&given[..2])?;
            Ok(To::Incoming {
                address: address(url.as_deref(), url_file.as_ref().map(file))?,
            })
        }
        Kind::Github | Kind::Gitlab => {
            unused(&given)?;
            let written_url = repository
                .as_deref()
                .ok_or("repository: name it, as modules do")?;
            let repository = url_of(written_url)?;
            let path = repository
                .path()
                .trim_matches('/')
                .trim_end_matches(".git")
                .to_owned();
            let is_github = written.kind == Kind::Github;
            if path.is_empty() || is_github && path.split('/').count() != 2 {
                return Err(format!("repository: {written_url} names no repository"));
            }
            let host = repository.host_str().unwrap_or_default();
            let usual = match (is_github, host) {
                (true, "github.com") => "/".to_owned(),
                (true, _) => "/api/v3".to_owned(),
                (false, _) => "/api/v4".to_owned(),
            };
            let mut usual_api = repository.clone();
            usual_api.set_path(&usual);
            if is_github && host == "github.com" {
                usual_api
                    .set_host(Some("api.github.com"))
                    .map_err(|error| error.to_string())?;
            }
            let project = Project {
                api: api.as_deref().map_or(Ok(usual_api), url_of)?,
                repository: normal(written_url),
                path,
                token: token()?,
            };
            Ok(if is_github {
                To::GitHub(project)
            } else {
                To::GitLab(project)
            })
        }
    }
}
