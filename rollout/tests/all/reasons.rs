//! Rule 15, E12: exactly one reason for each unit, with the details that the reader needs.

use muster_rollout::{Absence, Eligible, Millis, State, UnitId, Why};

use crate::world::{UNREACHABLE, World, failure, ineligible};

#[test]
fn a_waiting_unit_names_the_slot_holders() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    assert_eq!(
        world.why("b"),
        Why::WaitingTurn {
            holders: [UnitId::from("a")].into(),
            limit: 1
        }
    );
}

#[test]
fn an_updating_unit_reports_its_deadline() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    let since = world.now;
    world.step();
    world.step();
    let until = Some(since.plus(Millis::minutes(5)));
    assert_eq!(
        world.why("a"),
        Why::Updating {
            since,
            until,
            picked_up: false,
            message: None
        }
    );
    world.report("a", failure(muster_rollout::Class::Revision, false));
    world.step();
    let Why::Failed { message, until, .. } = world.why("a") else {
        panic!()
    };
    assert_eq!(
        (&*message, until),
        (
            "Deployment app: image not found",
            Some(since.plus(Millis::minutes(10)))
        )
    );
}

#[test]
fn a_failed_unit_reports_since_when_the_failure_counts() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    let in_flight = world.now;
    world.step();
    world.pass(Millis::minutes(2));
    world.report("a", failure(muster_rollout::Class::Revision, true));
    world.step();
    let counted = world.now;
    world.pass(Millis::minutes(2));
    world.step();
    let Why::Failed { since, .. } = world.why("a") else {
        panic!()
    };
    assert_eq!(since, Some(counted), "charged at {in_flight:?}");
}

#[test]
fn the_callers_reason_wins_by_its_rank_only() {
    let mut world = World::settled(&["a"], "r1");
    world.fail("a");
    world.member("a").eligible = Eligible::No(UNREACHABLE);
    assert_eq!(world.words(), "a:Ineligible");
    world.member("a").eligible = Eligible::No(ineligible(26, Absence::Skip));
    assert_eq!(world.words(), "a:Failed");
}

/// It was ready when its change was decided, was absent for longer than its slot is kept, and fails at its content:
/// that remains so when the target changes, and it is not reported as unready before.
#[test]
fn a_unit_released_for_its_absence_failed_since_it_went_in_flight() {
    let mut world = World::settled(&["a"], "r1");
    world.aim("r2");
    let in_flight = world.now;
    world.step();
    world.member("a").eligible = Eligible::No(ineligible(26, Absence::Skip));
    world.step();
    world.pass(world.spec.deadlines.absence);
    world.step();
    world.report("a", failure(muster_rollout::Class::Revision, true));
    world.aim("r3");
    world.step();
    let Why::Failed { since, until, .. } = world.why("a") else {
        panic!("{:?}", world.why("a"))
    };
    assert_eq!((since, until), (Some(in_flight), None));
}

#[test]
fn every_unit_has_one_and_each_is_counted_once() {
    let mut world = World::settled(&["a", "b", "c", "d", "e"], "r1");
    world.aim("r2");
    world.lose("e");
    world.step();
    world.succeed("a");
    world.step();
    world.deselect(&["d"]);
    world.report("b", State::Updating);
    let decision = world.step();
    assert_eq!(
        world.words(),
        "a:UpToDate b:Updating c:WaitingTurn d:Withdrawing e:Ineligible"
    );
    let it = decision.summary;
    assert_eq!(
        (it.total, it.updated, it.ready, it.updating, it.waiting),
        (4, 1, 1, 1, 1)
    );
    assert_eq!(
        (it.failed, it.skipped, it.withdrawing, it.in_flight, it.limit),
        (0, 1, 1, 1, 1)
    );
}
