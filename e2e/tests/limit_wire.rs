//! The limit with real processes: killed at random, and leaders that are suspended past their lease. Times are printed.

use muster_e2e::{
    bed::Ground::Wire,
    scenario::{
        limit::{LIMITS, holds},
        stopped_leader,
    },
    seed,
};

/// Thirty killed processes over the four limits.
const KILLS: [usize; 4] = [8, 8, 7, 7];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: cargo xtask long"]
async fn over_thirty_kills() {
    let first = seed();
    println!("seed {first}");
    for (limit, kills) in LIMITS.into_iter().zip(KILLS) {
        let began = std::time::Instant::now();
        holds(Wire, limit, kills, first).await;
        println!("in {:.0?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: cargo xtask long"]
async fn over_ten_leaders_that_sleep() {
    let seed = seed();
    println!("seed {seed}");
    let began = std::time::Instant::now();
    stopped_leader::wakes_up(10, seed).await;
    println!("in {:.0?}", began.elapsed());
}
