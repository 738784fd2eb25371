//! W5, W6: a change that is given up leaves the limit only after a fence, and its unit stays in flight for its current
//! content.

use muster_rollout::{Content, Millis, Step, Token};

use crate::world::{World, assignment_steps, digest, rev};

#[test]
fn a_late_write_that_arrives_before_the_fence_is_what_has_to_be_confirmed() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    let late = world.remember();
    world.lose("a");
    world.remember();
    world.pass(Millis::minutes(5));
    let fence = world.remember();
    late.steps.iter().for_each(|step| world.carry_out(step));
    fence.steps.iter().for_each(|step| world.carry_out(step));
    assert_eq!(world.token("a"), 4);
    world.find("a");
    world.step();
    assert_eq!(world.in_flight(), ["a", "b"]);
    assert_eq!(world.memory.in_flight["a"].digest, Some(digest("r2", 0)));
}

#[test]
fn a_fence_that_was_lost_is_repeated() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.lose("a");
    world.step();
    world.pass(Millis::minutes(5));
    let fences = |world: &mut World| {
        let decision = world.remember();
        assignment_steps(&decision)
            .iter()
            .filter(|step| matches!(step, Step::Fence { token: Token(4), .. }))
            .count()
    };
    assert_eq!((fences(&mut world), fences(&mut world)), (1, 1));
    world.step();
    assert_eq!(fences(&mut world), 0);
}

#[test]
fn a_row_written_by_another_hand_is_what_has_to_be_confirmed() {
    let mut world = World::settled(&["a", "b"], "r1");
    let carries = Content::Carries {
        revision: Some(rev("r1")),
        digest: digest("r1", 0),
    };
    world.member("a").row = Some(muster_rollout::Assignment {
        token: Token(9),
        content: carries,
    });
    world.aim("r2");
    world.step();
    assert_eq!(world.in_flight(), ["a"]);
    assert_eq!(
        (world.on("r2"), world.token("a")),
        (vec!["a"], 10),
        "and then the next"
    );
}

#[test]
fn a_unit_taken_back_too_late_keeps_the_slot_that_it_never_left() {
    let mut world = World::new(&["a", "b"], "r1");
    world.step();
    world.deselect(&["a"]);
    let late = world.remember();
    world.reselect("a");
    let decision = world.remember();
    assert!(
        matches!(assignment_steps(&decision)[..], [Step::Assign { unit, .. }] if unit.as_str() == "a"),
        "a came back and is still changing: {decision:?}"
    );
    late.steps.iter().for_each(|step| world.carry_out(step));
    assert_eq!(world.member("a").row.unwrap().content, Content::Withdraw);
    world.step();
    assert_eq!(
        (world.on("r1"), world.words().as_str()),
        (vec!["a"], "a:Updating b:WaitingTurn")
    );
    world.succeed("a");
    world.step();
    assert_eq!(world.on("r1"), ["a", "b"]);
}

#[test]
fn a_confirmed_unit_that_failed_is_not_fenced_while_others_change() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    let first = world.member("a").clone();
    world.step();
    world.deselect(&["a"]);
    world.step();
    let before = world.member("a").clone();
    world.reselect("a");
    // Another leader does not see yet that its withdrawal was written: it is reverted on its slot.
    world.remember_on("a", &first);
    world.step();
    world.succeed("a");
    world.step();
    assert_eq!(
        (world.in_flight(), world.on("r2")),
        (vec!["b".to_owned()], vec!["a", "b"])
    );
    // Another leader still sees the withdrawal.
    world.remember_on("a", &before);
    world.fail("a");
    world.remember();
    world.remember_on("a", &before);
    let decision = world.remember();
    assert!(
        assignment_steps(&decision).is_empty(),
        "b is changing: {decision:?}"
    );
}
