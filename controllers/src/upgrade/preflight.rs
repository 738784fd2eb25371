//! What would make an upgrade of a cluster hang, read in that cluster before anything of it is changed. The evaluation
//! is pure.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ServiceReference, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
};
use kube::{Client, ResourceExt, api::ListParams};
use muster_api::reasons::Reason;

use crate::runtime::{Api, CallError, call};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// The maximum number of objects named in a message.
const NAMED: usize = 3;
/// The label of an EndpointSlice with the name of its Service.
const OF_SERVICE: &str = "kubernetes.io/service-name";

/// The objects read in a cluster.
#[derive(Clone, Debug, Default)]
pub struct PreflightObjects {
    /// All PodDisruptionBudgets.
    pub budgets: Vec<PodDisruptionBudget>,
    /// All ValidatingWebhookConfigurations.
    pub validating: Vec<ValidatingWebhookConfiguration>,
    /// All MutatingWebhookConfigurations.
    pub mutating: Vec<MutatingWebhookConfiguration>,
    /// The EndpointSlices of all Services.
    pub endpoints: Vec<EndpointSlice>,
}

/// Why an upgrade would hang there: reason and message.
pub type Hindrance = (Reason, String);

/// Reads the objects in a cluster.
pub async fn read(client: &Client) -> Result<PreflightObjects, CallError> {
    Ok(PreflightObjects {
        budgets: list(client, "PodDisruptionBudgets").await?,
        validating: list(client, "ValidatingWebhookConfigurations").await?,
        mutating: list(client, "MutatingWebhookConfigurations").await?,
        endpoints: list(client, "EndpointSlices").await?,
    })
}

async fn list<K>(client: &Client, what: &str) -> Result<Vec<K>, CallError>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api = Api::<K>::all(client.clone());
    let mut page = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let list = call(format!("listing {what}"), api.list(&page)).await?;
        all.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// The first thing that would make an upgrade hang.
pub fn first_hindrance(found: &PreflightObjects) -> Option<Hindrance> {
    blocked(&found.budgets).or_else(|| unavailable(found))
}

/// A PodDisruptionBudget that covers pods and allows no disruption: a drain of their nodes would not finish.
fn blocked(budgets: &[PodDisruptionBudget]) -> Option<Hindrance> {
    let blocks = |budget: &&PodDisruptionBudget| {
        let status = budget.status.as_ref();
        status.is_some_and(|status| {
            status.disruptions_allowed.unwrap_or_default() <= 0
                && status.expected_pods.unwrap_or_default() > 0
        })
    };
    let names: Vec<String> = budgets
        .iter()
        .filter(blocks)
        .map(|budget| format!("{}/{}", budget.namespace().unwrap_or_default(), budget.name_any()))
        .collect();
    (!names.is_empty()).then(|| {
        let message = format!(
            "PodDisruptionBudget {} there allows no disruption: a node with its pods cannot be drained",
            few(&names)
        );
        (Reason::DisruptionsBlocked, message)
    })
}

/// Webhooks with `failurePolicy: Fail` that have no ready endpoint.
fn unavailable(found: &PreflightObjects) -> Option<Hindrance> {
    let ready: BTreeSet<(String, String)> = found
        .endpoints
        .iter()
        .filter(|slice| {
            let ready = |condition: Option<bool>| condition.unwrap_or(true); // unknown counts as ready, as the API has it
            let mut endpoints = slice.endpoints.iter().flatten();
            endpoints.any(|endpoint| ready(endpoint.conditions.as_ref().and_then(|of| of.ready)))
        })
        .filter_map(|slice| {
            let service = slice.labels().get(OF_SERVICE)?;
            Some((slice.namespace().unwrap_or_default(), service.clone()))
        })
        .collect();
    let validating = found.validating.iter().flat_map(|all| {
        let webhooks = all.webhooks.iter().flatten();
        webhooks.map(|hook| (&hook.name, hook.failure_policy.as_deref(), &hook.client_config))
    });
    let mutating = found.mutating.iter().flat_map(|all| {
        let webhooks = all.webhooks.iter().flatten();
        webhooks.map(|hook| (&hook.name, hook.failure_policy.as_deref(), &hook.client_config))
    });
    let dead: Vec<String> = validating
        .chain(mutating)
        .filter(|(_, policy, _)| policy.is_none_or(|policy| policy == "Fail"))
        .filter_map(|(name, _, config)| {
            let (namespace, service) = service(config)?;
            let is_dead = !ready.contains(&(namespace.clone(), service.clone()));
            is_dead.then(|| format!("{name} (Service {namespace}/{service})"))
        })
        .collect();
    (!dead.is_empty()).then(|| {
        let message = format!(
            "webhook {} there has no ready endpoint, and its failurePolicy is Fail: requests that it must answer are refused",
            few(&dead)
        );
        (Reason::WebhookUnavailable, message)
    })
}

fn service(config: &WebhookClientConfig) -> Option<(String, String)> {
    let ServiceReference { name, namespace, .. } = config.service.as_ref()?;
    Some((namespace.clone(), name.clone()))
}

fn few(names: &[String]) -> String {
    let shown = names.get(..NAMED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
