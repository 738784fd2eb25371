//! Rules 2 and 4: a unit that returned is above the limit, and the others wait for it, whatever is still pending. Found
//! by the model.

use muster_rollout::{Decision, Millis, Step, UnitId};

use crate::world::{World, assignment_steps};

/// `a` is absent, and was released with a pending change; `b` has the slot, and its write is pending, too.
fn released() -> World {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.remember();
    world.lose("a");
    world.remember();
    world.pass(Millis::minutes(5));
    world.remember();
    assert_eq!(world.in_flight(), ["b"]);
    world
}

/// The units whose assignments are written.
fn written(decision: &Decision) -> Vec<&str> {
    let steps = assignment_steps(decision).into_iter();
    steps.filter_map(Step::unit).map(UnitId::as_str).collect()
}

#[test]
fn a_new_target_is_written_first_to_a_returned_unit() {
    let mut world = released();
    world.find("a");
    world.aim("r1");
    assert_eq!(
        written(&world.remember()),
        ["a"],
        "a late write may still arrive at a"
    );
    world.step();
    world.succeed("a");
    assert_eq!(written(&world.step()), ["b"]);
}

#[test]
fn a_returned_deselected_unit_is_withdrawn_from_first() {
    let mut world = released();
    world.spec.withdraw.brake = None;
    world.find("a");
    world.deselect(&["a"]);
    world.aim("r1");
    assert_eq!(written(&world.step()), ["a"]);
    assert_eq!(
        written(&world.step()),
        ["b"],
        "the withdrawal is written: nothing older arrives"
    );
}

#[test]
fn a_late_withdrawal_leaves_no_slot_beside_a_returned_unit() {
    let mut world = released();
    world.spec.withdraw.brake = None;
    let late = world.members["a"].row;
    world.aim("r2");
    world.find("a");
    world.deselect(&["b"]);
    let withdrawal = world.remember();
    world.reselect("b");
    world.remember();
    withdrawal.steps.iter().for_each(|step| {
        if matches!(step, Step::Withdraw { .. }) {
            world.carry_out(step);
        }
    });
    assert_eq!(world.members["a"].row, late);
    assert_eq!(written(&world.remember()), ["a"]);
}
