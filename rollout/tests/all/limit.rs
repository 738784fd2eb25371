//! Rule 2: how many units change at once.

use muster_rollout::{Class, Limit, Strategy};

use crate::world::{World, failure};

/// With ten units, of which some are not eligible: how many are in flight at once?
fn check(limit: Limit, ineligible: usize, expect: usize) {
    let names: Vec<String> = (0..10).map(|at| format!("u{at}")).collect();
    let mut world = World::settled(&names.iter().map(String::as_str).collect::<Vec<_>>(), "r1");
    names.iter().take(ineligible).for_each(|name| world.lose(name));
    world.spec.limit = limit;
    world.aim("r2");
    for _ in 0..3 {
        world.step();
        assert_eq!(world.on("r2").len(), expect, "{limit:?} without {ineligible}");
    }
}

#[test]
fn count_or_percentage_of_the_eligible_rounded_down_at_least_one() {
    check(Limit::Count(0), 0, 0);
    check(Limit::Count(1), 0, 1);
    check(Limit::Count(3), 0, 3);
    check(Limit::Count(30), 0, 10);
    check(Limit::Count(8), 5, 5);
    check(Limit::Percent(0), 0, 0);
    check(Limit::Percent(1), 0, 1);
    check(Limit::Percent(19), 0, 1);
    check(Limit::Percent(20), 0, 2);
    check(Limit::Percent(29), 0, 2);
    check(Limit::Percent(50), 5, 2);
    check(Limit::Percent(100), 0, 10);
    check(Limit::Percent(255), 0, 10);
}

#[test]
fn the_next_one_moves_when_one_is_confirmed() {
    let mut world = World::settled(&["a", "b", "c", "d"], "r1");
    world.spec.limit = Limit::Count(2);
    world.aim("r2");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b"]);
    world.succeed("b");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b", "c"]);
    world.step();
    assert_eq!(world.on("r2"), ["a", "b", "c"]);
}

#[test]
fn replace_has_no_limit_but_goes_in_waves_of_what_can_be_remembered() {
    let names: Vec<String> = (0..1100).map(|at| format!("u{at:04}")).collect();
    let mut world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>(), "r1");
    world.spec.strategy = Strategy::Replace;
    let mut waves = Vec::new();
    while world.on("r1").len() < names.len() && waves.len() < 10 {
        waves.push(world.step().steps.len());
        names.iter().for_each(|name| world.succeed(name));
    }
    assert_eq!(waves, [500, 500, 100]);
}

#[test]
fn a_smaller_limit_takes_no_slot_away_and_gives_none() {
    let mut world = World::settled(&["a", "b", "c", "d"], "r1");
    world.spec.limit = Limit::Count(3);
    world.aim("r2");
    world.step();
    world.spec.limit = Limit::Count(1);
    world.succeed("a");
    world.step();
    assert_eq!(
        (world.in_flight().len(), world.on("r2")),
        (2, vec!["a", "b", "c"])
    );
    world.succeed("b");
    world.succeed("c");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b", "c", "d"]);
}

#[test]
fn a_relapsed_unit_is_not_written_while_all_slots_are_taken() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.step();
    world.report("a", failure(Class::Unit, false));
    world.step();
    assert_eq!(world.in_flight(), ["a", "b"]);
    world.aim("r3");
    world.step();
    assert_eq!(world.on("r3"), ["b"]);
    assert_eq!(world.words(), "a:WaitingTurn b:Updating c:WaitingTurn");
    world.succeed("b");
    world.step();
    assert_eq!(world.on("r3"), ["a", "b"]);
}

#[test]
fn an_unreachable_unit_keeps_its_slot_for_a_while() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.lose("a");
    world.step();
    assert_eq!(world.on("r2"), ["a"]);
}
