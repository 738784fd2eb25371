//! W7, EL5: a lost memory is rebuilt from assignments and verdicts.

use std::collections::BTreeMap;

use muster_rollout::{Class, Evidence, Limit, MAX_BAD, MAX_MESSAGE, Memory, Millis, State};

use crate::world::{World, assignment_steps, failure, rev};

fn forget(world: &mut World) {
    world.memory = Memory::rebuild(
        &world.view(),
        world.memory.last_good,
        world.memory.bad.clone(),
        world.now,
    );
}

#[test]
fn unconfirmed_assignments_go_in_flight_and_tokens_continue() {
    let mut world = World::settled(&["a", "b", "c", "d"], "r1");
    world.spec.limit = Limit::Count(2);
    world.aim("r2");
    world.step();
    world.report("b", State::Updating);
    let seq = world.memory.seq;
    forget(&mut world);
    assert_eq!(
        (world.in_flight(), world.memory.seq),
        (vec!["a".to_owned(), "b".to_owned()], seq)
    );
    assert!(assignment_steps(&world.step()).is_empty(), "the window is full");
    world.settle();
    assert_eq!(world.memory.last_good, Some(rev("r2")));
}

#[test]
fn nothing_is_withdrawn_on_that_pass_and_then_it_is() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.deselect(&["a"]);
    forget(&mut world);
    let decision = world.step();
    assert!(assignment_steps(&decision).is_empty());
    assert_eq!(decision.wake_at, Some(world.now));
    assert_eq!(assignment_steps(&world.step()).len(), 1);
}

#[test]
fn a_settled_fleet_stays_settled() {
    let mut world = World::settled(&["a", "b"], "r1");
    forget(&mut world);
    let decision = world.step();
    assert!(decision.steps.is_empty(), "{:?}", decision.steps);
    assert_eq!(decision.summary.updated, 2);
}

#[test]
fn bad_stays_bad() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.fail("a");
    world.step();
    forget(&mut world);
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(world.words(), "a:AlreadyUnready b:KnownBad");
}

#[test]
fn a_memory_older_than_the_rows_is_repaired_by_them() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    let old = world.memory.clone();
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.step();
    world.memory = old;
    world.step();
    assert_eq!(world.in_flight(), ["b"], "its row is not confirmed");
    assert_eq!(world.on("r2"), ["a", "b"]);
    world.settle();
    assert_eq!(world.on("r2").len(), 3);
}

#[test]
fn of_more_evidence_than_can_be_kept_the_newest_is() {
    let evidence = |at| Evidence {
        unit: "a".into(),
        message: "no\n".repeat(200).into(),
        at: Millis(at),
    };
    let bad: BTreeMap<_, _> = (0..50).map(|at| (rev(&format!("r{at}")), evidence(at))).collect();
    let memory = Memory::rebuild(&[], None, bad, Millis(0));
    let kept: Vec<u64> = memory.bad.values().map(|evidence| evidence.at.0).collect();
    assert_eq!((kept.len(), kept.iter().min()), (MAX_BAD, Some(&30)));
    assert!(
        memory
            .bad
            .values()
            .all(|evidence| evidence.message.len() <= MAX_MESSAGE && !evidence.message.contains('\n'))
    );
}

#[test]
fn what_is_recorded_as_bad_is_not_the_last_good() {
    let mut world = World::settled(&["a"], "r1");
    let evidence = Evidence::new("a".into(), "it failed later", world.now);
    world.memory = Memory::rebuild(
        &world.view(),
        Some(rev("r1")),
        BTreeMap::from([(rev("r1"), evidence)]),
        world.now,
    );
    assert_eq!(world.memory.last_good, None);
}

#[test]
fn delayed_units_are_written_one_by_one_after_a_lost_memory() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    ["a", "b"]
        .iter()
        .for_each(|name| world.report(name, failure(Class::Infra, false)));
    forget(&mut world);
    assert_eq!(
        world.in_flight(),
        ["a", "b"],
        "whether they were confirmed is unknown"
    );
    world.aim("r2");
    world.step();
    assert_eq!(world.on("r2"), ["b"], "the unit written last comes first");
    world.succeed("b");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b"]);
}
