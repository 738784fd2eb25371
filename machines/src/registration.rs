//! The updaters: where their hooks are, and in which order they are asked and called.

use std::collections::BTreeSet;

use http::Uri;
use muster_api::validate::names::dns_label;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The API of Cluster API's hooks.
pub const GROUP_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
/// The hook that lists the others.
pub const DISCOVERY: &str = "discovery";

/// Seconds that a handler may ask for.
const MAX_TIMEOUT: i32 = 30;
/// Seconds if it asks for none.
const TIMEOUT: i32 = 10;

/// A hook for updates in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// May one Machine of a control plane be updated in place?
    CanUpdateMachine,
    /// May the Machines of an old MachineSet?
    CanUpdateMachineSet,
    /// Update a Machine, or say how far that is.
    UpdateMachine,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::CanUpdateMachine,
        Self::CanUpdateMachineSet,
        Self::UpdateMachine,
    ];

    /// As in requests and discovery.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CanUpdateMachine => "CanUpdateMachine",
            Self::CanUpdateMachineSet => "CanUpdateMachineSet",
            Self::UpdateMachine => "UpdateMachine",
        }
    }
}

/// Where an updater is, as an ExtensionConfig says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConfig {
    /// `https://host[:port][/path]`.
    pub url: Option<String>,
    /// A Service instead.
    pub service: Option<Service>,
    /// Certificates, in base64 of PEM, that its certificate is checked with.
    pub ca_bundle: Option<String>,
}

/// A Service of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What stands before the path of a hook.
    pub path: Option<String>,
    /// 443 if absent.
    pub port: Option<u16>,
}

/// Why an updater cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Neither a url nor a service.
    #[error("clientConfig has neither url nor service")]
    Missing,
    /// Both.
    #[error("clientConfig has both url and service")]
    Both,
    /// The url cannot be read.
    #[error("clientConfig.url {0:?} is not a URL")]
    Invalid(String),
    /// Hooks are called by https alone.
    #[error("clientConfig.url {0:?} is not https")]
    NotHttps(String),
}

/// The path of a hook, and of a handler of it.
pub fn path(group_version: &str, hook: &str, handler: Option<&str>) -> String {
    let handler = handler.map(|name| format!("/{}", name.to_ascii_lowercase()));
    format!(
        "/{group_version}/{}{}",
        hook.to_ascii_lowercase(),
        handler.unwrap_or_default()
    )
}

/// The URL at which a hook of an updater is called.
pub fn url(
    config: &ClientConfig,
    group_version: &str,
    hook: &str,
    handler: Option<&str>,
) -> Result<Uri, UrlError> {
    let base = match (&config.url, &config.service) {
        (None, None) => return Err(UrlError::Missing),
        (Some(_), Some(_)) => return Err(UrlError::Both),
        (Some(url), None) => url.clone(),
        (None, Some(service)) => {
            let port = service.port.map(|port| format!(":{port}")).unwrap_or_default();
            let path = service
                .path
                .as_deref()
                .unwrap_or_default()
                .trim_start_matches('/');
            format!("https://{}.{}.svc{port}/{path}", service.name, service.namespace)
        }
    };
    let invalid = || UrlError::Invalid(base.clone());
    let parsed: Uri = base.parse().map_err(|_| invalid())?;
    let authority = parsed.authority().ok_or_else(invalid)?;
    if parsed.scheme_str() != Some("https") {
        return Err(UrlError::NotHttps(base.clone()));
    }
    let before = parsed.path().trim_end_matches('/');
    let text = format!(
        "https://{authority}{before}{}",
        path(group_version, hook, handler)
    );
    text.parse().map_err(|_| invalid())
}

/// A handler that an updater names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// Its name, a DNS label.
    pub name: String,
    /// The API of its hook.
    pub group_version: String,
    /// Its hook.
    pub hook: String,
    /// How long a call may take.
    pub timeout_seconds: u8,
}

/// Why an answer to discovery is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// It is not of the form.
    #[error("the answer to discovery cannot be read: {0}")]
    Unreadable(String),
    /// Paths are made of names.
    #[error("handler name {0:?} is not a DNS label")]
    Name(String),
    /// Two of one name.
    #[error("handler name {0:?} is there twice")]
    Twice(String),
    /// Seconds out of range.
    #[error("handler {name}: timeoutSeconds is {seconds}: at least 0 and at most 30 are accepted")]
    Timeout {
        /// The handler.
        name: String,
        /// What it asks for.
        seconds: i32,
    },
    /// An unknown policy.
    #[error("handler {name}: failurePolicy {policy:?} is neither Fail nor Ignore")]
    Policy {
        /// The handler.
        name: String,
        /// What it says.
        policy: String,
    },
    /// A hook that is not known.
    #[error("handler {name}: {group_version} {hook} is not a hook that is known here")]
    Hook {
        /// The handler.
        name: String,
        /// Its API.
        group_version: String,
        /// Its hook.
        hook: String,
    },
}

#[derive(Deserialize)]
struct Discovered {
    #[serde(default)]
    handlers: Vec<Discovery>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovery {
    name: String,
    request_hook: RequestHook,
    timeout_seconds: Option<i32>,
    failure_policy: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestHook {
    api_version: String,
    hook: String,
}

/// The handlers of an answer to discovery; `known` are the hooks that may be named. What a handler says of failures is checked and then not
/// heeded: a failure is never taken for a success here.
pub fn handlers(answer: &Value, known: &[(&str, &str)]) -> Result<Vec<Handler>, HandlerError> {
    let discovered =
        Discovered::deserialize(answer).map_err(|error| HandlerError::Unreadable(error.to_string()))?;
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    for one in discovered.handlers {
        let name = one.name;
        if dns_label(&name).is_err() {
            return Err(HandlerError::Name(name));
        }
        if !names.insert(name.clone()) {
            return Err(HandlerError::Twice(name));
        }
        let RequestHook { api_version, hook } = one.request_hook;
        if !known.contains(&(&api_version, &hook)) {
            return Err(HandlerError::Hook {
                name,
                group_version: api_version,
                hook,
            });
        }
        let seconds = one.timeout_seconds.unwrap_or_default();
        let timeout_seconds = match seconds {
            0 => u8::try_from(TIMEOUT),
            1..=MAX_TIMEOUT => u8::try_from(seconds),
            _ => return Err(HandlerError::Timeout { name, seconds }),
        };
        let policy = one.failure_policy.unwrap_or_else(|| "Fail".to_owned());
        if policy != "Fail" && policy != "Ignore" {
            return Err(HandlerError::Policy { name, policy });
        }
        all.push(Handler {
            name,
            group_version: api_version,
            hook,
            timeout_seconds: timeout_seconds.unwrap_or_default(),
        });
    }
    Ok(all)
}

/// The order in which updaters are asked, and in which they update: by their number, those of one number by name. It does not depend on the
/// order in which they are given.
pub fn in_order<T>(updaters: &mut [T], key: impl Fn(&T) -> (i32, &str)) {
    updaters.sort_by(|one, other| key(one).cmp(&key(other)));
}
