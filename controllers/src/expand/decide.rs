//! What a row needs now: at most one write of its source and one of its Kustomization, and the row's status.
//!
//! Pure: from the desired objects and the live ones. The writes have as preconditions what they were decided on.
//!
//! Invariant: a Kustomization is changed only when the new source has fetched the row's commit, and in one write.
//! Invariant: an object that muster does not own is never written, and neither is one that another manager suspended.

use kube::ResourceExt;
use muster_api::{
    assemblage::{SyncPhase, SyncRow, SyncState},
    flux::Kustomization,
    labels::{self, annotation::RECONCILE_REQUESTED_AT},
    reasons::{ObjectReason, Reason},
};

use super::{
    derive::Derived,
    desired,
    drift::{self, untouchable},
    observed::KustomizationRow,
    plan::{Plan, Write, reconcile_request},
    print::derived_annotations,
    row_state, settle,
    source::{self, SourceStep},
    verdict::{Evidence, row_verdict},
    view::{Away, DesiredRow, Live, RowError, Scope, View},
    withdraw,
};
use crate::kustomization::outcome::NOT_READY;

/// Decides about one row.
pub fn decide_row(scope: &Scope, view: &View<'_>) -> Plan {
    let mut plan = match view.desired {
        DesiredRow::Carry(derived) => carry(scope, view, derived),
        DesiredRow::Withdraw(how) => withdraw::decide(scope, view, *how),
        DesiredRow::Bare => Plan::rest(bare(scope, view)),
        DesiredRow::Refused(refusal) => Plan::rest(refused(view.row, refusal)),
    };
    hold(scope, view, &mut plan);
    plan.state.commit = installed(scope, view);
    if must_be_listed_first(view) {
        plan.writes.clear();
    }
    plan
}

/// Delays a success reported by Flux that has not settled yet, and rejects one that Flux cannot judge.
fn hold(scope: &Scope, view: &View<'_>, plan: &mut Plan) {
    let succeeded = plan.state.state == SyncPhase::Succeeded;
    let (Some(now), Some(current), true) = (scope.flux_at, view.kustomization.row(), succeeded) else {
        return;
    };
    if let Some(object) = &current.report.rolls_out {
        let message = format!(
            "{object} performs a rollout itself, which Flux does not wait for: use the built-in sync (muster agent without --sync flux)"
        );
        plan.state = refused(view.row, &desired::unsupported(&message));
        return;
    }
    if let Some(left) = settle::remaining_hold(view.row, current, view.reported, now) {
        let message =
            "Flux reports Ready, without evidence from custom resources: this counts after package.settle";
        plan.state = row_state::updating(view.row, message);
        plan.after = Some(left);
    }
}

/// A row without token is withdrawn when it disappears, if status lists it: so it is listed before any object is
/// created for it.
fn must_be_listed_first(view: &View<'_>) -> bool {
    view.row.token.is_none() && view.reported.is_none()
}

fn carry(scope: &Scope, view: &View<'_>, derived: &Derived) -> Plan {
    let step = kustomization_step(scope, view, derived);
    let source = source::decide_source(&view.source, derived, &scope.manager);
    if let (SourceStep::Foreign(why), Step::Settled(_) | Step::Write(_)) = (&source, &step) {
        let message = format!(
            "{} {} exists and is not managed by muster: {why}; rename or delete it",
            derived.source.kind(),
            derived.source.name()
        );
        return Plan::rest(row_state::blocked(view.row, Reason::NameConflict, &message));
    }
    match (step, source) {
        (Step::Blocked(state), _) => Plan::rest(*state),
        (Step::Settled(current), source) => {
            let again = tried_again(scope, view, derived, current);
            let state = match again {
                Some(_) => row_state::updating(view.row, "waiting for it to be applied again"),
                None => judge(scope, view, derived, current),
            };
            let mut writes = writes_of(scope, source.write());
            let missing = current
                .report
                .ready
                .as_ref()
                .is_some_and(|ready| ready.reason == NOT_READY);
            if missing {
                writes.extend(writes_of(scope, plan_run(derived)));
            }
            writes.extend(again.into_iter().flatten());
            Plan::new(state, writes)
        }
        (Step::Write(_), _) if scope.away.is_some() => Plan::rest(away(scope, view.row)),
        (Step::Write(write), SourceStep::Holds) => {
            let message = format!("applying commit {}", derived.commit);
            let writes = plan_run(derived).into_iter().chain([write]);
            let state = judged(view).cloned();
            Plan::new(
                state.unwrap_or_else(|| row_state::updating(view.row, &message)),
                writes.collect(),
            )
        }
        (Step::Write(_), source) => {
            let message = format!(
                "{} {}: {}",
                derived.source.kind(),
                derived.source.name(),
                source.trouble()
            );
            Plan::new(
                row_state::waiting_state(view.row, Reason::SourceNotReady, &message),
                writes_of(scope, source.write()),
            )
        }
    }
}

