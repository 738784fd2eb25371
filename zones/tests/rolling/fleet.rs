//! Two zones of two pods, pass by pass.

use jiff::{SignedDuration, Timestamp};
use muster_api::zonerollout::{ZoneRolloutSpec, ZoneRolloutStatus};
use muster_zones::{
    decide::{Action, Decision, decide},
    model::{Container, Group, Owner, Pod, Set, SetStatus, annotations},
    roll::Budget,
    scale::{Facts, Settings},
};

/// A budget that refuses pods by name.
#[derive(Default)]
pub(crate) struct Refuses(pub(crate) &'static [&'static str]);

impl Budget for Refuses {
    fn counts_by_partition(&mut self, _: &Pod) -> Result<bool, String> {
        Ok(false)
    }

    fn allows(&mut self, pod: &Pod, _: u32) -> Result<(), String> {
        if self.0.contains(&pod.name.as_str()) {
            return Err("1 pod not ready in zone-b".to_owned());
        }
        Ok(())
    }
}

pub(crate) fn at(second: i64) -> Timestamp {
    "2026-11-26T12:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

pub(crate) fn owner(set: &str) -> Owner {
    Owner {
        kind: "StatefulSet".to_owned(),
        name: set.to_owned(),
        uid: format!("uid-{set}"),
        controller: true,
    }
}

/// A pod at a revision that serves.
pub(crate) fn pod(set: &str, ordinal: u32, revision: &str) -> Pod {
    Pod {
        name: format!("{set}-{ordinal}"),
        uid: format!("{set}-{ordinal}-{revision}"),
        labels: [("controller-revision-hash".to_owned(), revision.to_owned())].into(),
        controller: Some(owner(set)),
        phase: "Running".to_owned(),
        containers: vec![Container {
            name: "main".to_owned(),
            ready: true,
            running: true,
            ..Container::default()
        }],
        ..Pod::default()
    }
}

pub(crate) fn unready(pod: Pod) -> Pod {
    let containers = pod.containers.iter().cloned();
    Pod {
        containers: containers
            .map(|container| Container {
                ready: false,
                ..container
            })
            .collect(),
        ..pod
    }
}

/// Two zones of two pods, of which these are at the new revision `v2`.
pub(crate) struct Fleet {
    pub(crate) pods: Vec<Pod>,
    pub(crate) spec: ZoneRolloutSpec,
    pub(crate) status: ZoneRolloutStatus,
    pub(crate) template: &'static str,
    pub(crate) paused: &'static [&'static str],
}

impl Fleet {
    pub(crate) fn new(pods: &[(&str, u32, &str)]) -> Self {
        let pods = pods
            .iter()
            .map(|(set, ordinal, revision)| pod(set, *ordinal, revision));
        Self {
            pods: pods.collect(),
            spec: ZoneRolloutSpec {
                group: "db".to_owned(),
                ..ZoneRolloutSpec::default()
            },
            status: ZoneRolloutStatus::default(),
            template: "v2",
            paused: &[],
        }
    }

    pub(crate) fn group(&self) -> Group {
        let set = |name: &str| Set {
            uid: format!("uid-{name}"),
            name: name.to_owned(),
            generation: 2,
            replicas: Some(2),
            strategy: "OnDelete".to_owned(),
            annotations: self
                .paused
                .contains(&name)
                .then(|| (annotations::PAUSED.to_owned(), "true".to_owned()))
                .into_iter()
                .collect(),
            status: SetStatus {
                observed_generation: 2,
                replicas: 2,
                ready_replicas: 2,
                current_revision: "v1".to_owned(),
                update_revision: self.template.to_owned(),
                ..SetStatus::default()
            },
            ..Set::default()
        };
        Group::new("db", [set("zone-a"), set("zone-b")], &self.pods)
            .with(self.spec.clone(), self.status.clone())
    }

    /// Decides, and puts it on record.
    pub(crate) fn pass(&mut self, second: i64) -> Decision {
        self.pass_with(second, &mut Refuses::default())
    }

    pub(crate) fn pass_with(&mut self, second: i64, budget: &mut Refuses) -> Decision {
        let decision = decide(
            &self.group(),
            &Facts::default(),
            &Settings::default(),
            budget,
            at(second),
        );
        self.status = decision.status.clone();
        decision
    }

    pub(crate) fn put(&mut self, pod: Pod) {
        self.pods.retain(|other| other.name != pod.name);
        self.pods.push(pod);
    }
}

pub(crate) fn old() -> Fleet {
    Fleet::new(&[
        ("zone-a", 0, "v1"),
        ("zone-a", 1, "v1"),
        ("zone-b", 0, "v1"),
        ("zone-b", 1, "v1"),
    ])
}

pub(crate) fn deleted(decision: &Decision) -> Vec<&str> {
    let deletes = decision.actions.iter().filter_map(|action| match action {
        Action::Delete(delete) => Some(delete.pod.as_str()),
        Action::Record(_) | Action::Scale(_) => None,
    });
    deletes.collect()
}

pub(crate) fn reasons(decision: &Decision) -> Vec<String> {
    let reasons = decision.status.reasons.iter();
    reasons
        .map(|reason| {
            let pod = reason
                .pod
                .as_ref()
                .map(|pod| format!("/{pod}"))
                .unwrap_or_default();
            format!("{}{pod} {}: {}", reason.set, reason.reason, reason.message)
        })
        .collect()
}
