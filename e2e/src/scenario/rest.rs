//! Promise: at rest nothing is written.

use std::time::Duration;

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::Quality,
};

/// Events and statuses of what has just happened.
const SETTLED: Duration = Duration::from_mins(1);
/// As long as the longest default interval.
const WATCHED: Duration = Duration::from_mins(10);

/// Not for ten minutes, by anybody of muster, to any API server.
pub async fn nothing_is_written(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let version = bed.release("base", 1, Quality::Good);
    bed.create_module(kinds::BOOTSTRAP_MODULE, "base", &version).await;
    bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "base", &version, crate::fleet::ROLLED)
        .await;
    bed.pass(SETTLED).await;
    bed.forget_requests();
    bed.pass(WATCHED).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
}
