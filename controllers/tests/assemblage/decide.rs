//! What a row needs, depending on the live objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use muster_api::{
    assemblage::{SyncPhase, SyncRow, SyncState, Withdraw},
    flux::{DeletionPolicy, Kustomization},
    labels::finalizer,
    plan::PlanControl,
};
use muster_controllers::expand::{
    plan::Write,
    view::{Away, DesiredRow},
};
use serde_json::json;

use super::situation::*;

#[test]
fn a_new_row_gets_its_source_first() {
    let new = row(NEW, 2);
    let plan = check(
        Case::carry(new.clone()),
        "[create source] Updating SourceNotReady",
    );
    assert_eq!(
        (plan.state.token, plan.state.digest.as_deref()),
        (Some(2), new.digest.as_deref()),
        "acknowledged at once"
    );

    let mut fetching = live_source(&derived(&new));
    fetching.status = None;
    check(
        Case::carry(new.clone()).source(fetching),
        "[] Updating SourceNotReady",
    );

    let mut failing = live_source(&derived(&new));
    let status = failing.status.as_mut().unwrap();
    status.artifact = None;
    status.conditions = vec![condition("False", "GitOperationFailed", "commit is on no branch")];
    let plan = check(
        Case::carry(new.clone()).source(failing),
        "[] Updating SourceNotReady",
    );
    assert!(
        plan.state
            .message
            .unwrap()
            .ends_with("GitOperationFailed: commit is on no branch")
    );

    check(
        Case::carry(new.clone()).source(live_source(&derived(&new))),
        "[create] Updating Updating",
    );
}

#[test]
fn a_changed_row_changes_the_kustomization_in_one_write_when_its_source_is_there() {
    let (old, new) = (derived(&row(OLD, 1)), row(NEW, 2));
    check(
        Case::carry(new.clone()).with(live(&old)),
        "[create source] Updating SourceNotReady",
    );
    let mut earlier = live_source(&derived(&new));
    earlier.status.as_mut().unwrap().observed_generation = Some(0);
    check(
        Case::carry(new.clone()).with(live(&old)).source(earlier),
        "[] Updating SourceNotReady",
    );

    let plan = check(
        Case::carry(new.clone())
            .with(live(&old))
            .source(live_source(&derived(&new))),
        "[replace at 7] Updating Updating",
    );
    let [Write::Replace(next)] = plan.writes.as_slice() else {
        panic!("one write")
    };
    assert_eq!(next.spec, derived(&new).kustomization.spec);
    assert_eq!(
        plan.state.commit.as_deref(),
        Some(OLD),
        "what is installed is still the old commit"
    );
}

#[test]
fn only_what_is_as_derived_and_observed_has_succeeded() {
    let row = row(OLD, 1);
    let derived = derived(&row);
    let plan = check(
        Case::carry(row.clone())
            .with(live(&derived))
            .source(live_source(&derived)),
        "[] Succeeded UpToDate",
    );
    assert_eq!(plan.state.commit.as_deref(), Some(OLD));

    let mut edited = live(&derived);
    edited.spec.path = Some("./other".to_owned());
    check(
        Case::carry(row.clone())
            .with(edited)
            .source(live_source(&derived)),
        "[replace at 7] Updating Updating",
    );

    // A source that disappeared is re-created; the observed facts of the Kustomization stay.
    check(
        Case::carry(row.clone()).with(live(&derived)),
        "[create source] Succeeded UpToDate",
    );
}

#[test]
fn what_others_add_is_taken_away_and_what_defaults_add_is_not() {
    let row = row(OLD, 1);
    let derived = derived(&row);
    let mut added = live(&derived);
    added.spec.other.insert("components".to_owned(), json!(["extra"]));
    check(
        Case::carry(row.clone())
            .with(added.clone())
            .source(live_source(&derived)),
        "[] Succeeded UpToDate",
    );

    let foreign = fields("kubectl-edit", json!({"f:spec": {"f:components": {}}}));
    added.metadata.managed_fields.as_mut().unwrap().push(foreign);
    let plan = check(
        Case::carry(row).with(added).source(live_source(&derived)),
        "[replace at 7] Updating Updating",
    );
    let [Write::Replace(next)] = plan.writes.as_slice() else {
        panic!("one write")
    };
    assert!(next.spec.other.is_empty());
}