/// The reported status of a row while its plan is controlled by hand: a verdict that was reached stays.
fn judged<'a>(view: &View<'a>) -> Option<&'a SyncState> {
    view.row.plan_control.as_ref()?;
    view.reported.filter(|reported| {
        let judged = matches!(reported.state, SyncPhase::Succeeded | SyncPhase::Failed);
        judged && (reported.token, &reported.digest) == (view.row.token, &view.row.digest)
    })
}

/// The write of a row's PlanRun, if it has a plan.
fn plan_run(derived: &Derived) -> Option<Write> {
    let run = derived.plan_run.clone()?;
    Some(Write::PutPlanRun(Box::new(run)))
}

/// A retry: a row whose failure was reported is assigned again with another token, and the earlier report does not
/// answer it. The Kustomization gets a reconcile request, with the write that has it if that was not sent yet. `None`:
/// there is nothing to wait for.
fn tried_again(
    scope: &Scope,
    view: &View<'_>,
    derived: &Derived,
    current: &KustomizationRow,
) -> Option<Vec<Write>> {
    let request = reconcile_request(view.row, derived_annotations(&derived.kustomization));
    if current.requested.as_ref() == Some(&request) {
        let handled = current.report.handled.as_deref();
        let is_answered = handled.is_some_and(|handled| answers(handled, &request, view.row));
        return (!is_answered && judged(view).is_none()).then(Vec::new);
    }
    let failed = view.row.token.is_some()
        && view.reported.is_some_and(|reported| {
            reported.state == SyncPhase::Failed
                && reported.digest == view.row.digest
                && reported.token != view.row.token
        });
    let reconcile = Write::Ask {
        name: kustomization_name(derived).to_owned(),
        uid: current.uid.clone(),
        request,
    };
    failed.then(|| writes_of(scope, Some(reconcile)))
}

fn writes_of(scope: &Scope, write: Option<Write>) -> Vec<Write> {
    write.filter(|_| scope.away.is_none()).into_iter().collect()
}

enum Step<'a> {
    Blocked(Box<SyncState>),
    Settled(&'a KustomizationRow),
    Write(Write),
}

fn kustomization_step<'a>(scope: &Scope, view: &'a View<'_>, derived: &Derived) -> Step<'a> {
    match &view.kustomization {
        Live::Absent => Step::Write(Write::Create(Box::new(derived.kustomization.clone()))),
        Live::AsDerived(row) => settled(view, row, derived),
        Live::Differs(row, live) => match (
            untouchable(scope, view.row, live),
            drift::repaired(live, &derived.kustomization, &scope.manager),
        ) {
            (Some(state), _) => Step::Blocked(Box::new(state)),
            // Also while it is being deleted: its deletionPolicy decides what happens to the installed objects.
            (None, Some(next)) => Step::Write(Write::Replace(Box::new(with_reconcile_request(
                view.row, live, next,
            )))),
            (None, None) => settled(view, row, derived),
        },
    }
}

/// A change of annotations alone does not change the generation, so the earlier report would be taken for its result:
/// the change gets a reconcile request of its own.
fn with_reconcile_request(row: &SyncRow, live: &Kustomization, mut next: Kustomization) -> Kustomization {
    if derived_annotations(live) != derived_annotations(&next) {
        let request = reconcile_request(row, derived_annotations(&next));
        next.annotations_mut()
            .insert(RECONCILE_REQUESTED_AT.to_owned(), request);
    }
    next
}

