//! The right of the management cluster's account to write Secrets for git, and the admission policy that restricts it
//! to them: without the policy the account could create a token for any ServiceAccount of the namespace.

use muster_api::labels::{SYSTEM_NAMESPACE, label};
use muster_controllers::proxyassemblage::distribute::{KEYS, NOT_OURS, PREFIX};
use serde_json::{Value, json};

use super::{ACCOUNT, labels_of};

/// The Role, its binding, the policy and its binding.
const NAME: &str = "muster-management-distribute";
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// The policy first: the right must be restricted from the start.
pub(crate) fn objects() -> [Value; 4] {
    let metadata = json!({"name": NAME, "labels": labels_of("management")});
    let mut namespaced = metadata.clone();
    namespaced["namespace"] = json!(SYSTEM_NAMESPACE);
    let account = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{ACCOUNT}");
    [
        json!({
            "apiVersion": format!("{ADMISSION}/v1"), "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["*"], "resources": ["secrets"],
                    "operations": ["CREATE", "UPDATE", "DELETE"], "scope": "*",
                }]},
                "matchConditions": [{
                    "name": "management-cluster",
                    "expression": format!("request.userInfo.username == '{account}'"),
                }],
                "validations": validations(),
            },
        }),
        json!({
            "apiVersion": format!("{ADMISSION}/v1"), "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role",
            "metadata": namespaced,
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "patch", "delete"]}],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
            "metadata": namespaced,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE}],
        }),
    ]
}

fn validations() -> Value {
    let labelled = |object: &str| {
        format!(
            "has({object}.metadata.labels) && '{0}' in {object}.metadata.labels && {object}.metadata.labels['{0}'] == 'true'",
            label::DISTRIBUTED
        )
    };
    let keys = KEYS.map(|key| format!("'{key}'")).join(", ");
    let check = |expression: String, message: &str| json!({"expression": expression, "message": message, "reason": "Forbidden"});
    json!([
        check(
            format!(
                "request.namespace == '{SYSTEM_NAMESPACE}' && (request.operation == 'DELETE' ? oldObject : object).metadata.name.startsWith('{PREFIX}')"
            ),
            "the management cluster may write only Secrets named git-... to muster-system",
        ),
        check(
            format!("request.operation == 'CREATE' || ({})", labelled("oldObject")),
            NOT_OURS,
        ),
        check(
            format!(
                "request.operation == 'DELETE' || object.type == 'Opaque' && {}",
                labelled("object")
            ),
            "Secrets from the management cluster must be Opaque and have the label fleet.muster.dev/distributed",
        ),
        check(
            format!(
                "request.operation == 'DELETE' || !has(object.data) || object.data.all(key, key in [{keys}])"
            ),
            "Secrets from the management cluster may have only keys that git needs",
        ),
    ])
}
