//! Promise: a budget leaves all zones but one undisturbed, counts by partition if configured, and takes allowed
//! evictions into account.

use jiff::Timestamp;
use muster_api::zonerollout::{InFlight, Operation, OperationKind, Why};
use muster_zones::{
    budget::{
        EvictionOrigin, Facts, KnownBudgets, Observed, OfRollout, Reason, Request, Verdict, is_under_way,
        judge, put_on_record, ready_time_patch,
    },
    model::{Pod, Set},
    roll::Budget as _,
};
use serde_json::{Value, json};

const ZONES: [&str; 3] = ["store-a", "store-b", "store-c"];

/// Three zones of three pods each, all ready, under one budget.
struct Cluster {
    spec: Value,
    sets: Vec<Value>,
    pods: Vec<Value>,
    in_flight: Vec<InFlight>,
    operations: Vec<Operation>,
    seconds: i64,
}

impl Cluster {
    fn new(spec: &Value) -> Self {
        let mut spec = spec.clone();
        spec["selector"] = json!({"matchLabels": {"rollout-group": "store"}});
        Self {
            spec,
            sets: ZONES.map(set).to_vec(),
            pods: ZONES
                .iter()
                .flat_map(|zone| (0..3).map(|ordinal| pod(zone, ordinal)))
                .collect(),
            in_flight: Vec::new(),
            operations: Vec::new(),
            seconds: 0,
        }
    }

    fn change(mut self, name: &str, pointer: &str, value: &Value) -> Self {
        let objects = self.sets.iter_mut().chain(self.pods.iter_mut());
        for object in objects.filter(|object| object["metadata"]["name"] == name) {
            *object.pointer_mut(pointer).unwrap() = value.clone();
        }
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.pods.retain(|pod| pod["metadata"]["name"] != name);
        self
    }

    fn with(mut self, pod: Value) -> Self {
        self.pods.push(pod);
        self
    }

    fn rows(&self) -> Vec<Pod> {
        self.pods
            .iter()
            .map(|pod| Pod::from_value(pod).unwrap())
            .collect()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.seconds).unwrap()
    }

    fn set_rows(&self) -> Vec<Set> {
        self.sets
            .iter()
            .map(|set| Set::from_value(set).unwrap())
            .collect()
    }

    fn budgets(&self) -> KnownBudgets {
        let mut budgets = KnownBudgets::default();
        let budget = json!({
            "kind": "ZoneAwarePodDisruptionBudget", "metadata": {"name": "store", "generation": 1}, "spec": self.spec,
        });
        assert_eq!(budgets.put(&budget), Observed::Updated);
        budgets
    }

    fn review_pod(&mut self, name: &str, dry_run: bool, origin: EvictionOrigin) -> Verdict {
        let (budgets, sets) = (self.budgets(), self.set_rows());
        let pods = self.rows();
        let pod = pods.iter().find(|pod| pod.name == name).cloned();
        let owner = pod.as_ref().and_then(|pod| pod.controller.clone());
        let request = Request {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            dry_run,
            origin,
        };
        let verdict = judge(
            &request,
            &Facts {
                budgets: &budgets,
                pod: pod.ok_or_else(|| "no such pod".to_owned()),
                owner: owner.map(|owner| {
                    let set = sets.iter().find(|set| set.name == owner.name).cloned();
                    set.ok_or_else(|| "no such set".to_owned())
                }),
                sets: Ok(sets),
                pods: Ok(pods),
                in_flight: &self.in_flight,
                operations: &self.operations,
                now: self.now(),
            },
        );
        self.in_flight
            .extend(verdict.record.clone().map(|record| *record));
        verdict
    }

    fn evict(&mut self, name: &str) -> (Reason, String) {
        let verdict = self.review_pod(name, false, EvictionOrigin::Eviction);
        (verdict.reason, verdict.message)
    }
}

fn set(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"rollout-group": "store"}},
        "spec": {"replicas": 3, "updateStrategy": {"type": "OnDelete"}},
        "status": {"replicas": 3},
    })
}

fn pod(set: &str, ordinal: u32) -> Value {
    let name = format!("{set}-{ordinal}");
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "annotations": {"grafana.com/ready-time": "2026-01-01T00:00:00Z"},
            "labels": {"rollout-group": "store", "name": set},
            "ownerReferences": [{"kind": "StatefulSet", "name": set, "uid": format!("uid-{set}"), "controller": true}],
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "app", "ready": true, "state": {"running": {}}}]},
    })
}

