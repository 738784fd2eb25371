//! Change windows: while one is closed, only new changes wait. A written change continues; a change that was decided
//! and not written is fenced (W5).

use std::collections::BTreeMap;

use muster_rollout::{
    Absence, Batch, Content, Eligible, Limit, Memory, Millis, OnFailure, Spec, State, Step, Unit, Why,
};
use proptest::prelude::*;

use crate::stages::stage;
use crate::world::{World, assignment_steps, ineligible, rev};

const CLOSED: Eligible = closed(true, false);

const fn closed(reverts: bool, withdrawals: bool) -> Eligible {
    Eligible::Closed {
        why: ineligible(26, Absence::Skip),
        reverts,
        withdrawals,
    }
}

impl World {
    fn close(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.member(name).eligible = CLOSED);
    }

    fn open(&mut self, names: &[&str]) {
        names
            .iter()
            .for_each(|name| self.member(name).eligible = Eligible::Yes);
    }
}

/// Two units at `r1`, one in flight to `r2` whose write was lost when its window closed. Its late write is returned,
/// too.
fn decided_and_not_written() -> (World, Step) {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    let late = assignment_steps(&world.remember())[0].clone();
    world.close(&["a", "b"]);
    (world, late)
}

#[test]
fn nothing_begins_and_nothing_fails() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.close(&["a", "b"]);
    world.aim("r2");
    for _ in 0..30 {
        assert!(assignment_steps(&world.step()).is_empty());
        world.pass(Millis::minutes(24 * 60));
    }
    assert_eq!(world.words(), "a:Closed b:Closed");
    let summary = world.decide().summary;
    assert_eq!(
        (summary.waiting, summary.ready, summary.failed, summary.skipped),
        (2, 0, 0, 0)
    );
    assert_eq!(
        (world.memory.marks.len(), world.memory.is_bad(rev("r2"))),
        (0, false)
    );
    world.open(&["a"]);
    world.step();
    assert_eq!(
        (world.on("r2"), world.words().as_str()),
        (vec!["a"], "a:Updating b:Closed")
    );
}

#[test]
fn what_is_confirmed_is_up_to_date_behind_a_closed_window() {
    let mut world = World::settled(&["a"], "r1");
    world.close(&["a"]);
    assert_eq!(world.words(), "a:UpToDate");
    assert_eq!(world.decide().summary.ready, 1);
}

#[test]
fn a_change_in_flight_is_confirmed() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.close(&["a", "b"]);
    assert!(assignment_steps(&world.step()).is_empty(), "no fence");
    assert_eq!(world.words(), "a:Updating b:Closed");
    world.succeed("a");
    world.step();
    assert_eq!(world.words(), "a:UpToDate b:Closed");
    assert_eq!((world.in_flight().len(), world.on("r2")), (0, vec!["a"]));
}

#[test]
fn a_change_in_flight_keeps_its_deadlines() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.close(&["a", "b"]);
    let wake = world.step().wake_at.unwrap();
    assert_eq!(wake, world.now.plus(world.spec.deadlines.pickup));
    world.pass(world.spec.deadlines.pickup);
    world.step();
    assert!(world.memory.is_bad(rev("r2")));
    assert_eq!(world.words(), "a:NotPickedUp b:Halted");
}

#[test]
fn a_change_in_flight_is_retargeted() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.close(&["a", "b"]);
    world.aim("r3");
    world.remember(); // the write is lost
    let again = world.step();
    assert!(
        matches!(assignment_steps(&again)[..], [Step::Assign { .. }]),
        "{again:?}"
    );
    assert_eq!(
        (world.on("r3"), world.words().as_str()),
        (vec!["a"], "a:Updating b:Closed")
    );
    world.succeed("a");
    world.step();
    assert!(world.in_flight().is_empty());
    world.aim("r4");
    assert!(
        assignment_steps(&world.step()).is_empty(),
        "that would be a beginning"
    );
}

