//! The status of a proxy: the states that the cluster reports, cut to their limits, with additional messages of this
//! controller.
//!
//! Pure. A cluster's report is trusted only about that cluster, and only up to the limits of a state.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::{
    Assemblage, Shared,
    assemblage::{Agent, SyncPhase, SyncRow, SyncState},
    conditions::bounded,
    evidence::{Assumed, Progress},
    plan::{ControlTaken, PlanRunReport},
    reasons::{ObjectReason, Reason},
    schema::{MAX_FEATURES, MAX_LABEL, MAX_MESSAGE, MAX_NAME, MAX_PLAN_LINE, MAX_TOKEN},
};

use crate::expand::view::RowError;

/// States in a status at most: twice the rows, for those that are being removed.
const MAX_STATES: usize = 512;
/// The maximum length of a digest: `sha256:` and 64 digits.
const MAX_DIGEST: usize = 71;
/// The maximum length of a commit.
const MAX_COMMIT: usize = 64;

/// The states to report for the rows of a proxy, by name.
pub fn states(
    rows: &[Shared<SyncRow>],
    refused: &BTreeMap<String, RowError>,
    unclaimed: &BTreeSet<String>,
    live: Option<&Assemblage>,
) -> Vec<Shared<SyncState>> {
    let reported = live
        .and_then(|live| live.status.as_ref())
        .map(|status| status.syncs.as_slice())
        .unwrap_or_default();
    let reported = reported
        .iter()
        .filter(|state| state.name.len() <= MAX_NAME)
        .map(cut)
        .collect();
    let mut states: BTreeMap<String, Shared<SyncState>> = completed(reported, rows)
        .into_iter()
        .map(|state| (state.name.clone(), state))
        .collect();
    for (name, refusal) in refused {
        if let Some(state) = states.get_mut(name) {
            // The live row stays and is reported; the reason why it cannot be updated is added.
            state.state = if refusal.terminal {
                SyncPhase::Failed
            } else {
                SyncPhase::Updating
            };
            state.terminal = refusal.terminal;
            state.class = Some(refusal.class);
            state.reason = Some(refusal.reason.clone());
            state.message = Some(bounded(&refusal.message, MAX_MESSAGE).into_owned());
        }
    }
    for name in unclaimed {
        let state = states
            .entry(name.clone())
            .or_insert_with(|| unacknowledged(name).into());
        state.reason = Some(ObjectReason::Unclaimed.into());
        state.message = Some(
            "this row exists in the cluster and was never in this proxy; a row with this name claims it"
                .to_owned(),
        );
    }
    states.into_values().take(MAX_STATES).collect()
}

/// The reported states, and one for each row without a report, by name.
pub fn completed(reported: Vec<Shared<SyncState>>, rows: &[Shared<SyncRow>]) -> Vec<Shared<SyncState>> {
    let mut states: BTreeMap<String, Shared<SyncState>> = reported
        .into_iter()
        .map(|state| (state.name.clone(), state))
        .collect();
    for row in rows {
        states
            .entry(row.name.clone())
            .or_insert_with(|| unacknowledged(&row.name).into());
    }
    states.into_values().collect()
}

/// A row that the cluster has not reported: without digest and token, which only the cluster reports.
fn unacknowledged(name: &str) -> SyncState {
    SyncState {
        name: name.to_owned(),
        state: SyncPhase::Updating,
        reason: Some(Reason::Updating.into()),
        message: Some("not acknowledged by the cluster yet".to_owned()),
        ..SyncState::default()
    }
}

/// What an agent reports about itself.
pub fn mirrored_agent(agent: &Agent) -> Agent {
    let cut = |text: &str| bounded(text, MAX_LABEL).into_owned();
    let features = agent.features.iter().filter(|feature| feature.len() <= MAX_LABEL);
    Agent {
        version: cut(&agent.version),
        sync: cut(&agent.sync),
        features: features.take(MAX_FEATURES).cloned().collect(),
    }
}

fn cut(state: &Shared<SyncState>) -> Shared<SyncState> {
    let within = within_limits(state);
    if within == **state {
        state.clone()
    } else {
        within.into()
    }
}

fn within_limits(state: &SyncState) -> SyncState {
    let SyncState {
        name,
        digest,
        token,
        commit,
        state,
        class,
        terminal,
        reason,
        message,
        progress,
        plan,
        plan_run,
        assumed,
    } = state;
    let cut = |text: &Option<String>, max| text.as_ref().map(|text| bounded(text, max).into_owned());
    SyncState {
        name: name.clone(),
        digest: cut(digest, MAX_DIGEST),
        token: token.filter(|token| *token <= MAX_TOKEN),
        commit: cut(commit, MAX_COMMIT),
        state: *state,
        class: *class,
        terminal: *terminal,
        reason: cut(reason, MAX_LABEL),
        message: cut(message, MAX_MESSAGE),
        progress: progress.as_ref().map(|progress| Progress {
            waiting: cut(&progress.waiting, MAX_LABEL),
            ..*progress
        }),
        plan: cut(plan, MAX_PLAN_LINE),
        plan_run: plan_run.as_ref().map(|run| PlanRunReport {
            uid: bounded(&run.uid, MAX_LABEL).into_owned(),
            control: run.control.as_ref().map(|taken| ControlTaken {
                id: bounded(&taken.id, MAX_LABEL).into_owned(),
                refused: cut(&taken.refused, MAX_PLAN_LINE),
            }),
        }),
        assumed: assumed.as_ref().map(Assumed::within_limits),
    }
}
