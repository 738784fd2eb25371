//! A webhook as its configuration describes it.

use serde::Deserialize;
use serde_json::Value;

use crate::schema::Condition;

/// One webhook. The server has filled in the defaults of everything that may be absent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hook {
    pub name: String,
    pub client_config: ClientConfig,
    #[serde(default)]
    pub rules: Vec<Rule>,
    pub failure_policy: FailurePolicy,
    pub match_policy: MatchPolicy,
    pub namespace_selector: Value,
    pub object_selector: Value,
    /// In seconds.
    pub timeout_seconds: u64,
    pub admission_review_versions: Vec<String>,
    #[serde(default)]
    pub reinvocation_policy: ReinvocationPolicy,
    #[serde(default)]
    pub match_conditions: Vec<MatchCondition>,
}

/// What a call that fails means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum FailurePolicy {
    /// The request is refused.
    Fail,
    /// As if the webhook had allowed it.
    Ignore,
}

/// Which requests a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum MatchPolicy {
    /// Those to the very resource and version.
    Exact,
    /// Also those to another version of the resource.
    Equivalent,
}

/// Whether a webhook is asked again if another one changed the object after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum ReinvocationPolicy {
    /// It is not.
    #[default]
    Never,
    /// Once more.
    IfNeeded,
}

/// Where a webhook is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    pub url: Option<String>,
    pub service: Option<Service>,
    /// PEM, in base64.
    pub ca_bundle: Option<String>,
}

/// A service that answers for a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Service {
    pub namespace: String,
    pub name: String,
    pub path: Option<String>,
    pub port: u16,
}

/// Which requests are for the webhook. `*` in a list is everything.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    pub operations: Vec<String>,
    pub api_groups: Vec<String>,
    pub api_versions: Vec<String>,
    /// `pods`, `pods/status`, `*`, `*/scale`, `pods/*`, `*/*`.
    pub resources: Vec<String>,
    pub scope: String,
}

/// A condition on the request; all of a webhook have to hold.
#[derive(Debug, Deserialize)]
#[serde(try_from = "RawCondition")]
pub(crate) struct MatchCondition {
    pub text: String,
    pub condition: Condition,
}

#[derive(Deserialize)]
struct RawCondition {
    expression: String,
}

impl TryFrom<RawCondition> for MatchCondition {
    type Error = String;

    fn try_from(raw: RawCondition) -> Result<Self, String> {
        Ok(Self {
            condition: Condition::parse(&raw.expression)?,
            text: raw.expression,
        })
    }
}

impl Hook {
    /// The webhooks of a configuration. What cannot be read was refused when it was written.
    pub(crate) fn all_of(configuration: &Value) -> Vec<Self> {
        let all = configuration["webhooks"].as_array().into_iter().flatten();
        all.filter_map(|hook| match Self::deserialize(hook) {
            Ok(hook) => Some(hook),
            Err(error) => {
                tracing::warn!(%error, hook = %hook["name"], "a webhook cannot be read and is not asked");
                None
            }
        })
        .collect()
    }
}
