//! Checks one cluster from this machine, with the kubeconfig that the controller uses. Only reads.

use k8s_openapi::{
    api::{
        authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
        core::v1::{ConfigMap, Namespace, Secret},
    },
    apimachinery::pkg::apis::meta::v1::APIResourceList,
};
use kube::{
    Client, ResourceExt,
    api::{ListParams, PostParams},
};
use muster_api::{
    Assemblage,
    conditions::{READY, find},
    features, kind,
    labels::{KUBECONFIG_KEY, SYSTEM_NAMESPACE},
    names,
    names::kubeconfig_secret,
};
use muster_controllers::runtime::Api;
use muster_controllers::{
    registry::{connect_over_network, kubeconfig},
    runtime::{CallError, call::error_chain, call_within},
};
use muster_fleet::{ObjectAddress, apply::DEADLINE};

use super::{code::Code, finding::Finding, flux, judge};

/// The verbs that the account needs for assignments.
const VERBS: [&str; 4] = ["list", "watch", "create", "update"];

/// Checks a cluster. An error is about the management cluster.
pub(crate) async fn check_cluster(
    client: &Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Vec<Finding>> {
    let cluster = ObjectAddress::of_cluster(client, namespace, name)
        .await?
        .get()
        .await?;
    let secret = kubeconfig_secret(name);
    let unknown = |why: &str| {
        vec![Finding::unknown(
            Code::DeepAnswers,
            &format!("cluster {name}"),
            why,
        )]
    };
    let text = match text_of(client, namespace, &secret).await {
        Ok(text) => text,
        Err(why) => return Ok(unknown(&why)),
    };
    let access = match kubeconfig::parse_kubeconfig(&text) {
        Ok(access) => access,
        Err(error) => return Ok(vec![rejected(namespace, &secret, name, &error_chain(&error))]),
    };
    let there = match connect_over_network(&access) {
        Ok(there) => there,
        Err(error) => return Ok(vec![rejected(namespace, &secret, name, &error_chain(&error))]),
    };
    let version = match call_within(DEADLINE, "asking for its version", there.apiserver_version()).await {
        Ok(version) => version.git_version,
        Err(error) => return Ok(vec![silent(&access.server, &error)]),
    };
    let mut findings = vec![Finding::ok(
        Code::DeepAnswers,
        format!(
            "{name} answers at {} ({version}), from this machine",
            access.server
        ),
    )];
    let uid = cluster.uid().unwrap_or_default(); // an object from the API server has one
    findings.push(identity(client, &there, namespace, name, &uid).await);
    findings.extend(kinds(&there, name, &version).await);
    findings.push(rights(&there).await);
    findings.push(assemblage(&there, name).await);
    findings.extend(remote_bases(&there).await);
    Ok(findings)
}

/// The kubeconfig in a Secret, or why it cannot be read.
async fn text_of(client: &Client, namespace: &str, secret: &str) -> Result<Vec<u8>, String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let read = call_within(
        DEADLINE,
        format!("reading Secret {namespace}/{secret}"),
        secrets.get_opt(secret),
    )
    .await;
    let secret = match read {
        Ok(found) => found.ok_or_else(|| format!("Secret {namespace}/{secret} does not exist"))?,
        Err(error) => return Err(error_chain(&error)),
    };
    let text = secret.data.unwrap_or_default().remove(KUBECONFIG_KEY);
    Ok(text.unwrap_or_default().0)
}

/// A client for a cluster with the kubeconfig that the controller uses, or why there is none.
pub(crate) async fn reach(client: &Client, namespace: &str, cluster: &str) -> Result<Client, String> {
    let text = text_of(client, namespace, &kubeconfig_secret(cluster)).await?;
    let access = kubeconfig::parse_kubeconfig(&text).map_err(|error| error_chain(&error))?;
    connect_over_network(&access).map_err(|error| error_chain(&error))
}

/// Not used, as in the controller.
fn rejected(namespace: &str, secret: &str, cluster: &str, why: &str) -> Finding {
    let text = format!("the kubeconfig in Secret {namespace}/{secret} is not accepted");
    Finding::problem(Code::DeepAnswers, text)
        .reason(why)
        .remedy(format!(
            "correct the Secret, or enroll the cluster again: muster enroll CONTEXT --name {cluster}"
        ))
}

fn silent(server: &str, error: &CallError) -> Finding {
    let why = error_chain(error);
    match error.code() {
        Some(401 | 403) => Finding::problem(
            Code::DeepAnswers,
            format!("{server} refuses the credential in the Secret"),
        )
        .reason(why)
        .remedy("enroll it again: muster enroll CONTEXT --name NAME"),
        _ => Finding::problem(
            Code::DeepAnswers,
            format!("{server} does not answer from this machine"),
        )
        .reason(why)
        .remedy("the controller connects from where it runs: muster check shows its result"),
    }
}

