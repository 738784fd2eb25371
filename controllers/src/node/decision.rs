//! The pure step: from the observation of a NodeModule to what must be written. Claims on the NodeBudget come first:
//! see [`wanted_nodes`].

use std::collections::BTreeSet;

use jiff::Timestamp;
use muster_api::node::{
    NodeModule,
    assemblage::NodeRow,
    module::{NodeModuleStatus, NodeOnDelete},
};
use muster_driver::{Change, Decided, Facts, NewContent, Planned, Rules};
use muster_rollout::{self as engine, How, Memory, UnitId};

use super::{
    events::{self, NodeEvents},
    observation::Observation,
    settings, status,
};
use crate::module::instants::{millis, timestamp};

/// What to write for one NodeModule, in this order: the NodeRevision, the claims, the status with the memory, then
/// rows.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The target must be recorded as a NodeRevision before anything of it is assigned.
    pub records: bool,
    /// Rows must be written: the finalizer is added before them.
    pub moves: bool,
    /// The events of the decision.
    pub events: NodeEvents,
    /// Status and memory: written by compare-and-swap before any row (W2).
    pub status: Box<NodeModuleStatus>,
    /// What was decided. `None`: no row changes.
    pub decided: Option<Decided>,
    /// The NodeModule is being deleted, and nothing of it is left on any node: remove the finalizer.
    pub release: bool,
    /// When time alone changes something.
    pub wake_at: Option<Timestamp>,
}

/// Decides about one NodeModule.
pub fn decide(
    module: &NodeModule,
    observed: &Observation,
    now: Timestamp,
) -> Result<Plan, serde_json::Error> {
    if observed.invalid.is_some() || (module.spec.suspend && !observed.deleting) {
        let status = status::idle_status(module, observed, now);
        return Ok(Plan {
            records: false,
            moves: false,
            events: events::idle_events(&status, module.status.as_ref()),
            status: Box::new(status),
            decided: None,
            release: false,
            wake_at: None,
        });
    }
    let (decided, memory) = decided(module, observed, now);
    let decision = decided.decision();
    let on_record = |target: &super::facts::Definition| {
        observed
            .revisions
            .iter()
            .any(|known| known.definition.revision == target.revision)
    };
    let planned = decided.planned(&decision_rows(module, observed, &decision.memory));
    let named = planned.iter().any(assigns) || decision.memory != memory;
    let wakes = decision
        .wake_at
        .map(timestamp)
        .into_iter()
        .chain(observed.controls.end(now))
        .chain(observed.first_expiry);
    let (status, events) = status::rolling_status(module, observed, decision, now)?;
    Ok(Plan {
        events,
        records: observed
            .target
            .as_ref()
            .is_some_and(|target| named && !on_record(target)),
        moves: !planned.is_empty(),
        status: Box::new(status),
        release: observed.deleting && observed.nodes.iter().all(|node| is_left(module, node)),
        wake_at: wakes.min(),
        decided: Some(decided),
    })
}

fn decided(module: &NodeModule, observed: &Observation, now: Timestamp) -> (Decided, Memory) {
    let memory = observed.remembered(millis(now));
    let spec = settings::engine_spec(&module.spec, observed, now);
    let facts = Facts {
        spec: &spec,
        memory: &memory,
        units: &observed.units,
        now: millis(now),
    };
    (muster_driver::decide(facts, &Rules::shipped()), memory)
}

/// The nodes that a decision without a budget would start to change, each with the token of its row: on these a
/// NodeModule needs a claim first. In the order in which they would start.
pub fn wanted_nodes(module: &NodeModule, observed: &Observation, now: Timestamp) -> Vec<(UnitId, u64)> {
    let (decided, memory) = decided(module, observed, now);
    let begins = |(unit, change): (&UnitId, Change)| {
        let begins = matches!(
            change.then,
            NewContent::Assigned { .. } | NewContent::Withdrawn(_)
        );
        let in_flight = memory.in_flight.contains_key(unit);
        let at = observed.units.binary_search_by(|known| known.id.cmp(unit));
        let known = at.ok().and_then(|at| observed.units.get(at)); // every step is about one of them
        let token = known.map_or(0, |known| known.token().0);
        (begins && !in_flight).then(|| (unit.clone(), token))
    };
    decided
        .decision()
        .steps
        .iter()
        .filter_map(Change::of)
        .filter_map(begins)
        .collect()
}

