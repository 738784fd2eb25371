//! Rule 14: withdrawal, its limit and its brake.

use muster_rollout::{Absence, Eligible, How, Limit, State, Step, Why};

use crate::world::{World, assignment_steps, ineligible};

fn fleet(size: usize) -> World {
    let names: Vec<String> = (0..size).map(|at| format!("u{at:02}")).collect();
    World::settled(&names.iter().map(String::as_str).collect::<Vec<_>>(), "r1")
}

fn withdrawn(world: &mut World) -> usize {
    assignment_steps(&world.step())
        .iter()
        .filter(|step| matches!(step, Step::Withdraw { .. }))
        .count()
}

#[test]
fn a_deselected_unit_is_withdrawn_from_until_it_says_so() {
    let mut world = fleet(3);
    world.deselect(&["u01"]);
    let decision = world.step();
    assert!(matches!(
        assignment_steps(&decision)[..],
        [Step::Withdraw { how: How::Prune, .. }]
    ));
    assert_eq!(world.words(), "u00:UpToDate u01:Withdrawing u02:UpToDate");
    world.report("u01", State::Withdrawn);
    world.step();
    assert!(world.in_flight().is_empty());
    assert_eq!(world.words(), "u00:UpToDate u01:Excluded u02:UpToDate");
    assert!(assignment_steps(&world.step()).is_empty());
}

#[test]
fn a_few_at_a_time_beside_the_limit() {
    let mut world = fleet(20);
    assert_eq!(world.spec.withdraw.max, Limit::Percent(10));
    world.deselect(&["u00", "u01", "u02", "u03"]);
    world.aim("r2");
    assert_eq!(withdrawn(&mut world), 2, "ten percent of twenty");
    assert_eq!(world.on("r2"), ["u04"], "the limit is another window");
    assert_eq!(withdrawn(&mut world), 0);
    ["u00", "u01"]
        .iter()
        .for_each(|name| world.report(name, State::Withdrawn));
    assert_eq!(withdrawn(&mut world), 1, "ten percent of eighteen");
}

