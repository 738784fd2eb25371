//! Plays random histories of a group of zones: `cargo xtask simulate --zones`. `MUSTER_SEED` says which comes first, `MUSTER_RUNS` how many.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the player: what it does not expect ends it"
)]

#[path = "../tests/player/mod.rs"]
mod player;

use std::{
    env::var,
    hash::{BuildHasher, Hasher, RandomState},
    process::ExitCode,
    time::Instant,
};

fn main() -> ExitCode {
    let number = |name| var(name).ok().map(|text| text.parse().unwrap());
    let fresh = || RandomState::new().build_hasher().finish() >> 16;
    let first: u64 = number("MUSTER_SEED").unwrap_or_else(fresh);
    let runs: u64 = number("MUSTER_RUNS").unwrap_or(1_000);
    println!("{runs} histories from seed {first}");
    let began = Instant::now();
    let mut all = player::Tally::default();
    for run in 0..runs {
        match player::play(first.wrapping_add(run)) {
            Ok(tally) => all.add(&tally),
            Err(broken) => {
                eprintln!("{broken}");
                eprintln!(
                    "again: cargo xtask simulate --zones --runs 1 --seed {}",
                    first.wrapping_add(run)
                );
                return ExitCode::FAILURE;
            }
        }
        if (run + 1) % 10_000 == 0 {
            println!("{} in {:.0} s", run + 1, began.elapsed().as_secs_f64());
        }
    }
    println!(
        "{runs} histories in {:.1} s: the laws hold\n{all:?}",
        began.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