#[test]
fn a_foreign_object_of_that_name_is_never_written() {
    let row = row(OLD, 1);
    let derived = derived(&row);
    let mut foreign = live(&derived);
    foreign.metadata.owner_references = None;
    foreign.metadata.managed_fields = Some(vec![fields("kubectl-create", json!({"f:spec": {"f:path": {}}}))]);
    let plan = check(
        Case::carry(row.clone())
            .with(foreign.clone())
            .source(live_source(&derived)),
        "[] Updating NameConflict",
    );
    assert!(plan.state.message.unwrap().contains("kubectl-create created it"));
    assert_eq!(plan.state.commit, None, "what it installed is not ours to report");
    check(
        Case::withdraw(Withdraw::Prune).with(foreign),
        "[] Withdrawing NameConflict",
    );

    let mut others = live(&derived);
    others.metadata.owner_references.as_mut().unwrap()[0].name = "eu-2".to_owned();
    check(
        Case::carry(row.clone())
            .with(others)
            .source(live_source(&derived)),
        "[] Updating NameConflict",
    );

    // An assemblage that was deleted with `--cascade=orphan` and re-created finds the objects that it wrote.
    let mut orphaned = live(&derived);
    orphaned.metadata.owner_references = None;
    check(
        Case::carry(row.clone())
            .with(orphaned)
            .source(live_source(&derived)),
        "[replace at 7] Updating Updating",
    );

    let mut source = live_source(&derived);
    source.spec.url = "https://git.example/other".to_owned();
    source.metadata.managed_fields = Some(vec![fields("kubectl-create", json!({"f:spec": {"f:url": {}}}))]);
    check(Case::carry(row).source(source), "[] Updating NameConflict");
}

#[test]
fn a_row_that_another_suspended_is_held_with_the_managers_name() {
    let (old, new) = (row(OLD, 1), row(NEW, 2));
    let mut suspended = live(&derived(&old));
    suspended.spec.suspend = Some(true);
    suspended
        .metadata
        .managed_fields
        .as_mut()
        .unwrap()
        .push(fields("kubectl-patch", json!({"f:spec": {"f:suspend": {}}})));
    for case in [
        Case::carry(old),
        Case::carry(new.clone()).source(live_source(&derived(&new))),
    ] {
        let plan = check(case.with(suspended.clone()), "[] Updating Held");
        assert!(plan.state.message.unwrap().contains("kubectl-patch"));
    }
    check(
        Case::withdraw(Withdraw::Prune).with(suspended.clone()),
        "[] Withdrawing Held",
    );

    // Suspended by muster: muster resumes it.
    suspended.metadata.managed_fields = Some(vec![fields(US, json!({"f:spec": {"f:suspend": {}}}))]);
    check(
        Case::carry(new.clone())
            .with(suspended)
            .source(live_source(&derived(&new))),
        "[replace at 7] Updating Updating",
    );
}

#[test]
fn withdrawal_marks_deletes_and_waits() {
    let mut there = live(&derived(&row(OLD, 1)));
    let plan = check(
        Case::withdraw(Withdraw::Prune).with(there.clone()),
        "[replace at 7] Withdrawing Withdrawing",
    );
    let [Write::Replace(next)] = plan.writes.as_slice() else {
        panic!("one write")
    };
    assert_eq!(
        next.spec.deletion_policy,
        Some(DeletionPolicy::WaitForTermination)
    );

    check(
        Case::withdraw(Withdraw::Orphan).with(there.clone()),
        "[delete k-1 at 7] Withdrawing Withdrawing",
    );
    there.spec.deletion_policy = Some(DeletionPolicy::WaitForTermination);
    check(
        Case::withdraw(Withdraw::Prune).with(there.clone()),
        "[] Withdrawing Withdrawing",
    );
    there.metadata.finalizers = Some(vec![finalizer::FLUX.to_owned()]);
    check(
        Case::withdraw(Withdraw::Prune).with(there.clone()),
        "[delete k-1 at 7] Withdrawing Withdrawing",
    );
    check(
        Case::withdraw(Withdraw::Orphan).with(there.clone()),
        "[replace at 7] Withdrawing Withdrawing",
    );

    there.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
    check(
        Case::withdraw(Withdraw::Prune).with(there),
        "[] Withdrawing Withdrawing",
    );
    let plan = check(Case::withdraw(Withdraw::Prune), "[] Withdrawn Excluded");
    assert_eq!(plan.state.token, Some(9));
}

