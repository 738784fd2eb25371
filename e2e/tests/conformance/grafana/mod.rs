//! grafana/rollout-operator: which function of `muster-zones` implements which table, module by module.
//!
//! One line for each table: `product(FILE, FUNCTION, ADAPTER)`, or `not_applicable(FILE, REASON)`. A file without a
//! line fails the run.

use crate::registry::{Table, elsewhere, not_applicable};

mod admit;
mod budget;
mod installation;
mod roll;
mod scale;
mod store;

/// The tables of the directory, one per file.
pub(crate) const TABLES: &[&[Table]] = &[
    admit::TABLES,
    budget::TABLES,
    installation::TABLES,
    roll::TABLES,
    scale::TABLES,
    OTHERS,
];

const LATER: &str = "of a pull request that is not released: muster replaces v0.38.1";

const OTHERS: &[Table] = &[
    not_applicable("health-check-objects.json", LATER),
    not_applicable("health-checks.json", LATER),
    not_applicable("health-gate.json", LATER),
    not_applicable("min-time-source.json", LATER),
    elsewhere(
        "scenarios.json",
        "needs a real control plane: cargo xtask real run",
    ),
];
