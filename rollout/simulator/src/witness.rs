//! The witness of a simulation: the laws, or code that draws the events.

use muster_rollout::{Content, Millis, Revision, Spec, State, Unit, UnitId};

use crate::laws::{Case, Observer, Verdict, Verdicts, examine};

/// Is notified of decisions, writes and reports. Views are numbered: an event has the number of the first view that
/// shows it.
pub trait Witness {
    /// A memory was written that was decided on this view.
    fn decided(&mut self, _case: &Case<'_>, _view: usize) -> Verdict {
        Ok(())
    }

    /// An assignment was written or removed.
    fn wrote(&mut self, _unit: &UnitId, _content: Option<Content>, _view: usize, _now: Millis) -> Verdict {
        Ok(())
    }

    /// A unit reported about its assignment.
    fn reported(&mut self, _unit: &UnitId, _revision: Option<Revision>, _state: &State, _view: usize) {}

    /// A unit is no longer eligible.
    fn went_away(&mut self, _unit: &UnitId, _now: Millis) {}

    /// A unit is eligible again.
    fn came_back(&mut self, _unit: &UnitId, _view: usize, _now: Millis) {}

    /// A unit is gone.
    fn is_gone(&mut self, _unit: &UnitId, _now: Millis) {}

    /// The memory was lost, and this unit was adopted for its assignment.
    fn is_adopted(&mut self, _unit: &UnitId, _view: usize) {}

    /// No change is pending.
    fn calm(&mut self, _spec: &Spec, _view: &[Unit]) {}
}

/// A witness that does nothing.
impl Witness for () {}

/// Checks the laws: the first broken one ends the history.
#[derive(Debug)]
pub struct Laws {
    observer: Observer,
    verdicts: Verdicts,
}

impl Laws {
    /// For a rollout with these deadlines.
    pub fn new(spec: &Spec) -> Self {
        Self {
            observer: Observer::new(spec),
            verdicts: Verdicts::default(),
        }
    }
}

impl Witness for Laws {
    fn decided(&mut self, case: &Case<'_>, view: usize) -> Verdict {
        examine(case)?;
        self.verdicts.decided(case)?;
        self.observer.decided(case, view)
    }

    fn wrote(&mut self, unit: &UnitId, content: Option<Content>, view: usize, now: Millis) -> Verdict {
        self.observer.wrote(unit, content, view, now)
    }

    fn reported(&mut self, unit: &UnitId, revision: Option<Revision>, state: &State, view: usize) {
        self.observer.reported(unit, revision, state, view);
    }

    fn went_away(&mut self, unit: &UnitId, now: Millis) {
        self.observer.went_away(unit, now);
    }

    fn came_back(&mut self, unit: &UnitId, view: usize, now: Millis) {
        self.observer.came_back(unit, view, now);
    }

    fn is_gone(&mut self, unit: &UnitId, now: Millis) {
        self.observer.is_gone(unit, now);
    }

    fn is_adopted(&mut self, unit: &UnitId, view: usize) {
        self.observer.is_adopted(unit, view);
    }

    fn calm(&mut self, spec: &Spec, view: &[Unit]) {
        self.observer.calm(spec, view);
    }
}