/// Some of these units are deselected at once: are they held?
fn check(of: usize, deselected: usize, brake: Option<Limit>, held: bool) {
    let mut world = fleet(of);
    world.spec.withdraw.brake = brake;
    let names = world.names();
    world.deselect(
        &names
            .iter()
            .take(deselected)
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    assert_eq!(
        withdrawn(&mut world) == 0,
        held,
        "{deselected} of {of}, {brake:?}"
    );
    assert_eq!(
        matches!(world.why(&names[deselected - 1]), Why::WithdrawalHeld { .. }),
        held
    );
}

#[test]
fn many_at_once_are_held() {
    let default = Some(Limit::Percent(20));
    check(10, 2, default, false);
    check(10, 3, default, true);
    check(10, 10, default, true);
    check(1, 1, default, false);
    check(2, 2, default, true);
    check(3, 2, default, true);
    check(10, 10, None, false);
    check(10, 5, Some(Limit::Count(5)), false);
    check(10, 6, Some(Limit::Count(5)), true);
    check(3, 2, Some(Limit::Count(0)), true);
    check(3, 1, Some(Limit::Count(0)), false);
}

fn acknowledge(world: &mut World, name: &str) {
    let Why::WithdrawalHeld { acknowledge, .. } = world.why(name) else {
        panic!("not held")
    };
    world.spec.withdraw.acknowledged = Some(acknowledge.to_string());
}

#[test]
fn exactly_what_was_acknowledged_is_withdrawn() {
    let mut world = fleet(10);
    world.deselect(&["u00", "u01", "u02", "u03"]);
    world.step();
    acknowledge(&mut world, "u00");
    for name in ["u00", "u01", "u02"] {
        assert_eq!(withdrawn(&mut world), 1);
        world.report(name, State::Withdrawn);
    }
    world.deselect(&["u05", "u06"]);
    assert_eq!(
        withdrawn(&mut world),
        0,
        "others joined it: that is another withdrawal"
    );
    acknowledge(&mut world, "u05");
    assert_eq!(withdrawn(&mut world), 1);
}

#[test]
fn an_acknowledgement_of_something_else_is_none() {
    let mut world = fleet(10);
    world.deselect(&["u00", "u01", "u02", "u03"]);
    world.spec.withdraw.acknowledged = Some("0123456789abcdef".into());
    assert_eq!(withdrawn(&mut world), 0);
}

#[test]
fn an_acknowledgement_is_taken_once() {
    let mut world = fleet(10);
    world.deselect(&["u00", "u01", "u02"]);
    acknowledge(&mut world, "u00");
    for name in ["u00", "u01", "u02"] {
        assert_eq!(withdrawn(&mut world), 1);
        world.report(name, State::Withdrawn);
    }
    world.step();
    ["u00", "u01", "u02"].iter().for_each(|name| world.reselect(name));
    world.settle();
    world.deselect(&["u00", "u01", "u02"]);
    assert_eq!(withdrawn(&mut world), 0);
}

#[test]
fn an_incomplete_read_withdraws_nothing() {
    let mut world = fleet(3);
    world.deselect(&["u01"]);
    world.spec.complete = false;
    assert_eq!(withdrawn(&mut world), 0);
    assert_eq!(world.words(), "u00:UpToDate u01:WaitingRead u02:UpToDate");
}

#[test]
fn a_unit_reselected_before_the_withdrawal_is_written_keeps_its_content() {
    let mut world = fleet(3);
    world.deselect(&["u01"]);
    world.remember();
    world.reselect("u01");
    world.settle();
    assert_eq!(
        (world.on("r1").len(), world.words().as_str()),
        (3, "u00:UpToDate u01:UpToDate u02:UpToDate")
    );
}

#[test]
fn a_unit_reselected_during_its_withdrawal_gets_its_content_back() {
    let mut world = fleet(3);
    world.deselect(&["u01"]);
    world.step();
    world.reselect("u01");
    world.settle();
    assert_eq!(world.on("r1").len(), 3);
}

#[test]
fn a_unit_that_never_got_content_is_fenced_even_if_no_unit_is_selected() {
    let mut world = World::new(&["a"], "r1");
    world.remember(); // a is charged, and its write is lost
    world.deselect(&["a"]);
    world.step();
    world.step();
    assert!(world.memory.in_flight.is_empty(), "{}", world.words());
}

#[test]
fn an_in_flight_unit_that_is_deselected_frees_its_slot() {
    let mut world = fleet(3);
    world.aim("r2");
    world.step();
    world.deselect(&["u00"]);
    world.step();
    assert!(
        world.on("r2").is_empty(),
        "until its withdrawal is written an older write may still come"
    );
    world.step();
    assert_eq!(world.on("r2"), ["u01"]);
    assert_eq!(world.words(), "u00:Withdrawing u01:Updating u02:WaitingTurn");
}

#[test]
fn a_unit_that_never_got_anything_is_fenced_when_it_is_deselected() {
    let mut world = World::new(&["a", "b"], "r1");
    world.remember();
    world.deselect(&["a"]);
    let decision = world.step();
    assert!(
        matches!(assignment_steps(&decision)[..], [Step::Fence { .. }]),
        "{decision:?}"
    );
    world.step();
    assert_eq!(
        (world.on("r1"), world.in_flight()),
        (vec!["b"], vec!["b".to_owned()])
    );
}

#[test]
fn a_reselected_unit_without_a_target_gets_its_withdrawal_fenced_off() {
    let mut world = fleet(2);
    world.deselect(&["u00"]);
    let late = world.remember();
    world.reselect("u00");
    world.member("u00").resolved = false;
    let decision = world.step();
    assert!(
        matches!(assignment_steps(&decision)[..], [Step::Fence { .. }]),
        "{decision:?}"
    );
    late.steps.iter().for_each(|step| world.carry_out(step));
    assert_eq!(
        world.on("r1").len(),
        2,
        "the late withdrawal finds a greater token"
    );
    world.succeed("u00");
    world.step();
    assert!(world.in_flight().is_empty());
}

fn move_units(world: &mut World, names: &[&str]) {
    world.spec.withdraw.moving = names.iter().map(|name| (*name).into()).collect();
}

#[test]
fn units_that_move_are_not_counted_by_the_brake_nor_held_by_it() {
    let mut world = fleet(10);
    let leaving = ["u00", "u01", "u02", "u03", "u04"];
    world.deselect(&leaving);
    move_units(&mut world, &leaving);
    assert_eq!(withdrawn(&mut world), 1, "ten percent of ten");

    let mut world = fleet(10);
    world.deselect(&leaving);
    move_units(&mut world, &leaving[..2]);
    assert_eq!(withdrawn(&mut world), 1, "only u00, which moves");
    let Why::WithdrawalHeld { units, .. } = world.why("u02") else {
        panic!("{}", world.words())
    };
    assert_eq!(units, 3);
    assert!(
        world
            .words()
            .starts_with("u00:Withdrawing u01:WaitingTurn u02:WithdrawalHeld")
    );
    acknowledge(&mut world, "u02");
    for name in leaving {
        world.report(name, State::Withdrawn);
        world.step();
    }
    world.settle();
    assert_eq!(world.on("r1").len(), 5, "{}", world.words());
}

#[test]
fn a_unit_that_moves_no_more_ends_the_acknowledgement() {
    let mut world = fleet(10);
    world.deselect(&["u00", "u01", "u02", "u03"]);
    move_units(&mut world, &["u00"]);
    world.member("u00").eligible = Eligible::NotYet(ineligible(30, Absence::Skip));
    world.step();
    acknowledge(&mut world, "u01");
    assert_eq!(withdrawn(&mut world), 1);
    world.report("u01", State::Withdrawn);
    move_units(&mut world, &[]);
    assert_eq!(withdrawn(&mut world), 0, "another withdrawal: u00 joined it");
    assert!(matches!(world.why("u00"), Why::WithdrawalHeld { units: 3, .. }));
}
