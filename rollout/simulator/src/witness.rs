//! Who looks on: the laws, or somebody who draws what happens.

use muster_rollout::{Content, Millis, Revision, Spec, State, Unit, UnitId};

use crate::laws::{Case, Observer, Verdict, Verdicts, examine};

/// Somebody who sees what is decided, written and reported. Views are numbered: what happens carries the number of the first view
/// that shows it.
pub trait Witness {
    /// A memory was written that was decided on this view.
    fn decided(&mut self, _case: &Case<'_>, _view: usize) -> Verdict {
        Ok(())
    }

    /// A row was written, or dropped.
    fn wrote(&mut self, _unit: &UnitId, _content: Option<Content>, _view: usize, _now: Millis) -> Verdict {
        Ok(())
    }

    /// A unit reported about what its row says.
    fn reported(&mut self, _unit: &UnitId, _revision: Option<Revision>, _state: &State, _view: usize) {}

    /// A unit cannot be touched any more.
    fn went_away(&mut self, _unit: &UnitId, _now: Millis) {}

    /// It can be.
    fn came_back(&mut self, _unit: &UnitId, _view: usize, _now: Millis) {}

    /// It is no more.
    fn is_gone(&mut self, _unit: &UnitId, _now: Millis) {}

    /// The memory was lost, and this unit is charged out of its row.
    fn is_charged_anew(&mut self, _unit: &UnitId, _view: usize) {}

    /// Nothing is under way.
    fn calm(&mut self, _spec: &Spec, _view: &[Unit]) {}
}

/// Nobody.
impl Witness for () {}

/// The laws: the first that does not hold ends the history.
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

    fn is_charged_anew(&mut self, unit: &UnitId, view: usize) {
        self.observer.is_charged_anew(unit, view);
    }

    fn calm(&mut self, spec: &Spec, view: &[Unit]) {
        self.observer.calm(spec, view);
    }
}