/// It has completed its assignment; its next content would be another change.
#[test]
fn a_unit_that_soaks_is_not_retargeted() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.min_ready = Millis::seconds(30);
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.close(&["a", "b"]);
    world.aim("r3");
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(world.in_flight(), ["a"], "it soaks at what it has");
    world.pass(Millis::seconds(30));
    world.step();
    assert_eq!(world.words(), "a:Closed b:Closed");
    assert_eq!(world.on("r2"), ["a"]);
}

/// Its assignment shows that the change was written, whatever was remembered of it.
#[test]
fn a_change_that_is_found_in_flight_is_retargeted_and_stays_in_flight() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.memory = Memory::rebuild(&world.view(), Some(rev("r1")), BTreeMap::new(), world.now);
    world.close(&["a", "b"]);
    world.step();
    world.aim("r3");
    let (first, again) = (world.remember(), world.remember());
    assert!(
        matches!(assignment_steps(&first)[..], [Step::Assign { .. }]),
        "{first:?}"
    );
    assert_eq!(
        assignment_steps(&again),
        assignment_steps(&first),
        "the write of the first was lost"
    );
}

#[test]
fn what_is_not_written_is_fenced() {
    let (mut world, late) = decided_and_not_written();
    assert_eq!(world.words(), "a:Closed b:Closed");
    let decision = world.step();
    assert!(
        matches!(assignment_steps(&decision)[..], [Step::Fence { .. }]),
        "{decision:?}"
    );
    world.carry_out(&late);
    assert_eq!(world.on("r1"), ["a", "b"], "a late write fails");
    assert_eq!(world.in_flight(), ["a"], "W6: until it reports the token");
    world.aim("r3");
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(world.words(), "a:Closed b:Closed");
    world.succeed("a");
    world.step();
    assert_eq!(
        (world.in_flight().len(), world.words().as_str()),
        (0, "a:Closed b:Closed")
    );
    world.open(&["a", "b"]);
    world.settle();
    assert_eq!(world.on("r3"), ["a", "b"]);
}

#[test]
fn a_fence_that_was_lost_is_repeated_and_given_up_when_the_window_opens() {
    let (mut world, _) = decided_and_not_written();
    let fences = |world: &mut World| {
        let decision = world.remember();
        assignment_steps(&decision)
            .iter()
            .filter(|step| matches!(step, Step::Fence { .. }))
            .count()
    };
    assert_eq!((fences(&mut world), fences(&mut world)), (1, 1));
    world.open(&["a"]);
    world.step();
    assert_eq!(
        (world.on("r2"), world.words().as_str()),
        (vec!["a"], "a:Updating b:Closed")
    );
}

#[test]
fn a_write_that_arrives_before_the_fence_is_in_flight() {
    let (mut world, late) = decided_and_not_written();
    world.carry_out(&late);
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(
        (world.on("r2"), world.words().as_str()),
        (vec!["a"], "a:Updating b:Closed")
    );
}

#[test]
fn a_unit_that_never_had_anything_is_fenced_by_name_and_token() {
    let mut world = World::new(&["a"], "r1");
    let late = assignment_steps(&world.remember())[0].clone();
    world.close(&["a"]);
    world.step();
    world.carry_out(&late);
    assert_eq!(
        world.member("a").row.map(|row| row.content),
        Some(Content::Nothing)
    );
    world.step();
    assert_eq!((world.in_flight().len(), world.words().as_str()), (0, "a:Closed"));
    world.open(&["a"]);
    world.settle();
    assert_eq!(world.on("r1"), ["a"]);
}