/// The plan `cleanup` is running: a manual control is written once.
#[test]
fn what_is_done_by_hand_reaches_a_cleanup() {
    let mut there = live(&derived(&row(OLD, 1)));
    there.spec.deletion_policy = Some(DeletionPolicy::WaitForTermination);
    there.metadata.finalizers = Some(vec![finalizer::FLUX.to_owned()]);
    there.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
    let cleanup = "cleanup 1/1 before/dump FatalError";
    let mut plan = condition("False", "Revision", &format!("{cleanup} (run 1a2b)"));
    plan.type_ = "Plan".to_owned();
    there.status.as_mut().unwrap().conditions.push(plan);
    let case = |there: Kustomization| {
        let mut case = Case::withdraw(Withdraw::Prune).with(there);
        case.row.plan_control = PlanControl::parse("skip/1a2b/before/dump", "", None);
        case
    };
    let id = case(there.clone()).row.plan_control.unwrap().id;
    let plan = check(
        case(there.clone()),
        &format!("[control web by {id}, ask k-1 for muster-9-{id}] Withdrawing Withdrawing")
            .replace("web", there.metadata.name.as_deref().unwrap()),
    );
    assert_eq!(plan.state.plan.as_deref(), Some(cleanup));
    assert_eq!(plan.state.plan_run.unwrap().uid, "1a2b");
    there.annotations_mut().insert(
        "reconcile.fluxcd.io/requestedAt".to_owned(),
        format!("muster-9-{id}"),
    );
    check(case(there), "[] Withdrawing Withdrawing");
}

#[test]
fn a_deleted_kustomization_is_made_again_and_meanwhile_protected() {
    let row = row(OLD, 1);
    let derived = derived(&row);
    let mut going = live(&derived);
    going.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
    check(
        Case::carry(row.clone())
            .with(going.clone())
            .source(live_source(&derived)),
        "[] Updating Updating",
    );
    going.spec.deletion_policy = Some(DeletionPolicy::Delete);
    check(
        Case::carry(row.clone()).with(going).source(live_source(&derived)),
        "[replace at 7] Updating Updating",
    );
    check(
        Case::carry(row).source(live_source(&derived)),
        "[create] Updating Updating",
    );
}

#[test]
fn nothing_is_written_while_the_cluster_is_away() {
    let away = |mut case: Case| {
        case.scope.away = Some(Away {
            reason: "Unreachable".to_owned(),
            message: "no answer from eu-1".to_owned(),
        });
        case
    };
    let (old, new) = (row(OLD, 1), row(NEW, 2));
    check(away(Case::carry(new.clone())), "[] Updating Unreachable");
    check(
        away(
            Case::carry(new.clone())
                .with(live(&derived(&old)))
                .source(live_source(&derived(&new))),
        ),
        "[] Updating Unreachable",
    );
    check(
        away(Case::withdraw(Withdraw::Prune).with(live(&derived(&old)))),
        "[] Withdrawing Unreachable",
    );
    check(
        away(
            Case::carry(old.clone())
                .with(live(&derived(&old)))
                .source(live_source(&derived(&old))),
        ),
        "[] Succeeded UpToDate",
    );
    let mut failing = live(&derived(&old));
    failing.status.as_mut().unwrap().conditions = vec![condition("False", "BuildFailed", "broken")];
    check(
        away(
            Case::carry(old.clone())
                .with(failing)
                .source(live_source(&derived(&old))),
        ),
        "[] Updating BuildFailed",
    );
}

#[test]
fn a_row_without_token_is_listed_before_anything_is_made_for_it() {
    let mut row = row(OLD, 1);
    row.token = None;
    let mut case = Case::carry(row.clone());
    check(Case::carry(row), "[] Updating SourceNotReady");
    case.said = Some(SyncState {
        name: "web".to_owned(),
        state: SyncPhase::Updating,
        ..SyncState::default()
    });
    check(case, "[create source] Updating SourceNotReady");
}

#[test]
fn a_bare_row_leaves_what_is_there() {
    let bare = |kustomization: Option<Kustomization>| Case {
        row: SyncRow::bare("web", 9),
        wish: DesiredRow::Bare,
        kustomization,
        ..Case::carry(row(OLD, 1))
    };
    check(bare(None), "[] Withdrawn Excluded");
    check(bare(Some(live(&derived(&row(OLD, 1))))), "[] Updating Unclaimed");
}
