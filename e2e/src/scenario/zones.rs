//! Promise: a rollout over clusters with zones takes one zone of one cluster at a time, and a bad image stops at the
//! first zone of the first cluster; a fixed one rolls out without manual steps.

use std::time::Duration;

use serde_json::Value;

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{APPS, condition},
};

const SETS: [&str; 3] = ["db-zone-a", "db-zone-b", "db-zone-c"];
/// How many pods each zone has.
const REPLICAS: usize = 2;
/// A rollout over three clusters of three zones of two pods, one after another.
const ROLLED: Duration = Duration::from_mins(4);
/// Enough time for another zone or cluster to be touched.
const WATCHED: Duration = Duration::from_mins(5);

/// A group of three zones; an image that cannot be pulled is reported after ten seconds.
fn manifests(version: &str, image: &str) -> String {
    let set = |name: &str| {
        format!(
            "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: {name}\n  namespace: {APPS}\n  labels: {{rollout-group: db}}\n  \
             annotations: {{rollout-max-unavailable: \"2\"}}\nspec:\n  replicas: {REPLICAS}\n  serviceName: db\n  podManagementPolicy: Parallel\n  \
             updateStrategy: {{type: OnDelete}}\n  selector: {{matchLabels: {{name: {name}}}}}\n  template:\n    \
             metadata: {{labels: {{name: {name}, rollout-group: db}}}}\n    spec:\n      containers: [{{name: db, image: \"{image}:{version}\"}}]\n"
        )
    };
    let rollout = format!(
        "apiVersion: fleet.muster.dev/v1alpha1\nkind: ZoneRollout\nmetadata: {{name: {}, namespace: {APPS}}}\n\
         spec: {{group: db, progressDeadline: 10s}}\n",
        muster_api::names::zone_rollout_name("db")
    );
    std::iter::once(rollout).chain(SETS.map(set)).collect()
}

/// A good version, a bad one, a fixed one.
pub async fn stop_at_the_first(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &CLUSTERS).await;
    for cluster in CLUSTERS {
        bed.start_zones(cluster).await;
    }
    bed.commit_version("db", &manifests("v1", "example.com/db"), "db-v1");
    bed.create_module(kinds::MODULE, "db", "db-v1").await;
    bed.until_ready_within(kinds::MODULE, "db", "db-v1", ROLLED).await;

    bed.commit_version("db", &manifests("v2", "example.com/db-bad"), "db-v2");
    bed.target("db", "db-v2").await;
    let module = bed.until_reason("db", "Failed", ROLLED).await;
    let ready = condition(&module, "Ready").unwrap();
    let message = ready["message"].as_str().unwrap();
    println!("{message}");
    for word in ["eu-1", "db-zone-a", "ImagePull"] {
        assert!(message.contains(word), "{word} is not named: {message}");
    }
    if bed.is_virtual() {
        bed.pass(WATCHED).await;
    }
    assert_eq!(images(&bed, "eu-1", SETS[0]).await, ["db-bad:v2", "db-bad:v2"]);
    for set in &SETS[1..] {
        assert_eq!(images(&bed, "eu-1", set).await, ["db:v1", "db:v1"], "{set}");
    }
    for cluster in &CLUSTERS[1..] {
        let zones = bed.zones(cluster, &SETS, REPLICAS);
        assert!(
            !zones.images.contains_key("example.com/db-bad:v2"),
            "{cluster}: {zones:?}"
        );
    }

    bed.commit_version("db", &manifests("v3", "example.com/db"), "db-v3");
    bed.target("db", "db-v3").await;
    let took = bed.until_ready_within(kinds::MODULE, "db", "db-v3", ROLLED).await;
    println!(
        "fixed over {} clusters of {} zones: {took:?}",
        CLUSTERS.len(),
        SETS.len()
    );
    let mut before = None;
    for cluster in CLUSTERS {
        let zones = bed.zones(cluster, &SETS, REPLICAS);
        assert_eq!(zones.most_disturbed, 1, "{cluster}: {zones:?}");
        let (wanted, done) = zones.images["example.com/db:v3"];
        assert!(
            before < Some(wanted),
            "{cluster} began before the last one was done"
        );
        before = Some(done.unwrap());
        for set in SETS {
            assert_eq!(
                images(&bed, cluster, set).await,
                ["db:v3", "db:v3"],
                "{cluster} {set}"
            );
        }
    }
}

/// The images of a set's pods, without their registry host.
async fn images(bed: &Bed, cluster: &str, set: &str) -> Vec<String> {
    let pods = bed.inside(cluster, APPS).list(kinds::POD).await;
    let of_set = pods.iter().filter(|pod| pod["metadata"]["labels"]["name"] == set);
    of_set.map(image).collect()
}

fn image(pod: &Value) -> String {
    let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
    image.trim_start_matches("example.com/").to_owned()
}
