//! One zone at a time: order of steps, conflicts, failures, and what blocks a downscale.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::zonerollout::{Operation, OperationKind, ZoneRolloutStatus};
use muster_zones::{
    admit::{Fact, ReadError, Record, Step, Webhook, Zones, prepare::Prepare},
    scale::pods::{Answer, Ask, Method},
};
use serde_json::json;

use super::cluster::{Answers, Cluster, at, pod, prepared, refused, settings};

const POST_A_2: &str = "POST http://a-2.db.test.svc.cluster.local.:80/leave";
const DELETE_A_2: &str = "DELETE http://a-2.db.test.svc.cluster.local.:80/leave";

#[test]
fn the_operation_comes_before_the_pods_and_the_time_before_the_answer() {
    let mut cluster = Cluster::new();
    let answer = cluster.downscale("r1", "a", 2);
    assert_eq!(
        answer.message.unwrap(),
        "downscale of statefulsets/a in test from 3 to 2 replicas is allowed -- all pods successfully prepared for shutdown."
    );
    assert!(answer.allowed);
    assert_eq!(
        cluster.done,
        [
            r#"write operation a->2 ["r1"] times []"#,
            POST_A_2,
            r#"write operation a->2 ["r1"] times ["a"]"#,
        ]
    );
}

#[test]
fn a_pod_that_does_not_prepare_ends_it() {
    let answers: [Answers; 3] = [
        refused,
        |_| Err("no such host".to_owned()),
        |ask| {
            let status = if ask.method == Method::Post { 301 } else { 200 };
            Ok(Answer {
                status,
                body: String::new(),
            })
        },
    ];
    for answers in answers {
        let mut cluster = Cluster::new();
        cluster.answers = answers;
        let answer = cluster.downscale("r1", "a", 2);
        assert_eq!(
            answer.message.unwrap(),
            "downscale of statefulsets/a in test from 3 to 2 replicas is not allowed because one or more pods failed to prepare for shutdown."
        );
        assert!(!answer.allowed);
        assert_eq!(
            cluster.done,
            [
                r#"write operation a->2 ["r1"] times []"#,
                POST_A_2,
                "write operation a->2 [] times []",
                DELETE_A_2,
                "write operation none times []",
            ]
        );
    }
}

#[test]
fn pods_of_a_downscale_that_another_review_holds_are_not_unprepared() {
    let mut cluster = Cluster::new();
    assert!(cluster.downscale("r1", "a", 2).allowed);
    cluster.done.clear();
    cluster.answers = refused;
    assert!(!cluster.downscale("r2", "a", 2).allowed);
    assert_eq!(
        cluster.done,
        [
            r#"write operation a->2 ["r1", "r2"] times ["a"]"#,
            POST_A_2,
            r#"write operation a->2 ["r1"] times ["a"]"#,
        ]
    );
}

#[test]
fn no_request_joins_an_operation_that_is_being_undone() {
    let mut cluster = Cluster::new();
    cluster.answers = refused;
    let mut webhook = Prepare::new(cluster.review("r1", "a", 2), settings(), false);
    let is_undone =
        |step: &Step| matches!(step, Step::Ask(asks) if asks.iter().any(|ask| ask.method == Method::Delete));
    let stopped = cluster.go_on(&mut webhook, Fact::Begin, is_undone);
    assert!(stopped.is_err());
    cluster.answers = prepared;
    let answer = cluster.downscale("r2", "a", 2);
    assert!(!answer.allowed, "its pods would be un-prepared behind it");
}

/// After the operation has expired, pods may be un-prepared.
#[test]
fn no_pod_is_asked_after_the_operation_has_expired() {
    let mut cluster = Cluster::new();
    let mut webhook = Prepare::new(cluster.review("r1", "a", 2), settings(), false);
    let written = |step: &Step| matches!(step, Step::Write(_));
    let Err(write) = cluster.go_on(&mut webhook, Fact::Begin, written) else {
        panic!("the operation is written first");
    };
    let fact = cluster.carry_out(write);
    cluster.now += SignedDuration::from_secs(40);
    let answer = cluster.go_on(&mut webhook, fact, |_| false).unwrap();
    assert!(!answer.allowed);
    assert!(
        !cluster.done.iter().any(|done| done.starts_with("POST")),
        "{:?}",
        cluster.done
    );
    assert_eq!(cluster.record.unwrap().status.operation, None);
}