/// The nodes on which a NodeModule keeps its claim after a decision: those that it changes.
pub fn changing(memory: &Memory) -> BTreeSet<&str> {
    let in_flight = memory.in_flight.iter().filter(|(_, change)| change.counts());
    in_flight.map(|(unit, _)| unit.as_str()).collect()
}

fn assigns(planned: &Planned) -> bool {
    planned
        .change
        .is_some_and(|change| matches!(change.then, NewContent::Assigned { .. }))
}

/// It has no row, or the Node is gone, which removes everything on it.
fn is_left(module: &NodeModule, node: &super::observation::ObservedNode) -> bool {
    let name = module.metadata.name.as_deref().unwrap_or_default();
    node.node.is_none() || node.row(name).is_none()
}

/// The rows of a NodeModule as read, for a decision with this memory.
pub fn decision_rows<'a>(module: &'a NodeModule, observed: &'a Observation, memory: &Memory) -> Rows<'a> {
    Rows {
        module: module.metadata.name.as_deref().unwrap_or_default(),
        attempt: memory.run.map_or(0, |run| run.started.0),
        observed,
    }
}

/// The rows of a NodeModule, in the form of the driver.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    module: &'a str,
    attempt: u64,
    observed: &'a Observation,
}

/// A write of one row of a NodeAssemblage: only over the version that was read, so that no other row has changed
/// meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The version of the NodeAssemblage. `None`: it does not exist, and is created.
    pub version: Option<String>,
    /// The row. `None`: it is removed.
    pub row: Option<NodeRow>,
}

impl muster_driver::Assignments for Rows<'_> {
    type Write = Write;

    fn token(&self, unit: &UnitId) -> Option<engine::Token> {
        let row = self.observed.node(unit.as_str())?.row(self.module)?;
        Some(engine::Token(row.row.token))
    }

    fn knows(&self, unit: &UnitId, change: Change) -> bool {
        match change.then {
            NewContent::Assigned { digest, .. } => {
                self.observed.contents.get(unit.as_str(), digest).is_some()
            }
            NewContent::Withdrawn(_) | NewContent::Fenced | NewContent::Abandoned => true,
        }
    }

    /// Removes the rows of a NodeModule that is being deleted, once nothing of it is left on their nodes.
    fn over(&self) -> Vec<UnitId> {
        if !self.observed.deleting {
            return Vec::new();
        }
        let over = self.observed.nodes.iter().filter(|node| {
            let row = node.row(self.module);
            row.is_some_and(|row| row.is_settled() && row.asks() != super::facts::Asks::Carry)
        });
        over.map(|node| node.name.as_str().into()).collect()
    }

    fn write(&self, planned: &Planned) -> Option<Write> {
        let node = self.observed.node(planned.unit.as_str())?;
        let version = match &node.assemblage {
            Some(assemblage) if assemblage.deleting => return None,
            Some(assemblage) => assemblage.version.clone(),
            None => None,
        };
        let Some(change) = planned.change else {
            return Some(Write { version, row: None });
        };
        let old = node.row(self.module).map(|row| row.row.clone());
        let bare = NodeRow {
            name: self.module.to_owned(),
            ..NodeRow::default()
        };
        let row = match change.then {
            NewContent::Assigned { digest, .. } => NodeRow {
                uid: Some(self.observed.uid.clone()),
                attempt: self.attempt,
                ..(**self.observed.contents.get(&node.name, digest)?).clone()
            },
            NewContent::Withdrawn(how) => NodeRow {
                withdraw: Some(match how {
                    How::Orphan => NodeOnDelete::Orphan,
                    How::Prune => NodeOnDelete::Restore,
                }),
                digest: None,
                attempt: 0,
                ..old.unwrap_or(bare)
            },
            NewContent::Fenced => old.unwrap_or(bare),
            NewContent::Abandoned => bare,
        };
        let row = NodeRow {
            token: change.token.0,
            ..row
        };
        Some(Write {
            version,
            row: Some(row),
        })
    }
}
