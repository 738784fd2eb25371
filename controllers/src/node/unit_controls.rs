//! The manual controls of one node: its holds and its pin, and their status. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::{control_status::ControlStatus, reasons::Reason};

use super::{
    facts::Obstacle,
    observation::{Observation, ObservedNode, Pinned},
};
use crate::module::{
    command::ModuleAddress,
    control_effects,
    holds::{self, Hold},
    pins::{self, KnownRevisions, Pin},
    reasons::Vocabulary,
    unit::Unit,
};

/// The controls set by annotations of the Node and of the NodeModule.
#[derive(Clone, Debug)]
pub struct UnitControls {
    hold: Option<Hold>,
    pin: Option<Pin>,
    /// The status of each control.
    pub effects: Vec<ControlStatus>,
}

impl UnitControls {
    /// The controls of a node. A NodeModule that is being deleted is withdrawn, pinned or not.
    pub fn of(
        node: &ObservedNode,
        module: &ModuleAddress<'_>,
        observed: &Observation,
        now: Timestamp,
    ) -> Self {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let unit = Unit {
            words: &Vocabulary::NODES,
            name: &node.name,
            annotations: node.node.as_ref().map_or(&NONE, |facts| &facts.annotations),
        };
        let revisions = observed.revisions.iter();
        let known = KnownRevisions {
            revisions: revisions.map(|known| (known.definition.revision.as_str(), known.status.verdict)),
            memory: &observed.memory.memory,
        };
        let hold = holds::hold_of_unit(&unit, module, &observed.controls, now);
        let pin = pins::pin_of_unit(&unit, module, observed.controls.pinned(now), &known, now);
        let pin = pin.filter(|_| !observed.deleting);
        let annotated = pins::annotated(&unit, module);
        Self {
            effects: control_effects::of_unit(&unit, annotated, hold.as_ref(), pin.as_ref(), now),
            hold,
            pin,
        }
    }

    /// When the first of them expires.
    pub fn end(&self) -> Option<Timestamp> {
        let hold = self.hold.as_ref().and_then(|hold| hold.until);
        let pin = self.pin.as_ref().and_then(|pin| pin.until);
        hold.into_iter().chain(pin).min()
    }

    /// The hold that keeps the node as it is.
    pub fn held(&self) -> Option<Obstacle> {
        let hold = self.hold.as_ref()?;
        Some((hold.reason, hold.message.clone()))
    }

    /// The revision that it is pinned to, if the pin is valid and the node is selected.
    pub fn pinned(&self, node: &ObservedNode, observed: &Observation) -> Option<Pinned> {
        let pin = self.pin.as_ref().filter(|_| node.selected)?;
        let revision = pin.revision.as_ref().ok()?; // an error is reported as an obstacle
        let known = observed.revisions.iter();
        let mut known = known.filter(|known| known.definition.revision == *revision);
        let definition = known.next()?.definition.clone();
        let message = pin.says_revision(revision);
        Some(Pinned { definition, message })
    }

    /// Why its pin cannot be applied.
    pub fn unmeant(&self, node: &ObservedNode, is_found: bool) -> Option<Obstacle> {
        let pin = self.pin.as_ref().filter(|_| !is_found)?;
        let error = pin.hindrance(node.selected)?;
        Some((Reason::Pinned, pin.problem(&node.name, &error)))
    }
}
