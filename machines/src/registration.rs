//! The registered updaters: the URLs of their hooks, and the order in which they are called.

use std::collections::BTreeSet;

use http::Uri;
use muster_api::validate::names::dns_label;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The API version of Cluster API's runtime hooks.
pub const GROUP_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
/// The discovery hook, which lists the others.
pub const DISCOVERY: &str = "discovery";

/// Maximum timeout of a handler, in seconds.
const MAX_TIMEOUT: i32 = 30;
/// Default timeout of a handler, in seconds.
const TIMEOUT: i32 = 10;

/// A hook for in-place updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Whether one Machine of a control plane can be updated in place.
    CanUpdateMachine,
    /// Whether the Machines of an old MachineSet can be updated in place.
    CanUpdateMachineSet,
    /// Updates a Machine, or reports the progress.
    UpdateMachine,
}

impl Hook {
    /// All hooks.
    pub const ALL: [Self; 3] = [
        Self::CanUpdateMachine,
        Self::CanUpdateMachineSet,
        Self::UpdateMachine,
    ];

    /// The name of the hook in requests and discovery.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CanUpdateMachine => "CanUpdateMachine",
            Self::CanUpdateMachineSet => "CanUpdateMachineSet",
            Self::UpdateMachine => "UpdateMachine",
        }
    }
}

/// The address of an updater, as in the `clientConfig` of an ExtensionConfig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConfig {
    /// `https://host[:port][/path]`.
    pub url: Option<String>,
    /// A Service, instead of `url`.
    pub service: Option<Service>,
    /// CA bundle that the server's certificate is verified with: PEM, base64-encoded.
    pub ca_bundle: Option<String>,
}

/// A Service of the management cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Service {
    /// The namespace of the Service.
    pub namespace: String,
    /// The name of the Service.
    pub name: String,
    /// Prefix of the path of a hook.
    pub path: Option<String>,
    /// The port; 443 if absent.
    pub port: Option<u16>,
}

/// Why an updater has no valid address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Neither `url` nor `service` is set.
    #[error("clientConfig has neither url nor service")]
    Missing,
    /// Both `url` and `service` are set.
    #[error("clientConfig has both url and service")]
    Both,
    /// The URL does not parse.
    #[error("clientConfig.url {0:?} is not a URL")]
    Invalid(String),
    /// The URL is not https.
    #[error("clientConfig.url {0:?} is not https")]
    NotHttps(String),
}

/// The path of a hook, or of one of its handlers.
pub fn path(group_version: &str, hook: &str, handler: Option<&str>) -> String {
    let handler = handler.map(|name| format!("/{}", name.to_ascii_lowercase()));
    format!(
        "/{group_version}/{}{}",
        hook.to_ascii_lowercase(),
        handler.unwrap_or_default()
    )
}

/// The URL of a hook of an updater.
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

/// A handler that an updater registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// Its name, a DNS label.
    pub name: String,
    /// The API version of the hook.
    pub group_version: String,
    /// The name of the hook.
    pub hook: String,
    /// The timeout of a call.
    pub timeout_seconds: u8,
}

/// Why a discovery response is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// It does not have the expected form.
    #[error("the answer to discovery cannot be read: {0}")]
    Unreadable(String),
    /// The name of a handler is not a DNS label, so it cannot be part of a path.
    #[error("handler name {0:?} is not a DNS label")]
    Name(String),
    /// Two handlers have the same name.
    #[error("handler name {0:?} occurs twice")]
    Twice(String),
    /// The timeout is out of range.
    #[error("handler {name}: timeoutSeconds is {seconds}: at least 0 and at most 30 are accepted")]
    Timeout {
        /// The name of the handler.
        name: String,
        /// The requested timeout, in seconds.
        seconds: i32,
    },
    /// An unknown failure policy.
    #[error("handler {name}: failurePolicy {policy:?} is neither Fail nor Ignore")]
    Policy {
        /// The name of the handler.
        name: String,
        /// The value of `failurePolicy`.
        policy: String,
    },
    /// An unknown hook.
    #[error("handler {name}: {group_version} {hook} is not a supported hook")]
    Hook {
        /// The name of the handler.
        name: String,
        /// The API version of the hook.
        group_version: String,
        /// The name of the hook.
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

/// The handlers of a discovery response; `known` lists the hooks that are supported. The failure policy is validated
/// but ignored: a failure is never treated as a success here.
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

/// The order in which updaters are called: by their number, and by name for equal numbers. It does not depend on the
/// order of the input.
pub fn in_order<T>(updaters: &mut [T], key: impl Fn(&T) -> (i32, &str)) {
    updaters.sort_by(|one, other| key(one).cmp(&key(other)));
}
