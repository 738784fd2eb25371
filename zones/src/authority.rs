//! Determines which webhook configurations get the CA bundle of the webhooks.

use std::collections::BTreeMap;

/// The label by which a configuration requests the CA bundle.
pub const INJECT_LABEL: &str = "grafana.com/inject-rollout-operator-ca";
/// The label with the namespace of the operator whose CA bundle is requested.
pub const NAMESPACE_LABEL: &str = "grafana.com/namespace";

/// The CA bundles that a webhook configuration must have; `None` if the configuration is not managed here or is already
/// up to date.
///
/// `bundles` are the decoded `caBundle` of each of its webhooks; an empty one counts as absent.
pub fn injected(
    labels: &BTreeMap<String, String>,
    namespace: &str,
    authority: &[u8],
    bundles: &[Vec<u8>],
) -> Option<Vec<Vec<u8>>> {
    let has_label = |label: &str, value: &str| labels.get(label).is_some_and(|found| found == value);
    let requested = has_label(INJECT_LABEL, "true") && has_label(NAMESPACE_LABEL, namespace);
    let stale = bundles.iter().any(|bundle| bundle != authority);
    (requested && stale).then(|| vec![authority.to_vec(); bundles.len()])
}
