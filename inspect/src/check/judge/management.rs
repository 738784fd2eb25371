//! Checks the API server and its definitions.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_api::{cluster::Version, crds};
use muster_fleet::definitions;

use super::super::{
    code::Code,
    finding::{Finding, each},
    world::{CLUSTER_GROUP, CLUSTERS, World},
};

/// The oldest minor version of Kubernetes 1 that muster's definitions need.
const OLDEST: u32 = 31;

/// From this minor version, a token that is bound to a pod has the name of its node as a claim.
const NODE_CLAIM: u32 = 32;

const APPLY: &str = "muster crds --management | kubectl apply --server-side --force-conflicts -f -";

pub(crate) fn judge(world: &World) -> Vec<Finding> {
    let mut findings = vec![server_version(&world.version)];
    let there = match &world.definitions {
        Ok(there) => there,
        Err(why) => {
            findings.push(Finding::unknown(Code::Definitions, "the definitions", why));
            return findings;
        }
    };
    findings.extend(installed(there));
    findings.extend(schemas(there));
    findings.push(flux(there));
    findings.push(cluster(there));
    findings.extend(conversion(there));
    findings
}

/// Whether an API server is new enough.
pub(crate) fn server_version(version: &str) -> Finding {
    match minor(version) {
        Some(minor) if minor >= OLDEST => Finding::ok(
            Code::ServerVersion,
            format!("Kubernetes {version} >= v1.{OLDEST}"),
        ),
        Some(_) => Finding::problem(Code::ServerVersion, format!("Kubernetes {version} < v1.{OLDEST}"))
            .reason("the validation rules in muster's definitions need a newer API server")
            .remedy("upgrade the cluster"),
        None => Finding::warning(
            Code::ServerVersion,
            format!("the API server reports version {version:?}"),
        )
        .reason("cannot tell whether it is new enough"),
    }
}

