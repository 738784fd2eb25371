//! Who is told (`--notify-config`): a file of whoever runs the process. Nothing in it comes from an object, and no value of a Secret is in
//! it, only the files that have them: they are read for each message, so that a new one counts at once.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::{Path, PathBuf},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use muster_api::selector::{Matcher, SelectorError};
use muster_sync::yaml::{self, YamlError};
use reqwest::Url;
use serde::Deserialize;
use thiserror::Error;

use super::{decide::Manner, phase::Phase, standing::Rollout};

/// Receivers of one process: each takes an annotation of each ModuleRevision.
const MAX_RECEIVERS: usize = 16;
/// The longest file, in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// The longest name of a receiver: a label of a metric, and the name in an annotation key.
const MAX_NAME: usize = 40;
/// What may stand in a link.
const PLACES: [&str; 5] = ["{namespace}", "{kind}", "{module}", "{revision}", "{commit}"];

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

/// An address, or the file that has it where it is as good as a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Itself.
    Url(Url),
    /// In a file.
    File(PathBuf),
}

/// The file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(default)]
    link: Option<String>,
    receivers: Vec<WrittenReceiver>,
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
struct WrittenReceiver {
    name: String,
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

impl Config {
    /// Reads a file; files that it names are beside it, unless they are named in full.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = text_of(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads the text of a file in a folder.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let written: Written = serde_json::from_value(yaml::to_json(text)?)?;
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
            receivers.push(read(receiver, folder, link.as_ref()).map_err(refused)?);
        }
        Ok(Self { receivers })
    }
}

fn read(written: WrittenReceiver, folder: &Path, link: Option<&String>) -> Result<Receiver, String> {
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
        to: to(&written, folder)?,
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

fn to(written: &WrittenReceiver, folder: &Path) -> Result<To, String> {
    let file = |file: &PathBuf| folder.join(file);
    let token = || {
        let token = written.token_file.as_ref().map(file);
        token.ok_or_else(|| "tokenFile: name the file with the token".to_owned())
    };
    let unused = |fields: &[(&str, bool)]| match fields.iter().find(|(_, given)| *given) {
        Some((field, _)) => Err(format!("{field} does not go with this kind")),
        None => Ok(()),
    };
    let WrittenReceiver {
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

impl Address {
    /// The address, read if it is in a file.
    pub fn open(&self) -> Result<Url, String> {
        match self {
            Self::Url(url) => Ok(url.clone()),
            // What is in the file is as good as a password: it is not shown.
            Self::File(file) => {
                url_of(&secret(file)?).map_err(|_| format!("{}: it holds no https address", file.display()))
            }
        }
    }
}

/// What a file holds, without the line feed at its end. The error names the file alone.
pub(super) fn secret(file: &Path) -> Result<String, String> {
    let text = text_of(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(format!("{}: it holds no line of text", file.display()));
    }
    Ok(text.to_owned())
}

fn text_of(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let mut file = std::fs::File::open(path)?.take(MAX_FILE + 1);
    let read = file.read_to_string(&mut text)? as u64;
    if read > MAX_FILE {
        return Err(std::io::Error::other(format!(
            "it is longer than {MAX_FILE} bytes"
        )));
    }
    Ok(text)
}

fn address(url: Option<&str>, file: Option<PathBuf>) -> Result<Address, String> {
    match (url, file) {
        (Some(url), None) => url_of(url).map(Address::Url),
        (None, Some(file)) => Ok(Address::File(file)),
        _ => Err("name one of url and urlFile".to_owned()),
    }
}

/// An https address; http is for this machine alone, as tokens would be read on the way.
fn url_of(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("an address cannot be used: {error}"))?;
    let host = url.host_str().unwrap_or_default();
    let is_near = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    let is_safe = url.scheme() == "https" || url.scheme() == "http" && is_near;
    if !is_safe || host.is_empty() || !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "{}://{host}: write an https address without a user or a password",
            url.scheme()
        ));
    }
    Ok(url)
}

/// A repository as it is compared: modules may write it with or without what means nothing.
fn normal(repository: &str) -> String {
    let text = repository.trim_end_matches('/');
    text.strip_suffix(".git").unwrap_or(text).to_ascii_lowercase()
}

