//! Cluster API's in-place updates: which function of `muster-machines` implements which table.
//!
//! Of the defects and requirements in the corpus, CX4 (an artefact of the corpus), CX5, CX6, CX8 and CX10 (the planner
//! of MachineDeployments) and R33 (OnDelete is never in place) concern Cluster API alone. CX7 is covered by
//! `machines/tests/all/order.rs`; CX9 and R34 (remediation ignores updates) are a warning of `muster check`,
//! `cli/tests/ops/check.rs`; the others are named at their tests.

use crate::registry::{Table, elsewhere, not_applicable};

mod cover;
mod history;
mod wire;

/// The tables of the directory, one per file.
pub(crate) const TABLES: &[&[Table]] = &[cover::TABLES, wire::TABLES, history::TABLES, OTHERS];

const OTHERS: &[Table] = &[
    not_applicable("hook-can-update-machine-decision.json", GATE),
    not_applicable("hook-can-update-machine-request.json", REQUEST),
    not_applicable("hook-client-aggregate.json", SEQUENCE),
    not_applicable("hook-reference-extension.json", REFERENCE),
    elsewhere("hooks-wire.json", "describes the wire: machines/tests/wire.rs"),
    not_applicable("kcp-rolling-update.json", CONTROL_PLANE),
    not_applicable("kcp-trigger.json", CONTROL_PLANE),
    not_applicable("kcp-try-in-place.json", CONTROL_PLANE),
    not_applicable("kcp-up-to-date.json", CONTROL_PLANE),
    not_applicable("machine-call-hook.json", MACHINE),
    not_applicable("machine-reconcile.json", MACHINE),
    not_applicable("machine-reconcile-gates.json", MACHINE),
    not_applicable("machine-up-to-date-condition.json", MACHINE),
    not_applicable("machine-updating-condition.json", MACHINE),
];

const GATE: &str = "gate and cached objects are those of Cluster API's control plane, which asks muster; what it is answered is decided as \
                    for MachineSets (hook-can-update-machineset-decision.json)";
const REQUEST: &str = "Cluster API's control plane makes the request, by dry runs of its own writes";
const SEQUENCE: &str = "updaters are called one after the other, and the answer is that of the present one: no answers are joined";
const REFERENCE: &str = "what the reference extension covers: muster asks updaters and is none";
const CONTROL_PLANE: &str =
    "the KubeadmControlPlane controller stays Cluster API's: muster answers its hook and moves no machine";
const MACHINE: &str = "the Machine controller and its conditions stay Cluster API's: muster answers its hook";
