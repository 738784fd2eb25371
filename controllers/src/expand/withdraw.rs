//! Withdrawal of a row: the only way to remove content from a cluster.
//!
//! ```text
//!   deletionPolicy WaitForTermination ──► wait for the finalizer ─┐
//!   (or Orphan) ──────────────────────────────────────────────────┴─► delete, by uid and resourceVersion ──► wait until it is gone ──► withdrawn
//! ```
//!
//! Pure. Invariant: a Kustomization is deleted only while its policy is the row's, and only with the resourceVersion
//! that was read. Invariant: it is deleted together with what it installed only while its finalizer is set. The
//! built-in sync does not add one to an orphaned Kustomization anyway; deleted without it, the Kustomization would be
//! gone at once and the content would stay, confirmed as withdrawn.

use std::collections::BTreeMap;

use kube::ResourceExt;
use muster_api::{
    assemblage::{SyncPhase, SyncRow, SyncState, Withdraw},
    flux::{DeletionPolicy, Kustomization},
    reasons::Reason,
};

use super::{
    drift::untouchable,
    observed::KustomizationRow,
    plan::{Plan, Write, reconcile_request},
    row_state,
    view::{Live, Scope, View},
};

/// Decides about a row that must be withdrawn. Its Kustomization, if it exists, must have been read in full.
pub fn decide(scope: &Scope, view: &View<'_>, how: Withdraw) -> Plan {
    let (row, live) = match &view.kustomization {
        Live::Absent => return Plan::rest(gone(view.row)),
        // A row that derives nothing has no object as derived.
        Live::AsDerived(_) => return Plan::rest(withdrawing(view.row, "reading what must be withdrawn")),
        Live::Differs(row, live) => (row, live),
    };
    if let Some(state) = untouchable(scope, view.row, live) {
        return Plan::rest(SyncState {
            state: SyncPhase::Withdrawing,
            ..state
        });
    }
    if let Some(away) = &scope.away {
        let state = row_state::waiting_state(view.row, away.reason.clone(), &away.message);
        return Plan::rest(SyncState {
            state: SyncPhase::Withdrawing,
            ..state
        });
    }
    let mut plan = next(view.row, row, live, policy(how));
    // Its plan `cleanup` may be running.
    if let Some(observed_plan) = row.report.plan.as_ref().filter(|_| row.deleting) {
        let report = observed_plan.report.clone();
        plan.state = row_state::planned(plan.state, Some(report));
        plan.writes.extend(by_hand(view.row, row, &live.name_any()));
    }
    plan
}

/// Manual controls of the cleanup are written to the PlanRun, and the Kustomization gets a reconcile request: once for
/// each control.
fn by_hand(row: &SyncRow, current: &KustomizationRow, name: &str) -> Vec<Write> {
    let Some(control) = &row.plan_control else {
        return Vec::new();
    };
    let request = reconcile_request(row, BTreeMap::new());
    if current.requested.as_ref() == Some(&request) {
        return Vec::new();
    }
    let control = Write::ControlPlanRun {
        name: name.to_owned(),
        control: Box::new(control.clone()),
    };
    let reconcile = Write::Ask {
        name: name.to_owned(),
        uid: current.uid.clone(),
        request,
    };
    vec![control, reconcile]
}

fn next(row: &SyncRow, current: &KustomizationRow, live: &Kustomization, policy: DeletionPolicy) -> Plan {
    let name = live.name_any();
    if live.spec.deletion_policy != Some(policy) || live.spec.suspend == Some(true) {
        let mut marked = live.clone();
        marked.status = None;
        marked.spec.deletion_policy = Some(policy);
        marked.spec.suspend = None;
        let state = withdrawing(row, &format!("preparing Kustomization {name}"));
        return Plan::new(state, vec![Write::Replace(Box::new(marked))]);
    }
    if current.deleting {
        return Plan::rest(withdrawing(row, &terminating(&name, current, policy)));
    }
    if policy != DeletionPolicy::Orphan && !current.finalized {
        let message = format!("waiting until the controller of Kustomization {name} adds its finalizer");
        return Plan::rest(withdrawing(row, &message));
    }
    let delete = Write::Delete {
        name: name.clone(),
        uid: live.uid().unwrap_or_default(),
        resource_version: live.resource_version().unwrap_or_default(),
    };
    Plan::new(
        withdrawing(row, &format!("deleting Kustomization {name}")),
        vec![delete],
    )
}

/// What the deletion waits for, as reported by its controller.
fn terminating(name: &str, current: &KustomizationRow, policy: DeletionPolicy) -> String {
    let message = current
        .report
        .ready
        .as_ref()
        .filter(|ready| ready.status != Some(true))
        .map(|ready| format!(": {}", ready.message));
    let what = if policy == DeletionPolicy::Orphan {
        "released"
    } else {
        "removed"
    };
    format!(
        "waiting until what Kustomization {name} installed is {what}{}",
        message.unwrap_or_default()
    )
}

const fn policy(how: Withdraw) -> DeletionPolicy {
    match how {
        Withdraw::Prune => DeletionPolicy::WaitForTermination,
        Withdraw::Orphan => DeletionPolicy::Orphan,
    }
}

fn gone(row: &SyncRow) -> SyncState {
    row_state::in_phase(row, SyncPhase::Withdrawn, Reason::Excluded, None)
}

fn withdrawing(row: &SyncRow, message: &str) -> SyncState {
    row_state::in_phase(row, SyncPhase::Withdrawing, Reason::Withdrawing, Some(message))
}
