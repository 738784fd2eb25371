//! Which webhook configurations get the certificate authority of the webhooks.

use std::collections::BTreeMap;

/// A configuration asks for the authority by this label.
pub const INJECT_LABEL: &str = "grafana.com/inject-rollout-operator-ca";
/// The namespace of the operator whose authority is asked for.
pub const NAMESPACE_LABEL: &str = "grafana.com/namespace";

/// The bundles of a webhook configuration as they have to be, or nothing where it is not ours or has them already.
///
/// `bundles` are the `caBundle` of each of its webhooks, decoded; an empty one is none.
pub fn injected(
    labels: &BTreeMap<String, String>,
    namespace: &str,
    authority: &[u8],
    bundles: &[Vec<u8>],
) -> Option<Vec<Vec<u8>>> {
    let says = |label: &str, value: &str| labels.get(label).is_some_and(|said| said == value);
    let asked = says(INJECT_LABEL, "true") && says(NAMESPACE_LABEL, namespace);
    let stale = bundles.iter().any(|bundle| bundle != authority);
    (asked && stale).then(|| vec![authority.to_vec(); bundles.len()])
}
