//! Promise: hostile clusters do not slow down the others. Twenty clusters, on both beds.

use muster_e2e::{
    bed::Ground,
    scenario::{identity, isolation},
};

#[tokio::test(start_paused = true)]
#[ignore = "long: cargo xtask long"]
async fn of_twenty_clusters_four_are_hostile() {
    isolation::of_twenty(Ground::Virtual).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: cargo xtask long"]
async fn the_memory_of_the_process_is_bounded() {
    isolation::bounded_memory(Ground::Wire).await;
}

#[tokio::test(start_paused = true)]
async fn of_seven_clusters_four_are_hostile() {
    isolation::of_seven(Ground::Virtual).await;
}

#[tokio::test(start_paused = true)]
async fn hung_clusters_hold_no_workers() {
    isolation::hung_clusters_hold_no_workers(Ground::Virtual).await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_leads_elsewhere_stops_everything_for_its_cluster() {
    identity::leads_elsewhere(Ground::Virtual).await;
}
