//! Checks whether a cluster is ready for an installation, by server-side dry runs; nothing is written.

use kube::Client;
use muster_controllers::runtime::{call::error_chain, call_within};
use muster_fleet as fleet;
use muster_fleet::apply::{self, DEADLINE, ObjectRef};
use muster_operate::install::{self, IMAGE, Sync};

use super::{
    code::Code,
    finding::{Finding, each},
    judge,
    world::CLUSTERS,
};

/// Checks a cluster that will become the management cluster.
pub(crate) async fn check_before_install(client: &Client, namespace: &str) -> anyhow::Result<Vec<Finding>> {
    use anyhow::Context as _;
    let version = call_within(
        DEADLINE,
        "asking the API server for its version",
        client.apiserver_version(),
    )
    .await;
    let version = version
        .context("the cluster gave an unexpected answer (choose another with --kubeconfig or --context)")?;
    let installation = install::management(IMAGE, Sync::Builtin, namespace, false);
    let mut findings = vec![judge::server_version(&version.git_version)];
    let mut others = Vec::new();
    let mut objects = Vec::new();
    let (mut checked, mut refused) = (0, Vec::new());
    for definition in &installation.definitions {
        let object = serde_json::to_value(definition)?;
        let name = ObjectRef::of(&object);
        match name.metadata(client).await {
            Ok(Some(there)) if is_flux(definition) && !is_ours(&there) => others.push(name.name),
            Ok(_) => objects.push(object),
            Err(error) => refused.push(Finding::unknown(
                Code::PreDefinitions,
                &name.to_string(),
                &error_chain(&error),
            )),
        }
    }
    objects.extend(installation.objects);
    for object in &objects {
        let name = ObjectRef::of(object);
        checked += 1;
        match apply::apply(client, object, true).await {
            Ok(_) => {}
            // Objects in a namespace that does not exist yet cannot be dry-run; a conflict with another manager means
            // that the object exists.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => refused.push(
                Finding::problem(Code::PreRights, format!("{name} would not be accepted"))
                    .reason(error_chain(&error))
                    .remedy("install with the rights of a cluster administrator"),
            ),
        }
    }
    findings.extend(each(
        Code::PreRights,
        || format!("all {checked} objects of an installation would be accepted"),
        refused,
    ));
    findings.push(if others.is_empty() {
        Finding::ok(
            Code::PreDefinitions,
            "no definitions of other owners are in conflict",
        )
    } else {
        Finding::warning(
            Code::PreDefinitions,
            format!("Flux's definitions are installed: {}", others.join(", ")),
        )
        .reason("only one of the two may apply in a cluster")
        .remedy("let Flux do it: muster install --export --management --crds --sync flux")
    });
    findings.push(match fleet::served(client).await {
        Ok(Some(version)) => Finding::ok(
            Code::PreCluster,
            format!("{CLUSTERS} is served as {}", version.as_str()),
        ),
        Ok(None) => Finding::warning(Code::PreCluster, "the kind Cluster is not served")
            .reason("without Cluster API, muster installs a minimal one")
            .remedy("muster install --export --management --crds --cluster-api"),
        Err(error) => Finding::unknown(Code::PreCluster, "the kind Cluster", &format!("{error:#}")),
    });
    Ok(findings)
}

fn is_flux(
    definition: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
) -> bool {
    definition.spec.group.ends_with(".fluxcd.io")
}

fn is_ours(there: &kube::core::ObjectMeta) -> bool {
    there.labels.as_ref().is_some_and(muster_api::crds::are_ours)
}

#[cfg(test)]
mod tests {
    use muster_api::crds;

    use super::*;

    #[test]
    fn flux_definitions_are_distinguished_from_ours() {
        let all = install::management(IMAGE, Sync::Builtin, "default", false).definitions;
        assert_eq!(
            all.iter().filter(|definition| is_flux(definition)).count(),
            crds::flux().len()
        );
    }
}