const READY: &str = "/status/containerStatuses/0/ready";

fn denied(text: &str) -> (Reason, String) {
    (Reason::Denied, text.to_owned())
}

fn allowed() -> (Reason, String) {
    (Reason::Allowed, String::new())
}

#[test]
fn no_second_zone_is_disturbed() {
    let one = json!({"maxUnavailable": 3});
    let table = [
        (Cluster::new(&one), allowed()),
        (
            Cluster::new(&one).change("store-b-1", READY, &json!(false)),
            denied("1 pod not ready in store-b"),
        ),
        (
            Cluster::new(&one).without("store-c-2"),
            denied("1 pod unknown in store-c"),
        ),
        (
            Cluster::new(&one).change("store-b", "/spec/replicas", &json!(5)),
            denied("2 pods unknown in store-b"),
        ),
        // Reported replicas count, too: a zone that is being scaled down still has its pods.
        (
            Cluster::new(&one).change("store-b", "/status/replicas", &json!(4)),
            denied("1 pod unknown in store-b"),
        ),
        (
            Cluster::new(&one)
                .change("store-b-0", READY, &json!(false))
                .without("store-b-1")
                .without("store-c-0"),
            denied("1 pod not ready, 1 pod unknown in store-b"),
        ),
        // A surplus pod may be removed at any time, regardless of the record.
        (
            Cluster::new(&one).with(pod("store-b", 3)),
            denied("a downscale of store-b is under way"),
        ),
        // A pod of another owner with the same labels does not replace a missing pod.
        (
            Cluster::new(&one).change(
                "store-b-1",
                "/metadata/ownerReferences/0/uid",
                &json!("uid-before"),
            ),
            denied("1 pod unknown in store-b"),
        ),
        (
            Cluster::new(&one).change("store-b-1", "/metadata/ownerReferences", &json!([])),
            denied("1 pod unknown in store-b"),
        ),
    ];
    for (mut cluster, expected) in table {
        assert_eq!(cluster.evict("store-a-0"), expected);
    }
}

#[test]
fn while_a_zone_is_scaled_down_no_pod_is_evicted() {
    let one = json!({"maxUnavailable": 1});
    let mut cluster = Cluster::new(&one);
    cluster.operations.push(Operation {
        kind: OperationKind::Downscaling,
        set: "store-b".to_owned(),
        set_uid: "uid-store-b".to_owned(),
        from: Some(3),
        to: Some(2),
        generation: Some(1),
        admission_uids: vec!["review".to_owned()],
        expires: None,
    });
    for pod in ["store-a-0", "store-b-0", "store-b-2"] {
        let denied = denied("a downscale of store-b is under way");
        assert_eq!(cluster.evict(pod), denied, "{pod}");
    }
    cluster.operations[0].kind = OperationKind::Rolling;
    assert_eq!(
        cluster.evict("store-a-0"),
        allowed(),
        "what is rolled is among the pods"
    );
}

#[test]
fn the_limit_holds_in_its_own_zone() {
    let mut cluster = Cluster::new(&json!({"maxUnavailable": 2}));
    assert_eq!(cluster.evict("store-a-0"), allowed());
    assert_eq!(cluster.evict("store-a-1"), allowed());
    assert_eq!(cluster.evict("store-a-2"), denied("2 pods not ready in store-a"));
    // A pod does not count against itself, ready or not.
    let mut cluster = Cluster::new(&json!({})).change("store-a-0", READY, &json!(false));
    assert_eq!(cluster.evict("store-a-0"), allowed());
    assert_eq!(cluster.evict("store-a-0"), allowed());
}

