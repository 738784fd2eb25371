//! Complete passes: requests, writes and records.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::zonerollout::ZoneRolloutStatus;
use muster_zones::{
    decide::{Action, Decision, decide},
    model::{Container, Group, Owner, Pod, Set, SetStatus},
    roll::Budget,
    scale::{
        Change, Facts, Settings,
        mirror::{Reference, Scale},
        operation,
        pods::{Answer, Method},
    },
};

struct AllowAll;

impl Budget for AllowAll {
    fn counts_by_partition(&mut self, _: &Pod) -> Result<bool, String> {
        Ok(false)
    }

    fn allows(&mut self, _: &Pod, _: u32) -> Result<(), String> {
        Ok(())
    }
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn settings() -> Settings {
    Settings {
        namespace: "test".to_owned(),
        cluster_domain: "cluster.local.".to_owned(),
        timeout: SignedDuration::from_secs(10),
    }
}

fn set(name: &str, annotations: &[(&str, &str)]) -> Set {
    let annotations = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Set {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        generation: 1,
        annotations: annotations.collect(),
        replicas: Some(3),
        service_name: "db".to_owned(),
        strategy: "OnDelete".to_owned(),
        status: SetStatus {
            observed_generation: 1,
            replicas: 3,
            ready_replicas: 3,
            updated_replicas: 3,
            current_revision: "r".to_owned(),
            update_revision: "r".to_owned(),
        },
        pods: (0..3).map(|ordinal| pod(name, ordinal)).collect(),
        ..Set::default()
    }
}

fn pod(set: &str, ordinal: u32) -> Pod {
    Pod {
        name: format!("{set}-{ordinal}"),
        uid: format!("uid-{set}-{ordinal}"),
        labels: [("controller-revision-hash".to_owned(), "r".to_owned())].into(),
        controller: Some(Owner::default()),
        phase: "Running".to_owned(),
        containers: vec![Container {
            name: "db".to_owned(),
            ready: true,
            running: true,
            ..Container::default()
        }],
        ..Pod::default()
    }
}

fn group(sets: Vec<Set>) -> Group {
    Group {
        name: "group".to_owned(),
        sets,
        ..Group::default()
    }
}

const MIRRORS: [(&str, &str); 2] = [
    ("grafana.com/rollout-mirror-replicas-from-resource-name", "r"),
    ("grafana.com/rollout-mirror-replicas-from-resource-kind", "K"),
];
const DELAYED: [(&str, &str); 2] = [
    ("grafana.com/rollout-delayed-downscale", "1h"),
    (
        "grafana.com/rollout-prepare-delayed-downscale-url",
        "http://pod/p",
    ),
];

fn reference() -> Reference {
    Reference {
        api_version: String::new(),
        kind: "K".to_owned(),
        name: "r".to_owned(),
    }
}

fn pass(group: &Group, facts: &Facts) -> Decision {
    decide(group, facts, &settings(), &mut AllowAll, now())
}

/// A reference with this number of replicas.
fn facts_with_reference(spec: u32) -> Facts {
    let mut facts = Facts::default();
    facts.scales.insert(reference(), Ok(Scale { spec, status: 3 }));
    facts
}

fn replicas(decision: &Decision) -> Vec<(String, u32)> {
    let changes = decision.actions.iter().filter_map(|action| match action {
        Action::Scale(Change::Replicas(change)) => Some((change.set.clone(), change.to)),
        _ => None,
    });
    changes.collect()
}

#[test]
fn a_downscale_is_on_record_before_it_is_patched_and_an_upscale_needs_no_record() {
    let group = group(vec![set("a", &MIRRORS), set("b", &[])]);
    assert_eq!(pass(&group, &Facts::default()).read, [reference()]);
    let down = pass(&group, &facts_with_reference(2));
    let operation = down.status.operation.clone().unwrap();
    assert_eq!(
        (operation.set.as_str(), operation.from, operation.to),
        ("a", Some(3), Some(2))
    );
    assert_eq!(operation.admission_uids, [operation::holder(now())]);
    assert_eq!(replicas(&down), [("a".to_owned(), 2)]);
    assert!(matches!(
        down.actions.get(1),
        Some(Action::Scale(Change::WriteBack { replicas: 2, .. }))
    ));
    let up = pass(&group, &facts_with_reference(4));
    assert_eq!(up.status.operation, None);
    assert_eq!(replicas(&up), [("a".to_owned(), 4)]);
    // The revision of the group is already known.
    let revision = up.status.newer.map(|newer| newer.revision);
    let known = ZoneRolloutStatus {
        revision,
        ..ZoneRolloutStatus::default()
    };
    let group = group.clone().with(group.spec.clone(), known);
    assert_eq!(
        pass(&group, &facts_with_reference(4)).wake_at,
        Some(now() + SignedDuration::from_secs(30)),
        "references have no events"
    );
}

#[test]
fn no_zone_falls_while_another_is_disturbed() {
    let mut disturbed = group(vec![set("a", &MIRRORS), set("b", &[])]);
    disturbed.sets[1].pods.pop();
    let down = pass(&disturbed, &facts_with_reference(2));
    assert!(replicas(&down).is_empty() && down.status.operation.is_none());
    assert!(
        down.status
            .reasons
            .iter()
            .any(|reason| reason.message == "pods of b are not all available")
    );
    assert_eq!(
        replicas(&pass(&disturbed, &facts_with_reference(4))),
        [("a".to_owned(), 4)],
        "an upscale takes nothing away"
    );

    let leader = ("grafana.com/rollout-downscale-leader", "a");
    let mut follower = group(vec![set("a", &[]), set("b", &[leader]), set("c", &[])]);
    follower.sets[0].replicas = Some(2);
    follower.sets[0].status.replicas = 2;
    follower.sets[0].status.ready_replicas = 2;
    follower.sets[0].pods.pop();
    assert_eq!(
        replicas(&pass(&follower, &Facts::default())),
        [("b".to_owned(), 2)]
    );
    follower.sets[2].pods.pop();
    assert!(replicas(&pass(&follower, &Facts::default())).is_empty());
}

#[test]
fn pods_are_asked_before_anything_is_written() {
    let annotations: Vec<(&str, &str)> = MIRRORS.into_iter().chain(DELAYED).collect();
    let mut group = group(vec![set("a", &annotations)]);
    group.sets[0].pods[1].containers.clear();
    group.sets[0].pods[1].phase = "Pending".to_owned();
    let mut facts = facts_with_reference(1);
    let open = pass(&group, &facts);
    let asks: Vec<(Method, &str)> = open
        .ask
        .iter()
        .map(|ask| (ask.method, ask.pod.as_str()))
        .collect();
    assert_eq!(
        asks,
        [(Method::Delete, "a-0"), (Method::Post, "a-2")],
        "a-1 was never started"
    );
    assert!(open.actions.is_empty() && open.status == group.status);
    for ask in open.ask {
        let body = format!(r#"{{"timestamp": {}}}"#, now().as_second() - 3_600);
        facts.answers.insert(ask, Ok(Answer { status: 200, body }));
    }
    assert_eq!(replicas(&pass(&group, &facts)), [("a".to_owned(), 1)]);
}

#[test]
fn what_is_refused_is_not_tried_again_in_the_pass_and_leaves_no_operation() {
    let mut group = group(vec![set("a", &MIRRORS), set("b", &[])]);
    let mut facts = facts_with_reference(2);
    let decision = pass(&group, &facts);
    group.status = decision.status.clone();
    facts.refused = Some(decision.refused("denied by a webhook".to_owned()));
    let again = pass(&group, &facts);
    assert_eq!(again.status.operation, None);
    assert!(replicas(&again).is_empty());
    assert!(
        again
            .status
            .reasons
            .iter()
            .any(|reason| reason.message == "denied by a webhook")
    );
}

/// An allowed downscale of a to 2.
fn allowed() -> Group {
    let mut group = group(vec![set("a", &[]), set("b", &[])]);
    let labels = [("grafana.com/prepare-downscale", "true")];
    group.sets[0].labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    for (key, value) in [("port", "80"), ("path", "leave")] {
        let key = format!("grafana.com/prepare-downscale-http-{key}");
        group.sets[0].annotations.insert(key, value.to_owned());
    }
    let downscale = operation::Downscale {
        set: "a".to_owned(),
        set_uid: "uid-a".to_owned(),
        generation: 1,
        from: 3,
        to: 2,
    };
    let operation::Taken::By(operation) =
        operation::take(&group, &downscale, "review", SignedDuration::from_secs(10), now())
    else {
        panic!("nothing is under way");
    };
    group.status.operation = Some(operation);
    group
}

fn at(group: &Group, seconds: i64, facts: &Facts) -> Decision {
    decide(
        group,
        facts,
        &settings(),
        &mut AllowAll,
        now() + SignedDuration::from_secs(seconds),
    )
}

#[test]
fn an_operation_ends_with_its_pods_and_its_time_counts_from_then() {
    let mut group = allowed();
    assert!(at(&group, 20, &Facts::default()).status.operation.is_some());
    group.sets[0].replicas = Some(2);
    group.sets[0].generation = 2;
    assert!(
        at(&group, 20, &Facts::default()).status.operation.is_some(),
        "it is not observed"
    );
    group.sets[0].status = SetStatus {
        observed_generation: 2,
        replicas: 2,
        ready_replicas: 2,
        ..group.sets[0].status.clone()
    };
    assert!(
        at(&group, 20, &Facts::default()).status.operation.is_some(),
        "its pod is there"
    );
    group.sets[0].pods.pop();
    let ended = at(&group, 20, &Facts::default()).status;
    assert_eq!(ended.operation, None);
    assert_eq!(
        ended.last_downscale.get("a"),
        Some(&Time(now() + SignedDuration::from_secs(20)))
    );
}

#[test]
fn an_allowed_change_that_never_comes_is_undone_in_two_steps() {
    let mut group = allowed();
    assert_eq!(
        at(&group, 39, &Facts::default()).status.operation,
        group.status.operation
    );
    let left = at(&group, 40, &Facts::default());
    assert_eq!(left.wake_at, Some(now() + SignedDuration::from_secs(41)));
    assert!(
        left.ask.is_empty(),
        "nothing is un-prepared while a review holds it"
    );
    assert!(
        left.status
            .operation
            .as_ref()
            .is_some_and(|operation| operation.admission_uids.is_empty())
    );
    group.status = left.status;
    let undone = at(&group, 41, &Facts::default());
    let asks: Vec<String> = undone
        .ask
        .iter()
        .map(|ask| format!("{} {}", ask.method.as_str(), ask.url))
        .collect();
    assert_eq!(asks, ["DELETE http://a-2.db.test.svc.cluster.local.:80/leave"]);
    let mut facts = Facts::default();
    facts
        .answers
        .insert(undone.ask[0].clone(), Err("no such host".to_owned()));
    assert_eq!(
        at(&group, 41, &facts).status.operation,
        None,
        "whether the pod heard it does not matter"
    );
}

/// Until the expiry, a review that does not know of the other change may still ask pods to prepare.
#[test]
fn pods_are_unprepared_when_no_review_can_ask_them_any_more() {
    let mut group = allowed();
    group.sets[0].generation = 2;
    group.sets[0].status.observed_generation = 2;
    let left = at(&group, 10, &Facts::default());
    let operation = left.status.operation.clone().unwrap();
    assert_eq!(operation.admission_uids, Vec::<String>::new());
    group.status = left.status;
    let waits = at(&group, 39, &Facts::default());
    assert_eq!((waits.ask, waits.status.operation), (Vec::new(), Some(operation)));
    assert_eq!(at(&group, 40, &Facts::default()).ask.len(), 1);
}

/// Two processes may both act as leader: what is rejected for one of them may have been performed for the other, or may
/// still be.
#[test]
fn a_refusal_ends_only_what_nothing_else_carries_out() {
    let refused = |decision: &Decision| Facts {
        refused: Some(decision.refused("conflict".to_owned())),
        ..facts_with_reference(2)
    };
    let holders = |decision: &Decision| {
        let operation = decision.status.operation.clone();
        operation.map(|operation| operation.admission_uids)
    };
    let mut group = group(vec![set("a", &MIRRORS), set("b", &[])]);
    let decision = at(&group, 0, &facts_with_reference(2));
    let first = refused(&decision);
    group.status = decision.status;
    assert_eq!(holders(&at(&group, 1, &first)), None);
    let mut joined = group.clone();
    let decision = at(&joined, 1, &facts_with_reference(2));
    let second = refused(&decision);
    joined.status = decision.status;
    let both: [String; 2] = [0, 1].map(|second| operation::holder(now() + SignedDuration::from_secs(second)));
    assert_eq!(holders(&at(&joined, 1, &Facts::default())), Some(both.to_vec()));
    let left = at(&joined, 2, &second);
    assert_eq!(
        holders(&left),
        Some(vec![both[0].clone()]),
        "the other may still be carried out"
    );
    joined.status = left.status;
    assert_eq!(holders(&at(&joined, 3, &second)), Some(vec![both[0].clone()]));
    assert_eq!(holders(&at(&joined, 3, &first)), None);
    // A rejected change that did not take the operation must not affect its holders.
    let mut rises = at(&group, 3, &facts_with_reference(3));
    assert!(rises.actions.is_empty(), "it is busy");
    rises.status = group.status.clone();
    assert!(holders(&at(&group, 3, &refused(&rises))).is_some());
    group.sets[0].replicas = Some(2);
    group.sets[0].generation = 2;
    assert!(holders(&at(&group, 4, &first)).is_some(), "its pod is there");
}

#[test]
fn an_operation_on_a_set_that_is_gone_does_not_matter() {
    let mut group = allowed();
    group.sets.remove(0);
    assert_eq!(at(&group, 0, &Facts::default()).status.operation, None);
}
