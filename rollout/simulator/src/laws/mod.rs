//! The laws for every decision, and for what an observer of the fleet sees. Written once: the engine's own tests and
//! the simulator check every history with them.

mod decision;
mod observer;
mod truth;
mod verdicts;

use std::fmt;

use muster_rollout::{
    Decision, InFlight, Kind, Limit, Memory, Millis, Spec, StagePosition, Strategy, Unit, UnitId,
};
use thiserror::Error;

pub use self::{decision::examine, observer::Observer, verdicts::Verdicts};

/// The decision function: the released one, or a deliberately wrong one.
pub type Decide<'a> = &'a dyn Fn(&Spec, &Memory, &[Unit], Millis) -> Decision;

/// A law, by its name in docs/engine.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is described below")]
pub enum Law {
    E1,
    E2,
    E3,
    E4,
    E5,
    E6,
    E7,
    E8,
    E9,
    E10,
    E12,
    E13,
    EL1,
    EL2,
    EL3,
    W2,
}

impl Law {
    /// The text of the law.
    pub const fn description(self) -> &'static str {
        match self {
            Self::E1 => "no more units change at once than the limit and the budget allow",
            Self::E2 => "no more domains change at once than allowed, in their order",
            Self::E3 => "a revision that is known to be bad is not assigned",
            Self::E4 => "a revision is condemned only if enough units failed on it",
            Self::E5 => "a unit that reverts gets a good revision",
            Self::E6 => "no unit that is ineligible or paused is written",
            Self::E7 => "stages follow one another, each when the previous one is done",
            Self::E8 => "withdrawals need a complete read, and many at once need an acknowledgement",
            Self::E9 => "the order of the units does not matter",
            Self::E10 => "the same input gives the same decision, and applied steps are not repeated",
            Self::E12 => "every unit has exactly one reason, and it is true",
            Self::E13 => "the memory stays within its limits and can be read back",
            Self::EL1 => "when everything works, a good target is reached",
            Self::EL2 => "a bad target ends condemned",
            Self::EL3 => "a waiting unit is woken by time or by an event",
            Self::W2 => "the greatest token never decreases",
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A law that is broken.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{law} ({}): {what}", law.description())]
pub struct Broken {
    /// The law.
    pub law: Law,
    /// How it is broken.
    pub what: String,
}

impl Broken {
    pub(crate) fn new(law: Law, what: impl Into<String>) -> Self {
        Self {
            law,
            what: what.into(),
        }
    }
}

impl From<Broken> for String {
    fn from(broken: Broken) -> Self {
        broken.to_string()
    }
}

/// Whether the laws hold.
pub type Verdict = Result<(), Broken>;

/// One decision with all its inputs.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// The decision function.
    pub decide: Decide<'a>,
    /// The desired state.
    pub spec: &'a Spec,
    /// The memory before the decision.
    pub before: &'a Memory,
    /// The units that were read.
    pub view: &'a [Unit],
    /// The decision.
    pub decision: &'a Decision,
    /// The time of the decision.
    pub now: Millis,
}

impl<'a> Case<'a> {
    /// The unit of this name in the view, in any order.
    pub fn unit(&self, id: &UnitId) -> Option<&'a Unit> {
        let found = self.view.binary_search_by(|unit| unit.id.cmp(id)).ok();
        let found = found.and_then(|at| self.view.get(at));
        // A view need not be sorted.
        found.or_else(|| self.view.iter().find(|unit| unit.id == *id))
    }
}

/// The units that are changing according to the new memory, and the selected ones that are unavailable.
fn disrupted<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a UnitId> {
    let changes = &case.decision.memory.in_flight;
    let is_changing = |change: &InFlight| change.counts() || change.kind == Kind::Withdraw && !change.skipped;
    let changing = changes
        .iter()
        .filter(move |(_, change)| is_changing(change))
        .map(|(id, _)| id);
    let included = |unit: &&Unit| unit.selected() && unit.place != StagePosition::Excluded;
    let unavailable = |unit: &&Unit| !(unit.available && unit.is_eligible());
    let others = case
        .view
        .iter()
        .filter(included)
        .filter(unavailable)
        .filter(move |unit| !changes.get(&unit.id).is_some_and(is_changing));
    changing.chain(others.map(|unit| &unit.id))
}

/// Number of units that are selected and not excluded from all stages.
fn selected(view: &[Unit]) -> u32 {
    let included = view
        .iter()
        .filter(|unit| unit.selected() && unit.place != StagePosition::Excluded);
    u32::try_from(included.count()).unwrap_or(u32::MAX)
}

/// The limit in units, computed from the spec: the engine's own number is what is checked.
pub fn limit_in_units(spec: &Spec, view: &[Unit]) -> u32 {
    let included = view
        .iter()
        .filter(|unit| unit.selected() && unit.place != StagePosition::Excluded);
    let (selected, eligible) = included.fold((0, 0), |(selected, eligible), unit| {
        (selected + 1, eligible + u32::from(unit.is_eligible()))
    });
    match spec.strategy {
        Strategy::Replace => selected,
        Strategy::Incremental => amount(spec.limit, eligible).min(selected),
    }
}

/// The limit in units of this total.
fn amount(limit: Limit, whole: u32) -> u32 {
    match limit {
        Limit::Count(count) => count,
        Limit::Percent(0) => 0,
        Limit::Percent(percent) => (whole.saturating_mul(percent.min(100).into()) / 100).max(1),
    }
}
