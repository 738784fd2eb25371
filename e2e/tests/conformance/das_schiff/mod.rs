//! das-schiff-network-operator: which function of `muster-node` answers which table of its agent and its health check.

use crate::registry::{Table, elsewhere, not_applicable};

mod agent;
mod checks;
mod life;
mod node;

/// Every file of the folder.
pub const TABLES: &[&[Table]] = &[agent::TABLES, checks::TABLES, ROLLOUT, OTHERS];

const LATER: &str = "the controller of NodeModules is not built yet";

/// What the rollout over the nodes decides.
const ROLLOUT: &[Table] = &[
    elsewhere("config-timeout.json", LATER),
    elsewhere("count-references.json", LATER),
    elsewhere("create-revision.json", LATER),
    elsewhere("fetch-inputs.json", LATER),
    elsewhere("first-valid-revision.json", LATER),
    elsewhere("invalidate-revision.json", LATER),
    elsewhere("list-nodes.json", LATER),
    elsewhere("match-selector.json", LATER),
    elsewhere("node-condition.json", LATER),
    elsewhere("node-taints.json", LATER),
    elsewhere("outdated-nodes.json", LATER),
    elsewhere("redundant-configs.json", LATER),
    elsewhere("revision-cleanup.json", LATER),
    elsewhere("revision-counters.json", LATER),
    elsewhere("revision-hash.json", LATER),
    elsewhere("sequences-rollout.json", LATER),
    elsewhere("should-skip.json", LATER),
    elsewhere("sort-comparators.json", LATER),
    elsewhere("update-revision-counters.json", LATER),
];

const OTHERS: &[Table] = &[
    not_applicable(
        "debounce.json",
        "a watch of kube-runtime debounces, no function of muster",
    ),
    not_applicable("l2-duplicates.json", RENDERING),
    not_applicable("rendering-head.json", RENDERING),
    not_applicable("rendering-pr110.json", RENDERING),
];

const RENDERING: &str = "muster has files of nodes, and no model of VRFs that it makes them from";
