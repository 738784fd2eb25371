//! What muster asked of an API server, held against the rights that `muster install --export` gives.

use std::collections::BTreeSet;

use muster_apiserver::{ApiServer, record::RequestRecord};
use serde_json::Value;

use super::guide::Seen;

/// One request as a rule sees it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ask {
    verb: &'static str,
    group: String,
    resource: String,
    namespace: String,
}

/// Whether everything that a user asked was allowed by these rights. What is applied from git is apart: those rights are as wide as git.
pub(crate) fn suffice(api: &ApiServer, user: &str, rights: &[Value], matters: impl Fn(&str) -> bool) -> Seen {
    if api.recorder().dropped().0 > 0 {
        return Err("the log of an API server is not complete".to_owned());
    }
    let requests = api.recorder().requests();
    let own = requests
        .iter()
        .filter(|request| request.client == user && !request.query.contains("fieldManager=muster-sync"));
    let asked: BTreeSet<Ask> = own
        .filter_map(|request| ask(request))
        .filter(|ask| matters(&ask.group))
        .collect();
    let beyond: Vec<String> = asked
        .iter()
        .filter(|ask| !rights.iter().any(|role| allows(role, ask)))
        .map(|ask| {
            format!(
                "{} {}.{} in {:?}",
                ask.verb, ask.resource, ask.group, ask.namespace
            )
        })
        .collect();
    match (asked.len(), &beyond[..]) {
        (0, _) => Err("nothing was asked".to_owned()),
        (number, []) => Ok(format!("{number} kinds of requests")),
        (_, beyond) => Err(beyond.join(", ")),
    }
}

/// A request as a rule sees it; none for discovery, which everybody may.
fn ask(request: &RequestRecord) -> Option<Ask> {
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
fn allows(role: &Value, ask: &Ask) -> bool {
    let reaches = match role["kind"].as_str() {
        Some("ClusterRole") => true,
        Some("Role") => role["metadata"]["namespace"] == *ask.namespace,
        _ => false,
    };
    let has = |rule: &Value, field: &str, word: &str| {
        rule[field]
            .as_array()
            .is_some_and(|list| list.iter().any(|item| item == word))
    };
    reaches
        && role["rules"].as_array().into_iter().flatten().any(|rule| {
            has(rule, "apiGroups", &ask.group)
                && has(rule, "resources", &ask.resource)
                && has(rule, "verbs", ask.verb)
        })
}
