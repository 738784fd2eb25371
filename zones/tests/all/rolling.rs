//! Promise: the record is written before the action, and says at any time how far a group is, what it waits for, and
//! why.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    Duration,
    evidence::Progress,
    zonerollout::{
        InFlight, MAX_IN_FLIGHT, Operation, OperationKind, Why, ZoneRolloutSpec, ZoneRolloutStatus,
    },
};
use muster_zones::{
    decide::{Action, Decision, decide},
    model::{Container, Group, Owner, Pod, Set, SetStatus, annotations},
    roll::Budget,
    scale::{Facts, Settings},
};

/// A budget that denies pods by name.
#[derive(Default)]
struct Refuses(&'static [&'static str]);

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

fn at(second: i64) -> Timestamp {
    "2026-11-26T12:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

fn owner(set: &str) -> Owner {
    Owner {
        kind: "StatefulSet".to_owned(),
        name: set.to_owned(),
        uid: format!("uid-{set}"),
        controller: true,
    }
}

/// An available pod at the given revision.
fn pod(set: &str, ordinal: u32, revision: &str) -> Pod {
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

fn unready(pod: Pod) -> Pod {
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

/// Two zones with two pods each; the given ones are at the new revision `v2`.
struct Fleet {
    pods: Vec<Pod>,
    spec: ZoneRolloutSpec,
    status: ZoneRolloutStatus,
    template: &'static str,
    paused: &'static [&'static str],
}

impl Fleet {
    fn new(pods: &[(&str, u32, &str)]) -> Self {
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

    fn group(&self) -> Group {
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

    /// Decides, and applies the new status.
    fn pass(&mut self, second: i64) -> Decision {
        self.pass_with(second, &mut Refuses::default())
    }

    fn pass_with(&mut self, second: i64, budget: &mut Refuses) -> Decision {
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

    fn put(&mut self, pod: Pod) {
        self.pods.retain(|other| other.name != pod.name);
        self.pods.push(pod);
    }
}

fn old() -> Fleet {
    Fleet::new(&[
        ("zone-a", 0, "v1"),
        ("zone-a", 1, "v1"),
        ("zone-b", 0, "v1"),
        ("zone-b", 1, "v1"),
    ])
}

fn deleted(decision: &Decision) -> Vec<&str> {
    let deletes = decision.actions.iter().filter_map(|action| match action {
        Action::Delete(delete) => Some(delete.pod.as_str()),
        Action::Record(_) | Action::Scale(_) => None,
    });
    deletes.collect()
}

fn reasons(decision: &Decision) -> Vec<String> {
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

#[test]
fn a_pod_is_recorded_before_its_deletion_and_until_its_uid_is_gone() {
    let mut fleet = old();
    let decision = fleet.pass(0);
    assert_eq!(deleted(&decision), ["zone-a-0"]);
    let entry = |entry: &InFlight| (entry.pod.clone(), entry.uid.clone(), entry.why);
    let expect = ("zone-a-0".to_owned(), "zone-a-0-v1".to_owned(), Why::Deletion);
    assert_eq!(
        decision.status.in_flight.iter().map(entry).collect::<Vec<_>>(),
        [expect]
    );
    let operation = decision.status.operation.clone().unwrap();
    assert_eq!(
        (operation.kind, operation.set.as_str()),
        (OperationKind::Rolling, "zone-a")
    );
    // The process that wrote the record was killed: another one sends the deletion, hours later, and nothing else.
    assert_eq!(deleted(&fleet.pass(20)), ["zone-a-0"]);
    fleet.put(Pod {
        terminating: true,
        ..pod("zone-a", 0, "v1")
    });
    assert_eq!(deleted(&fleet.pass(30)), Vec::<&str>::new());
    assert_eq!(fleet.status.in_flight.len(), 1);
    fleet.put(pod("zone-a", 0, "v2"));
    let decision = fleet.pass(40);
    assert_eq!(deleted(&decision), ["zone-a-1"]);
    assert_eq!(decision.status.in_flight.len(), 1);
    assert_eq!(decision.status.in_flight[0].pod, "zone-a-1");
}

/// A recorded deletion of a pod that still exists is sent again only if it still disturbs no second zone and the set is
/// not paused.
#[test]
fn a_deletion_on_record_waits_for_the_other_zone() {
    let mut fleet = old();
    assert_eq!(deleted(&fleet.pass(0)), ["zone-a-0"]);
    fleet.put(unready(pod("zone-b", 1, "v1")));
    assert_eq!(deleted(&fleet.pass(20)), Vec::<&str>::new());
    assert_eq!(fleet.status.in_flight.len(), 1, "it may still arrive");
    fleet.put(pod("zone-b", 1, "v1"));
    fleet.paused = &["zone-a"];
    assert_eq!(deleted(&fleet.pass(40)), Vec::<&str>::new());
    fleet.paused = &[];
    assert_eq!(deleted(&fleet.pass(60)), ["zone-a-0"]);
}

/// If another zone has unavailable pods, the pod is deleted only if it is unchanged: one that becomes ready in the
/// meantime is kept.
#[test]
fn a_pod_that_is_stuck_is_deleted_only_as_it_is() {
    let stuck = |version: &str| {
        let mut pod = unready(pod("zone-a", 0, "v1"));
        pod.containers[0].waiting = Some(("CrashLoopBackOff".to_owned(), String::new()));
        pod.stuck_version = Some(version.to_owned());
        pod
    };
    let versions = |decision: &Decision| -> Vec<Option<String>> {
        let deletes = decision.actions.iter().filter_map(|action| match action {
            Action::Delete(delete) => Some(delete.resource_version.clone()),
            Action::Record(_) | Action::Scale(_) => None,
        });
        deletes.collect()
    };
    let mut fleet = old();
    fleet.put(stuck("7"));
    fleet.put(unready(pod("zone-b", 1, "v1")));
    let decision = fleet.pass(0);
    assert_eq!(versions(&decision), [Some("7".to_owned())]);
    assert_eq!(
        decision.status.in_flight[0].resource_version.as_deref(),
        Some("7")
    );
    assert_eq!(
        versions(&fleet.pass(5)),
        [Some("7".to_owned())],
        "it is sent again"
    );
    // The deletion in flight finds another resourceVersion.
    fleet.put(stuck("8"));
    assert_eq!(versions(&fleet.pass(10)), [Some("8".to_owned())]);
    assert_eq!(fleet.status.in_flight.len(), 1);
    fleet.put(pod("zone-a", 0, "v1"));
    assert_eq!(deleted(&fleet.pass(20)), Vec::<&str>::new());
    assert_eq!(fleet.status.in_flight, []);
}

#[test]
fn what_does_not_fit_on_record_is_not_deleted() {
    let mut fleet = old();
    let entry = InFlight {
        pod: "zone-a-1".to_owned(),
        uid: "zone-a-1-v1".to_owned(),
        set: "zone-a".to_owned(),
        resource_version: None,
        why: Why::Eviction,
        since: Time(at(0)),
    };
    fleet.status.in_flight = vec![entry; MAX_IN_FLIGHT];
    fleet.spec.max_unavailable = None;
    let mut group = fleet.group();
    let limit = (annotations::MAX_UNAVAILABLE.to_owned(), "2".to_owned());
    group.sets[0].annotations.extend([limit]);
    let facts = Facts::default();
    let decision = decide(
        &group,
        &facts,
        &Settings::default(),
        &mut Refuses::default(),
        at(10),
    );
    assert_eq!(deleted(&decision), Vec::<&str>::new());
    group.status.in_flight.truncate(MAX_IN_FLIGHT - 1);
    let decision = decide(
        &group,
        &facts,
        &Settings::default(),
        &mut Refuses::default(),
        at(10),
    );
    assert_eq!(deleted(&decision), ["zone-a-0"]);
}

#[test]
fn an_eviction_counts_until_its_pod_is_gone_or_for_two_minutes() {
    let evicted = |second: i64, phase: &str| {
        let mut fleet = old();
        fleet.status.in_flight.push(InFlight {
            pod: "zone-b-0".to_owned(),
            uid: "zone-b-0-v1".to_owned(),
            set: "zone-b".to_owned(),
            resource_version: None,
            why: Why::Eviction,
            since: Time(at(0)),
        });
        fleet.put(Pod {
            phase: phase.to_owned(),
            ..pod("zone-b", 0, "v1")
        });
        let decision = fleet.pass(second);
        (
            deleted(&decision).join(" "),
            decision
                .status
                .in_flight
                .iter()
                .any(|entry| entry.why == Why::Eviction),
        )
    };
    assert_eq!(evicted(119, "Running"), (String::new(), true));
    assert_eq!(evicted(120, "Running"), ("zone-a-0".to_owned(), false));
    // The pod is finished, and at an old revision: it is deleted, and no other.
    assert_eq!(evicted(10, "Succeeded"), ("zone-b-0".to_owned(), false));
}

#[test]
fn a_downscale_that_is_under_way_begins_nothing() {
    let mut fleet = old();
    fleet.status.operation = Some(Operation {
        kind: OperationKind::Downscaling,
        set: "zone-b".to_owned(),
        set_uid: "uid-zone-b".to_owned(),
        from: Some(2),
        to: Some(1),
        generation: Some(2),
        admission_uids: Vec::new(),
        expires: Some(Time(at(40))),
    });
    let decision = fleet.pass(0);
    assert_eq!(deleted(&decision), Vec::<&str>::new());
    assert_eq!(
        reasons(&decision)[0],
        "zone-a ScalingDown: a downscale of zone-b is under way"
    );
}

#[test]
fn the_next_zone_waits_until_the_last_has_soaked() {
    let mut fleet = Fleet::new(&[
        ("zone-a", 0, "v2"),
        ("zone-a", 1, "v2"),
        ("zone-b", 0, "v1"),
        ("zone-b", 1, "v1"),
    ]);
    fleet.spec.soak = Some(Duration::from_mins(5));
    fleet.pass(0);
    let decision = fleet.pass(5);
    assert_eq!(deleted(&decision), Vec::<&str>::new());
    assert_eq!(decision.wake_at, Some(at(300)));
    let progress = decision.status.progress.clone().unwrap();
    assert_eq!(
        progress,
        Progress {
            done: 2,
            total: 4,
            waiting: Some("soak of zone-a".to_owned())
        }
    );
    assert!(reasons(&decision).contains(&"zone-b Soaking: zone-a is done and soaking".to_owned()));
    assert_eq!(deleted(&fleet.pass(299)), Vec::<&str>::new());
    let decision = fleet.pass(300);
    assert_eq!(deleted(&decision), ["zone-b-0"]);
    assert_eq!(decision.status.progress.unwrap().waiting, None);
}

#[test]
fn a_revision_with_which_nothing_gets_better_is_condemned_until_its_template_changes() {
    let mut fleet = old();
    fleet.pass(0);
    fleet.put(unready(pod("zone-a", 0, "v2")));
    let decision = fleet.pass(10);
    assert_eq!(decision.stalled, None);
    assert_eq!(decision.wake_at, Some(at(600)));
    assert_eq!(fleet.pass(599).stalled, None);
    let decision = fleet.pass(600);
    assert_eq!(decision.stalled.as_deref(), Some("zone-a"));
    // The condemnation remains for a set that is not done, even once the pod is healthy: the group is stopped.
    fleet.put(pod("zone-a", 0, "v2"));
    let decision = fleet.pass(700);
    assert_eq!(
        (deleted(&decision), decision.stalled.as_deref()),
        (Vec::new(), Some("zone-a"))
    );
    assert_eq!(
        reasons(&decision),
        [
            "zone-a Condemned: revision v2 is condemned: the rollout made no progress",
            "zone-b Condemned: the revision of zone-a was condemned",
        ]
    );
    fleet.template = "v3";
    let decision = fleet.pass(710);
    assert_eq!(deleted(&decision), ["zone-a-0"]);
    assert_eq!(decision.stalled, None);
}

#[test]
fn a_condemned_revision_is_tried_again_once_for_each_time_that_people_say_so() {
    let mut fleet = old();
    fleet.pass(0);
    fleet.put(unready(pod("zone-a", 0, "v2")));
    fleet.pass(10);
    assert_eq!(fleet.pass(600).stalled.as_deref(), Some("zone-a"));
    let revision = fleet.status.revision.clone().unwrap();
    for (second, retry, stalled) in [
        (601, "another".to_owned(), Some("zone-a")),
        (602, revision.clone(), None),
        (1_201, revision.clone(), None),
        (1_202, revision.clone(), Some("zone-a")),
        (1_203, revision.clone(), Some("zone-a")),
        (1_204, format!("{revision}.2"), None),
    ] {
        fleet.spec.retry = Some(retry);
        assert_eq!(fleet.pass(second).stalled.as_deref(), stalled, "{second}");
    }
}

#[test]
fn the_revision_of_a_group_is_taken_after_five_seconds_without_a_change_and_holds_nothing_back() {
    let mut fleet = old();
    let decision = fleet.pass(0);
    assert_eq!(deleted(&decision), ["zone-a-0"], "nothing waits for it");
    assert_eq!((decision.status.revision, decision.wake_at), (None, Some(at(5))));
    assert_eq!(fleet.pass(4).status.revision, None);
    let first = fleet.pass(5).status.revision.unwrap();
    fleet.template = "v3";
    assert_eq!(fleet.pass(6).status.revision.as_ref(), Some(&first));
    fleet.template = "v4";
    assert_eq!(
        fleet.pass(10).status.revision.as_ref(),
        Some(&first),
        "it changed again"
    );
    assert_eq!(fleet.pass(14).status.revision.as_ref(), Some(&first));
    let second = fleet.pass(15).status.revision.unwrap();
    assert_ne!(first, second);
    fleet.template = "v2";
    fleet.pass(20);
    assert_eq!(
        fleet.pass(25).status.revision,
        Some(first),
        "the same revisions are the same"
    );
}

#[test]
fn a_new_revision_has_the_whole_deadline() {
    let mut fleet = old();
    fleet.pass(0);
    fleet.put(unready(pod("zone-a", 0, "v2")));
    fleet.pass(590);
    fleet.template = "v3";
    fleet.put(unready(pod("zone-a", 0, "v3")));
    assert_eq!(fleet.pass(595).stalled, None);
    assert_eq!(fleet.pass(1_194).stalled, None);
    assert_eq!(fleet.pass(1_195).stalled.as_deref(), Some("zone-a"));
}

#[test]
fn the_deadline_is_suspended_while_paused() {
    let mut fleet = old();
    fleet.pass(0);
    fleet.put(unready(pod("zone-a", 0, "v2")));
    fleet.pass(10);
    fleet.spec.paused = true;
    let decision = fleet.pass(20);
    assert_eq!(
        decision.status.progress.clone().unwrap().waiting.as_deref(),
        Some("paused")
    );
    assert_eq!(decision.wake_at, None);
    assert_eq!(fleet.pass(5_000).stalled, None);
    fleet.spec.paused = false;
    assert_eq!(fleet.pass(5_020).stalled, None);
    // 20 s before, and the rest of the ten minutes after.
    assert_eq!(fleet.pass(5_590).stalled, None);
    assert_eq!(fleet.pass(5_600).stalled.as_deref(), Some("zone-a"));
}

#[test]
fn a_paused_zone_is_left_alone_and_still_counts() {
    let mut fleet = old();
    fleet.paused = &["zone-a"];
    assert_eq!(deleted(&fleet.pass(0)), ["zone-b-0"]);
    let mut fleet = old();
    fleet.paused = &["zone-a"];
    fleet.put(unready(pod("zone-a", 1, "v1")));
    let decision = fleet.pass(0);
    assert_eq!(deleted(&decision), Vec::<&str>::new());
    assert_eq!(
        reasons(&decision),
        [
            "zone-a Paused: it is paused; its unavailable pods still count",
            "zone-a/zone-a-1 Unavailable: container main is not ready",
            "zone-b Waiting: zone-a comes first",
        ]
    );
}

#[test]
fn the_smaller_limit_counts() {
    let limit = |annotated: &str, configured: Option<&str>| {
        let mut fleet = old();
        fleet.spec.max_unavailable = configured.map(|configured| configured.parse().unwrap());
        let mut group = fleet.group();
        for set in &mut group.sets {
            let key = annotations::MAX_UNAVAILABLE.to_owned();
            set.annotations.insert(key, annotated.to_owned());
        }
        deleted(&decide(
            &group,
            &Facts::default(),
            &Settings::default(),
            &mut Refuses::default(),
            at(0),
        ))
        .len()
    };
    assert_eq!(limit("2", None), 2);
    assert_eq!(limit("2", Some("1")), 1);
    assert_eq!(limit("1", Some("100%")), 1);
    assert_eq!(limit("2", Some("0")), 1, "one at least");
}

#[test]
fn what_a_budget_refuses_stays_with_its_words() {
    let decision = old().pass_with(0, &mut Refuses(&["zone-a-0"]));
    assert_eq!(deleted(&decision), Vec::<&str>::new());
    assert!(reasons(&decision).contains(&"zone-a/zone-a-0 Budget: 1 pod not ready in zone-b".to_owned()));
}

#[test]
fn nothing_to_do_has_a_reason() {
    let mut fleet = Fleet::new(&[
        ("zone-a", 0, "v1"),
        ("zone-a", 1, "v1"),
        ("zone-b", 0, "v1"),
        ("zone-b", 1, "v1"),
    ]);
    fleet.template = "v1";
    fleet.pass(0);
    let decision = fleet.pass(5);
    assert_eq!(decision.actions, []);
    assert_eq!(
        reasons(&decision)[0],
        "zone-a UpToDate: 2 of 2 pods are Ready at revision v1; only changes of the pod template are rolled out"
    );
    assert_eq!(
        decision.status.progress,
        Some(Progress {
            done: 4,
            total: 4,
            waiting: None
        })
    );
    assert!(
        decision
            .status
            .sets
            .values()
            .all(|set| set.done && set.update_revision == "v1")
    );
    // Without changes the decision is the same.
    assert_eq!(fleet.pass(3_600).status, decision.status);
}

#[test]
fn a_set_that_was_made_again_is_another_one() {
    let mut fleet = old();
    fleet.template = "v1";
    assert!(fleet.pass(0).status.sets["zone-a"].done);
    let mut group = fleet.group();
    group.sets[0].uid = "another".to_owned();
    group.sets[0].pods.clear();
    let decision = decide(
        &group,
        &Facts::default(),
        &Settings::default(),
        &mut Refuses::default(),
        at(10),
    );
    assert!(!decision.status.sets["zone-a"].done);
}
