//! Replicas follow a leader or mirror a reference, and are removed zone by zone.

use std::time::Duration;

use muster_controllers::zones::reviews::path;
use muster_zones::scale::pods::Answer;
use serde_json::{Value, json};

use crate::{
    reviews::{downscale, send_review},
    support::{Bed, NS, PODS_OF_ZONES, ROLLOUTS, SETS, TEMPLATES, ZONES, pass, rollout, set},
};

const MIRROR: &str = "grafana.com/rollout-mirror-replicas-from-resource";

/// Three zones that mirror a ReplicaTemplate, with a delay of ten minutes.
async fn mirrored() -> Bed {
    let mut bed = Bed::empty(&["-use-zone-tracker=true"]).await;
    let template = json!({
        "apiVersion": "rollout-operator.grafana.com/v1", "kind": "ReplicaTemplate",
        "metadata": {"name": "db"}, "spec": {"replicas": 3},
    });
    bed.until(TEMPLATES, |_| true).await;
    bed.create(TEMPLATES, template).await;
    for zone in ZONES {
        let metadata = json!({"annotations": {
            format!("{MIRROR}-name"): "db",
            format!("{MIRROR}-kind"): "ReplicaTemplate",
            format!("{MIRROR}-api-version"): "rollout-operator.grafana.com/v1",
            "grafana.com/rollout-delayed-downscale": "10m",
            "grafana.com/rollout-prepare-delayed-downscale-url": "http://pod/prepare-delayed-downscale",
        }});
        bed.create(SETS, set(zone, &metadata)).await;
    }
    bed.all_ready("v1").await;
    bed.start();
    bed.until_ready("True UpToDate").await;
    bed
}