#[test]
fn a_limit_of_zero_is_for_people_only() {
    let mut cluster = Cluster::new(&json!({"maxUnavailable": 0}));
    assert_eq!(
        cluster.evict("store-a-0"),
        (Reason::LimitZero, "max unavailable = 0".to_owned())
    );
    assert_eq!(
        cluster
            .review_pod("store-a-0", false, EvictionOrigin::Rollout(0))
            .reason,
        Reason::LimitZero
    );
    assert_eq!(
        cluster
            .review_pod("store-a-0", false, EvictionOrigin::Rollout(1))
            .reason,
        Reason::Allowed
    );
    assert_eq!(
        cluster
            .review_pod("store-a-1", false, EvictionOrigin::Rollout(1))
            .reason,
        Reason::Denied
    );
    // `if_zero` applies only if the budget's limit is 0.
    let mut cluster = Cluster::new(&json!({"maxUnavailable": 1}));
    assert_eq!(
        cluster
            .review_pod("store-a-0", false, EvictionOrigin::Rollout(3))
            .reason,
        Reason::Allowed
    );
    assert_eq!(
        cluster
            .review_pod("store-a-1", false, EvictionOrigin::Rollout(3))
            .reason,
        Reason::Denied
    );
}

#[test]
fn what_serves_nothing_goes_at_any_time() {
    let zero = json!({"maxUnavailable": 0});
    for (pointer, value) in [
        ("/status/phase", json!("Pending")),
        ("/status/phase", json!("Succeeded")),
        ("/status/phase", json!("Failed")),
    ] {
        let mut cluster = Cluster::new(&zero).change("store-a-0", pointer, &value);
        let verdict = cluster.review_pod("store-a-0", false, EvictionOrigin::Eviction);
        assert_eq!(
            (verdict.reason, verdict.record),
            (Reason::PodNotReady, None),
            "{value}"
        );
    }
    let mut cluster = Cluster::new(&zero);
    cluster.pods[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(cluster.evict("store-a-0").0, Reason::PodNotReady);
    // A running pod that is not ready is subject to the budget.
    let mut cluster = Cluster::new(&zero).change("store-a-0", READY, &json!(false));
    assert_eq!(cluster.evict("store-a-0").0, Reason::LimitZero);
}

const PARTITIONS: &str = "store-[a-z]-([0-9]+)";

#[test]
fn partitions_are_counted_in_the_other_zones() {
    let spec = json!({"maxUnavailable": 1, "podNamePartitionRegex": PARTITIONS});
    let mut cluster = Cluster::new(&spec);
    assert_eq!(cluster.evict("store-a-0"), allowed());
    assert_eq!(cluster.evict("store-b-1"), allowed());
    assert_eq!(cluster.evict("store-a-2"), allowed());
    assert_eq!(
        cluster.evict("store-c-0"),
        denied("1 pod not ready in partition 0")
    );
    // A missing pod may be of any partition, and a zone without a pod of the partition counts as unknown.
    let mut cluster = Cluster::new(&spec).without("store-b-2");
    assert_eq!(cluster.evict("store-a-0"), denied("1 pod unknown in partition 0"));
    let mut cluster = Cluster::new(&spec)
        .change("store-b", "/spec/replicas", &json!(2))
        .change("store-b", "/status/replicas", &json!(2))
        .without("store-b-2");
    assert_eq!(cluster.evict("store-a-0"), allowed());
    assert_eq!(cluster.evict("store-a-2"), denied("1 pod unknown in partition 2"));
    // The configured group is the partition, even if an earlier group did not match.
    let mut cluster = Cluster::new(&json!({
        "podNamePartitionRegex": "(old-)?store-[a-z]-([0-9]+)", "podNameRegexGroup": 2,
    }));
    assert_eq!(cluster.evict("store-a-0"), allowed());
    assert_eq!(cluster.evict("store-b-1"), allowed());
    assert_eq!(
        cluster.evict("store-b-0"),
        denied("1 pod not ready in partition 0")
    );
    // The expression must match the whole name.
    let mut cluster = Cluster::new(&json!({"podNamePartitionRegex": "tore-[a-z]-([0-9]+)"}));
    assert_eq!(cluster.evict("store-a-0").0, Reason::PartitionNotIdentified);
}

#[test]
fn the_delay_between_zones_is_passed_strictly() {
    let spec = json!({"podNamePartitionRegex": PARTITIONS, "crossZoneEvictionDelay": "20m"});
    for (ready, expected) in [
        ("2027-01-15T07:40:00Z", Reason::Denied),
        ("2027-01-15T07:39:59Z", Reason::Allowed),
    ] {
        let mut cluster = Cluster::new(&spec).change(
            "store-b-0",
            "/metadata/annotations/grafana.com~1ready-time",
            &json!(ready),
        );
        assert_eq!(cluster.now().to_string(), "2027-01-15T08:00:00Z");
        assert_eq!(cluster.evict("store-a-0").0, expected, "{ready}");
    }
    // The condition Ready is used if it is later, or if there is no annotation.
    for (annotations, expected) in [
        (
            json!({"grafana.com/ready-time": "2026-01-01T00:00:00Z"}),
            Reason::Denied,
        ),
        (json!({}), Reason::Denied),
    ] {
        let mut cluster = Cluster::new(&spec).change("store-b-0", "/metadata/annotations", &annotations);
        let condition =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T07:50:00Z"}]);
        cluster.pods[3]["status"]["conditions"] = condition;
        assert_eq!(cluster.evict("store-a-0").0, expected);
        cluster.seconds += 601;
        assert_eq!(cluster.evict("store-a-0").0, Reason::Allowed);
    }
}

#[test]
fn the_time_since_which_a_pod_is_ready_is_written_once() {
    let now: Timestamp = "2027-01-15T08:00:00.5Z".parse().unwrap();
    let patch = |annotations: Value, ready: bool| {
        let mut pod = pod("store-a", 0);
        pod["metadata"]["annotations"] = annotations;
        pod["status"]["containerStatuses"][0]["ready"] = json!(ready);
        ready_time_patch(&Pod::from_value(&pod).unwrap(), now)
            .map(|patch| patch["metadata"]["annotations"].clone())
    };
    let name = "grafana.com/ready-time";
    assert_eq!(
        patch(json!({}), true),
        Some(json!({name: "2027-01-15T08:00:00Z"}))
    );
    assert_eq!(patch(json!({name: "2026-01-01T00:00:00Z"}), true), None);
    assert_eq!(patch(json!({name: "not a time"}), true), None);
    assert_eq!(
        patch(json!({name: "2026-01-01T00:00:00Z"}), false),
        Some(json!({name: null}))
    );
    assert_eq!(patch(json!({}), false), None);
}

#[test]
fn what_was_allowed_counts_for_two_minutes_or_until_the_pod_stops() {
    let under_way = |cluster: &Cluster| {
        let pods = cluster.rows();
        let entry = &cluster.in_flight[0];
        is_under_way(entry, pods.iter().find(|pod| pod.uid == entry.uid), cluster.now())
    };
    let mut cluster = Cluster::new(&json!({}));
    assert_eq!(cluster.evict("store-a-0"), allowed());
    cluster.seconds = 119;
    assert_eq!(cluster.evict("store-b-0"), denied("1 pod not ready in store-a"));
    assert!(under_way(&cluster));
    cluster.seconds = 120;
    assert!(!under_way(&cluster));
    assert_eq!(cluster.evict("store-b-0"), allowed());
    cluster.seconds = 1;
    let stopped = cluster.change("store-a-0", "/status/phase", &json!("Pending"));
    assert!(!under_way(&stopped));
    assert!(!under_way(&stopped.without("store-a-0")));
}

#[test]
fn a_deletion_counts_until_its_pod_is_gone() {
    let mut cluster = Cluster::new(&json!({}));
    assert_eq!(
        cluster
            .review_pod("store-a-0", false, EvictionOrigin::Rollout(1))
            .reason,
        Reason::Allowed
    );
    let entry = cluster.in_flight[0].clone();
    assert_eq!((entry.why, entry.set.as_str()), (Why::Deletion, "store-a"));
    cluster.seconds = 3_600;
    let mut cluster = cluster.change("store-a-0", "/status/phase", &json!("Pending"));
    assert!(is_under_way(&entry, cluster.rows().first(), cluster.now()));
    cluster = cluster.change("store-a-0", "/status/phase", &json!("Running"));
    assert_eq!(cluster.evict("store-b-0"), denied("1 pod not ready in store-a"));
    // The replacement pod is a different pod.
    let cluster = cluster.change("store-a-0", "/metadata/uid", &json!("uid-of-its-successor"));
    assert!(!is_under_way(&entry, cluster.rows().first(), cluster.now()));
}

/// The record of the eviction expires after two minutes; the deletion may arrive later.
#[test]
fn an_eviction_of_what_is_being_deleted_leaves_the_deletion_on_record() {
    let mut cluster = Cluster::new(&json!({}));
    let deletion = cluster
        .review_pod("store-a-0", false, EvictionOrigin::Rollout(1))
        .record
        .unwrap();
    let eviction = cluster
        .review_pod("store-a-0", false, EvictionOrigin::Eviction)
        .record
        .unwrap();
    let mut record = vec![*deletion.clone()];
    for _ in 0..2 {
        put_on_record(&mut record, *eviction.clone());
        assert_eq!(record, [*deletion.clone(), *eviction.clone()]);
    }
    cluster.in_flight = record;
    cluster.seconds = 3_600;
    assert_eq!(cluster.evict("store-b-0"), denied("1 pod not ready in store-a"));
}

#[test]
fn the_rollout_asks_and_what_it_was_allowed_counts_at_once() {
    let cluster = Cluster::new(&json!({"maxUnavailable": 0}));
    let (budgets, sets, pods) = (cluster.budgets(), cluster.set_rows(), cluster.rows());
    let mut budget = OfRollout::new(&budgets, "default", (&sets, &pods), Vec::new(), cluster.now());
    assert_eq!(budget.counts_by_partition(&pods[0]), Ok(false));
    assert_eq!(budget.allows(&pods[0], 0), Err("max unavailable = 0".to_owned()));
    assert_eq!(budget.allows(&pods[0], 1), Ok(()));
    assert_eq!(
        budget.allows(&pods[1], 1),
        Err("1 pod not ready in store-a".to_owned())
    );
    assert_eq!(budget.allows(&pods[1], 2), Ok(()));
    assert_eq!(
        budget.allows(&pods[3], 3),
        Err("2 pods not ready in store-a".to_owned())
    );
    let cluster = Cluster::new(&json!({"podNamePartitionRegex": PARTITIONS}));
    let budgets = cluster.budgets();
    let mut budget = OfRollout::new(&budgets, "default", (&sets, &pods), Vec::new(), cluster.now());
    assert_eq!(budget.counts_by_partition(&pods[0]), Ok(true));
    assert_eq!(budget.allows(&pods[0], 1), Ok(()));
    assert_eq!(budget.allows(&pods[4], 1), Ok(()));
}

#[test]
fn a_dry_run_leaves_nothing_behind() {
    let mut cluster = Cluster::new(&json!({}));
    assert_eq!(
        cluster
            .review_pod("store-a-0", true, EvictionOrigin::Eviction)
            .reason,
        Reason::Allowed
    );
    assert_eq!(cluster.in_flight, []);
    assert_eq!(cluster.evict("store-b-0"), allowed());
}

#[test]
fn what_is_not_known_is_refused() {
    let spec = json!({});
    let mut cluster = Cluster::new(&spec).change("store-a", "/metadata/labels", &json!({}));
    assert_eq!(cluster.evict("store-a-0").0, Reason::SetNotFound);
    let mut cluster = Cluster::new(&spec).change("store-a", "/metadata/uid", &json!("uid-of-its-successor"));
    assert_eq!(cluster.evict("store-a-0").0, Reason::SetNotFound);
    let mut cluster = Cluster::new(&spec);
    cluster.sets.truncate(1);
    assert_eq!(cluster.evict("store-a-0").0, Reason::TooFewSets);
    let mut cluster = Cluster::new(&spec);
    assert_eq!(
        cluster.evict("store-a-9"),
        (Reason::PodNotFound, "no such pod".to_owned())
    );
}

#[test]
fn a_review_has_to_be_of_an_eviction() {
    let review = |patch: Value| {
        let mut request = json!({
            "operation": "CREATE", "subResource": "eviction", "namespace": "default", "name": "store-a-0",
        });
        for (key, value) in patch.as_object().unwrap() {
            request[key] = value.clone();
        }
        Request::from_review(&request).map_err(|verdict| (verdict.reason.code(), verdict.message))
    };
    let refused = |text: &str| Err((400, text.to_owned()));
    assert_eq!(
        review(json!({"operation": "UPDATE"})),
        refused("request operation is not create, got: UPDATE")
    );
    assert_eq!(
        review(json!({"subResource": null})),
        refused("request SubResource is not eviction, got: ")
    );
    assert_eq!(
        review(json!({"name": ""})),
        refused("request did not include both a namespace and a name")
    );
    assert!(review(json!({"dryRun": true})).unwrap().dry_run);
    assert!(!review(json!({"dryRun": null})).unwrap().dry_run);
    assert!(Request::from_review(&Value::Null).is_err());
}