#[test]
fn the_second_zone_waits_for_the_first() {
    let mut cluster = Cluster::new();
    let mut first = Prepare::new(cluster.review("r1", "a", 2), settings(), false);
    let Err(Step::Ask(asks)) = cluster.go_on(&mut first, Fact::Begin, |step| matches!(step, Step::Ask(_)))
    else {
        panic!("pods are asked");
    };
    let second = cluster.downscale("r2", "b", 2);
    assert_eq!(
        second.message.unwrap(),
        "downscale of statefulsets/b in test from 3 to 2 replicas is not allowed because statefulset a is already in process of updating replicas"
    );
    let answers = asks.iter().map(prepared).collect();
    let first = cluster.go_on(&mut first, Fact::Answers(answers), |_| false);
    assert!(first.is_ok_and(|first| first.allowed));
    let later = cluster.downscale("r3", "b", 2);
    assert_eq!(
        later.message.unwrap(),
        "downscale of statefulsets/b in test from 3 to 2 replicas is not allowed because statefulset a was downscaled at 2026-01-01 00:00:00 +0000 UTC and is labelled to wait 1h0m0s between zone downscales"
    );
}

#[test]
fn the_wait_ends_with_the_change_carried_out() {
    let mut cluster = Cluster::new();
    assert!(cluster.downscale("r1", "a", 2).allowed);
    cluster.now = at("2026-01-01T01:00:00Z");
    assert!(
        !cluster.downscale("r2", "b", 2).allowed,
        "the change of a may still come"
    );
    cluster.sets[0]["spec"]["replicas"] = json!(2);
    cluster.sets[0]["metadata"]["generation"] = json!(5);
    assert!(!cluster.downscale("r3", "b", 2).allowed, "it is not observed yet");
    cluster.sets[0]["status"] =
        json!({"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "observedGeneration": 5});
    assert!(!cluster.downscale("r4", "b", 2).allowed, "its pod is still there");
    cluster.pods.retain(|pod| pod["metadata"]["name"] != "a-2");
    assert!(
        !cluster.downscale("r5", "b", 2).allowed,
        "it may have come 40 s after the review"
    );
    cluster.now = at("2026-01-01T01:00:40Z");
    assert!(cluster.downscale("r6", "b", 2).allowed);
}

#[test]
fn another_write_is_no_failure() {
    let mut cluster = Cluster::new();
    cluster.conflicts = 2;
    assert!(cluster.downscale("r1", "a", 2).allowed);
    assert_eq!(cluster.done[..2], ["conflict", "conflict"]);

    let mut cluster = Cluster::new();
    cluster.conflicts = 100;
    let answer = cluster.downscale("r1", "a", 2);
    assert!(!answer.allowed, "it does not try forever");
    assert!(
        cluster.done.iter().all(|done| done == "conflict"),
        "no pod was asked: {:?}",
        cluster.done
    );
}

/// Why a downscale of `a` is denied before any write or request to pods.
fn held_up_by(cluster: &mut Cluster, why: &str) {
    let answer = cluster.downscale("r1", "a", 2);
    let expected =
        format!("downscale of statefulsets/a in test from 3 to 2 replicas is not allowed because {why}");
    assert_eq!(answer.message, Some(expected));
    assert!(
        !answer.allowed && cluster.done.is_empty(),
        "{why}: {:?}",
        cluster.done
    );
}

#[test]
fn what_the_objects_say_holds_a_downscale_up() {
    const LAST: &str = "/metadata/annotations/grafana.com~1last-downscale";
    const PORT: &str = "/metadata/annotations/grafana.com~1prepare-downscale-http-port";
    for (set, place, value, why) in [
        (
            1,
            "/metadata/generation",
            json!(5),
            "statefulset b was not observed by its controller yet",
        ),
        (
            1,
            LAST,
            json!("yesterday"),
            "parsing downscale annotations failed.",
        ),
        (
            0,
            PORT,
            json!(""),
            "the grafana.com/prepare-downscale-http-port annotation is not set or empty.",
        ),
        (
            0,
            "/spec/serviceName",
            json!(""),
            "the serviceName is not set or empty.",
        ),
        // The request would go to another host.
        (
            0,
            PORT,
            json!("80@elsewhere"),
            "one or more pods failed to prepare for shutdown.",
        ),
    ] {
        let mut cluster = Cluster::new();
        let annotations = &mut cluster.sets[1]["metadata"]["annotations"];
        annotations["grafana.com/last-downscale"] = json!("2025-01-01T00:00:00Z");
        *cluster.sets[set].pointer_mut(place).unwrap() = value;
        held_up_by(&mut cluster, why);
    }
}

#[test]
fn pods_that_are_missing_or_not_ready_hold_a_downscale_up() {
    let mut cluster = Cluster::new();
    cluster.pods[5]["status"]["containerStatuses"][0]["ready"] = json!(false);
    held_up_by(
        &mut cluster,
        "statefulset b has 0 non-updated replicas and 1 non-ready replicas",
    );
    let mut cluster = Cluster::new();
    cluster.pods.truncate(3);
    cluster.sets[1]["status"] = json!({"observedGeneration": 4});
    held_up_by(
        &mut cluster,
        "statefulset b has 3 non-updated replicas and 3 non-ready replicas",
    );
}

#[test]
fn what_is_on_record_holds_a_downscale_up() {
    let mut cluster = Cluster::new();
    cluster.tracker = Some([("b".to_owned(), "yesterday".to_owned())].into());
    held_up_by(&mut cluster, "loading zones failed.");
    cluster.tracker = Some([("b".to_owned(), r#"{"lastDownscaled":"yesterday"}"#.to_owned())].into());
    held_up_by(
        &mut cluster,
        "parsing parsing downscale timestamps from the zone ConfigMap failed.",
    );
    let mut cluster = Cluster::new();
    let operation = Operation {
        kind: OperationKind::Rolling,
        set: "b".to_owned(),
        set_uid: "uid-b".to_owned(),
        from: None,
        to: None,
        generation: None,
        admission_uids: Vec::new(),
        expires: None,
    };
    cluster.record = Some(Record {
        version: "1".to_owned(),
        status: ZoneRolloutStatus {
            operation: Some(operation),
            ..ZoneRolloutStatus::default()
        },
    });
    held_up_by(&mut cluster, "pods of statefulset b are being replaced");
}

/// Makes one of the reads fail.
type Spoils = fn(&mut Zones, String);

#[test]
fn what_cannot_be_read_is_denied() {
    let no = || "not today".to_owned();
    let cases: [(&str, Spoils); 4] = [
        ("finding other statefulsets failed.", |zones, no| {
            zones.sets = Err(no);
        }),
        ("loading zones failed.", |zones, no| zones.tracker = Err(no)),
        ("loading zones failed.", |zones, no| zones.record = Err(no)),
        (
            "an error occurred while checking whether StatefulSets have non-updated replicas",
            |zones, no| {
                zones.pods = Err(no);
            },
        ),
    ];
    for (why, spoil) in cases {
        let cluster = Cluster::new();
        let mut webhook = Prepare::new(cluster.review("r1", "a", 2), settings(), false);
        let mut zones = cluster.zones();
        spoil(&mut zones, no());
        assert!(matches!(webhook.advance(Fact::Begin, cluster.now), Step::Read(_)));
        let Step::Answer(answer) = webhook.advance(Fact::Zones(Box::new(zones)), cluster.now) else {
            panic!("{why}");
        };
        assert!(
            !answer.allowed && answer.message.as_ref().is_some_and(|text| text.ends_with(why)),
            "{answer:?}"
        );
    }
}

#[test]
fn a_parent_that_cannot_be_read_is_denied() {
    let cluster = Cluster::new();
    let mut request = cluster.review("r1", "a", 2);
    for (object, replicas) in [(&mut request.object, 2), (&mut request.old_object, 3)] {
        *object =
            Some(json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}}));
    }
    let mut webhook = Prepare::new(request, settings(), false);
    assert!(matches!(webhook.advance(Fact::Begin, cluster.now), Step::Read(_)));
    let failed = Fact::Parent(Err(ReadError::Failed("not today".to_owned())));
    let Step::Answer(answer) = webhook.advance(failed, cluster.now) else {
        panic!("nothing else can be found out");
    };
    assert!(!answer.allowed, "not to know is no permission");
}

#[test]
fn only_pods_with_something_to_hand_over_are_asked() {
    let mut cluster = Cluster::new();
    cluster.sets[0]["spec"]["replicas"] = json!(6);
    let mut pending = pod("a", 3);
    pending["status"] = json!({"phase": "Pending"});
    let mut crashing = pod("a", 4);
    crashing["status"] = json!({"phase": "Pending", "containerStatuses": [{"name": "db", "ready": false,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {}}}]});
    cluster.pods.extend([pending, crashing]);
    assert!(cluster.downscale("r1", "a", 2).allowed);
    let posts: Vec<&String> = cluster
        .done
        .iter()
        .filter(|done| done.starts_with("POST"))
        .collect();
    assert_eq!(
        posts,
        ["POST http://a-4.db.test.svc.cluster.local.:80/leave", POST_A_2],
        "the one that ran is asked"
    );
}

#[test]
fn a_dry_run_reads_writes_and_asks_nothing() {
    let mut cluster = Cluster::new();
    let mut request = cluster.review("r1", "a", 2);
    request.dry_run = true;
    let answer = cluster.run(&mut Prepare::new(request, settings(), false));
    assert!(answer.allowed && cluster.done.is_empty());
}

#[test]
fn a_record_that_was_lost_makes_the_next_downscale_wait() {
    let mut cluster = Cluster::new();
    cluster.record = None;
    assert!(!cluster.downscale("r1", "a", 2).allowed);
    assert_eq!(cluster.done, [r#"write operation none times ["a", "b"]"#]);
    cluster.now = at("2026-01-01T01:00:00Z");
    assert!(cluster.downscale("r2", "a", 2).allowed);
}

#[test]
fn the_newest_time_counts_wherever_it_is_written() {
    let old = "2025-12-31T00:00:00Z";
    let new = "2025-12-31T23:30:00Z";
    for newest in 0..3 {
        let time = |source: usize| if source == newest { new } else { old };
        let mut cluster = Cluster::new();
        cluster.sets[1]["metadata"]["annotations"]["grafana.com/last-downscale"] = json!(time(0));
        cluster.tracker = Some([("b".to_owned(), json!({"lastDownscaled": time(1)}).to_string())].into());
        let mut record = Record::default();
        record
            .status
            .last_downscale
            .insert("b".to_owned(), Time(at(time(2))));
        cluster.record = Some(record);
        assert!(!cluster.downscale("r1", "a", 2).allowed, "source {newest}");
    }
}

#[test]
fn pods_are_asked_by_groups_and_no_more_after_a_failure() {
    for (answers, posts, deletes) in [
        (prepared as Answers, 70, 0),
        (refused, 32, 70),
        (
            |ask: &Ask| {
                if ask.pod == "a-0" {
                    refused(ask)
                } else {
                    prepared(ask)
                }
            },
            70,
            70,
        ),
    ] {
        let mut cluster = Cluster::new();
        cluster.sets[0]["spec"]["replicas"] = json!(70);
        cluster.pods.extend((3..70).map(|ordinal| pod("a", ordinal)));
        cluster.answers = answers;
        cluster.downscale("r1", "a", 0);
        let count = |verb: &str| cluster.done.iter().filter(|done| done.starts_with(verb)).count();
        assert_eq!((count("POST"), count("DELETE")), (posts, deletes));
    }
}