#[test]
fn reverts_begin_unless_the_window_says_otherwise() {
    for (reverts, on) in [(true, vec!["a", "b"]), (false, vec!["b"])] {
        let mut world = World::settled(&["a", "b"], "r1");
        world.spec.on_failure = OnFailure::Revert;
        world.spec.limit = Limit::Count(2);
        world.spec.stages = vec![stage("first")];
        world.stage(&["a"], 0);
        world.aim("r2");
        world.step();
        world.succeed("a");
        world.step();
        for name in ["a", "b"] {
            world.member(name).eligible = closed(reverts, false);
        }
        world.say(muster_rollout::ControlCommand::Abort(rev("r2")));
        world.settle();
        assert_eq!(world.on("r1"), on, "reverts: {reverts}");
        let expect = if reverts {
            "a:Aborted b:Aborted"
        } else {
            "a:Closed b:Aborted"
        };
        assert_eq!(world.words(), expect);
    }
}

#[test]
fn a_unit_that_failed_in_flight_goes_back_although_reverts_wait() {
    let mut world = World::settled(&["a"], "r1");
    world.spec.on_failure = OnFailure::Revert;
    world.aim("r2");
    world.step();
    world.member("a").eligible = closed(false, false);
    world.fail("a");
    world.settle();
    assert_eq!(world.on("r1"), ["a"]);
}

#[test]
fn withdrawals_wait_unless_the_window_says_otherwise() {
    for (withdrawals, on) in [(true, vec!["b"]), (false, vec!["a", "b"])] {
        let mut world = World::settled(&["a", "b"], "r1");
        world.member("a").eligible = closed(true, withdrawals);
        world.deselect(&["a"]);
        world.settle();
        assert_eq!(world.on("r1"), on, "withdrawals: {withdrawals}");
        let expect = if withdrawals {
            "a:Excluded b:UpToDate"
        } else {
            "a:Closed b:UpToDate"
        };
        assert_eq!(world.words(), expect);
    }
}

#[test]
fn a_withdrawal_that_is_not_written_is_fenced() {
    for back in [false, true] {
        let mut world = World::settled(&["a", "b"], "r1");
        world.deselect(&["a"]);
        let late = assignment_steps(&world.remember())[0].clone();
        assert!(matches!(late, Step::Withdraw { .. }));
        world.close(&["a"]);
        if back {
            world.reselect("a");
            world.aim("r2");
        }
        world.step();
        world.carry_out(&late);
        assert_eq!(world.on("r1"), ["a", "b"], "selected again: {back}");
        world.settle();
        assert!(world.on("r1").contains(&"a"), "selected again: {back}");
        world.open(&["a"]);
        world.settle();
        assert_eq!(
            (world.on("r1"), world.on("r2")),
            (
                if back { vec![] } else { vec!["b"] },
                if back { vec!["a", "b"] } else { vec![] }
            )
        );
    }
}

#[test]
fn what_is_fenced_gets_nothing_else_while_it_applies_the_same_again() {
    for withdrawn in [false, true] {
        let mut world = World::settled(&["a"], "r1");
        if withdrawn {
            world.deselect(&["a"]);
            world.remember();
            world.reselect("a");
        }
        world.aim("r2");
        if !withdrawn {
            world.remember();
        }
        world.close(&["a"]);
        world.step();
        world.report("a", State::Updating);
        assert!(
            assignment_steps(&world.step()).is_empty(),
            "a withdrawal: {withdrawn}"
        );
        assert_eq!(
            (world.on("r1"), world.words().as_str()),
            (vec!["a"], "a:Closed"),
            "a withdrawal: {withdrawn}"
        );
        world.succeed("a");
        world.step();
        assert!(world.in_flight().is_empty());
    }
}

#[test]
fn an_assignment_decided_again_and_not_written_is_fenced_again() {
    let (mut world, _) = decided_and_not_written();
    world.step();
    world.open(&["a"]);
    world.fail("a"); // at what it carries: so its fence is not confirmed
    let late = assignment_steps(&world.remember())[0].clone();
    assert!(matches!(late, Step::Assign { .. }));
    world.close(&["a"]);
    let decision = world.step();
    assert!(
        matches!(assignment_steps(&decision)[..], [Step::Fence { .. }]),
        "{decision:?}"
    );
    world.carry_out(&late);
    assert_eq!(world.on("r1"), ["a", "b"]);
    world.open(&["a", "b"]);
    world.settle();
    assert_eq!(world.on("r2"), ["a", "b"]);
}