/// Whether the handled request answers the row's token: controls of its plan meanwhile do not change that.
fn answers(handled: &str, request: &str, row: &SyncRow) -> bool {
    let of_token = |token| format!("{}-{token}", labels::MUSTER);
    handled == request
        || row.token.map(of_token).is_some_and(|requested| {
            handled
                .strip_prefix(&requested)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
}

fn settled<'a>(view: &View<'_>, row: &'a KustomizationRow, derived: &Derived) -> Step<'a> {
    if row.deleting {
        let message = format!(
            "Kustomization {} is being deleted; it is re-created once it is gone",
            kustomization_name(derived)
        );
        return Step::Blocked(Box::new(row_state::updating(view.row, &message)));
    }
    Step::Settled(row)
}

fn judge(scope: &Scope, view: &View<'_>, derived: &Derived, current: &KustomizationRow) -> SyncState {
    let was_away = view
        .was_away
        .then_some("the cluster was unreachable since this was written");
    let away = scope.away.as_ref().map(|away| away.message.as_str()).or(was_away);
    let trouble = view
        .source
        .row()
        .map_or(Some("the source does not exist"), |row| row.trouble.as_deref());
    let trouble =
        trouble.map(|trouble| format!("{} {}: {trouble}", derived.source.kind(), derived.source.name()));
    let evidence = Evidence {
        generation: current.generation,
        report: &current.report,
        commit: &derived.commit,
        source: trouble.as_deref(),
        away,
    };
    match view
        .reported
        .filter(|reported| is_still_valid(reported, view.row, &evidence))
    {
        Some(reported) => reported.clone(),
        None => row_state::judged(view.row, row_verdict(&evidence)),
    }
}

/// Whether the reported status is still valid: the controller is reconciling a state again that it has reported on.
/// Flux sets this at each interval and each retry; reporting it would cause a write in every cluster.
fn is_still_valid(reported: &SyncState, row: &SyncRow, evidence: &Evidence<'_>) -> bool {
    let is_of_row = (&reported.digest, reported.token) == (&row.digest, row.token);
    if !is_of_row || !evidence.is_looking_again() || evidence.away.is_some() {
        return false;
    }
    match reported.state {
        SyncPhase::Succeeded => evidence.is_carried_out(),
        // Without a digest it is unknown what failed.
        SyncPhase::Failed => row.digest.is_some(),
        SyncPhase::Updating | SyncPhase::Withdrawing | SyncPhase::Withdrawn => false,
    }
}

fn away(scope: &Scope, row: &SyncRow) -> SyncState {
    match &scope.away {
        Some(Away { reason, message }) => row_state::waiting_state(row, reason.clone(), message),
        None => row_state::updating(row, "waiting for the cluster"),
    }
}

fn bare(scope: &Scope, view: &View<'_>) -> SyncState {
    if view.kustomization.row().is_some_and(|row| owned(scope, row)) {
        let message = "the objects of an earlier row still exist; a row with withdraw removes them";
        return row_state::in_phase(
            view.row,
            SyncPhase::Updating,
            ObjectReason::Unclaimed,
            Some(message),
        );
    }
    row_state::in_phase(view.row, SyncPhase::Withdrawn, Reason::Excluded, None)
}

fn refused(row: &SyncRow, refusal: &RowError) -> SyncState {
    let phase = if refusal.terminal {
        SyncPhase::Failed
    } else {
        SyncPhase::Updating
    };
    SyncState {
        class: Some(refusal.class),
        terminal: refusal.terminal,
        ..row_state::in_phase(row, phase, refusal.reason.clone(), Some(&refusal.message))
    }
}

/// The installed commit, as reported by a Kustomization that the assemblage owns.
fn installed(scope: &Scope, view: &View<'_>) -> Option<String> {
    view.kustomization
        .row()
        .filter(|row| owned(scope, row))
        .and_then(|row| row.report.applied_commit.clone())
}

/// Whether a Kustomization is owned by this assemblage.
pub fn owned(scope: &Scope, row: &KustomizationRow) -> bool {
    row.owner
        .as_ref()
        .is_some_and(|owner| owner.kind == scope.kind && owner.name == scope.assemblage)
}

fn kustomization_name(derived: &Derived) -> &str {
    derived.kustomization.metadata.name.as_deref().unwrap_or_default()
}
