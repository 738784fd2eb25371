//! Promise: muster decides like the systems that it replaces, or more safely: their own test cases run against muster's
//! functions.
//!
//! ```text
//!   DIR/SYSTEM/TABLE.json ──► reader ──► cases ──► adapter of the table ──► product function ──► answer
//!                                                                                                 │
//!              printed: equal | safer | deviating | not applicable | failed  ◄── deviations ◄── matcher
//! ```
//!
//! The cases are not part of this repository: `cargo xtask conformance [DIR]` prints their location, or that they were
//! not run. An adapter translates a case into arguments of the product function, and the result into the vocabulary of
//! the table; it never decides.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]
#![allow(clippy::unnecessary_wraps, reason = "all adapters have one type")]

#[path = "conformance/cluster_api/mod.rs"]
mod cluster_api;
#[path = "conformance/das_schiff/mod.rs"]
mod das_schiff;
#[path = "conformance/deviations.rs"]
mod deviations;
#[path = "conformance/grafana/mod.rs"]
mod grafana;
#[path = "conformance/kudo/mod.rs"]
mod kudo;
#[path = "conformance/matcher.rs"]
mod matcher;
#[path = "conformance/reader.rs"]
mod reader;
#[path = "conformance/reading_test.rs"]
mod reading_test;
#[path = "conformance/registry.rs"]
mod registry;
#[path = "conformance/run.rs"]
mod run;
#[path = "conformance/running_test.rs"]
mod running_test;

/// Every case of every table that muster implements is equal, safer, or a deviation with a reason.
#[test]
fn corpus() {
    let settings = run::Settings::from_environment();
    let report = run::run(&settings, registry::SYSTEMS).unwrap_or_else(|error| panic!("{error:#}"));
    print!("{report}");
    assert!(report.good(), "the conformance cases are not all good: see above");
}
