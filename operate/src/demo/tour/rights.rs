//! Compares muster's requests to an API server with the rights of `muster install --export`.

use std::collections::BTreeSet;

use muster_apiserver::{ApiServer, record::RequestRecord};
use serde_json::Value;

use super::guide::CheckResult;

/// A request in the terms of an RBAC rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ask {
    verb: &'static str,
    group: String,
    resource: String,
    namespace: String,
}

/// Whether these rights allow all requests of a user. Requests that apply objects from git are excluded: those rights
/// are unlimited.
pub(crate) fn suffice(
    api: &ApiServer,
    user: &str,
    rights: &[Value],
    matters: impl Fn(&str) -> bool,
) -> CheckResult {
    if api.recorder().dropped().0 > 0 {
        return Err("the log of an API server is not complete".to_owned());
    }
    let requests = api.recorder().requests();
    let own = requests
        .iter()
        .filter(|request| request.client == user && !request.query.contains("fieldManager=muster-sync"));
    let requested: BTreeSet<Ask> = own
        .filter_map(|request| as_rbac_request(request))
        .filter(|request| matters(&request.group))
        .collect();
    let beyond: Vec<String> = requested
        .iter()
        .filter(|request| !rights.iter().any(|role| allows(role, request)))
        .map(|request| {
            format!(
                "{} {}.{} in {:?}",
                request.verb, request.resource, request.group, request.namespace
            )
        })
        .collect();
    match (requested.len(), &beyond[..]) {
        (0, _) => Err("no requests were sent".to_owned()),
        (number, []) => Ok(format!("{number} kinds of requests")),
        (_, beyond) => Err(beyond.join(", ")),
    }
}

/// A request in the terms of an RBAC rule; `None` for discovery, which is always allowed.
fn as_rbac_request(request: &RequestRecord) -> Option<Ask> {
    let verb = request.verb?.as_str();
    let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let (group, rest) = match &parts[..] {
        ["api", _version, rest @ ..] => ("", rest),
        ["apis", group, _version, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, resource, rest) = match rest {
        ["namespaces", namespace, resource, rest @ ..] => (*namespace, *resource, rest),
        [resource, rest @ ..] => ("", *resource, rest),
        [] => return None,
    };
    let resource = match rest {
        [_name, subresource, ..] => format!("{resource}/{subresource}"),
        _ => resource.to_owned(),
    };
    Some(Ask {
        verb,
        group: group.to_owned(),
        resource,
        namespace: namespace.to_owned(),
    })
}

/// Whether a Role (in its namespace) or a ClusterRole (everywhere) allows it.
fn allows(role: &Value, request: &Ask) -> bool {
    let reaches = match role["kind"].as_str() {
        Some("ClusterRole") => true,
        Some("Role") => role["metadata"]["namespace"] == *request.namespace,
        _ => false,
    };
    let has = |rule: &Value, field: &str, word: &str| {
        rule[field]
            .as_array()
            .is_some_and(|list| list.iter().any(|item| item == word))
    };
    reaches
        && role["rules"].as_array().into_iter().flatten().any(|rule| {
            has(rule, "apiGroups", &request.group)
                && has(rule, "resources", &request.resource)
                && has(rule, "verbs", request.verb)
        })
}