async fn replicas(bed: &Bed, zone: &str) -> Value {
    bed.read(&format!("{SETS}/{zone}")).await.unwrap()["spec"]["replicas"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_reference_is_followed_up_at_once_and_down_when_pods_were_prepared_for_long_enough() {
    let bed = mirrored().await;
    let template = format!("{TEMPLATES}/db");
    bed.edit(&template, json!({"spec": {"replicas": 4}})).await;
    bed.until(&template, |template| template["status"]["replicas"] == 4)
        .await;
    for zone in ZONES {
        bed.until(&format!("{SETS}/{zone}"), |set| set["spec"]["replicas"] == 4)
            .await;
    }
    bed.until(PODS_OF_ZONES, |pods| {
        pods["items"].as_array().is_some_and(|pods| pods.len() == 12)
    })
    .await;
    bed.until_ready("True UpToDate").await;
    // Each pod remembers since when it is prepared: nine minutes ago, then eleven.
    let now = bed.now();
    let prepared = Answer {
        status: 200,
        body: json!({"timestamp": now.as_second() - 540}).to_string(),
    };
    for zone in ZONES {
        bed.pods
            .answers
            .lock()
            .insert(format!("{zone}-3"), Ok(prepared.clone()));
    }
    bed.edit(&template, json!({"spec": {"replicas": 3}})).await;
    let began = tokio::time::Instant::now();
    pass(Duration::from_secs(45)).await;
    assert_eq!(replicas(&bed, ZONES[0]).await, 4, "not for ten minutes yet");
    for zone in ZONES {
        bed.until(&format!("{SETS}/{zone}"), |set| set["spec"]["replicas"] == 3)
            .await;
    }
    assert!(began.elapsed() >= Duration::from_mins(1), "{:?}", began.elapsed());
    bed.until(PODS_OF_ZONES, |pods| {
        pods["items"].as_array().is_some_and(|pods| pods.len() == 9)
    })
    .await;
    bed.until_ready("True UpToDate").await;
    bed.until(&template, |template| template["status"]["replicas"] == 3)
        .await;
    let requests = bed.pods.requests.lock().clone();
    assert!(requests.contains(&"POST db-zone-a-3".to_owned()), "{requests:?}");
    assert!(
        !requests.contains(&"POST db-zone-a-2".to_owned()),
        "only pods that leave"
    );
}

#[tokio::test(start_paused = true)]
async fn pods_that_do_not_answer_stay() {
    let bed = mirrored().await;
    for zone in ZONES {
        bed.pods
            .answers
            .lock()
            .insert(format!("{zone}-2"), Err("it does not answer".to_owned()));
    }
    bed.edit(&format!("{TEMPLATES}/db"), json!({"spec": {"replicas": 2}}))
        .await;
    pass(Duration::from_hours(1)).await;
    let rollout = bed.read(&rollout()).await.unwrap();
    let reasons = rollout["status"]["reasons"].to_string();
    assert!(reasons.contains("it does not answer"), "{reasons}");
    for zone in ZONES {
        assert_eq!(replicas(&bed, zone).await, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_mirrored_is_named_and_rolling_goes_on() {
    let mut bed = Bed::empty(&[]).await;
    for zone in ZONES {
        let metadata =
            json!({"annotations": {format!("{MIRROR}-name"): "db", format!("{MIRROR}-kind"): "Secret"}});
        bed.create(SETS, set(zone, &metadata)).await;
    }
    bed.all_ready("v1").await;
    bed.start();
    let rollout = bed
        .until(&rollout(), |rollout| !rollout["status"]["reasons"].is_null())
        .await;
    let reasons = rollout["status"]["reasons"].to_string();
    assert!(
        reasons.contains("-mirror-kinds=ReplicaTemplate,Secret"),
        "{reasons}"
    );
    bed.image("v2").await;
    bed.all_ready("v2").await;
}

#[tokio::test(start_paused = true)]
async fn followers_follow_their_leader_and_the_times_are_copied_where_flags_want_them() {
    let mut bed = Bed::empty(&["-use-zone-tracker=true", "-write-last-downscale-annotation=true"]).await;
    let labels = json!({"grafana.com/prepare-downscale": "true", "grafana.com/min-time-between-zones-downscale": "1h"});
    let prepare = |more: Value| {
        let mut annotations = json!({
            "grafana.com/prepare-downscale-http-path": "prepare", "grafana.com/prepare-downscale-http-port": "80",
        });
        for (key, value) in more.as_object().unwrap() {
            annotations[key] = value.clone();
        }
        json!({"labels": labels, "annotations": annotations})
    };
    bed.create(SETS, set(ZONES[0], &prepare(json!({})))).await;
    for (zone, leader) in [(ZONES[1], ZONES[0]), (ZONES[2], ZONES[1])] {
        let follows = json!({"grafana.com/rollout-downscale-leader": leader});
        bed.create(SETS, set(zone, &prepare(follows))).await;
    }
    bed.all_ready("v1").await;
    bed.start();
    bed.until_ready("True UpToDate").await;
    pass(Duration::from_secs(3_700)).await;
    bed.edit(&format!("{SETS}/{}", ZONES[0]), json!({"spec": {"replicas": 2}}))
        .await;
    let began = tokio::time::Instant::now();
    for zone in &ZONES[1..] {
        bed.until(&format!("{SETS}/{zone}"), |set| set["spec"]["replicas"] == 2)
            .await;
    }
    let took = began.elapsed();
    assert!(
        took >= Duration::from_hours(1),
        "an hour between the second and the third: {took:?}"
    );
    bed.until_ready("True UpToDate").await;
    let map = bed
        .until(&tracker(), |map| map["data"][ZONES[2]].is_string())
        .await;
    let annotated = bed
        .until(&format!("{SETS}/{}", ZONES[2]), |set| {
            set["metadata"]["annotations"]["grafana.com/last-downscale"].is_string()
        })
        .await;
    let time = &annotated["metadata"]["annotations"]["grafana.com/last-downscale"];
    assert!(
        map["data"][ZONES[2]]
            .as_str()
            .unwrap()
            .contains(time.as_str().unwrap()),
        "{map}"
    );
}

/// Three zones whose downscales are prepared, an hour apart.
async fn prepared() -> Bed {
    let bed = Bed::empty(&[]).await;
    let metadata = json!({
        "labels": {"grafana.com/prepare-downscale": "true", "grafana.com/min-time-between-zones-downscale": "1h"},
        "annotations": {"grafana.com/prepare-downscale-http-path": "prepare", "grafana.com/prepare-downscale-http-port": "80"},
    });
    for zone in ZONES {
        bed.create(SETS, set(zone, &metadata)).await;
    }
    bed.all_ready("v1").await;
    bed
}

/// The state that a process leaves if it ends between its two writes, and that a module declares.
#[tokio::test(start_paused = true)]
async fn a_zone_rollout_without_a_status_begins_with_each_set_scaled_down_now() {
    let mut bed = prepared().await;
    let declared = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ZoneRollout", "metadata": {"name": "db"}, "spec": {"group": "db"}});
    bed.create(ROLLOUTS, declared).await;
    let answers = bed.serve(None).await;
    let times = bed.read(&rollout()).await.unwrap()["status"]["lastDownscale"].clone();
    assert!(ZONES.iter().all(|zone| times[zone].is_string()), "{times}");
    let review = send_review(
        &answers,
        path::PREPARE_DOWNSCALE,
        downscale(&bed, ZONES[0], 2).await,
    )
    .await;
    assert_eq!(review["allowed"], false, "{review}");
}

/// Only the flags changed: no watch event triggers it.
#[tokio::test(start_paused = true)]
async fn times_on_record_are_copied_by_a_process_that_is_started_with_other_flags() {
    let mut bed = prepared().await;
    bed.start();
    bed.until_ready("True UpToDate").await;
    bed.start_with(&["-use-zone-tracker=true", "-write-last-downscale-annotation=true"]);
    let times = bed.read(&rollout()).await.unwrap()["status"]["lastDownscale"].clone();
    for zone in ZONES {
        let time = times[zone].as_str().unwrap();
        bed.until(&tracker(), |map| {
            map["data"][zone]
                .as_str()
                .is_some_and(|entry| entry.contains(time))
        })
        .await;
        bed.until(&format!("{SETS}/{zone}"), |set| {
            set["metadata"]["annotations"]["grafana.com/last-downscale"] == time
        })
        .await;
    }
}

fn tracker() -> String {
    format!("/api/v1/namespaces/{NS}/configmaps/rollout-operator-zone-tracker")
}
