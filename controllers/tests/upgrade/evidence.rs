//! Promise: a Cluster is confirmed also by what its own API server reports; what could not be read counts as not ready.

use serde_json::json;

use crate::bed::Bed;

#[tokio::test(start_paused = true)]
async fn a_cluster_is_not_confirmed_before_its_own_api_server_says_so() {
    let mut bed = Bed::without_controller(&["c-1"], "v1.34.2").await;
    bed.settled("c-1").await;
    bed.stuck.lock().insert("c-1".to_owned());
    bed.served
        .lock()
        .insert("c-1".to_owned(), Some("v1.33.4".to_owned()));
    bed.start();
    bed.upgrade("next", "v1.34.2", json!({})).await;
    let message = bed.until_why("next", "c-1", "Updating").await;
    assert!(message.contains("its API server reports v1.33.4"), "{message}");

    // A distribution's suffix is not part of the version.
    bed.served
        .lock()
        .insert("c-1".to_owned(), Some("v1.34.2-eks-1".to_owned()));
    bed.until_state("next", "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_version_is_assumed_to_have_it_and_that_is_said() {
    let mut bed = Bed::without_controller(&["c-1"], "v1.34.2").await;
    bed.settled("c-1").await;
    bed.stuck.lock().insert("c-1".to_owned());
    bed.served.lock().insert("c-1".to_owned(), None);
    bed.start();
    bed.upgrade("next", "v1.34.2", json!({})).await;
    bed.until_state("next", "Succeeded").await;
    let status = bed.upgrades().get("next").await.unwrap().status.unwrap();
    assert_eq!(status.assumed.as_deref(), Some("c-1"));
}
