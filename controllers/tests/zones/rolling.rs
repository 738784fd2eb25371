//! Pods are replaced zone by zone.

use std::time::Duration;

use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::json;

use crate::support::{Bed, NS, PODS, ROLLOUTS, SETS, ZONES, condition, pass, rollout, set};

#[tokio::test(start_paused = true)]
async fn a_new_template_gets_everywhere_one_zone_after_the_other_each_pod_on_record_before_it_is_deleted() {
    let bed = Bed::new(&[]).await;
    bed.image("v2").await;
    bed.all_ready("v2").await;
    let rollout = bed.until_ready("True UpToDate").await;
    assert_eq!(bed.most_disturbed(), 1);
    let deleted = bed.deleted();
    assert_eq!(deleted.len(), 9, "{deleted:?}");
    assert!(deleted.iter().all(|(_, known)| *known), "{deleted:?}");
    let zones: Vec<&str> = deleted.iter().map(|(pod, _)| &pod[..9]).collect();
    assert_eq!(zones, [[ZONES[0]; 3], [ZONES[1]; 3], [ZONES[2]; 3]].concat());
    let status = &rollout["status"];
    assert_eq!(status["progress"], json!({"done": 9, "total": 9}));
    assert!(
        status["inFlight"].is_null() && status["operation"].is_null(),
        "{status}"
    );
    for zone in ZONES {
        let set = bed.read(&format!("{SETS}/{zone}")).await.unwrap();
        assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
        assert_eq!(
            status["sets"][zone]["updateRevision"],
            set["status"]["updateRevision"]
        );
        assert_eq!(status["sets"][zone]["done"], true);
    }
    let ours = bed.read(&format!("{PODS}/zones")).await.unwrap();
    assert_eq!(
        ours["metadata"]["labels"]["fleet.muster.dev/zones-leader"],
        "true"
    );
    // At rest nothing is written, and nothing is read.
    pass(Duration::from_mins(1)).await;
    bed.api.recorder().clear();
    pass(Duration::from_hours(1)).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
    let requests = bed.api.recorder().requests();
    // Only the leader's label is checked, by name; everything else is watched.
    let reads = requests
        .iter()
        .filter(|request| request.client == "zones" && !request.query.contains("zones-leader"));
    let reads = reads.filter(|request| request.verb != Some(Verb::Watch));
    let reads: Vec<&str> = reads.map(|request| request.path.as_str()).collect();
    assert_eq!(reads, Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_stops_at_the_first_zone_names_the_pod_and_a_good_one_goes_on() {
    let bed = Bed::new(&[]).await;
    bed.image("bad").await;
    let rollout = bed.until_ready("False ProgressDeadlineExceeded").await;
    let (stalled, _, message) = condition(&rollout, "Stalled");
    assert_eq!(stalled, "True");
    for word in [
        ZONES[0],
        "pod db-zone-a-0",
        "ImagePullBackOff",
        "muster rollout retry",
    ] {
        assert!(message.contains(word), "{word}: {message}");
    }
    assert_eq!(bed.deleted().len(), 1, "one pod may be unavailable");
    let path = format!("/apis/events.k8s.io/v1/namespaces/{NS}/events");
    let events = bed.read(&path).await.unwrap();
    let warned = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .any(|event| event["reason"] == "ProgressDeadlineExceeded" && event["type"] == "Warning");
    assert!(warned, "{events}");
    bed.image("v3").await;
    bed.all_ready("v3").await;
    bed.until_ready("True UpToDate").await;
    assert_eq!(bed.most_disturbed(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_at_any_time_disturbs_no_second_zone_after_it_is_back() {
    let mut bed = Bed::new(&[]).await;
    bed.image("v2").await;
    for kill in 0..40_u64 {
        pass(Duration::from_millis(300 + 170 * kill)).await;
        bed.start();
    }
    bed.all_ready("v2").await;
    bed.until_ready("True UpToDate").await;
    assert_eq!(bed.most_disturbed(), 1);
    let deleted = bed.deleted();
    assert!(deleted.iter().all(|(_, known)| *known), "{deleted:?}");
    let mut zones: Vec<&str> = deleted.iter().map(|(pod, _)| &pod[..9]).collect();
    zones.dedup();
    assert_eq!(zones, ZONES, "no zone is begun before the last is done");
}

#[tokio::test(start_paused = true)]
async fn what_is_paused_stays_and_goes_on_when_it_is_not() {
    let bed = Bed::new(&[]).await;
    bed.edit(&rollout(), json!({"spec": {"paused": true}})).await;
    bed.until_ready("True UpToDate").await;
    bed.image("v2").await;
    bed.until_ready("False Paused").await;
    pass(Duration::from_hours(1)).await;
    assert_eq!(bed.deleted(), Vec::new());
    bed.edit(&rollout(), json!({"spec": {"paused": false}})).await;
    bed.all_ready("v2").await;
    bed.until_ready("True UpToDate").await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_soaks_before_the_next_one_is_begun() {
    let bed = Bed::new(&[]).await;
    bed.edit(&rollout(), json!({"spec": {"soak": "10m"}})).await;
    bed.image("v2").await;
    let began = tokio::time::Instant::now();
    bed.until_ready("False Soaking").await;
    bed.all_ready("v2").await;
    bed.until_ready("True UpToDate").await;
    assert!(
        began.elapsed() >= Duration::from_mins(20),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn the_api_server_refuses_deletions_and_the_zone_rollout_says_so_until_it_does_not() {
    let bed = Bed::new(&[]).await;
    let deletions = Match {
        verbs: vec![Verb::Delete],
        ..Match::client("zones")
    };
    let rule = Rule::always(deletions, Fault::Status(Failure::Forbidden));
    let rule = bed.api.faults().add(rule);
    bed.image("v2").await;
    let rollout = bed.until_ready("False WriteFailed").await;
    let (_, _, message) = condition(&rollout, "Ready");
    assert!(message.contains("failed to delete pod db-zone-a-0"), "{message}");
    bed.api.faults().remove(rule);
    bed.all_ready("v2").await;
    bed.until_ready("True UpToDate").await;
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_not_updated_by_deletions_stops_its_group_by_name() {
    let bed = Bed::new(&[]).await;
    bed.edit(
        &format!("{SETS}/{}", ZONES[1]),
        json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}),
    )
    .await;
    let rollout = bed.until_ready("False NotOnDelete").await;
    let (stalled, _, message) = condition(&rollout, "Stalled");
    assert_eq!(stalled, "True");
    assert!(message.contains(ZONES[1]), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_zone_rollout_under_another_name_is_refused_and_one_of_no_sets_goes_unless_people_wrote_it() {
    let bed = Bed::new(&[]).await;
    bed.create(
        ROLLOUTS,
        json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ZoneRollout",
            "metadata": {"name": "mine"}, "spec": {"group": "db"},
        }),
    )
    .await;
    let mine = bed
        .until(&format!("{ROLLOUTS}/mine"), |rollout| {
            crate::support::ready(rollout) == "False WrongName"
        })
        .await;
    let (_, _, message) = condition(&mine, "Stalled");
    assert!(
        message.contains(&muster_api::names::zone_rollout_name("db")),
        "{message}"
    );
    let mut other = set("other-a", &json!({}));
    other["metadata"]["labels"]["rollout-group"] = json!("other");
    bed.create(SETS, other).await;
    let others = format!("{ROLLOUTS}/{}", muster_api::names::zone_rollout_name("other"));
    bed.until(&others, |_| true).await;
    for zone in ZONES.into_iter().chain(["other-a"]) {
        if zone == ZONES[0] {
            bed.edit(&rollout(), json!({"spec": {"soak": "1m"}})).await;
        }
        bed.delete(&format!("{SETS}/{zone}")).await;
    }
    bed.until_ready("False NoStatefulSets").await;
    bed.until(ROLLOUTS, |list| {
        let names = list["items"].as_array().into_iter().flatten();
        let names: Vec<&str> = names
            .filter_map(|item| item["metadata"]["name"].as_str())
            .collect();
        !names.contains(&others.rsplit('/').next().unwrap())
    })
    .await;
    // A ZoneRollout that a user wrote keeps its record, and the series of groups are removed with the groups.
    let kept = bed.read(&rollout()).await.unwrap();
    assert!(kept["status"]["lastDownscale"][ZONES[0]].is_string(), "{kept}");
    let counted = bed.metrics.scrape().unwrap();
    for group in ["db", "other"] {
        let series = format!("rollout_operator_group_reconciles_total{{rollout_group=\"{group}\"}}");
        assert!(!counted.contains(&series), "{counted}");
    }
}
