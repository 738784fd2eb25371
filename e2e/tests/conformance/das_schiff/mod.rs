//! das-schiff-network-operator: which function of `muster-node` and of the NodeModule controller implements which
//! table.

use crate::registry::{Table, not_applicable};

mod agent;
mod checks;
mod fleet;
mod life;
mod node;
mod rollout;
mod sequence;
mod standing;

/// The tables of the directory, one per file.
pub(crate) const TABLES: &[&[Table]] = &[
    agent::TABLES,
    checks::TABLES,
    rollout::TABLES,
    sequence::TABLES,
    standing::TABLES,
    OTHERS,
];

const OTHERS: &[Table] = &[
    not_applicable(
        "count-references.json",
        "whether a revision is carried is a question of the clean-up (revision-cleanup.json); nothing of muster asks by how many",
    ),
    not_applicable(
        "debounce.json",
        "a watch of kube-runtime debounces, no function of muster",
    ),
    not_applicable(
        "fetch-inputs.json",
        "a NodeModule is one object: its parts come in the order of their list, and no list of objects is read",
    ),
    not_applicable("l2-duplicates.json", RENDERING),
    not_applicable("rendering-head.json", RENDERING),
    not_applicable("rendering-pr110.json", RENDERING),
    not_applicable("revision-hash.json", RENDERING),
    not_applicable("sort-comparators.json", RENDERING),
    not_applicable(
        "update-revision-counters.json",
        "revisions have no counters: the status of a NodeModule counts its nodes again in each pass (revision-counters.json)",
    ),
];

const RENDERING: &str = "muster has files of nodes, and no model of VRFs that it makes them from";
