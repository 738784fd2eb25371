//! The rules that the shell relies on, as values: a world in which one of them does not apply is deliberately wrong.

use muster_rollout::{Decision, Memory, Millis, Spec, Unit, plan};

/// A decision function.
pub type Plan<'a> = dyn Fn(&Spec, &Memory, &[Unit], Millis) -> Decision + 'a;

/// The behavior of the shell. Releases use [`Rules::shipped`]; all other values are for the model, which shows that
/// each rule is needed.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The decision function.
    pub plan: &'a Plan<'a>,
    /// W3: a write changes only the assignment that was read, and a token never decreases.
    pub tests_assignments: bool,
    /// W5: a fence raises the token of the assignment.
    pub fences_raise: bool,
    /// W1: a unit in flight that is missing among those read is read again before anything is decided.
    pub checks_in_flight: bool,
    /// W7: the same for a unit that has an assignment, when the memory is rebuilt from assignments.
    pub checks_holders: bool,
}

impl Rules<'_> {
    /// The behavior of releases.
    pub fn shipped() -> Self {
        Self {
            plan: &plan,
            tests_assignments: true,
            fences_raise: true,
            checks_in_flight: true,
            checks_holders: true,
        }
    }
}
