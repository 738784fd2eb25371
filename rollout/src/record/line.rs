//! The form of a recorded line: a complete case, or the difference from the previous one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Case, LineError, Origin, SCHEMA};
use crate::{Decision, Memory, Millis, Spec, Step, Summary, Unit, UnitId, Why};

// An unknown field is an error: ignoring it could lead to another decision.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    /// In complete lines: the format of all lines that follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    /// In complete lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    now: Millis,
    /// None: unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Spec>,
    /// None: the previous decision's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    /// Units that changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    units: Vec<Unit>,
    /// Units that are no longer in the view.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    gone: BTreeSet<UnitId>,
    decided: Decided,
}

/// The recorded decision.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decided {
    /// None: the memory is unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Step>,
    summary: Summary,
    /// Changed reasons, each with its units: many units share a reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<(Why, Vec<UnitId>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Why>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    taken: Vec<(u64, bool)>,
}

impl Line {
    /// Creates a complete line.
    pub(super) fn complete(origin: &Origin, case: &Case) -> Self {
        Self {
            schema: Some(SCHEMA.to_owned()),
            origin: Some(origin.clone()),
            now: case.now,
            spec: Some(case.spec.clone()),
            memory: Some(case.memory.clone()),
            units: case.units.clone(),
            gone: BTreeSet::new(),
            decided: Decided::of(case, &[]),
        }
    }

    /// Creates a line with the differences.
    pub(super) fn after(last: &Case, case: &Case) -> Self {
        let before: BTreeMap<&UnitId, &Unit> = last.units.iter().map(|unit| (&unit.id, unit)).collect();
        let changed = case
            .units
            .iter()
            .filter(|unit| before.get(&unit.id) != Some(unit));
        let here: BTreeSet<&UnitId> = case.units.iter().map(|unit| &unit.id).collect();
        let gone = before.keys().filter(|id| !here.contains(**id));
        Self {
            schema: None,
            origin: None,
            now: case.now,
            spec: (case.spec != last.spec).then(|| case.spec.clone()),
            memory: (case.memory != last.decision.memory).then(|| case.memory.clone()),
            units: changed.cloned().collect(),
            gone: gone.map(|id| (*id).clone()).collect(),
            decided: Decided::of(case, &last.decision.reasons),
        }
    }

    /// The case, and its origin if the line contains it.
    pub(super) fn read(self, last: Option<Case>) -> Result<(Option<Origin>, Case), LineError> {
        let last = last.filter(|_| self.schema.is_none());
        let (spec, memory, units, reasons) = match last {
            Some(last) => (
                Some(last.spec),
                Some(last.decision.memory),
                last.units,
                last.decision.reasons,
            ),
            None => (None, None, Vec::new(), Vec::new()),
        };
        let (Some(spec), Some(memory)) = (self.spec.or(spec), self.memory.or(memory)) else {
            return Err(LineError::NothingBefore);
        };
        let mut units: BTreeMap<UnitId, Unit> =
            units.into_iter().map(|unit| (unit.id.clone(), unit)).collect();
        units.extend(self.units.into_iter().map(|unit| (unit.id.clone(), unit)));
        units.retain(|id, _| !self.gone.contains(id));
        let case = Case {
            now: self.now,
            decision: self.decided.read(&memory, reasons, &self.gone),
            spec,
            memory,
            units: units.into_values().collect(),
        };
        Ok((self.origin, case))
    }
}

impl Decided {
    fn of(case: &Case, before: &[(UnitId, Why)]) -> Self {
        let Decision {
            memory,
            steps,
            summary,
            reasons,
            open,
            wake_at,
            taken,
        } = &case.decision;
        let before: BTreeMap<&UnitId, &Why> = before.iter().map(|(id, why)| (id, why)).collect();
        let mut changed: BTreeMap<&Why, Vec<UnitId>> = BTreeMap::new();
        for (id, why) in reasons {
            if before.get(id) != Some(&why) {
                changed.entry(why).or_default().push(id.clone());
            }
        }
        Self {
            memory: (*memory != case.memory).then(|| memory.clone()),
            steps: steps.clone(),
            summary: *summary,
            reasons: changed
                .into_iter()
                .map(|(why, units)| (why.clone(), units))
                .collect(),
            open: open.clone(),
            wake_at: *wake_at,
            taken: taken.clone(),
        }
    }

    /// Each unit has a reason, and each reason a unit: units that are gone have none.
    fn read(self, memory: &Memory, before: Vec<(UnitId, Why)>, gone: &BTreeSet<UnitId>) -> Decision {
        let mut reasons: BTreeMap<UnitId, Why> = before.into_iter().collect();
        reasons.retain(|id, _| !gone.contains(id));
        for (why, units) in self.reasons {
            reasons.extend(units.into_iter().map(|id| (id, why.clone())));
        }
        Decision {
            memory: self.memory.unwrap_or_else(|| memory.clone()),
            steps: self.steps,
            summary: self.summary,
            reasons: reasons.into_iter().collect(),
            open: self.open,
            wake_at: self.wake_at,
            taken: self.taken,
        }
    }
}
