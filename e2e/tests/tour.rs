//! Promise: `cargo demo -- --tour` runs nine steps in under 90 seconds, checks each from outside the controllers, and
//! exits 0 only if every check passed.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use muster_e2e::bed::muster;

/// The time of the complete tour, on two cores.
const LIMIT: Duration = Duration::from_secs(90);

/// The title of each step, and a check that it must contain.
const STEPS: [(&str, &str); 9] = [
    ("First rollout", "podinfo 6.0.0 runs in all five clusters"),
    (
        "A good version",
        "one after another, in order: dev-1, eu-1, eu-2, us-1, us-2",
    ),
    ("A bad version", "the bad version went only to dev-1: dev-1"),
    ("Why?", "each of the five has exactly one reason"),
    ("Recovery", "no cluster was written to"),
    ("A cluster joins", "the other five were not written to"),
    ("A cluster goes offline, and returns", "us-2 was not written to"),
    ("A plan", "it names the step, its Job, and what can be done"),
    (
        "A withdrawal, stopped by the brake",
        "podinfo is in all six, untouched",
    ),
];

#[test]
#[ignore = "long: cargo xtask long"]
fn the_tour_ends_well_in_time() {
    let began = Instant::now();
    let output = Command::new(muster())
        .args(["demo", "--tour", "--seed", "1"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let took = began.elapsed();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    println!(
        "{stdout}\nthe tour took {:.1} s, start and end included",
        took.as_secs_f64()
    );
    assert_eq!(
        output.status.code(),
        Some(0),
        "{stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for (number, (title, check)) in STEPS.iter().enumerate() {
        let heading = format!("\n{}. {title}\n", number + 1);
        let step = stdout
            .split(&heading)
            .nth(1)
            .unwrap_or_else(|| panic!("{heading} is missing\n{stdout}"));
        let step = step.split("\n   took ").next().unwrap();
        assert!(
            step.lines()
                .any(|line| line.starts_with("   ✓ ") && line.contains(check)),
            "step {title} did not check {check:?}:\n{step}"
        );
    }
    assert!(
        !stdout.contains('✗') || stdout.contains("✗ dev-1"),
        "only the bad version fails: {stdout}"
    );
    assert!(stdout.contains("All checks passed: 9 steps, "), "{stdout}");
    assert!(!stdout.contains('\u{1b}'), "no escapes in a pipe");
    assert!(took < LIMIT, "{took:?} is longer than {LIMIT:?}");
}
