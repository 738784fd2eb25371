//! The prerequisites of `muster zones`: the error names what is missing, and what to do.

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    core::v1::Pod,
};
use kube::{
    Client, ResourceExt,
    api::{ListParams, PostParams},
};
use muster_api::{ZoneRollout, rollout_operator::ZoneAwarePodDisruptionBudget};
use muster_zones::flags::{Certificate, Settings};
use thiserror::Error;

use crate::runtime::{Api, CallError, call};

/// Why `muster zones` does not start.
#[derive(Debug, Error)]
pub enum PreflightError {
    /// A CRD is missing.
    #[error(
        "the CustomResourceDefinition {0} is missing: muster install --export --zones --crds | kubectl apply --server-side -f -"
    )]
    Definition(&'static str),
    /// Permissions are missing.
    #[error(
        "the ServiceAccount is not allowed to {}: add it to the Role of rollout-operator (docs/zones.md), or use the one of muster install --export --zones",
        .0.join("; ")
    )]
    Rights(Vec<String>),
    /// rollout-operator is running: it takes no lease, so both would act.
    #[error(
        "pod {0} runs rollout-operator, which takes no lease: scale it to 0 first: kubectl -n {1} scale deployment rollout-operator --replicas=0"
    )]
    Original(String, String),
    /// A prerequisite could not be checked.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A permission that is needed in the namespace.
struct Right<'a> {
    group: &'a str,
    resource: &'a str,
    sub: &'a str,
    /// The name of the object; empty: all objects.
    name: &'a str,
    verbs: &'a [&'a str],
}

const fn right<'a>(group: &'a str, resource: &'a str, sub: &'a str, verbs: &'a [&'a str]) -> Right<'a> {
    Right {
        group,
        resource,
        sub,
        name: "",
        verbs,
    }
}

/// The permissions that these flags need.
fn rights(settings: &Settings) -> Vec<Right<'_>> {
    let mut rights = vec![
        right("apps", "statefulsets", "", &["get", "list", "watch", "patch"]),
        right("apps", "statefulsets", "status", &["patch"]),
        right("", "pods", "", &["get", "list", "watch", "delete", "patch"]),
        right(
            "fleet.muster.dev",
            "zonerollouts",
            "",
            &["get", "list", "watch", "create", "delete"],
        ),
        right("fleet.muster.dev", "zonerollouts", "status", &["update", "patch"]),
        right(
            "rollout-operator.grafana.com",
            "zoneawarepoddisruptionbudgets",
            "",
            &["list", "watch"],
        ),
        right("coordination.k8s.io", "leases", "", &["get", "create", "update"]),
        right("events.k8s.io", "events", "", &["create"]),
    ];
    let named = |name, resource, verbs| Right {
        name,
        ..right("", resource, "", verbs)
    };
    if let Certificate::SelfSigned { secret, .. } = &settings.certificate {
        rights.push(right("", "secrets", "", &["create"]));
        rights.push(named(secret, "secrets", &["get", "update"]));
    }
    let tracker = &settings.zone_tracker;
    rights.push(named(tracker, "configmaps", &["get"]));
    if settings.use_zone_tracker {
        rights.push(right("", "configmaps", "", &["create"]));
        rights.push(named(tracker, "configmaps", &["update"]));
    }
    rights
}

/// Checks everything, CRDs first.
pub async fn check(client: &Client, settings: &Settings) -> Result<(), PreflightError> {
    let namespace = &settings.namespace;
    let one = ListParams::default().limit(1);
    let rollouts: Api<ZoneRollout> = Api::namespaced(client.clone(), namespace);
    is_defined(
        call("listing ZoneRollouts", rollouts.list_metadata(&one)).await,
        "zonerollouts.fleet.muster.dev",
    )?;
    let budgets: Api<ZoneAwarePodDisruptionBudget> = Api::namespaced(client.clone(), namespace);
    is_defined(
        call(
            "listing ZoneAwarePodDisruptionBudgets",
            budgets.list_metadata(&one),
        )
        .await,
        "zoneawarepoddisruptionbudgets.rollout-operator.grafana.com",
    )?;
    let lacking = lacking(client, settings).await?;
    if !lacking.is_empty() {
        return Err(PreflightError::Rights(lacking));
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = call("listing pods", pods.list(&ListParams::default())).await?;
    match pods.items.iter().find(|pod| runs_the_original(pod)) {
        Some(pod) => Err(PreflightError::Original(pod.name_any(), namespace.clone())),
        None => Ok(()),
    }
}

/// Checks that a CRD exists; a missing permission to read it is reported with the other permissions.
fn is_defined<T>(listed: Result<T, CallError>, name: &'static str) -> Result<(), PreflightError> {
    match listed {
        Err(error) if error.is_not_found() => Err(PreflightError::Definition(name)),
        Err(error) if !error.is_refused_credential() => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The missing permissions, as text. If the API server gives no answer, none counts as missing.
async fn lacking(client: &Client, settings: &Settings) -> Result<Vec<String>, CallError> {
    let mut lacking = Vec::new();
    for Right {
        group,
        resource,
        sub,
        name,
        verbs,
    } in rights(settings)
    {
        for verb in verbs {
            let attributes = ResourceAttributes {
                namespace: Some(settings.namespace.clone()),
                verb: Some((*verb).to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: Some(sub.to_owned()),
                name: Some(name.to_owned()),
                ..ResourceAttributes::default()
            };
            match may(client, attributes).await {
                Ok(true) => {}
                Ok(false) if sub.is_empty() => lacking.push(format!("{verb} {resource}")),
                Ok(false) => lacking.push(format!("{verb} {resource}/{sub}")),
                Err(error) if error.is_not_found() => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(lacking)
}

async fn may(client: &Client, attributes: ResourceAttributes) -> Result<bool, CallError> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = call(
        "checking permissions",
        api.create(&PostParams::default(), &review),
    )
    .await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Detected by the image: users choose names and labels.
fn runs_the_original(pod: &Pod) -> bool {
    let is_running = pod
        .status
        .as_ref()
        .is_some_and(|status| status.phase.as_deref() == Some("Running"))
        && pod.metadata.deletion_timestamp.is_none();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut images = containers.filter_map(|container| container.image.as_deref());
    is_running
        && images.any(|image| {
            let name = image.split(['@', ':']).next().unwrap_or_default();
            name.rsplit('/').next() == Some("rollout-operator")
        })
}
