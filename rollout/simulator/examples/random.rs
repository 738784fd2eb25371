//! Runs random histories: `cargo xtask simulate`. `MUSTER_SEED` is the first seed, `MUSTER_RUNS` the number of
//! histories.

use std::env::{VarError, var};
use std::process::ExitCode;
use std::time::Instant;

use muster_rollout::plan;
use muster_simulator::{Tally, random};

const RUNS: u64 = 1000;

fn main() -> ExitCode {
    let (first, runs) = match (number("MUSTER_SEED"), number("MUSTER_RUNS")) {
        (Ok(seed), Ok(runs)) => (seed.unwrap_or_else(rand::random), runs.unwrap_or(RUNS)),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    println!("{runs} histories from seed {first}");
    let began = Instant::now();
    let (mut all, mut units, mut time) = (Tally::default(), 0, 0);
    for run in 0..runs {
        match random::run_history(first.wrapping_add(run), &plan) {
            Ok(summary) => {
                add(&mut all, &summary.tally);
                units += summary.units;
                time += summary.took.0 / 3_600_000;
            }
            Err(found) => {
                eprintln!("{found}");
                eprintln!("again: MUSTER_SEED={} MUSTER_RUNS=1", found.seed);
                return ExitCode::FAILURE;
            }
        }
        if (run + 1) % 10_000 == 0 {
            println!("{} in {:.0} s", run + 1, began.elapsed().as_secs_f64());
        }
    }
    println!(
        "{runs} histories of {units} units over {time} simulated hours in {:.1} s: the laws hold\n{all:?}",
        began.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}

/// A number from the environment.
fn number(name: &str) -> Result<Option<u64>, String> {
    match var(name) {
        Ok(text) => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("{name}={text} is no number")),
        },
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(format!("{name} is no text")),
    }
}

fn add(all: &mut Tally, one: &Tally) {
    all.events += one.events;
    all.decisions += one.decisions;
    all.assignments += one.assignments;
    all.refused += one.refused;
    all.lost += one.lost;
    all.overtaken += one.overtaken;
    all.crashes += one.crashes;
    all.good += one.good;
    all.bad += one.bad;
}