#[test]
fn a_withdrawal_that_is_written_goes_on() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.deselect(&["a"]);
    world.step();
    world.close(&["a"]);
    world.step();
    assert_eq!(world.words(), "a:Withdrawing b:UpToDate");
    world.succeed("a");
    world.step();
    assert_eq!(world.words(), "a:Excluded b:UpToDate");
}

#[test]
fn closed_units_are_part_of_the_whole() {
    let mut world = World::settled(&["a", "b", "c", "d"], "r1");
    world.spec.limit = Limit::Percent(50);
    world.close(&["a", "b"]);
    world.aim("r2");
    world.step();
    assert_eq!(
        (world.decide().summary.limit, world.on("r2")),
        (2, vec!["c", "d"])
    );
}

#[test]
fn a_stage_waits_for_a_closed_unit() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.stages = vec![stage("first")];
    world.stage(&["a"], 0);
    world.close(&["a"]);
    world.aim("r2");
    world.step();
    assert_eq!(world.words(), "a:Closed b:WaitingStage");
}

/// What a caller reports for a closed unit whose stage continues without it: [`Eligible::Closed`] documents it.
fn skip(world: &World, name: &str) -> Eligible {
    let view = world.view();
    let unit = view.iter().find(|unit| unit.id.as_str() == name).unwrap();
    if world.memory.may_skip(unit) {
        Eligible::No(ineligible(26, Absence::Skip))
    } else {
        CLOSED
    }
}

#[test]
fn a_stage_goes_on_without_a_skipped_unit_unless_a_change_is_in_flight() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.spec.stages = vec![stage("first")];
    world.stage(&["a", "b"], 0);
    world.aim("r2");
    world.step();
    assert_eq!(world.in_flight(), ["a"]);
    for name in ["a", "b"] {
        world.member(name).eligible = skip(&world, name);
    }
    world.step();
    assert_eq!(world.words(), "a:Updating b:Ineligible c:WaitingStage");
    world.succeed("a");
    world.step();
    world.member("a").eligible = skip(&world, "a");
    world.settle();
    assert_eq!(
        (world.on("r2"), world.words().as_str()),
        (vec!["a", "c"], "a:UpToDate b:Ineligible c:UpToDate")
    );
}

/// Rule 4 applies in a closed window too: a unit that returned may be working on its previous assignment.
#[test]
fn a_unit_that_came_back_at_work_is_counted_though_its_window_is_closed() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.aim("r2");
    world.step();
    assert_eq!(world.on("r2"), ["a"]);
    world.lose("a");
    world.step();
    world.pass(world.spec.deadlines.absence);
    world.step();
    world.step();
    assert_eq!(world.on("r2"), ["a", "b"], "its slot was free");
    world.aim("r3");
    world.find("a");
    world.member("a").eligible = skip(&world, "a");
    world.step();
    world.succeed("b");
    world.step();
    assert!(!world.on("r3").contains(&"c"), "a is at work: {}", world.words());
    world.succeed("a");
    world.step();
    assert!(world.on("r3").contains(&"c"), "{}", world.words());
}

#[test]
fn a_fenced_unit_gives_its_place_in_the_batch_back() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.spec.limit = Limit::Count(3);
    world.spec.batch = Some(Batch {
        start: 1,
        factor: 2,
        max: 4,
    });
    world.aim("r2");
    world.remember(); // a is charged, and its write is lost
    world.close(&["a"]);
    world.step();
    world.succeed("a");
    world.step();
    assert_eq!(
        (world.on("r2"), world.memory.course.batch.unwrap().size),
        (vec!["b"], 1)
    );
}

