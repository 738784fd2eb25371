//! Rule 9, for a unit that reports a greater token than that of its in-flight change: the change gets a token above it,
//! on its slot and with its deadlines. So a module that was deleted here and not in the cluster can return, and a
//! cluster with false reports gains nothing.

use std::collections::BTreeMap;

use muster_rollout::{
    Assignment, Content, Limit, Memory, Millis, OnFailure, Report, State, Step, Token, Verdict, Why,
};
use proptest::prelude::*;

use crate::world::{World, assignment_steps, digest, rev};

/// What a cluster has from a forgotten incarnation.
#[derive(Clone, Copy, Debug)]
struct Left {
    token: u64,
    /// Content of revision `r0`; otherwise it is withdrawn.
    carries: bool,
    /// It is reported before the first decision.
    at_once: bool,
}

/// Clusters whose mirrored assignments have a life of their own: a smaller token changes nothing there.
struct Fleet {
    world: World,
    there: BTreeMap<String, Assignment>,
}

impl Fleet {
    fn new(left: &[(&str, Left)], target: &str) -> Self {
        let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
        let mut fleet = Self {
            world: World::new(&names, target),
            there: BTreeMap::new(),
        };
        for (name, left) in left {
            let content = if left.carries {
                carries("r0")
            } else {
                Content::Withdraw
            };
            let row = Assignment {
                token: Token(left.token),
                content,
            };
            fleet.there.insert((*name).to_owned(), row);
            if left.at_once {
                fleet.report(name);
            }
        }
        fleet
    }

    /// The mirror, and the cluster's report about its assignment.
    fn report(&mut self, name: &str) {
        let member = self.world.member(name);
        let own = self.there.get(name).copied();
        let newer = |row: &Assignment| own.is_none_or(|own| own.token <= row.token);
        let Some(row) = member.row.filter(newer).or(own) else {
            return;
        };
        self.there.insert(name.to_owned(), row);
        let (digest, state) = match row.content {
            Content::Carries { digest, .. } => (Some(digest), State::Succeeded),
            Content::Withdraw | Content::Nothing => (None, State::Withdrawn),
        };
        member.report = Some(Report {
            digest,
            token: row.token,
            state,
        });
    }

    /// Units that have something other than what was confirmed, by the assignments here.
    fn changing(&self) -> usize {
        let moves = |name: &String| {
            let member = &self.world.members[name];
            let confirmed = |row: Assignment| {
                let report = member.report.as_ref();
                report.is_some_and(|report| report.token == row.token && report.state == State::Succeeded)
            };
            member.row.is_some_and(|row| !confirmed(row))
        };
        self.there.keys().filter(|name| moves(name)).count()
    }

    /// A few rounds, in which never more than `limit` units change.
    fn settle(&mut self, limit: usize) {
        for _ in 0..4 * self.there.len() + 4 {
            self.world.step();
            assert!(self.changing() <= limit, "{:?}", self.world.memory.in_flight);
            for name in self.world.names() {
                self.report(&name);
            }
        }
        assert!(
            assignment_steps(&self.world.decide()).is_empty(),
            "it does not settle"
        );
        assert!(
            self.world.memory.in_flight.is_empty(),
            "{:?}",
            self.world.memory.in_flight
        );
    }
}

fn carries(revision: &str) -> Content {
    Content::Carries {
        revision: Some(rev(revision)),
        digest: digest(revision, 0),
    }
}

/// The unit reports about this token of another incarnation, whatever its assignment is.
fn reports(world: &mut World, name: &str, token: u64) {
    world.member(name).report = Some(Report {
        digest: None,
        token: Token(token),
        state: State::Withdrawn,
    });
}

const GONE: Left = Left {
    token: 5,
    carries: false,
    at_once: true,
};

#[test]
fn a_new_row_starts_above_what_is_reported_without_one() {
    let mut fleet = Fleet::new(&[("a", GONE)], "r1");
    fleet.world.step();
    assert_eq!(fleet.world.token("a"), 6);
    fleet.settle(1);
    assert_eq!(fleet.world.memory.last_good, Some(rev("r1")));
}

#[test]
fn a_report_that_comes_after_the_row_raises_its_token_on_its_slot() {
    let mut world = World::new(&["a", "b"], "r1");
    world.step();
    let before = world.memory.in_flight["a"];
    reports(&mut world, "a", 5);
    world.pass(Millis::minutes(1));
    world.step();
    let after = world.memory.in_flight["a"];
    assert_eq!((world.token("a"), world.token("b")), (6, 0));
    assert_eq!((after.since, after.sent), (before.since, before.sent));
    assert_eq!(world.words(), "a:Updating b:WaitingTurn");
    world.settle();
    assert_eq!(world.memory.last_good, Some(rev("r1")));
}

#[test]
fn a_token_that_another_life_had_by_chance_is_not_taken_for_the_write() {
    let mut world = World::new(&["a"], "r1");
    world.remember();
    reports(&mut world, "a", 1);
    world.step();
    assert_eq!(world.token("a"), 2);
}

