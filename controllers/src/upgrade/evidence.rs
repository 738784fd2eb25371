//! Whether a Cluster has reached a version, and what it waits for if not. Pure.

use muster_api::cluster_upgrade::UpgradePart;
use muster_rollout::{Progress, State};

use super::{
    capi::{CONTROL_PLANE, Carrier, ClusterFacts, Fact, TOPOLOGY},
    version::Version,
};

/// What was read of a Cluster and its objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The Cluster itself, read after the objects below, so that it is not older than they are.
    pub cluster: ClusterFacts,
    /// The objects with a version field, in the order in which they are changed.
    pub carriers: Vec<Carrier>,
    /// The control plane and workers of a Cluster with a topology, whose fields Cluster API owns; read once the
    /// topology has the target.
    pub parts: Vec<Carrier>,
    /// Whether the ClusterClass plans several minor versions in sequence.
    pub is_chained: bool,
    /// The version that its own API server reports.
    pub served: Served,
}

/// The version that an API server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// It was not asked, as nothing was changed there yet.
    NotAsked,
    /// It reports this version.
    Version(Version),
    /// It does not serve /version.
    Nothing,
    /// It could not be asked; the error.
    Unknown(String),
}

impl Reading {
    /// The oldest desired version of the objects; `None` if one of them has none.
    pub fn oldest(&self) -> Option<Version> {
        let all: Option<Vec<Version>> = self.carriers.iter().map(|carrier| carrier.wanted).collect();
        all?.into_iter().min()
    }

    /// The carriers to change now. Later ones wait until earlier ones are done, and those that another manager applies
    /// are left alone.
    pub fn to_write(&self, target: Version) -> Vec<&Carrier> {
        let behind = |carrier: &&Carrier| {
            carrier.applied_by.is_none() && carrier.wanted.is_some_and(|wanted| wanted < target)
        };
        let first = self
            .carriers
            .iter()
            .filter(|carrier| carrier.path == CONTROL_PLANE);
        if let Some(control_plane) = first.clone().next()
            && unfinished(control_plane, target).is_some()
        {
            return first.filter(behind).collect();
        }
        self.carriers.iter().filter(behind).collect()
    }

    /// Whether the first write of a change was made: the later ones follow from it.
    pub fn has_begun(&self, target: Version) -> bool {
        self.carriers
            .first()
            .is_some_and(|first| first.wanted.is_some_and(|wanted| wanted >= target))
    }
}

/// The state of a Cluster at a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionState {
    /// The state in the engine's form.
    pub state: State,
    /// What it waits for; empty if it is confirmed.
    pub message: String,
}

/// The state of a Cluster that should have this version; `None` if Cluster API has not observed it yet.
pub fn version_state(reading: &Reading, what: &[UpgradePart], target: Version) -> Option<VersionState> {
    let cluster = &reading.cluster;
    let observed = cluster.is_observed && reading.carriers.first().is_none_or(|first| first.is_observed);
    if !observed {
        return None;
    }
    let done = completed_steps(reading, target);
    let standing = match waits_for(cluster, reading, what, target) {
        None => VersionState {
            state: State::Succeeded,
            message: String::new(),
        },
        Some(message) => VersionState {
            state: State::Progressing(Progress { done, waiting: false }),
            message,
        },
    };
    Some(standing)
}

/// The steps that are complete: whenever their number increases, the deadline restarts.
///
/// Machines of a part count only once its own version is set: until then its controller reports all of them as up to
/// date. Each minor version of a part is a step too, as a chain sets one after the other.
fn completed_steps(reading: &Reading, target: Version) -> u32 {
    let carriers = reading.carriers.iter().filter(|carrier| carrier.path != TOPOLOGY);
    let parts = carriers.chain(&reading.parts);
    parts
        .filter_map(|part| {
            let version = part.wanted?;
            let machines = if version >= target && part.is_observed {
                part.machines.up_to_date()
            } else {
                0
            };
            Some(version.minor.saturating_add(machines))
        })
        .fold(0, u32::saturating_add)
}

/// What a Cluster waits for before it has the version.
fn waits_for(
    cluster: &ClusterFacts,
    reading: &Reading,
    what: &[UpgradePart],
    target: Version,
) -> Option<String> {
    let mut carriers = reading.carriers.iter().chain(&reading.parts);
    carriers
        .find_map(|carrier| unfinished(carrier, target))
        .or_else(|| machines(cluster, target))
        .or_else(|| of_cluster(cluster))
        .or_else(|| {
            let has_control_plane = what.contains(&UpgradePart::ControlPlane);
            has_control_plane
                .then(|| served(&reading.served, target))
                .flatten()
        })
}

fn of_cluster(cluster: &ClusterFacts) -> Option<String> {
    let describe = |type_: &str, fact: &Fact| {
        let message = fact.message.lines().next().unwrap_or_default();
        let message = message.trim_start_matches(['*', ' ']);
        if message.is_empty() {
            format!("the Cluster reports {type_} {}", fact.status)
        } else {
            format!("the Cluster reports {type_} {}: {message}", fact.status)
        }
    };
    let must = |type_: &str, status: &str, absent: Option<String>| match cluster.conditions.get(type_) {
        Some(fact) if fact.status == status => None,
        Some(fact) => Some(describe(type_, fact)),
        None => absent,
    };
    let reconciled = cluster.topology.as_ref().and_then(|_| {
        let absent = "the Cluster does not report whether its topology is reconciled (TopologyReconciled)";
        must("TopologyReconciled", "True", Some(absent.to_owned()))
    });
    reconciled
        .or_else(|| must("Remediating", "False", None))
        .or_else(|| must("ControlPlaneMachinesUpToDate", "True", None))
        .or_else(|| must("WorkerMachinesUpToDate", "True", None))
        .or_else(|| must("RollingOut", "False", None))
}

