//! The limit at every instant, with randomly killed processes, two leaders, and deletions during a rollout.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::thread;

use muster_e2e::{
    bed::Ground::Virtual,
    scenario::limit::{LIMITS, Limit, holds, holds_with_two_leaders},
    seed,
};

/// On paused time, in a separate thread.
fn alone<F: Future<Output = ()>>(future: F) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future);
}

/// All limits, each with this number of killed processes, two limits at a time.
fn all(limits: &[Limit], ends: usize) {
    let first = seed();
    println!("seed {first}");
    for pair in limits.chunks(2) {
        let threads: Vec<_> = pair
            .iter()
            .map(|limit| {
                let limit = *limit;
                let seed = first.wrapping_add(limit.text.bytes().map(u64::from).sum());
                thread::spawn(move || alone(holds(Virtual, limit, ends, seed)))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn over_some_ends_of_processes() {
    all(&LIMITS, 8);
}

#[test]
#[ignore = "long: cargo xtask long"]
fn over_a_thousand_ends_of_processes() {
    all(&LIMITS, 250);
}

#[test]
#[ignore = "long: cargo xtask long"]
fn with_two_leaders() {
    let seed = seed();
    println!("seed {seed}");
    alone(holds_with_two_leaders(Virtual, LIMITS[1], 5, seed));
}

#[test]
#[ignore = "long: cargo xtask long"]
fn with_two_leaders_under_many_seeds() {
    let first = seed();
    println!("seed {first}");
    for seed in 0..20 {
        let limit = LIMITS[usize::try_from(seed % 3).unwrap()];
        alone(holds_with_two_leaders(
            Virtual,
            limit,
            8,
            first.wrapping_add(seed),
        ));
    }
}
