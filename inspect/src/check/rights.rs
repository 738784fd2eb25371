//! Checks the rights of the controller's account with an access review for each right of the installation.
//!
//! If reviews are not served or not allowed, the existing roles are compared with those of the installation.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    rbac::v1::PolicyRule,
};
use kube::{Client, api::PostParams};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call::error_chain, call_within};
use muster_fleet::apply::{DEADLINE, ObjectRef};
use muster_operate::install;
use serde_json::Value;

use super::Read;

/// How many reviews run concurrently.
const AT_ONCE: usize = 8;

/// A right that the account needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    /// Namespace; `None` for cluster-wide.
    pub namespace: Option<String>,
    /// API group, such as `apps`.
    pub group: String,
    /// Resource with its subresource: `modules/status`.
    pub resource: String,
    /// Verb, such as `get`.
    pub verb: String,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = if self.group.is_empty() {
            String::new()
        } else {
            format!(".{}", self.group)
        };
        write!(f, "{} {}{group}", self.verb, self.resource)?;
        self.namespace
            .as_ref()
            .map_or(Ok(()), |namespace| write!(f, " in {namespace}"))
    }
}

/// All rights of the installation's roles.
fn required_rights(objects: &[Value]) -> BTreeSet<Right> {
    objects.iter().flat_map(rights).collect()
}