/// A link with places for what it is about; unknown ones are mistakes.
fn link(text: String) -> Result<String, String> {
    let mut rest = text.clone();
    for place in PLACES {
        rest = rest.replace(place, "x");
    }
    if rest.contains(['{', '}']) {
        return Err(format!("link: only {} may stand in it", PLACES.join(", ")));
    }
    url_of(&rest).map_err(|why| format!("link: {why}"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/etc/muster/notify")).map_err(|error| {
            let source =
                std::error::Error::source(&error).map_or(String::new(), |source| format!(": {source}"));
            format!("{error}{source}")
        })
    }

    #[test]
    fn what_is_written() {
        let config = parsed(
            "
link: https://muster.test/{namespace}/{kind}/{module}
receivers:
- {name: hook, kind: webhook, urlFile: hook-url, secretFile: hook-secret, phases: [Good, Bad]}
- {name: chat, kind: slack, channel: '#rollouts', tokenFile: /run/token, modules: {matchLabels: {team: web}}}
- {name: chat-hook, kind: slack, urlFile: chat-url}
- {name: github, kind: github, repository: https://github.com/acme/fleet.git, tokenFile: github-token}
- {name: own, kind: github, repository: https://git.test/acme/fleet, tokenFile: t}
- {name: gitlab, kind: gitlab, repository: https://gitlab.test/a/b/fleet, tokenFile: t}
",
        )
        .unwrap();
        let apis: Vec<String> = config
            .receivers
            .iter()
            .filter_map(|receiver| match &receiver.to {
                To::GitHub(project) | To::GitLab(project) => {
                    Some(format!("{} {}", project.api, project.path))
                }
                To::Channel { api, .. } => Some(api.to_string()),
                To::Webhook { .. } | To::Incoming { .. } => None,
            })
            .collect();
        assert_eq!(
            apis,
            [
                "https://slack.com/api",
                "https://api.github.com/ acme/fleet",
                "https://git.test/api/v3 acme/fleet",
                "https://gitlab.test/api/v4 a/b/fleet",
            ]
        );
        let [hook, chat, _, github, ..] = &config.receivers[..] else {
            panic!("{config:?}")
        };
        assert_eq!(hook.phases, BTreeSet::from([Phase::Good, Phase::Bad]));
        assert!(
            matches!(&hook.to, To::Webhook { address: Address::File(file), .. } if file == Path::new("/etc/muster/notify/hook-url"))
        );
        assert!(matches!(&chat.to, To::Channel { token, .. } if token == Path::new("/run/token")));
        assert!(
            chat.modules
                .matches(&[("team".to_owned(), "web".to_owned())].into())
        );
        assert!(!chat.modules.matches(&[].into()));
        assert!(github.is_about("https://github.com/Acme/fleet"));
        assert!(!github.is_about("https://github.com/acme/fleet2"));
    }

    #[test]
    fn what_is_refused() {
        let check = |receiver: &str, expect: &str| {
            let said = parsed(&format!("receivers: [{receiver}]")).expect_err(receiver);
            assert!(said.contains(expect), "{receiver}: {said}");
        };
        check("{name: a, kind: webhook}", "one of url and urlFile");
        check(
            "{name: a, kind: webhook, url: 'http://hooks.test'}",
            "https address",
        );
        check(
            "{name: a, kind: webhook, url: 'https://me:hunter2@hooks.test'}",
            "without a user",
        );
        check(
            "{name: a, kind: webhook, url: 'https://a.test', channel: x}",
            "channel does not go",
        );
        check("{name: a, kind: slack, channel: x}", "tokenFile");
        check("{name: a, kind: slack, tokenFile: x}", "channel");
        check(
            "{name: a, kind: github, repository: 'https://github.com/fleet', tokenFile: t}",
            "names no repository",
        );
        check(
            "{name: a, kind: github, repository: 'https://github.com/a/b'}",
            "tokenFile",
        );
        check("{name: a, kind: gitlab, tokenFile: t}", "repository");
        check("{name: A, kind: slack, urlFile: x}", "write a name");
        check("{name: a, kind: slack, urlFile: x, phases: [Rolled]}", "Rolled");
        check("{name: a, kind: slack, urlFiles: x}", "urlFiles");
        check("{name: a, kind: teams, urlFile: x}", "teams");
        check(
            "{name: a, kind: slack, urlFile: x}, {name: a, kind: slack, urlFile: x}",
            "stands twice",
        );
        check(
            "{name: a, kind: slack, urlFile: x, modules: {matchLables: {a: b}}}",
            "modules",
        );
        check("", "from 1 to");
        let link = |link: &str| {
            parsed(&format!(
                "{{link: '{link}', receivers: [{{name: a, kind: slack, urlFile: x}}]}}"
            ))
        };
        assert!(link("https://a.test/{nam}").is_err());
        assert!(link("https://a.test/{module}").is_ok());
        let said = parsed("receivers: [{name: a, kind: webhook, url: 'https://me:hunter2@hooks.test'}]")
            .unwrap_err();
        assert!(!said.contains("hunter2"), "{said}");
    }
}
