//! The status of the NodeAssemblage: the agent's report about its rows. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    assemblage::FailureClass,
    conditions::{Conditions, Status, bounded},
    node::{
        NodeAssemblage,
        assemblage::{
            LocalHold, MAX_DRIFT, NodeAgent, NodeAssemblageStatus, NodePhase, NodeRow, NodeRowState,
        },
    },
    schema::MAX_MESSAGE,
};
use muster_node::{Class, Hold, Report, State, Waiting};

/// The status of a row, from the agent's report about it.
pub fn state(row: &NodeRow, report: &Report) -> NodeRowState {
    let leaving = row.withdraw.is_some();
    let phase = phase(&report.state, leaving);
    let named = !matches!(phase, NodePhase::Confirmed | NodePhase::Withdrawn) || report.note.is_some();
    let message = report
        .message()
        .map(|message| bounded(&message, MAX_MESSAGE).into_owned());
    NodeRowState {
        name: row.name.clone(),
        digest: row.digest.clone(),
        token: row.token,
        state: phase,
        class: (phase == NodePhase::Failed)
            .then(|| report.state.class().map(class))
            .flatten(),
        terminal: is_terminal(report),
        reason: named.then(|| report.state.reason().to_owned()),
        message,
        confirmed: report.confirmed.clone(),
        drift: drift(&report.drift),
    }
}

fn phase(state: &State, leaving: bool) -> NodePhase {
    match state {
        State::Confirmed => NodePhase::Confirmed,
        State::Gone => NodePhase::Withdrawn,
        State::Ended(_) | State::Refused(_) => NodePhase::Failed,
        State::Waiting(waiting) if is_failure(waiting) => NodePhase::Failed,
        State::Changing | State::Waiting(_) if leaving => NodePhase::Withdrawing,
        State::Changing | State::Waiting(_) => NodePhase::Updating,
    }
}

/// A failure that does not recover on its own is one of the node; otherwise the agent waits.
const fn is_failure(waiting: &Waiting) -> bool {
    match waiting {
        Waiting::PathConflict { .. } | Waiting::JournalFromNewer | Waiting::CannotRemember(_) => true,
        Waiting::HeldLocally(_) | Waiting::BusyWith(_) | Waiting::NotAcknowledged => false,
    }
}

/// It is not retried.
fn is_terminal(report: &Report) -> bool {
    match &report.state {
        State::Ended(_) => !report.retries,
        State::Refused(_) | State::Waiting(Waiting::JournalFromNewer) => true,
        State::Changing | State::Confirmed | State::Gone | State::Waiting(_) => false,
    }
}

const fn class(class: Class) -> FailureClass {
    match class {
        Class::Revision => FailureClass::Revision,
        Class::Unit => FailureClass::Unit,
        Class::Infra => FailureClass::Infra,
    }
}

fn drift(paths: &[String]) -> Vec<String> {
    let sorted: BTreeSet<&String> = paths.iter().collect();
    sorted.into_iter().take(MAX_DRIFT).cloned().collect()
}

/// The agent's report about itself.
pub fn agent(version: &str, hold: Option<&Hold>) -> NodeAgent {
    NodeAgent {
        version: version.to_owned(),
        features: BTreeSet::new(),
        held: hold.map(|hold| LocalHold {
            until: Time(hold.until),
            reason: bounded(&hold.reason, MAX_MESSAGE).into_owned(),
        }),
    }
}

/// The status: the state of each row, and whether all are applied. The state of rows that no longer exist is left out.
pub fn status(
    assemblage: &NodeAssemblage,
    agent: NodeAgent,
    states: &BTreeMap<String, NodeRowState>,
    now: Timestamp,
) -> NodeAssemblageStatus {
    let before = assemblage.status.clone().unwrap_or_default();
    let generation = assemblage.metadata.generation.unwrap_or_default();
    let rows: Vec<NodeRowState> = assemblage
        .spec
        .rows
        .iter()
        .filter_map(|row| states.get(&row.name).cloned())
        .collect();
    let conditions = ready(&assemblage.spec.rows, &rows).merge(&before.conditions, generation, now);
    NodeAssemblageStatus {
        observed_generation: Some(generation),
        conditions,
        agent: Some(agent),
        rows,
    }
}

/// The condition Ready: whether every row is applied as it is written now.
fn ready(rows: &[NodeRow], states: &[NodeRowState]) -> Conditions {
    let carried = |row: &&NodeRow| {
        let about = states.iter().find(|state| state.name == row.name);
        let about = about.filter(|state| state.token == row.token && state.digest == row.digest);
        let done = matches!(
            about.map(|state| state.state),
            Some(NodePhase::Confirmed | NodePhase::Withdrawn)
        );
        done || (row.digest.is_none() && row.withdraw.is_none())
    };
    let failed = states.iter().find(|state| state.state == NodePhase::Failed);
    let open = rows.iter().find(|row| !carried(row));
    match (failed, open) {
        (Some(state), _) => {
            let reason = state.reason.clone().unwrap_or_else(|| "Failed".to_owned());
            let message = state.message.as_deref().unwrap_or_default();
            Conditions::ready(Status::False, reason, format!("{}: {message}", state.name))
        }
        (None, Some(row)) => {
            let message = format!("{} is not applied yet", row.name);
            Conditions::ready(Status::Unknown, "Updating", message)
        }
        (None, None) => {
            let message = format!("{} NodeModules are applied", rows.len());
            Conditions::ready(Status::True, "Succeeded", message)
        }
    }
}
