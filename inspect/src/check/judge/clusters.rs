//! Checks the clusters of the fleet: their kubeconfigs, and the controller's report about them.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use muster_api::{
    ProxyAssemblage, cluster::NotReady, conditions, labels::annotation, names::kubeconfig_secret,
};
use muster_controllers::registry::{ClusterRow, ClusterState};
use muster_fleet::text::{Age, counted};

use super::super::{
    code::Code,
    finding::{Finding, Level, each},
    world::{Kubeconfig, World},
};

/// How long before its expiry a credential is reported.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

pub(crate) fn judge(world: &World) -> Vec<Finding> {
    let live = match &world.live {
        Ok(live) => live,
        Err(why) => return vec![Finding::unknown(Code::Reachable, "modules and clusters", why)],
    };
    let rows = live.rows(&BTreeMap::new(), world.now);
    if rows.is_empty() {
        return vec![
            Finding::warning(
                Code::Reachable,
                format!("there is no cluster in namespace {}", world.namespace),
            )
            .remedy("muster enroll CONTEXT --name NAME -l KEY=VALUE, or by Cluster API"),
        ];
    }
    let mut findings = match &world.kubeconfigs {
        Ok(kubeconfigs) => ways(world, kubeconfigs, &rows),
        Err(why) => vec![Finding::unknown(
            Code::Kubeconfig,
            "Secrets with kubeconfigs",
            why,
        )],
    };
    findings.extend(states(&rows));
    findings.extend(agents(&live.proxies));
    findings.extend(match &world.identities {
        Ok(identities) => identity_findings(identities, &rows),
        Err(why) => vec![Finding::unknown(
            Code::Contact,
            "the identity records of the clusters",
            why,
        )],
    });
    findings
}

fn about(name: &str) -> String {
    format!("cluster/{name}")
}

fn not_ready(row: &ClusterRow) -> Option<(NotReady, &str)> {
    match &row.state {
        ClusterState::Ready => None,
        ClusterState::NotReady { reason, message } => Some((*reason, message)),
    }
}

fn ways(world: &World, kubeconfigs: &BTreeMap<String, Kubeconfig>, rows: &[Arc<ClusterRow>]) -> Vec<Finding> {
    let namespace = &world.namespace;
    let (mut absent, mut refused, mut ending, mut orphans) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let (name, secret) = (&row.name, kubeconfig_secret(&row.name));
        // A control plane that does not exist yet has no kubeconfig.
        let early = matches!(
            not_ready(row),
            Some((NotReady::ControlPlaneNotReady | NotReady::Deleting, _))
        );
        match kubeconfigs.get(name) {
            // A Secret that has neither Cluster API's type nor a label is read by its name: the row of the cluster says
            // whether it exists.
            None if matches!(not_ready(row), Some((NotReady::NoKubeconfig, _))) && !early => absent.push(
                Finding::problem(
                    Code::Kubeconfig,
                    format!("Secret {namespace}/{secret} does not exist"),
                )
                .about(about(name))
                .remedy(again(row)),
            ),
            Some(Kubeconfig { ends: Err(why), .. }) => refused.push(
                Finding::problem(
                    Code::KubeconfigAccepted,
                    format!("the kubeconfig in Secret {namespace}/{secret} is not accepted"),
                )
                .about(about(name))
                .reason(why)
                .remedy(again(row)),
            ),
            Some(Kubeconfig {
                ends: Ok(Some(end)), ..
            }) => ending.extend(ends(row, *end, world.now)),
            None | Some(Kubeconfig { ends: Ok(None), .. }) => {}
        }
    }
    let enrolled = kubeconfigs.iter().filter(|(_, kubeconfig)| kubeconfig.enrolled);
    for (name, _) in enrolled.filter(|(name, _)| !rows.iter().any(|row| row.name == **name)) {
        orphans.push(
            Finding::warning(
                Code::Orphan,
                format!("Secret {namespace}/{} has no Cluster", kubeconfig_secret(name)),
            )
            .about(about(name))
            .reason("it still contains a credential")
            .remedy(format!("muster unenroll {name} -n {namespace}")),
        );
    }
    let count = rows.len();
    let mut findings = each(
        Code::Kubeconfig,
        || {
            counted(
                count,
                "cluster has a Secret with a kubeconfig",
                "clusters have a Secret with a kubeconfig",
            )
        },
        absent,
    );
    findings.extend(each(
        Code::KubeconfigAccepted,
        || "the kubeconfigs are accepted".to_owned(),
        refused,
    ));
    findings.extend(each(
        Code::Expiry,
        || "no credential expires within a week".to_owned(),
        ending,
    ));
    findings.extend(each(
        Code::Orphan,
        || "no Secret is left of a cluster that is gone".to_owned(),
        orphans,
    ));
    findings
}

/// How to create the kubeconfig again.
fn again(row: &ClusterRow) -> String {
    if row.annotations.contains_key(annotation::ENROLLED) {
        format!("enroll it again: muster enroll CONTEXT --name {}", row.name)
    } else {
        format!(
            "what manages the cluster creates it: kubectl describe clusters.cluster.x-k8s.io {}",
            row.name
        )
    }
}

