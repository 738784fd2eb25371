//! The status of an assemblage: the states of its rows, and conditions that summarize them.
//!
//! Pure. Written also after a failure; not sent if equal apart from times.

use jiff::Timestamp;
use muster_api::{
    Shared,
    assemblage::{AssemblageStatus, SyncPhase, SyncRow, SyncState},
    conditions::{Conditions, Status},
    reasons::{ObjectReason, Reason},
};

use super::unclaimed;
use crate::runtime::{entries::Entry, status::Listed};

impl Listed for AssemblageStatus {
    const LIST: &'static str = "syncs";
    type Entry = Shared<SyncState>;

    fn entries(&self) -> &[Shared<SyncState>] {
        &self.syncs
    }

    fn head(&self) -> Self {
        let Self {
            observed_generation,
            conditions,
            last_contact,
            agent,
            syncs: _,
            last_handled_reconcile_at,
        } = self;
        Self {
            observed_generation: *observed_generation,
            conditions: conditions.clone(),
            last_contact: last_contact.clone(),
            agent: agent.clone(),
            syncs: Vec::new(),
            last_handled_reconcile_at: last_handled_reconcile_at.clone(),
        }
    }

    fn listing(self, syncs: Vec<Shared<SyncState>>) -> Self {
        Self { syncs, ..self }
    }
}

impl Entry for Shared<SyncState> {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Entry for Shared<SyncRow> {
    fn name(&self) -> &str {
        &self.name
    }
}

/// Rows that a condition's message names at most.
const NAMED: usize = 3;

/// The conditions that summarize rows: Ready, and Reconciling while a row is in progress.
pub fn summary_conditions(states: &[Shared<SyncState>]) -> Conditions {
    let states = states.iter().map(|state| &**state);
    let counted: Vec<&SyncState> = states.filter(|state| !unclaimed(state)).collect();
    let wanted = counted
        .iter()
        .filter(|state| !matches!(state.state, SyncPhase::Withdrawing | SyncPhase::Withdrawn))
        .count();
    let succeeded = counted
        .iter()
        .filter(|state| state.state == SyncPhase::Succeeded)
        .count();
    let sum = format!("{succeeded} of {wanted} syncs succeeded");
    let troubled = worst_first(&counted);
    let Some(worst) = troubled.first() else {
        return Conditions::ready(Status::True, ObjectReason::Succeeded, sum);
    };
    let message = format!("{sum}; {}", row_names(&troubled));
    let ready = Conditions::ready(Status::False, reason(worst), message.clone());
    let moving = troubled.iter().any(|state| state.state != SyncPhase::Failed);
    if moving {
        ready.reconciling(ObjectReason::Progressing, message)
    } else {
        ready
    }
}

/// The status to write. `requested_at` is the reconcile request that is handled.
pub fn assemblage_status(
    states: Vec<Shared<SyncState>>,
    conditions: &Conditions,
    old: Option<&AssemblageStatus>,
    generation: i64,
    requested_at: Option<&String>,
    now: Timestamp,
) -> AssemblageStatus {
    let current = old.map(|old| old.conditions.as_slice()).unwrap_or_default();
    AssemblageStatus {
        observed_generation: Some(generation),
        conditions: conditions.merge(current, generation, now),
        last_contact: None,
        agent: None,
        syncs: states,
        last_handled_reconcile_at: requested_at.cloned(),
    }
}

/// Rows that are neither succeeded nor withdrawn: first the failed ones, then those that need an action of the user,
/// then the rest; by name within each group.
fn worst_first<'a>(states: &[&'a SyncState]) -> Vec<&'a SyncState> {
    let mut troubled: Vec<&SyncState> = states
        .iter()
        .copied()
        .filter(|state| !matches!(state.state, SyncPhase::Succeeded | SyncPhase::Withdrawn))
        .collect();
    troubled.sort_by_key(|state| {
        (
            state.state != SyncPhase::Failed,
            !state.terminal,
            state.class.is_none(),
            state.name.clone(),
        )
    });
    troubled
}

fn reason(worst: &SyncState) -> String {
    match worst.state {
        SyncPhase::Failed => ObjectReason::SyncsFailed.into(),
        _ => worst.reason.clone().unwrap_or_else(|| Reason::Updating.into()),
    }
}

fn row_names(troubled: &[&SyncState]) -> String {
    let mut parts: Vec<String> = troubled.iter().take(NAMED).map(|state| one(state)).collect();
    if troubled.len() > NAMED {
        parts.push(format!("and {} more", troubled.len() - NAMED));
    }
    parts.join("; ")
}

fn one(state: &SyncState) -> String {
    let reason = state.reason.as_deref().unwrap_or("Updating");
    match state.message.as_deref().filter(|message| !message.is_empty()) {
        Some(message) => format!("{}: {reason}: {message}", state.name),
        None => format!("{}: {reason}", state.name),
    }
}
