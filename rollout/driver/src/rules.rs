//! What the shell relies on, as values: a world in which one of them does not hold is wrong on purpose.

use muster_rollout::{Decision, Memory, Millis, Spec, Unit, plan};

/// A decision function.
pub type Plan<'a> = dyn Fn(&Spec, &Memory, &[Unit], Millis) -> Decision + 'a;

/// How the shell works. What ships is [`Rules::shipped`]; every other value is for the model, which shows that each rule is needed.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The decision.
    pub plan: &'a Plan<'a>,
    /// W3: a write changes the row that was read, or nothing, and a token never falls.
    pub tests_rows: bool,
    /// W5: a fence raises the token of the row.
    pub fences_raise: bool,
    /// W1: a unit that is charged, and missing among those read, is read once more before anything is decided.
    pub checks_charged: bool,
    /// W7: the same of a unit that has a row, where the memory is rebuilt from rows.
    pub checks_holders: bool,
}

impl Rules<'_> {
    /// The shell that ships.
    pub fn shipped() -> Self {
        Self {
            plan: &plan,
            tests_rows: true,
            fences_raise: true,
            checks_charged: true,
            checks_holders: true,
        }
    }
}
