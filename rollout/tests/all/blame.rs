//! Rule 3: a unit that was not ready before is no evidence.

use muster_rollout::{Class, State, Verdict, Why};

use crate::world::{World, failure, rev};

/// One unit in this state at r1 gets r2 and fails at it: is r2 condemned?
fn check(before: Option<&State>, condemned: bool) {
    let mut world = World::settled(&["a"], "r1");
    match before {
        Some(state) => world.report("a", state.clone()),
        None => world.member("a").row = None,
    }
    world.aim("r2");
    world.step();
    assert_eq!(world.on("r2"), ["a"]);
    world.fail("a");
    world.step();
    assert_eq!(
        world.memory.verdict(rev("r2")) == Some(Verdict::Bad),
        condemned,
        "{before:?}"
    );
    assert_eq!(world.in_flight(), ["a"], "it keeps its slot either way");
}

#[test]
fn only_units_that_were_ready_or_empty_blame_a_revision() {
    check(Some(&State::Succeeded), true);
    check(Some(&failure(Class::Unit, false)), false);
    check(Some(&State::Updating), false);
    check(Some(&State::Unknown), false);
}

#[test]
fn a_unit_without_content_counts_as_ready() {
    let mut world = World::new(&["a"], "r1");
    world.step();
    world.fail("a");
    world.step();
    assert_eq!(world.memory.verdict(rev("r1")), Some(Verdict::Bad));
}

#[test]
fn the_reason_says_so() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.fail("a");
    world.aim("r2");
    world.step();
    assert_eq!(world.words(), "a:AlreadyUnready b:Updating");
    world.succeed("b");
    world.step();
    world.fail("a");
    world.step();
    assert!(matches!(
        world.why("a"),
        Why::AlreadyUnready {
            message: Some(_),
            since: Some(_)
        }
    ));
}

#[test]
fn changed_values_alone_mark_no_revision() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.member("a").values = 1;
    world.step();
    world.fail("a");
    world.step();
    assert_eq!(world.words(), "a:Failed b:UpToDate");
    assert_eq!(world.memory.verdict(rev("r1")), Some(Verdict::Good));
}

#[test]
fn changed_values_are_rolled_under_the_same_limit() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.member("a").values = 1;
    world.member("b").values = 1;
    assert_eq!(world.step().steps.len(), 1);
    world.succeed("a");
    assert_eq!(world.step().steps.len(), 1);
}