#[test]
fn a_unit_that_always_reports_a_greater_token_misses_the_pickup_deadline() {
    for slow in [false, true] {
        let mut world = World::settled(&["a", "b"], "r1");
        world.aim("r2");
        for round in 0..30 {
            let decision = world.remember();
            if slow {
                // The write takes time, and the module is reconciled again before it is done.
                world.remember();
            }
            let first = if round == 0 { 0 } else { 10 };
            world.pass(Millis::seconds(first));
            decision.steps.iter().for_each(|step| world.carry_out(step));
            let token = world.token("a");
            reports(&mut world, "a", token + 7);
        }
        assert_eq!(world.memory.verdict(rev("r2")), None, "{slow}");
        world.pass(Millis::seconds(20));
        world.step();
        assert_eq!(world.memory.verdict(rev("r2")), Some(Verdict::Bad), "{slow}");
        assert!(matches!(world.why("a"), Why::NotPickedUp { .. }));
        let token = world.token("a");
        reports(&mut world, "a", token + 7);
        world.step();
        assert_eq!(world.token("a"), token, "it failed: it is not written again");
    }
}

#[test]
fn the_soak_restarts_and_the_pickup_is_kept() {
    let mut world = World::settled(&["a"], "r1");
    world.spec.min_ready = Millis::minutes(1);
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.step();
    let token = world.token("a");
    reports(&mut world, "a", token + 1);
    world.remember();
    let change = world.memory.in_flight["a"];
    assert_eq!((change.picked_up, change.succeeded_since), (true, None));
    assert_eq!(change.token, Token(token + 2));
    assert_eq!(change.clock.from, Some(world.now), "its deadline runs on");
    assert_eq!(world.decide().memory, world.memory, "decided again");
}

#[test]
fn a_success_that_came_late_and_was_overtaken_fails_in_the_same_decision() {
    let mut world = World::settled(&["a"], "r1");
    world.spec.min_ready = Millis::minutes(1);
    world.aim("r2");
    world.step();
    let (token, progress) = (world.token("a"), world.spec.deadlines.progress);
    world.report("a", State::Updating);
    world.step();
    world.pass(progress);
    world.succeed("a");
    world.step();
    assert!(!world.memory.in_flight["a"].failed);
    reports(&mut world, "a", token + 1);
    world.remember();
    assert!(world.memory.in_flight["a"].failed);
    assert_eq!(world.decide().memory, world.memory, "decided again");
}

#[test]
fn a_row_of_before_is_found_again_where_its_cluster_went_on() {
    let mut world = World::settled(&["a", "b"], "r1");
    let token = world.token("a");
    reports(&mut world, "a", token + 9);
    world.step();
    assert_eq!(
        (world.in_flight(), world.token("a")),
        (vec!["a".to_owned()], token + 10)
    );
    world.settle();
    assert_eq!(world.on("r1"), ["a", "b"]);
}

#[test]
fn a_withdrawal_is_raised_too() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.deselect(&["a"]);
    world.step();
    let token = world.token("a");
    reports(&mut world, "a", token + 3);
    world.member("a").report.as_mut().unwrap().state = State::Succeeded;
    world.step();
    assert_eq!(world.token("a"), token + 4);
    world.settle();
    assert!(world.in_flight().is_empty());
}

#[test]
fn nothing_is_raised_while_it_is_paused_or_the_unit_is_away() {
    for paused in [true, false] {
        let mut world = World::new(&["a"], "r1");
        world.step();
        reports(&mut world, "a", 5);
        world.spec.paused = paused;
        if !paused {
            world.lose("a");
        }
        world.step();
        assert_eq!(
            (world.token("a"), world.memory.in_flight["a"].token),
            (1, Token(1))
        );
        world.spec.paused = false;
        world.find("a");
        world.step();
        assert_eq!(world.token("a"), 6);
    }
}

#[test]
fn a_token_that_no_decision_gave_out_is_not_believed() {
    let mut world = World::new(&["a"], "r1");
    world.step();
    reports(&mut world, "a", u64::MAX);
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(world.token("a"), 1);
}

fn left() -> impl Strategy<Value = Left> {
    (1..12_u64, any::<bool>(), any::<bool>()).prop_map(|(token, carries, at_once)| Left {
        token,
        carries,
        at_once,
    })
}

proptest! {
    /// Whatever remains in the clusters, whenever it is reported, and whatever the memory contains: all get the target,
    /// never more at a time than allowed, and tokens grow.
    #[test]
    fn whatever_was_left_there_all_get_the_target(
        left in prop::collection::vec(left(), 1..6), limit in 1..3_u32, lost in any::<bool>(), cut in 0..8_usize,
    ) {
        let names = ["a", "b", "c", "d", "e"];
        let left: Vec<(&str, Left)> = names.into_iter().zip(left).collect();
        let mut fleet = Fleet::new(&left, "r1");
        fleet.world.spec.limit = Limit::Count(limit);
        fleet.world.spec.on_failure = OnFailure::Halt;
        for at in 0..cut {
            let decision = fleet.world.remember();
            for step in assignment_steps(&decision) {
                let (Step::Assign { token, unit, .. } | Step::Fence { token, unit } | Step::Withdraw { token, unit, .. }
                    | Step::Abandon { token, unit }) = step else { continue };
                prop_assert!(token.0 > fleet.world.token(unit.as_str()), "{step:?}");
                // Every third write is lost.
                if at % 3 != 2 {
                    fleet.world.carry_out(step);
                }
            }
            if at % 2 == 1 {
                for name in fleet.world.names() {
                    fleet.report(&name);
                }
            }
        }
        if lost {
            fleet.world.memory = Memory::rebuild(&fleet.world.view(), None, BTreeMap::new(), fleet.world.now);
        }
        fleet.settle(usize::try_from(limit).unwrap());
        let target = fleet.world.on("r1").len();
        prop_assert_eq!(target, left.len());
        prop_assert_eq!(fleet.world.memory.last_good, Some(rev("r1")));
        for (name, row) in &fleet.there {
            prop_assert_eq!(Some(*row), fleet.world.members[name].row);
        }
    }
}
