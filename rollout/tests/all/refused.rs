//! Assignments that cannot be written: shown with the error message, on their slot, and never counted against the
//! revision.

use std::collections::BTreeSet;

use muster_rollout::{Content, Millis, RefusedWrite, Report, State, Token, UnitId, Verdict, Why};

use muster_driver::Change;

use crate::world::{World, assignment_steps, digest, rev, show};

const WORDS: &str = "admission webhook \"rows.example.com\" denied the request";

/// Decides, and applies the steps of other units; the assignment of this unit is refused as the API server would.
fn step_refusing(world: &mut World, name: &str) -> String {
    let decision = world.remember();
    for step in assignment_steps(&decision) {
        if step.unit().is_some_and(|unit| unit.as_str() == name) {
            let (_, change) = Change::of(step).unwrap();
            refuse(world, name, change.token);
        } else {
            world.carry_out(step);
        }
    }
    world.words()
}

fn refuse(world: &mut World, name: &str, token: Token) {
    let message = WORDS.into();
    world
        .spec
        .refused
        .insert(name.into(), RefusedWrite { token, message });
}

fn why(world: &World, name: &str) -> Why {
    let reasons = world.decide().reasons;
    let found = reasons.into_iter().find(|(unit, _)| unit.as_str() == name);
    found.unwrap().1
}

#[test]
fn it_keeps_its_slot_and_condemns_nothing_however_long_it_takes() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    step_refusing(&mut world, "a");
    let since = world.now;
    let failed = |overdue| Why::WriteFailed {
        since,
        overdue,
        message: WORDS.into(),
    };
    assert_eq!(why(&world, "a"), failed(false));
    assert_eq!(world.words(), "a:WriteFailed b:WaitingTurn");
    assert_eq!(world.decide().wake_at, Some(since.plus(Millis::minutes(5))));
    world.pass(Millis::minutes(5));
    step_refusing(&mut world, "a");
    assert_eq!(why(&world, "a"), failed(true));
    assert_eq!(world.decide().wake_at, None, "only an event changes something");
    for _ in 0..100 {
        world.pass(Millis::minutes(60));
        assert_eq!(step_refusing(&mut world, "a"), "a:WriteFailed b:WaitingTurn");
    }
    assert!(world.memory.bad.is_empty() && world.memory.marks.is_empty());
    assert_eq!(world.decide().summary.failed, 1);

    // The API server accepts it, and the refusal leaves no trace.
    world.step();
    assert_eq!(world.words(), "a:Updating b:WaitingTurn");
    world.succeed("a");
    world.step();
    world.succeed("b");
    world.step();
    assert_eq!(world.memory.verdict(rev("r2")), Some(Verdict::Good));
}

#[test]
fn only_the_refused_in_flight_change_is_shown_as_refused() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    step_refusing(&mut world, "a");
    world.aim("r3");
    world.remember();
    assert_eq!(
        world.words(),
        "a:Updating b:WaitingTurn",
        "its new row was not tried yet"
    );
    world.lose("a");
    assert_eq!(world.words(), "a:Ineligible b:WaitingTurn");
}

/// A cluster that reports a greater token gives its in-flight change a new one, and the clock of that change runs
/// already.
#[test]
fn a_running_deadline_pauses_while_the_assignment_cannot_be_written() {
    let mut world = World::settled(&["a"], "r1");
    world.aim("r2");
    world.step();
    world.report("a", State::Updating);
    world.step();
    world.pass(Millis::minutes(9));
    let later = Token(world.member("a").row.unwrap().token.0 + 5);
    world.member("a").report = Some(Report {
        digest: Some(digest("r0", 0)),
        token: later,
        state: State::Updating,
    });
    step_refusing(&mut world, "a");
    step_refusing(&mut world, "a");
    assert_eq!(world.words(), "a:WriteFailed");
    for _ in 0..3 {
        world.pass(Millis::minutes(60));
        step_refusing(&mut world, "a");
    }
    assert!(world.memory.bad.is_empty(), "{:?}", world.memory);
    // When it is finally written, it has the rest of its deadline.
    world.step();
    world.step();
    world.pass(Millis::seconds(59));
    world.step();
    assert!(world.memory.bad.is_empty());
    world.pass(Millis::seconds(2));
    world.step();
    assert!(world.memory.is_bad(rev("r2")));
}

#[test]
fn a_unit_that_leaves_or_is_abandoned_frees_its_slot() {
    // It had nothing yet.
    let mut world = World::new(&["a", "b"], "r1");
    step_refusing(&mut world, "a");
    world.deselect(&["a"]);
    step_refusing(&mut world, "a");
    assert_eq!(world.in_flight(), ["a"], "a fence is waited for as well");
    assert_eq!(world.words(), "a:WriteFailed b:WaitingTurn");
    let mut left = world.clone();
    left.members.remove("a");
    left.step();
    assert_eq!(left.in_flight(), ["b"]);
    world.spec.abandoned = BTreeSet::from([UnitId::from("a")]);
    step_refusing(&mut world, "a");
    assert_eq!(world.in_flight(), ["b"]);
    assert_eq!(world.words(), "a:Excluded b:Updating");

    // It has the previous version, and its change was in progress.
    let mut world = World::settled(&["a", "b", "c", "d", "e", "f", "g", "h"], "r1");
    world.aim("r2");
    world.step();
    world.report("a", State::Updating);
    world.deselect(&["a"]);
    world.spec.abandoned = BTreeSet::from([UnitId::from("a")]);
    step_refusing(&mut world, "a");
    step_refusing(&mut world, "a");
    assert!(
        world.words().starts_with("a:WriteFailed b:Updating"),
        "{}",
        world.words()
    );
    assert_ne!(world.member("a").row.unwrap().content, Content::Nothing);
    let decision = world.step();
    assert_eq!(
        assignment_steps(&decision)
            .into_iter()
            .map(show)
            .next()
            .unwrap()
            .split('#')
            .next(),
        Some("abandon a")
    );
    assert_eq!(world.member("a").row.unwrap().content, Content::Nothing);
}

#[test]
fn a_withdrawal_that_cannot_be_written_is_shown_with_its_words() {
    let mut world = World::settled(&["a", "b", "c", "d", "e", "f", "g", "h"], "r1");
    world.deselect(&["a"]);
    step_refusing(&mut world, "a");
    assert!(world.words().starts_with("a:WriteFailed"), "{}", world.words());
    world.step();
    assert!(world.words().starts_with("a:Withdrawing"), "{}", world.words());
}