/// The rights of a role; empty for other objects.
fn rights(object: &Value) -> Vec<Right> {
    let namespace = object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let rules: Vec<PolicyRule> = object
        .get("rules")
        .and_then(|rules| serde_json::from_value(rules.clone()).ok()) // muster's rules always parse
        .unwrap_or_default();
    let mut all = Vec::new();
    for rule in &rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                all.extend(rule.verbs.iter().map(|verb| Right {
                    namespace: namespace.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    all
}

/// The rights that the account lacks for a controller with these arguments.
pub(crate) async fn missing(
    client: &Client,
    namespace: &str,
    account: &str,
    arguments: &[&str],
) -> Read<BTreeSet<Right>> {
    let objects = install::rights_by_arguments(namespace, arguments);
    let wanted = required_rights(&objects);
    match reviewed(client, &wanted, account).await {
        Ok(missing) => Ok(missing),
        // Reviews are not served, or not allowed for this user.
        Err(error) if matches!(error.code(), Some(403..=405)) => granted(client, &objects, &wanted).await,
        Err(error) => Err(error_chain(&error)),
    }
}

async fn reviewed(
    client: &Client,
    wanted: &BTreeSet<Right>,
    account: &str,
) -> Result<BTreeSet<Right>, CallError> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let requests = stream::iter(wanted.iter().cloned()).map(|right| {
        let (reviews, review) = (reviews.clone(), review(&right, account));
        async move {
            let parameters = PostParams::default();
            let asking = reviews.create(&parameters, &review);
            let answer = call_within(DEADLINE, "asking what the controller may do", asking).await?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            Ok::<_, CallError>((!allowed).then_some(right))
        }
    });
    let answers: Vec<Option<Right>> = requests.buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(answers.into_iter().flatten().collect())
}

fn review(right: &Right, account: &str) -> SubjectAccessReview {
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (right.resource.as_str(), None),
    };
    let attributes = ResourceAttributes {
        namespace: right.namespace.clone(),
        group: Some(right.group.clone()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(right.verb.clone()),
        ..ResourceAttributes::default()
    };
    let namespace = account.split(':').nth(2).unwrap_or_default(); // system:serviceaccount:NAMESPACE:NAME
    let of_namespace = format!("system:serviceaccounts:{namespace}");
    let groups = [
        "system:serviceaccounts",
        of_namespace.as_str(),
        "system:authenticated",
    ];
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(account.to_owned()),
            groups: Some(groups.map(str::to_owned).to_vec()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// The rights that the existing, bound roles of the installation do not grant.
async fn granted(client: &Client, objects: &[Value], wanted: &BTreeSet<Right>) -> Read<BTreeSet<Right>> {
    let mut granted = Vec::new();
    for pair in objects.chunks(2) {
        // A role and its binding.
        let [role, binding] = pair else { continue };
        let (there, bound) = (read(client, role).await?, read(client, binding).await?);
        let is_bound = bound.is_some_and(|bound| {
            bound["roleRef"] == binding["roleRef"] && bound["subjects"] == binding["subjects"]
        });
        if let Some(there) = there.filter(|_| is_bound) {
            granted.extend(rights(&there));
        }
    }
    Ok(wanted
        .iter()
        .filter(|right| !granted.iter().any(|granted| covers(granted, right)))
        .cloned()
        .collect())
}

fn covers(granted: &Right, wanted: &Right) -> bool {
    let is = |granted: &str, wanted: &str| granted == "*" || granted == wanted;
    (granted.namespace.is_none() || granted.namespace == wanted.namespace)
        && is(&granted.group, &wanted.group)
        && is(&granted.resource, &wanted.resource)
        && is(&granted.verb, &wanted.verb)
}

async fn read(client: &Client, object: &Value) -> Read<Option<Value>> {
    let name = ObjectRef::of(object);
    let api = name.api(client);
    let read = call_within(DEADLINE, format!("reading {name}"), api.get_opt(&name.name)).await;
    let read = read.map_err(|error| error_chain(&error))?;
    // A response of an API server always parses as JSON.
    Ok(read.map(|object| serde_json::to_value(object).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_are_those_of_the_installation() {
        let all = required_rights(&install::rights_by_arguments("fleet", &[]));
        let has = |text: &str| all.iter().any(|right| right.to_string() == text);
        assert!(has("list secrets in fleet") && has("patch modules/status.fleet.muster.dev in fleet"));
        assert!(has("get namespaces") && !has("delete secrets in fleet"));
    }

    #[test]
    fn optional_controller_features_need_additional_rights() {
        let more = |arguments: &[&str]| {
            let (all, bare) = (
                install::rights_by_arguments("fleet", arguments),
                install::rights_by_arguments("fleet", &[]),
            );
            let more: Vec<String> = required_rights(&all)
                .difference(&required_rights(&bare))
                .map(ToString::to_string)
                .collect();
            more.join(", ")
        };
        assert_eq!(
            more(&["--notify-config=/n.yaml"]),
            "patch modulerevisions.fleet.muster.dev in fleet"
        );
        let upgrades = more(&["--upgrades"]);
        for right in [
            "patch clusters.cluster.x-k8s.io in fleet",
            "patch *.controlplane.cluster.x-k8s.io in fleet",
            "patch clusterupgrades/status.fleet.muster.dev in fleet",
        ] {
            assert!(upgrades.contains(right), "{right}: {upgrades}");
        }
        let reads = "list events.events.k8s.io in fleet, watch events.events.k8s.io in fleet, \
            list clusterupgrades.fleet.muster.dev in fleet, watch clusterupgrades.fleet.muster.dev in fleet, \
            list updateplans.fleet.muster.dev in fleet, watch updateplans.fleet.muster.dev in fleet, \
            list zonerollouts.fleet.muster.dev in fleet, watch zonerollouts.fleet.muster.dev in fleet";
        assert_eq!(more(&["--dashboard-addr=:8081", "--dashboard-auth=none"]), reads);
        assert_eq!(
            more(&["--dashboard-addr=:8081", "--dashboard-auth=token"]),
            format!(
                "create tokenreviews.authentication.k8s.io, create subjectaccessreviews.authorization.k8s.io, {reads}"
            )
        );
    }

    #[test]
    fn a_wider_right_covers() {
        let right = |namespace: Option<&str>, resource: &str, verb: &str| Right {
            namespace: namespace.map(str::to_owned),
            group: String::new(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
        };
        let wanted = right(Some("fleet"), "secrets", "list");
        assert!(covers(&right(Some("fleet"), "secrets", "list"), &wanted));
        assert!(covers(&right(None, "*", "*"), &wanted));
        assert!(!covers(&right(Some("other"), "secrets", "list"), &wanted));
        assert!(!covers(&right(Some("fleet"), "secrets", "get"), &wanted));
    }
}