fn ends(row: &ClusterRow, end: Timestamp, now: Timestamp) -> Option<Finding> {
    let left = end.duration_since(now);
    let (level, text) = if left.is_negative() {
        (
            Level::Problem,
            format!("its credential expired {} ago", Age(end, now)),
        )
    } else if left < SOON {
        (
            Level::Warning,
            format!("its credential expires in {}", Age(now, end)),
        )
    } else {
        return None;
    };
    let finding = Finding::new(Code::Expiry, level, text).about(about(&row.name));
    Some(finding.reason(format!("at {end}")).remedy(again(row)))
}

fn states(rows: &[Arc<ClusterRow>]) -> Vec<Finding> {
    let of = |code: Code,
              level: Level,
              wanted: &[NotReady],
              remedy: &dyn Fn(&ClusterRow) -> String|
     -> Vec<Finding> {
        let rows = rows.iter().filter_map(|row| Some((row, not_ready(row)?)));
        let rows = rows.filter(|(_, (reason, _))| wanted.contains(reason));
        rows.map(|(row, (reason, message))| {
            Finding::new(code, level, reason.as_str())
                .about(about(&row.name))
                .reason(message)
                .remedy(remedy(row))
        })
        .collect()
    };
    let away = [
        NotReady::Unreachable,
        NotReady::CredentialsRejected,
        NotReady::KubeconfigRejected,
    ];
    let count = rows.len();
    let mut findings = each(
        Code::Reachable,
        || {
            format!(
                "no reachability problems on {}",
                counted(count, "cluster", "clusters")
            )
        },
        of(Code::Reachable, Level::Problem, &away, &|row| {
            format!("from this machine: muster check --cluster {}", row.name)
        }),
    );
    findings.extend(each(
        Code::Agent,
        || "all clusters have what an agent needs".to_owned(),
        of(Code::Agent, Level::Problem, &[NotReady::KindMissing], &|row| {
            format!(
                "muster install --export --downstream --crds | kubectl --context {} apply --server-side -f -",
                row.name
            )
        }),
    ));
    let closed = [
        NotReady::ClusterPaused,
        NotReady::ControlPlaneNotReady,
        NotReady::Deleting,
    ];
    findings.extend(each(
        Code::ClusterReady,
        || "no Cluster is paused, being deleted, or not ready yet".to_owned(),
        of(Code::ClusterReady, Level::Warning, &closed, &|row| {
            format!("kubectl describe clusters.cluster.x-k8s.io {}", row.name)
        }),
    ));
    findings
}

fn agents(proxies: &[ProxyAssemblage]) -> Vec<Finding> {
    let older = proxies.iter().filter_map(|proxy| {
        let conditions = &proxy.status.as_ref()?.conditions;
        let condition = conditions::find(conditions, conditions::AGENT_OUTDATED)?;
        let cluster = proxy.name_any();
        let finding = Finding::warning(Code::AgentVersion, "its agent is older than the controller");
        Some(
            finding
                .about(about(&cluster))
                .reason(&condition.message)
                .remedy(format!(
                    "muster install --export --downstream --crds | kubectl --context {cluster} apply --server-side -f -"
                )),
        )
    });
    each(
        Code::AgentVersion,
        || "no agent is older than the controller".to_owned(),
        older.collect(),
    )
}

fn identity_findings(identities: &BTreeMap<String, String>, rows: &[Arc<ClusterRow>]) -> Vec<Finding> {
    // A cluster that cannot be reached for a reported reason has no record either.
    let never = rows
        .iter()
        .filter(|row| !identities.contains_key(&row.uid) && not_ready(row).is_none());
    let never: Vec<Finding> = never
        .map(|row| {
            Finding::warning(Code::Contact, "the controller has not recorded that it reached the cluster")
                .about(about(&row.name))
                .reason("it was never reached, or its credential may not read namespace kube-system")
                .remedy(format!("kubectl get events --field-selector involvedObject.name={}; from this machine: muster check --cluster {}", row.name, row.name))
        })
        .collect();
    let mut by_identity: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        if let Some(identity) = identities.get(&row.uid) {
            by_identity.entry(identity).or_default().push(&row.name);
        }
    }
    let twice = by_identity.iter().filter(|(_, names)| names.len() > 1);
    let twice: Vec<Finding> = twice
        .map(|(identity, names)| {
            Finding::problem(
                Code::Identity,
                format!("{} refer to the same cluster", names.join(" and ")),
            )
            .reason(format!("the uid of its kube-system is {identity}"))
            .remedy("remove one: muster unenroll NAME")
        })
        .collect();
    let mut findings = each(
        Code::Contact,
        || "the controller has recorded every cluster that it can reach".to_owned(),
        never,
    );
    findings.extend(each(
        Code::Identity,
        || "no two Clusters refer to the same cluster".to_owned(),
        twice,
    ));
    findings
}
