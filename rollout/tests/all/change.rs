//! Rule 1: a unit is in flight from the decision until the change is confirmed, and only a report about that change
//! counts.

use muster_rollout::{Class, Kind, Millis, Report, State, Token};

use crate::world::{World, assignment_steps, digest, failure, rev};

/// One unit is in flight to r2 with token 2; what does this report lead to?
fn check(report: Option<(&str, u64, &State)>, still_in_flight: bool) {
    let mut world = World::settled(&["a"], "r1");
    world.aim("r2");
    world.step();
    assert_eq!(world.token("a"), 2);
    world.member("a").report = report.map(|(revision, token, state)| Report {
        digest: Some(digest(revision, 0)),
        token: Token(token),
        state: state.clone(),
    });
    world.step();
    assert_eq!(!world.in_flight().is_empty(), still_in_flight, "{report:?}");
}

#[test]
fn only_success_at_this_digest_and_token_confirms() {
    check(Some(("r2", 2, &State::Succeeded)), false);
    check(Some(("r2", 1, &State::Succeeded)), true);
    check(Some(("r1", 2, &State::Succeeded)), true);
    check(Some(("r1", 1, &State::Succeeded)), true);
    check(Some(("r2", 3, &State::Succeeded)), true);
    check(Some(("r2", 2, &State::Updating)), true);
    check(Some(("r2", 2, &State::Unknown)), true);
    check(Some(("r2", 2, &State::Withdrawn)), true);
    check(Some(("r2", 2, &failure(Class::Revision, false))), true);
    check(None, true);
}

#[test]
fn a_target_that_comes_back_is_confirmed_by_its_new_token_only() {
    let mut world = World::settled(&["a"], "r1");
    world.aim("r2");
    world.step();
    world.aim("r1");
    world.step();
    assert_eq!((world.on("r1"), world.token("a")), (vec!["a"], 3));
    world.member("a").report = Some(Report {
        digest: Some(digest("r1", 0)),
        token: Token(1),
        state: State::Succeeded,
    });
    world.step();
    assert_eq!(world.in_flight(), ["a"], "the report is from the first time");
    world.succeed("a");
    world.step();
    assert!(world.in_flight().is_empty());
}

#[test]
fn success_has_to_last() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.min_ready = Millis::seconds(30);
    world.aim("r2");
    world.step();
    world.succeed("a");
    let decision = world.step();
    assert_eq!(decision.wake_at, Some(world.now.plus(Millis::seconds(30))));
    world.pass(Millis::seconds(20));
    world.report("a", State::Unknown);
    world.step();
    world.report("a", State::Updating);
    world.step();
    world.succeed("a");
    world.step();
    world.pass(Millis::seconds(29));
    world.step();
    assert_eq!(world.in_flight(), ["a"], "an interruption restarts it");
    world.pass(Millis::seconds(1));
    world.step();
    assert_eq!(world.in_flight(), ["b"]);
}

#[test]
fn an_unknown_state_is_not_an_interruption() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.min_ready = Millis::seconds(30);
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.step();
    world.pass(Millis::seconds(30));
    world.report("a", State::Unknown);
    world.step();
    assert_eq!(world.in_flight(), ["a"], "it is not confirmed by it either");
    world.succeed("a");
    world.step();
    assert_eq!(world.in_flight(), ["b"]);
}

#[test]
fn a_confirmed_unit_that_fails_during_the_run_goes_in_flight_again_and_takes_a_slot() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.spec.max_failed = muster_rollout::Limit::Count(1);
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.step();
    world.report("a", failure(Class::Unit, false));
    world.step();
    assert_eq!(world.in_flight(), ["a", "b"]);
    assert_eq!(world.memory.in_flight["a"].kind, Kind::Relapsed);
    world.succeed("b");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b"], "the relapsed one fills the window");
    world.succeed("a");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b", "c"]);
}

#[test]
fn a_failure_after_the_run_is_reported_and_puts_no_unit_in_flight() {
    let mut world = World::settled(&["a"], "r1");
    world.fail("a");
    let decision = world.step();
    assert!(world.in_flight().is_empty() && assignment_steps(&decision).is_empty());
    assert_eq!(world.words(), "a:Failed");
    assert_eq!(world.memory.last_good, Some(rev("r1")));
}

#[test]
fn an_infrastructure_failure_is_not_a_relapse() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.step();
    world.report("a", failure(Class::Infra, false));
    world.step();
    assert_eq!(
        (world.in_flight(), world.words().as_str()),
        (vec!["b".to_owned()], "a:UpToDate b:Updating")
    );
}