async fn identity(client: &Client, there: &Client, namespace: &str, name: &str, uid: &str) -> Finding {
    let record = names::cluster_identity(namespace, name, uid);
    let records: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let known = call_within(
        DEADLINE,
        format!("reading ConfigMap {record}"),
        records.get_opt(&record),
    )
    .await;
    let known = match known {
        Ok(known) => known.and_then(|record| record.data?.remove("kubeSystemUid")),
        Err(error) => {
            return Finding::unknown(
                Code::DeepIdentity,
                "the record of its identity",
                &error_chain(&error),
            );
        }
    };
    let namespaces: Api<Namespace> = Api::all(there.clone());
    let reading = namespaces.get_metadata_opt("kube-system");
    let actual = match call_within(DEADLINE, "reading namespace kube-system", reading).await {
        Ok(kube_system) => kube_system.and_then(|kube_system| kube_system.metadata.uid),
        Err(error) => {
            return Finding::unknown(
                Code::DeepIdentity,
                "its namespace kube-system",
                &error_chain(&error),
            );
        }
    };
    match (known, actual) {
        (Some(known), Some(actual)) if known == actual => Finding::ok(Code::DeepIdentity, "it is the cluster that the controller recorded"),
        (Some(known), Some(actual)) => Finding::problem(Code::DeepIdentity, "it is not the cluster that the controller recorded")
            .reason(format!("the uid of its kube-system is {actual}, and was {known}: nothing is written to it"))
            .remedy(format!("if that is intended: kubectl annotate clusters.cluster.x-k8s.io/{name} --overwrite --field-manager=muster-cli fleet.muster.dev/accept-identity={actual}")),
        (None, _) | (_, None) => Finding::warning(Code::DeepIdentity, "the controller has not recorded the identity of the cluster")
            .reason("it never reached the cluster, or its credential may not read namespace kube-system"),
    }
}

async fn kinds(there: &Client, name: &str, version: &str) -> Vec<Finding> {
    let install = format!(
        "muster install --export --downstream --crds | kubectl --context {name} apply --server-side -f -"
    );
    let namespaces: Api<Namespace> = Api::all(there.clone());
    let what = format!("reading namespace {SYSTEM_NAMESPACE}");
    match call_within(DEADLINE, what, namespaces.get_metadata_opt(SYSTEM_NAMESPACE)).await {
        Ok(Some(_)) => {}
        Ok(None) => {
            let missing = format!("namespace {SYSTEM_NAMESPACE} does not exist");
            return vec![Finding::problem(Code::DeepKind, missing).remedy(install)];
        }
        Err(error) => {
            let namespace = format!("namespace {SYSTEM_NAMESPACE}");
            return vec![Finding::unknown(Code::DeepKind, &namespace, &error_chain(&error))];
        }
    }
    let path = format!("/apis/{}", kind::API_VERSION);
    let discover = async {
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        there.request::<APIResourceList>(request).await
    };
    let served = match call_within(DEADLINE, "discovering the kinds of muster", discover).await {
        Ok(list) => list.resources,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => {
            return vec![Finding::unknown(
                Code::DeepKind,
                "the kinds of muster",
                &error_chain(&error),
            )];
        }
    };
    let is_served = |plural: &str| served.iter().any(|resource| resource.name == plural);
    let mut findings = vec![if is_served("assemblages") {
        Finding::ok(Code::DeepKind, "kind Assemblage and its namespace exist")
    } else {
        Finding::problem(Code::DeepKind, "kind Assemblage is not served there")
            .reason("Modules skip the cluster: KindMissing")
            .remedy(install)
    }];
    if is_served("nodemodules") {
        findings.push(judge::node_agents(version));
    }
    findings
}