/// The minor version: 32 of `v1.32.1+k3s1`.
fn minor(version: &str) -> Option<u32> {
    let minor = version.trim_start_matches('v').split('.').nth(1)?;
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Whether the tokens of node agents name their node, in a cluster that has NodeModules.
pub(crate) fn node_agents(version: &str) -> Finding {
    match minor(version) {
        Some(minor) if minor >= NODE_CLAIM => Finding::ok(
            Code::DeepNodes,
            format!("tokens of node agents name their node (Kubernetes {version} >= v1.{NODE_CLAIM})"),
        ),
        Some(_) => Finding::problem(
            Code::DeepNodes,
            format!("tokens of node agents do not name their node: Kubernetes {version} < v1.{NODE_CLAIM}"),
        )
        .reason("each agent may write only about its own node, by the claim of its token: without the claim, about none")
        .remedy("upgrade the cluster before NodeModules are used there"),
        None => Finding::warning(
            Code::DeepNodes,
            format!("the API server reports version {version:?}"),
        )
        .reason(format!("tokens of node agents name their node from v1.{NODE_CLAIM} on")),
    }
}

fn name(definition: &CustomResourceDefinition) -> &str {
    definition.metadata.name.as_deref().unwrap_or_default() // a definition has one
}

fn installed(there: &BTreeMap<String, CustomResourceDefinition>) -> Vec<Finding> {
    let (wanted, total) = (crds::management(), crds::management().len());
    let missing = wanted.iter().map(name).filter(|name| !there.contains_key(*name));
    let missing: Vec<&str> = missing.collect();
    let problems = if missing.is_empty() {
        Vec::new()
    } else {
        vec![
            Finding::problem(
                Code::Definitions,
                format!("definitions are missing: {}", missing.join(", ")),
            )
            .reason("without them there are no modules")
            .remedy(APPLY),
        ]
    };
    each(
        Code::Definitions,
        || format!("{total} definitions are installed"),
        problems,
    )
}

fn schemas(there: &BTreeMap<String, CustomResourceDefinition>) -> Vec<Finding> {
    let all = definitions::all_definitions();
    let ours = all.iter().filter_map(|ours| Some((ours, there.get(name(ours))?)));
    // Flux's own definitions are not checked.
    let differing = ours.filter(|(ours, there)| crds::is_ours(there) && !definitions::same(ours, there));
    let differing: Vec<&str> = differing.map(|(ours, _)| name(ours)).collect();
    let problems = if differing.is_empty() {
        Vec::new()
    } else {
        vec![
            Finding::warning(
                Code::Schemas,
                format!(
                    "definitions are not those of this command: {}",
                    differing.join(", ")
                ),
            )
            .reason(format!(
                "this command is muster {}; fields that one of the two does not know are dropped",
                env!("CARGO_PKG_VERSION")
            ))
            .remedy(APPLY),
        ]
    };
    each(
        Code::Schemas,
        || format!("their schemas are those of muster {}", env!("CARGO_PKG_VERSION")),
        problems,
    )
}

fn flux(there: &BTreeMap<String, CustomResourceDefinition>) -> Finding {
    let wanted = crds::flux();
    let found: Vec<&CustomResourceDefinition> =
        wanted.iter().filter_map(|ours| there.get(name(ours))).collect();
    if found.len() < wanted.len() {
        return Finding::warning(
            Code::FluxKinds,
            "GitRepository or Kustomization is not served here",
        )
        .reason("BootstrapModules become such objects here, and wait until these kinds are served")
        .remedy(APPLY);
    }
    let whose = if found.iter().all(|definition| crds::is_ours(definition)) {
        "muster's"
    } else {
        "Flux's"
    };
    Finding::ok(
        Code::FluxKinds,
        format!("GitRepository and Kustomization are served, by {whose} definitions"),
    )
}

fn cluster(there: &BTreeMap<String, CustomResourceDefinition>) -> Finding {
    let Some(definition) = there.get(CLUSTERS) else {
        return Finding::problem(Code::ClusterKind, "the kind Cluster is not served")
            .reason(format!("clusters of the fleet are objects of {CLUSTER_GROUP}"))
            .remedy("muster crds --management --cluster-api | kubectl apply --server-side -f -, or install Cluster API");
    };
    let served = definition.spec.versions.iter().filter(|version| version.served);
    let served: Vec<&str> = served.map(|version| version.name.as_str()).collect();
    match Version::best(served.iter().copied()) {
        Some(version) => Finding::ok(
            Code::ClusterKind,
            format!("Cluster is served as {}", version.as_str()),
        ),
        None => Finding::problem(
            Code::ClusterKind,
            format!("Cluster is served as {} only", served.join(", ")),
        )
        .reason("muster reads v1beta2 and v1beta1")
        .remedy("upgrade Cluster API"),
    }
}

fn conversion(there: &BTreeMap<String, CustomResourceDefinition>) -> Vec<Finding> {
    let ours = there.values().filter(|definition| crds::is_ours(definition));
    let webhooks = ours.filter(|definition| {
        definition
            .spec
            .conversion
            .as_ref()
            .is_some_and(|conversion| conversion.strategy == "Webhook")
    });
    let problems = webhooks.map(|definition| {
        Finding::problem(
            Code::Conversion,
            format!("{} is converted by a webhook", name(definition)),
        )
        .reason("muster has none: if the webhook does not answer, no object of the kind can be read")
        .remedy(APPLY)
    });
    each(
        Code::Conversion,
        || "no definition is converted by a webhook".to_owned(),
        problems.collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::{super::super::finding::Level, *};

    #[test]
    fn node_agents_need_a_server_that_names_their_nodes() {
        for (version, level) in [
            ("v1.31.9", Level::Problem),
            ("v1.32.0", Level::Ok),
            ("v1.33+", Level::Ok),
            ("v1.32.1+k3s1", Level::Ok),
            ("unknown", Level::Warning),
            ("v1.x", Level::Warning),
        ] {
            assert_eq!(node_agents(version).level, level, "{version}");
        }
    }
}
