//! A webhook, as configured.

use serde::Deserialize;
use serde_json::Value;

use crate::schema::Condition;

/// One webhook. The server has applied the defaults of all optional fields.
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
    /// Timeout in seconds.
    pub timeout_seconds: u64,
    pub admission_review_versions: Vec<String>,
    #[serde(default)]
    pub reinvocation_policy: ReinvocationPolicy,
    #[serde(default)]
    pub match_conditions: Vec<MatchCondition>,
}

/// What happens after a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum FailurePolicy {
    /// The request is denied.
    Fail,
    /// The request is allowed.
    Ignore,
}

/// Which requests a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum MatchPolicy {
    /// Requests for exactly this resource and version.
    Exact,
    /// Also requests for another version of the resource.
    Equivalent,
}

/// Whether a webhook is called again if another one changed the object after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum ReinvocationPolicy {
    /// Never called again.
    #[default]
    Never,
    /// Called again.
    IfNeeded,
}

/// How to reach a webhook.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    pub url: Option<String>,
    pub service: Option<Service>,
    /// CA certificates, PEM in base64.
    pub ca_bundle: Option<String>,
}

/// The Service of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Service {
    pub namespace: String,
    pub name: String,
    pub path: Option<String>,
    pub port: u16,
}

/// Which requests match. `*` in a list matches everything.
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

/// A condition on the request; all conditions of a webhook must be true.
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
    /// The webhooks of a configuration. Invalid ones were rejected when the configuration was written.
    pub(crate) fn all_of(configuration: &Value) -> Vec<Self> {
        let all = configuration["webhooks"].as_array().into_iter().flatten();
        all.filter_map(|hook| match Self::deserialize(hook) {
            Ok(hook) => Some(hook),
            Err(error) => {
                tracing::warn!(%error, hook = %hook["name"], "a webhook cannot be parsed and is skipped");
                None
            }
        })
        .collect()
    }
}
