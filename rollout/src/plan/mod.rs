//! The decision, step by step. Each step is a module; all of them change one memory.

mod abandon;
mod adopt;
mod assign;
mod batch;
mod budget;
mod conclude;
mod controls;
mod domain;
mod evidence;
mod limit;
mod next_content;
mod order;
mod overtake;
mod reasons;
mod refused;
mod run;
mod stages;
mod steps;
mod summary;
mod verdict;
mod wake;
mod window;
mod withdraw;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::limit::Counts;
use crate::memory::greatest_token;
use crate::{Decision, InFlight, MAX_IN_FLIGHT, Memory, Millis, Spec, Step, Token, Unit, UnitId};

/// Decides which units change next, and what their reports mean.
///
/// Pure and total: the same input gives the same output, whatever the order of `units`. `memory` is what was last
/// written, `units` is what was read, possibly older (see [`Spec::complete`]). The caller writes [`Decision::memory`]
/// by compare-and-swap before it applies [`Decision::steps`].
pub fn plan(spec: &Spec, memory: &Memory, units: &[Unit], now: Millis) -> Decision {
    let mut pass = Pass::new(spec, memory, units, now);
    pass.follow_target();
    pass.take_controls();
    pass.release_gone();
    pass.abandon();
    pass.abandon_refused();
    pass.adopt_unconfirmed();
    pass.read_evidence();
    pass.judge();
    pass.release_unsent();
    pass.reverse_withdrawals();
    pass.pass_stages();
    pass.retarget();
    pass.overtake();
    pass.hold_back();
    pass.begin_batches();
    // Each may make room for the other; no unit changes sides more than once, so the loop ends.
    while pass.admit() | pass.withdraw() {}
    pass.give_up();
    pass.conclude();
    pass.decide()
}

/// A decision in progress.
struct Pass<'a> {
    spec: &'a Spec,
    now: Millis,
    /// The units, ordered by name, each once.
    units: Vec<&'a Unit>,
    /// The numbers of units.
    counts: Counts,
    /// The memory, on its way from the old to the new state.
    memory: Memory,
    /// The token of every change that this pass creates or modifies.
    token: Token,
    /// The unit that was marked last in this pass, with its message.
    last_mark: Option<(UnitId, Arc<str>)>,
    /// The withdrawal that waits for an acknowledgement: its name, and the number of units.
    held: Option<(Arc<str>, u32)>,
    /// Whether the read is good enough for withdrawals.
    may_withdraw: bool,
    /// Units in flight whose step does not fit into the limit now.
    crowded: BTreeSet<UnitId>,
    /// Units in flight whose step does not fit into the budget of unavailable units.
    beyond_budget: BTreeSet<UnitId>,
    /// The verdicts of this pass.
    verdicts: Vec<Step>,
    /// The controls taken in this pass, by id, and whether they had an effect.
    taken: Vec<(u64, bool)>,
}

impl<'a> Pass<'a> {
    fn new(spec: &'a Spec, memory: &Memory, units: &'a [Unit], now: Millis) -> Self {
        let mut units: Vec<&Unit> = units.iter().collect();
        if !units.is_sorted_by(|one, other| one.id < other.id) {
            units.sort_unstable();
            units.dedup_by(|later, first| later.id == first.id);
        }
        let greatest = greatest_token(units.iter().copied());
        let mut pass = Self {
            spec,
            now,
            units,
            counts: Counts::default(),
            memory: memory.clone(),
            token: memory.seq.max(greatest).next(),
            last_mark: None,
            held: None,
            may_withdraw: spec.complete && !memory.rebuilt,
            crowded: BTreeSet::new(),
            beyond_budget: BTreeSet::new(),
            verdicts: Vec::new(),
            taken: Vec::new(),
        };
        pass.counts = pass.count_units();
        pass
    }

    fn decide(mut self) -> Decision {
        if self.spec.complete {
            self.memory.rebuilt = false;
        }
        let mut steps = self.steps();
        let (reasons, summary) = self.reasons_and_summary();
        let wake_at = self.wake_at();
        let open = self.why_stage();
        steps.extend(self.readings_to_take());
        steps.append(&mut self.verdicts);
        Decision {
            memory: self.memory,
            steps,
            summary,
            reasons,
            open,
            wake_at,
            taken: self.taken,
        }
    }

    /// The unit of this name, if it is in the view.
    fn unit(&self, id: &UnitId) -> Option<&'a Unit> {
        let at = self.units.binary_search_by(|unit| unit.id.cmp(id)).ok()?;
        self.units.get(at).copied()
    }

    /// The unit of an in-flight change; None if it is not in the view, or only another incarnation is.
    fn unit_of(&self, id: &UnitId, change: &InFlight) -> Option<&'a Unit> {
        self.unit(id)
            .filter(|unit| unit.incarnation == change.incarnation)
    }

    /// All units in order, each with the in-flight change of its name, if any, possibly of another incarnation. One
    /// walk over both, as thousands of lookups would take longer than everything else.
    fn with_in_flight(&self) -> impl Iterator<Item = (&'a Unit, Option<&InFlight>)> {
        let mut changes = self.memory.in_flight.iter().peekable();
        self.units.iter().map(move |unit| {
            while changes.next_if(|(id, _)| **id < unit.id).is_some() {}
            let change = changes.next_if(|(id, _)| **id == unit.id);
            (*unit, change.map(|(_, change)| change))
        })
    }

    fn in_flight_of(&self, unit: &Unit) -> Option<&InFlight> {
        self.memory
            .in_flight
            .get(&unit.id)
            .filter(|change| change.incarnation == unit.incarnation)
    }

    /// The token for a change that is created or modified now.
    fn issue(&mut self) -> Token {
        self.memory.seq = self.token;
        self.token
    }

    /// Stores an in-flight change. If the memory is full, the unit that was released first makes room: if it returns
    /// unconfirmed, its assignment still shows it. False if there is no room, or another incarnation of the unit is in
    /// flight.
    fn add_in_flight(&mut self, unit: &Unit, change: InFlight) -> bool {
        let changes = &mut self.memory.in_flight;
        if changes
            .get(&unit.id)
            .is_some_and(|other| other.incarnation != unit.incarnation)
        {
            return false;
        }
        if changes.len() >= MAX_IN_FLIGHT && !changes.contains_key(&unit.id) {
            let released = changes.iter().filter(|(_, change)| change.skipped);
            let oldest = released.min_by_key(|(id, change)| (change.absent_since, (*id).clone()));
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                return false;
            };
            changes.remove(&oldest);
        }
        changes.insert(unit.id.clone(), change);
        true
    }
}