/// What the Cluster reports about the numbers of its machines, if it is not done.
fn machines(cluster: &ClusterFacts, target: Version) -> Option<String> {
    let all = [
        ("the control plane", cluster.control_plane_machines),
        ("the workers", cluster.workers),
    ];
    all.into_iter().find_map(|(what, machines)| {
        let machines = machines.filter(|machines| !machines.is_done())?;
        Some(format!(
            "waits for {what}: {} of {} machines at {target}",
            machines.up_to_date(),
            machines.total()
        ))
    })
}

/// What an object with a version waits for.
fn unfinished(carrier: &Carrier, target: Version) -> Option<String> {
    let name = carrier.describe();
    if carrier.wanted.is_none_or(|wanted| wanted < target) {
        return Some(match &carrier.applied_by {
            Some(manager) => format!("{} of {name} is applied by {manager}", carrier.path.join(".")),
            None => format!("{name} is not set to {target} yet"),
        });
    }
    // For the rest, the Cluster itself has conditions.
    if carrier.path == TOPOLOGY {
        return None;
    }
    if !carrier.is_observed {
        return Some(format!(
            "waits for {name}: its controller has not observed {target} yet"
        ));
    }
    let machines = carrier.machines;
    if !machines.is_done() {
        return Some(format!(
            "waits for {name}: {} of {} machines at {target}",
            machines.up_to_date(),
            machines.total()
        ));
    }
    match carrier.reported {
        Some(reported) if reported < target => {
            return Some(format!("waits for {name}: it reports {reported}"));
        }
        None if carrier.path == CONTROL_PLANE => {
            return Some(format!("waits for {name}: it reports no version"));
        }
        _ => {}
    }
    if carrier.is_remediating {
        return Some(format!("waits for {name}: a Machine of it is being remediated"));
    }
    carrier
        .is_rolling_out
        .then(|| format!("waits for {name}: it is rolling out"))
}

fn served(served: &Served, target: Version) -> Option<String> {
    match served {
        Served::Version(version) if *version >= target => None,
        Served::Version(version) => Some(format!("its API server reports {version}")),
        Served::Nothing => None,
        Served::NotAsked => Some("its API server was not asked for its version yet".to_owned()),
        Served::Unknown(error) => Some(format!("its API server does not report its version: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
    use serde_json::json;

    use super::*;
    use crate::upgrade::capi::{Cluster, WORKERS};

    /// A part at a version, observed at a generation, with machines of that version.
    fn part(kind: &str, version: &str, generations: (i64, i64), up_to_date: u32) -> Carrier {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "a", "generation": generations.0},
            "spec": {"replicas": 3, "version": version, "template": {"spec": {"version": version}}},
            "status": {"observedGeneration": generations.1, "replicas": 3, "upToDateReplicas": up_to_date},
        }))
        .unwrap();
        let path = if kind == "KubeadmControlPlane" {
            CONTROL_PLANE
        } else {
            WORKERS
        };
        Carrier::of(&resource, &object, path)
    }

    fn steps(carriers: &[Carrier], parts: &[Carrier]) -> u32 {
        let cluster: Cluster =
            serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {}})).unwrap();
        let reading = Reading {
            cluster: ClusterFacts::of(&cluster),
            carriers: carriers.to_vec(),
            parts: parts.to_vec(),
            is_chained: false,
            served: Served::NotAsked,
        };
        completed_steps(&reading, Version::parse("v1.34.2").unwrap())
    }

    #[test]
    fn each_machine_of_each_part_and_each_version_in_between_is_a_step() {
        let control_plane = |version: &str, machines| part("KubeadmControlPlane", version, (1, 1), machines);
        let workers = |version: &str, machines| part("MachineDeployment", version, (1, 1), machines);
        // Cluster API reports workers as up to date until their version is set, also those not yet observed.
        let unobserved = part("MachineDeployment", "v1.34.2", (2, 1), 3);
        let course = [
            [control_plane("v1.32.0", 3), workers("v1.32.0", 3)],
            [control_plane("v1.33.0", 0), workers("v1.32.0", 3)],
            [control_plane("v1.34.2", 0), workers("v1.33.0", 3)],
            [control_plane("v1.34.2", 1), workers("v1.33.0", 3)],
            [control_plane("v1.34.2", 3), workers("v1.33.0", 3)],
            [control_plane("v1.34.2", 3), unobserved],
            [control_plane("v1.34.2", 3), workers("v1.34.2", 1)],
            [control_plane("v1.34.2", 3), workers("v1.34.2", 3)],
        ];
        let own = course.each_ref().map(|parts| steps(parts, &[]));
        assert_eq!(
            own,
            course.each_ref().map(|parts| steps(&[], parts)),
            "of a topology"
        );
        assert!(own.is_sorted_by(|before, after| before < after), "{own:?}");
    }
}
