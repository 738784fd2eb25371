//! Rule 10, E7: stages follow each other, soak, and are approved.

use muster_rollout::{ControlCommand, Limit, Millis, Stage, UnitId, Why};

use crate::world::{World, rev};

pub(crate) fn stage(name: &str) -> Stage {
    Stage {
        name: name.into(),
        limit: None,
        soak: Millis(0),
        approval: false,
        gates: Vec::new(),
    }
}

/// b is the canary; a and c are in the second stage; d comes last.
pub(crate) fn staged(first: Stage) -> World {
    let mut world = World::settled(&["a", "b", "c", "d"], "r1");
    world.spec.stages = vec![first, stage("all")];
    world.stage(&["b"], 0);
    world.stage(&["a", "c"], 1);
    world.spec.limit = Limit::Count(9);
    world.aim("r2");
    world.step();
    world
}

#[test]
fn one_after_the_other_and_the_unmatched_last() {
    let mut world = staged(stage("canary"));
    assert_eq!(world.in_flight(), ["b"]);
    let waits = Why::WaitingStage {
        stage: "canary".into(),
        units: [UnitId::from("b")].into(),
        until: None,
    };
    assert_eq!((world.why("a"), world.why("d")), (waits.clone(), waits));
    world.succeed("b");
    world.step();
    assert_eq!(world.in_flight(), ["a", "c"]);
    assert!(matches!(world.why("d"), Why::WaitingStage { stage, .. } if &*stage == "all"));
    world.succeed("a");
    world.step();
    assert_eq!(world.in_flight(), ["c"]);
    world.succeed("c");
    world.step();
    assert_eq!(world.in_flight(), ["d"]);
    world.succeed("d");
    world.step();
    assert_eq!(world.memory.last_good, Some(rev("r2")));
}

#[test]
fn a_stage_is_watched_from_its_last_confirmation_and_again_after_a_relapse() {
    let mut world = staged(Stage {
        soak: Millis::minutes(10),
        ..stage("canary")
    });
    world.succeed("b");
    let confirmed = world.now;
    let decision = world.step();
    let end = confirmed.plus(Millis::minutes(10));
    assert_eq!(decision.wake_at, Some(end));
    assert!(matches!(world.why("a"), Why::WaitingStage { until, .. } if until == Some(end)));
    world.pass(Millis::minutes(9));
    world.report("b", crate::world::failure(muster_rollout::Class::Unit, false));
    world.step();
    assert_eq!(
        world.words(),
        "a:WaitingStage b:Failed c:WaitingStage d:WaitingStage"
    );
    world.succeed("b");
    world.step();
    world.pass(Millis::minutes(9));
    assert!(world.step().steps.is_empty(), "again from the start");
    world.pass(Millis::minutes(1));
    world.step();
    assert_eq!(world.in_flight(), ["a", "c"]);
}

#[test]
fn an_approval_applies_to_one_stage_of_one_revision() {
    let mut world = staged(Stage {
        approval: true,
        ..stage("canary")
    });
    assert!(
        !world.say(ControlCommand::Approve(rev("r1"), "canary".into())),
        "another revision"
    );
    assert!(
        !world.say(ControlCommand::Approve(rev("r2"), "canaries".into())),
        "no such stage"
    );
    world.succeed("b");
    world.step();
    assert_eq!(
        world.why("a"),
        Why::WaitingApproval {
            stage: "canary".into()
        }
    );
    assert!(world.say(ControlCommand::Approve(rev("r2"), "canary".into())));
    assert_eq!(world.in_flight(), ["a", "c"]);
    world.settle();
    assert!(
        !world.say(ControlCommand::Approve(rev("r2"), "canary".into())),
        "it is over"
    );
    world.aim("r3");
    world.step();
    world.succeed("b");
    world.step();
    assert_eq!(
        world.words(),
        "a:WaitingApproval b:UpToDate c:WaitingApproval d:WaitingApproval"
    );
}

#[test]
fn an_approval_may_come_early_and_a_promotion_waits_for_units_only() {
    let mut world = staged(Stage {
        approval: true,
        soak: Millis::minutes(10),
        ..stage("canary")
    });
    assert!(world.say(ControlCommand::Promote(rev("r2"), "canary".into())));
    assert_eq!(world.in_flight(), ["b"], "not before its units are confirmed");
    world.succeed("b");
    world.step();
    assert_eq!(world.in_flight(), ["a", "c"]);
}

#[test]
fn the_last_stage_is_waited_for_too() {
    let mut world = staged(stage("canary"));
    world.spec.stages[1].approval = true;
    world.stage(&["d"], 1);
    world.settle();
    assert_eq!(world.on("r2").len(), 4);
    assert_eq!(world.memory.last_good, Some(rev("r1")));
    assert!(world.say(ControlCommand::Approve(rev("r2"), "all".into())));
    assert_eq!(world.memory.last_good, Some(rev("r2")));
}

#[test]
fn a_stage_narrows_the_limit_and_never_widens_it() {
    let mut world = staged(stage("canary"));
    world.spec.stages[1].limit = Some(Limit::Count(1));
    world.succeed("b");
    world.step();
    assert_eq!(world.in_flight(), ["a"]);
    assert_eq!(
        world.why("c"),
        Why::WaitingTurn {
            holders: [UnitId::from("a")].into(),
            limit: 1
        }
    );
    world.spec.stages[1].limit = Some(Limit::Count(9));
    world.spec.limit = Limit::Count(1);
    world.step();
    assert_eq!(world.in_flight(), ["a"]);
}

#[test]
fn a_stage_with_absent_units_is_passed_without_them() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.stages = vec![stage("canary")];
    world.stage(&["b"], 0);
    world.lose("b");
    world.aim("r2");
    world.step();
    assert_eq!(world.in_flight(), ["a"]);
}

#[test]
fn what_was_passed_stays_passed() {
    let mut world = staged(stage("canary"));
    world.succeed("b");
    world.step();
    world.join("e");
    world.stage(&["e"], 0);
    world.spec.stages.swap(0, 1);
    for name in ["a", "c"] {
        world.stage(&[name], 0);
    }
    for name in ["b", "e"] {
        world.stage(&[name], 1);
    }
    world.step();
    assert_eq!(
        world.in_flight(),
        ["a", "c", "e"],
        "the stage is known by its name"
    );
}

#[test]
fn a_joining_unit_gets_the_last_good_without_waiting_for_its_stage() {
    let mut world = staged(stage("canary"));
    world.join("e");
    world.step();
    assert_eq!(
        (world.on("r2"), world.on("r1")),
        (vec!["b"], vec!["a", "c", "d", "e"])
    );
    world.succeed("e");
    world.step();
    assert!(
        matches!(world.why("e"), Why::WaitingStage { .. }),
        "{}",
        world.words()
    );
}

#[test]
fn an_incomplete_read_passes_nothing() {
    let mut world = staged(stage("canary"));
    world.succeed("b");
    world.spec.complete = false;
    world.step();
    assert_eq!(world.in_flight().len(), 0);
    world.spec.complete = true;
    world.step();
    assert_eq!(world.in_flight(), ["a", "c"]);
}
