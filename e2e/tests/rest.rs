//! Twenty idle clusters, on both beds.

use muster_e2e::{bed::Ground, scenario::rest::twenty_clusters};

#[tokio::test(start_paused = true)]
#[ignore = "long: cargo xtask long"]
async fn for_thirty_minutes() {
    twenty_clusters(Ground::Virtual).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: cargo xtask long"]
async fn for_a_minute_on_the_wire() {
    twenty_clusters(Ground::Wire).await;
}