#[test]
fn it_is_asked_again_when_a_window_changes() {
    let mut world = World::settled(&["a"], "r1");
    world.close(&["a"]);
    world.aim("r2");
    assert_eq!(world.step().wake_at, None);
    let change = world.now.plus(Millis::minutes(90));
    world.spec.window_change = Some(change);
    assert_eq!(world.step().wake_at, Some(change));
    world.pass(Millis::minutes(90));
    assert_eq!(world.step().wake_at, None, "it is over");
}

#[test]
fn other_reasons_come_first() {
    let mut world = World::settled(&["a"], "r1");
    world.close(&["a"]);
    world.aim("r2");
    world.spec.paused = true;
    assert_eq!(world.words(), "a:Paused");
    world.spec.paused = false;
    world.member("a").resolved = false;
    assert_eq!(world.words(), "a:Unresolved");
    world.member("a").resolved = true;
    let Why::Closed { reason } = world.why("a") else {
        panic!("{:?}", world.why("a"))
    };
    assert_eq!(
        (world.why("a").rank(), reason),
        (26, ineligible(26, Absence::Skip))
    );
}

/// Older records and memories have no windows, and those without windows are written as before.
#[test]
fn what_was_recorded_before_is_read() {
    let spec = serde_json::to_value(Spec::default()).unwrap();
    assert!(spec.get("window_change").is_none());
    assert_eq!(serde_json::from_value::<Spec>(spec).unwrap(), Spec::default());
    let (mut world, _) = decided_and_not_written();
    let before = serde_json::to_string(&world.memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&before).unwrap(), world.memory);
    world.step();
    assert!(world.memory.in_flight.values().any(|change| change.unbegun));
    let fenced = serde_json::to_string(&world.memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&fenced).unwrap(), world.memory);
    let unit = &world.view()[0];
    let text = serde_json::to_string(unit).unwrap();
    assert_eq!(&serde_json::from_str::<Unit>(&text).unwrap(), unit);
    assert!(text.contains(r#""eligible":{"Closed":{"why":"#), "{text}");
}

/// An event of one unit, or of the target, between two decisions.
#[derive(Clone, Debug)]
enum Happens {
    Closes(usize, bool, bool),
    Opens(usize),
    Succeeds(usize),
    Fails(usize),
    /// It applies its assignment again.
    Updates(usize),
    LeavesOrJoins(usize),
    Pauses(bool),
    Aims(u8),
    Passes(u64),
    /// A decision whose steps arrive later, or never.
    Decides {
        late: bool,
    },
    /// A late step arrives.
    Arrives,
}

fn happens() -> impl Strategy<Value = Happens> {
    let unit = 0..4usize;
    prop_oneof![
        3 => (unit.clone(), any::<bool>(), any::<bool>()).prop_map(|(unit, reverts, withdrawals)| Happens::Closes(unit, reverts, withdrawals)),
        3 => unit.clone().prop_map(Happens::Opens),
        4 => unit.clone().prop_map(Happens::Succeeds),
        1 => unit.clone().prop_map(Happens::Fails),
        1 => unit.clone().prop_map(Happens::Updates),
        1 => unit.prop_map(Happens::LeavesOrJoins),
        1 => any::<bool>().prop_map(Happens::Pauses),
        2 => (1..5u8).prop_map(Happens::Aims),
        1 => (1..8u64).prop_map(Happens::Passes),
        6 => any::<bool>().prop_map(|late| Happens::Decides { late }),
        2 => Just(Happens::Arrives),
    ]
}

/// A fleet whose assignments an observer follows: a change of a unit has begun from the write of an assignment until a
/// decision is made on its report of success.
struct Observed {
    world: World,
    in_flight: BTreeMap<String, bool>,
    late: Vec<Step>,
}

impl Observed {
    fn happen(&mut self, what: &Happens) {
        let name = |unit: &usize| ["a", "b", "c", "d"][*unit];
        let world = &mut self.world;
        match what {
            Happens::Closes(unit, reverts, withdrawals) => {
                world.member(name(unit)).eligible = closed(*reverts, *withdrawals);
            }
            Happens::Opens(unit) => world.open(&[name(unit)]),
            Happens::Succeeds(unit) => world.succeed(name(unit)),
            Happens::Fails(unit) => world.fail(name(unit)),
            Happens::Updates(unit) => world.report(name(unit), State::Updating),
            Happens::LeavesOrJoins(unit) => {
                let member = world.member(name(unit));
                member.selected = !member.selected;
            }
            Happens::Pauses(paused) => world.spec.paused = *paused,
            Happens::Aims(target) => world.aim(&format!("r{target}")),
            Happens::Passes(minutes) => world.pass(Millis::minutes(*minutes)),
            Happens::Decides { late } => self.decide(*late),
            Happens::Arrives => {
                if let Some(step) = self.late.pop() {
                    self.write(&step);
                }
            }
        }
    }

    fn decide(&mut self, late: bool) {
        for unit in self.world.view() {
            let ended = unit.state_at_assignment() == Some(&State::Succeeded);
            if ended {
                self.in_flight.insert(unit.id.to_string(), false);
            }
        }
        let decision = self.world.remember();
        for step in assignment_steps(&decision) {
            self.judge(step);
            if late {
                self.late.push(step.clone());
            } else {
                self.write(step);
            }
        }
        for (unit, why) in &decision.reasons {
            if let Why::Closed { .. } = why {
                let eligible = self.world.members[unit.as_str()].eligible;
                assert!(
                    matches!(eligible, Eligible::Closed { .. }),
                    "{unit} is not closed"
                );
            }
        }
    }

    /// No step begins a change of a closed unit.
    fn judge(&self, step: &Step) {
        let Some(name) = step.unit() else { return };
        let member = &self.world.members[name.as_str()];
        let Eligible::Closed {
            reverts, withdrawals, ..
        } = member.eligible
        else {
            return;
        };
        match step {
            Step::Withdraw { .. } => assert!(withdrawals, "{step:?}"),
            Step::Assign { revision, .. } => {
                let back = reverts && Some(*revision) == self.world.memory.last_good;
                assert!(
                    back || self.in_flight.get(name.as_str()) == Some(&true),
                    "{step:?} of {:?}",
                    member.row
                );
            }
            Step::Fence { .. } | Step::Abandon { .. } | Step::Evaluate { .. } | Step::Conclude { .. } => {}
        }
    }

    fn write(&mut self, step: &Step) {
        let Some(name) = step.unit().map(ToString::to_string) else {
            return;
        };
        let before = self.world.token(&name);
        self.world.carry_out(step);
        // The fence of a change that was given up before the window closed counts as its change does: see
        // `is_in_flight`.
        let change = self.world.memory.in_flight.get(name.as_str());
        let begins = match step {
            Step::Fence { .. } => change.is_some_and(|change| !change.unbegun),
            step => matches!(step, Step::Assign { .. } | Step::Withdraw { .. }),
        };
        if begins && self.world.token(&name) > before {
            self.in_flight.insert(name, true);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_a_closed_unit_begins(limit in 1..4u32, revert in any::<bool>(), history in prop::collection::vec(happens(), 1..60)) {
        let mut world = World::settled(&["a", "b", "c", "d"], "r1");
        world.spec.limit = Limit::Count(limit);
        world.spec.withdraw.brake = None;
        if revert {
            world.spec.on_failure = OnFailure::Revert;
        }
        let mut observed = Observed { world, in_flight: BTreeMap::new(), late: Vec::new() };
        for what in &history {
            observed.happen(what);
        }
        // When every window is open and every agent is healthy, a target that was not condemned is reached.
        let Observed { mut world, .. } = observed;
        world.spec.paused = false;
        world.open(&["a", "b", "c", "d"]);
        world.aim("r9");
        world.settle();
        let selected = world.members.values().filter(|member| member.selected).count();
        prop_assert_eq!(world.on("r9").len(), selected);
        prop_assert!(world.in_flight().is_empty());
    }
}
