//! KUDO: which function of `muster-sync` implements which table.

use crate::registry::{Table, not_applicable};

mod health;
mod plan;

/// The tables of the directory, one per file.
pub(crate) const TABLES: &[&[Table]] = &[plan::TABLES, health::TABLES, OTHERS];

const OTHERS: &[Table] = &[
    not_applicable("admission-review.json", INSTANCES),
    not_applicable("admit-update.json", INSTANCES),
    not_applicable("admit-update-probes.json", INSTANCES),
    not_applicable("apply-child-instance.json", INSTANCES),
    not_applicable("child-instance-parameters.json", INSTANCES),
    not_applicable("crds", INSTANCES),
    not_applicable(
        "delete-event-filter.json",
        "muster watches through reflectors, which miss no deletion",
    ),
    not_applicable(
        "enhance.json",
        "objects of muster carry the labels of Flux, and those of KUDO on none",
    ),
    not_applicable("instance-plan-queries.json", INSTANCES),
    not_applicable("kuttl", INSTANCES),
    not_applicable("lifecycle.json", HISTORIES),
    not_applicable("param-def-changes.json", PARAMETERS),
    not_applicable("param-definitions.json", PARAMETERS),
    not_applicable("param-value-type.json", PARAMETERS),
    not_applicable("parameter-diff.json", PARAMETERS),
    not_applicable("pipe-artifacts.json", PIPES),
    not_applicable("pipe-names.json", PIPES),
    not_applicable("pipe-pod-validate.json", PIPES),
    not_applicable("pipe-relative-path.json", PIPES),
    not_applicable("pipes-map.json", PIPES),
    not_applicable("plan-history-output.json", PRINTED),
    not_applicable("plan-status-output.json", PRINTED),
    not_applicable("plan-status-output-probes.json", PRINTED),
    not_applicable("reset-plan-status.json", LOCK),
    not_applicable("scheduled-plan.json", LOCK),
    not_applicable("task-apply.json", TASKS),
    not_applicable("task-build.json", TASKS),
    not_applicable("task-delete.json", TASKS),
    not_applicable("task-dummy.json", TASKS),
    not_applicable("task-toggle.json", TASKS),
    not_applicable("toggle-delegate.json", TASKS),
    not_applicable("triggered-plan.json", PARAMETERS),
];

const INSTANCES: &str =
    "there are no instances: a plan belongs to a version in git, which admission does not see";
const PARAMETERS: &str = "there are no parameters with plans of their own: other values are other documents";
const PIPES: &str = "pipes are left out on purpose: a Job writes what a later step needs";
const HISTORIES: &str = "histories of instances over two writes of one pass; muster stores a run in one: crashes at every write of it, a deletion, \
                         and a version that fails are tested on the whole sync (controllers/tests/kustomization/plan.rs)";
const LOCK: &str = "no field schedules a plan by name and uid: a run begins where the documents differ from those of the last one (Planned::next)";
const PRINTED: &str =
    "no command prints all plans of a version as a tree: kubectl prints the PlanRun, and muster why its line";
const TASKS: &str =
    "a step has files and deletions instead of tasks with kinds; server-side apply carries them out";
