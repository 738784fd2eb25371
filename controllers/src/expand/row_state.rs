//! The status of a row: the digest and token of the row that it reports on, and its phase.

use muster_api::{
    assemblage::{FailureClass, SyncPhase, SyncRow, SyncState},
    conditions::bounded,
    evidence::Assumed,
    plan::{PlanReport, PlanRunReport},
    reasons::Reason,
    schema::MAX_MESSAGE,
};

use super::verdict::Verdict;

/// A status with the name, digest and token of the row.
pub fn in_phase(
    row: &SyncRow,
    phase: SyncPhase,
    reason: impl Into<String>,
    message: Option<&str>,
) -> SyncState {
    SyncState {
        name: row.name.clone(),
        digest: row.digest.clone(),
        token: row.token,
        commit: None,
        state: phase,
        class: None,
        terminal: false,
        reason: Some(reason.into()),
        message: message.map(|message| bounded(message, MAX_MESSAGE).into_owned()),
        progress: None,
        plan: None,
        plan_run: None,
        assumed: None,
    }
}

/// A row that is updating.
pub fn updating(row: &SyncRow, message: &str) -> SyncState {
    in_phase(row, SyncPhase::Updating, Reason::Updating, Some(message))
}

/// A row that cannot proceed, without a failure.
pub fn blocked(row: &SyncRow, reason: Reason, message: &str) -> SyncState {
    SyncState {
        class: Some(FailureClass::Unit),
        ..in_phase(row, SyncPhase::Updating, reason, Some(message))
    }
}

/// A row that waits for something unavailable.
pub fn waiting_state(row: &SyncRow, reason: impl Into<String>, message: &str) -> SyncState {
    SyncState {
        class: Some(FailureClass::Infra),
        ..in_phase(row, SyncPhase::Updating, reason, Some(message))
    }
}

/// The status of a verdict.
pub fn judged(row: &SyncRow, verdict: Verdict) -> SyncState {
    let Verdict {
        phase,
        class,
        terminal,
        reason,
        message,
        assumed,
        progress,
        plan,
    } = verdict;
    let word = match phase {
        SyncPhase::Succeeded => Reason::UpToDate.into(),
        _ => reason.unwrap_or_else(|| Reason::Updating.into()),
    };
    SyncState {
        class,
        terminal,
        assumed: assumed.as_ref().map(Assumed::within_limits),
        progress,
        ..planned(in_phase(row, phase, word, message.as_deref()), plan)
    }
}

/// The state with the progress of its plan.
pub fn planned(state: SyncState, plan: Option<PlanReport>) -> SyncState {
    SyncState {
        plan: plan.as_ref().map(|plan| plan.line.clone()),
        plan_run: plan
            .filter(|plan| !plan.run.is_empty())
            .map(|plan| PlanRunReport {
                uid: plan.run,
                control: plan.control,
            }),
        ..state
    }
}