async fn rights(there: &Client) -> Finding {
    let mut lacking = Vec::new();
    for verb in VERBS {
        let right = ResourceAttributes {
            namespace: Some(SYSTEM_NAMESPACE.to_owned()),
            group: Some(kind::GROUP.to_owned()),
            resource: Some("assemblages".to_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        match is_allowed(there, right).await {
            Ok(true) => {}
            Ok(false) => lacking.push(verb),
            // Without access reviews: the list request of the controller proves most of it.
            Err(error) if matches!(error.code(), Some(404 | 405)) => return listed(there).await,
            Err(error) => {
                return Finding::unknown(
                    Code::DeepRights,
                    "the rights of the account",
                    &error_chain(&error),
                );
            }
        }
    }
    may(&lacking.join(", "))
}

/// Whether the account in the kubeconfig may do this.
async fn is_allowed(there: &Client, right: ResourceAttributes) -> Result<bool, CallError> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(there.clone());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(right),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let parameters = PostParams::default();
    let asking = reviews.create(&parameters, &review);
    let answer = call_within(DEADLINE, "asking what the account may do", asking).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn listed(there: &Client) -> Finding {
    let assemblages: Api<Assemblage> = Api::namespaced(there.clone(), SYSTEM_NAMESPACE);
    let one = ListParams::default().limit(1);
    match call_within(DEADLINE, "listing assemblages", assemblages.list(&one)).await {
        Ok(_) => may(""),
        Err(error) if error.code() == Some(403) => may("list"),
        Err(error) => Finding::unknown(
            Code::DeepRights,
            "the rights of the account",
            &error_chain(&error),
        ),
    }
}

fn may(lacking: &str) -> Finding {
    if lacking.is_empty() {
        return Finding::ok(Code::DeepRights, "the account may mirror assignments");
    }
    Finding::problem(
        Code::DeepRights,
        format!("the account may not {lacking} assemblages in {SYSTEM_NAMESPACE}"),
    )
    .reason("nothing can be assigned to the cluster")
    .remedy(
        "enroll it again: muster enroll CONTEXT --name NAME; or apply examples/enrol/enrol-account.yaml there",
    )
}

async fn assemblage(there: &Client, name: &str) -> Finding {
    let assemblages: Api<Assemblage> = Api::namespaced(there.clone(), SYSTEM_NAMESPACE);
    let listed = call_within(
        DEADLINE,
        "listing assemblages",
        assemblages.list(&ListParams::default().limit(100)),
    )
    .await;
    let all = match listed {
        Ok(list) => list.items,
        Err(error) => return Finding::unknown(Code::DeepAssemblage, "the assignments", &error_chain(&error)),
    };
    let log = "there: kubectl logs -n muster-system deployment/muster-agent";
    for one in &all {
        let status = one.status.as_ref();
        if status.and_then(|status| status.observed_generation) != one.metadata.generation {
            return Finding::problem(Code::DeepAssemblage, "the agent has not observed the assignments")
                .about(format!("assemblage/{}", one.name_any()))
                .reason("is the agent running?")
                .remedy(log);
        }
        let ready = status.and_then(|status| find(&status.conditions, READY));
        if let Some(ready) = ready.filter(|ready| ready.status == "False") {
            return Finding::warning(
                Code::DeepAssemblage,
                format!("assignments are not ready: {}", ready.reason),
            )
            .about(format!("assemblage/{}", one.name_any()))
            .reason(&ready.message)
            .remedy(format!("muster tree cluster/{name}"));
        }
    }
    match all.len() {
        0 => Finding::ok(Code::DeepAssemblage, "nothing is assigned to it"),
        _ => Finding::ok(Code::DeepAssemblage, "the agent has observed the assignments"),
    }
}

/// Whether Flux does not read beyond pinned sources, if the agent reports that Flux applies.
async fn remote_bases(there: &Client) -> Vec<Finding> {
    let assemblages: Api<Assemblage> = Api::namespaced(there.clone(), SYSTEM_NAMESPACE);
    let one = ListParams::default().limit(1);
    let listed = call_within(DEADLINE, "listing assemblages", assemblages.list(&one)).await;
    let agent = |assemblage: &Assemblage| assemblage.status.as_ref()?.agent.clone();
    // A failure to list assemblages is a finding of its own.
    let by_flux = listed.is_ok_and(|list| {
        list.items
            .iter()
            .filter_map(agent)
            .any(|agent| agent.sync == features::FLUX)
    });
    if !by_flux {
        return Vec::new();
    }
    let list = ResourceAttributes {
        group: Some("apps".to_owned()),
        resource: Some("deployments".to_owned()),
        verb: Some("list".to_owned()),
        ..ResourceAttributes::default()
    };
    // Reviewed first: most accounts may not, and the API server's log should not have a denied request.
    if matches!(is_allowed(there, list).await, Ok(false)) {
        return Vec::new();
    }
    match flux::read(there).await {
        Ok(flux) => flux
            .iter()
            .map(|flux| flux::judge_deployment(Code::DeepRemoteBases, flux))
            .collect(),
        Err(error) => vec![Finding::unknown(
            Code::DeepRemoteBases,
            "how Flux runs there",
            &error_chain(&error),
        )],
    }
}
