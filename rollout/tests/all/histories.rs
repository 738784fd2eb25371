//! Random histories: E1 to E13 at every step, EL1 to EL5 by a fair time afterwards.
//!
//! Two leaders race by compare-and-swap, views are stale, steps are lost, late and repeated, leaders die, memories are
//! lost, there is no leader for a while; units join, leave, fail, are held up, disappear, return and are re-created;
//! targets change and return; settings change during a run.

use muster_rollout::{Domains, GateResult, Limit, OnFailure, OnJoin};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::coverage::{Coverage, wanted};
use crate::history_simulation::{HistorySimulation, NAMES, Settings, UnitEvent};
use crate::world::rev;

/// The one-time commands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Word {
    Abort,
    Retry,
    Approve,
    Promote,
}

/// An event.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A leader decides on a view of this age in events; the steps whose bit is set are sent, none if it dies.
    Lead {
        lag: usize,
        sent: u8,
    },
    /// One of two leaders reads, and writes later if the other was not faster.
    Read {
        who: usize,
        lag: usize,
    },
    Write {
        who: usize,
        sent: u8,
    },
    /// The memory is lost and rebuilt.
    Forget,
    /// There is no leader for this number of seconds.
    Gap(u64),
    /// A pending step arrives, arrives and will arrive again, or is lost.
    Deliver(usize),
    Twice(usize),
    Lose(usize),
    /// A write is refused permanently.
    Refuse(usize),
    Time(u64),
    /// A leader decides, all writes arrive, all agents read their assignments.
    Round,
    Unit(usize, UnitEvent),
    /// A unit is deselected, which a leader that dies decides on, and selected again.
    Waver(usize),
    Target(usize),
    NoTarget,
    Limit(Limit),
    Pause(bool),
    /// The held withdrawals are acknowledged.
    Acknowledge,
    /// Exactly these units are abandoned.
    GiveUp(Vec<usize>),
    /// A one-time command is given, about a past target or the current one.
    Say(Word, Option<usize>),
    /// The gate is read.
    Gate(GateResult),
}

fn leaders() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..4usize, any::<u8>()).prop_map(|(lag, sent)| Event::Lead { lag, sent }),
        16 => any::<u8>().prop_map(|sent| Event::Lead { lag: 0, sent: sent | 0b1111 }),
        2 => Just(Event::Lead { lag: 0, sent: 0 }),
        4 => (0..2usize, 0..3usize).prop_map(|(who, lag)| Event::Read { who, lag }),
        4 => (0..2usize, any::<u8>()).prop_map(|(who, sent)| Event::Write { who, sent }),
        1 => Just(Event::Forget),
        1 => (1..700u64).prop_map(Event::Gap),
    ]
}

fn units() -> impl Strategy<Value = Event> {
    let what = prop_oneof![
        40 => Just(UnitEvent::Works),
        4 => Just(UnitEvent::IsChecked),
        2 => Just(UnitEvent::IsForgotten),
        4 => Just(UnitEvent::Breaks),
        4 => Just(UnitEvent::IsHeldUp),
        5 => Just(UnitEvent::Recovers),
        3 => Just(UnitEvent::Disappears),
        10 => Just(UnitEvent::Returns),
        2 => Just(UnitEvent::IsReplaced),
        2 => Just(UnitEvent::Leaves),
        6 => Just(UnitEvent::Joins),
        5 => Just(UnitEvent::IsDeselected),
        5 => Just(UnitEvent::IsReselected),
        2 => Just(UnitEvent::GetsValues),
        1 => Just(UnitEvent::IsPinned),
        2 => Just(UnitEvent::IsUnpinned),
        1 => Just(UnitEvent::IsBehind),
        1 => Just(UnitEvent::IsHeld),
        1 => Just(UnitEvent::IsClosed),
        1 => Just(UnitEvent::IsUnavailable),
    ];
    (0..NAMES.len(), what).prop_map(|(at, what)| Event::Unit(at, what))
}

fn settings() -> impl Strategy<Value = Event> {
    let limit = prop_oneof![
        1 => Just(Limit::Count(0)),
        4 => (1..4u32).prop_map(Limit::Count),
        2 => (1..100u8).prop_map(Limit::Percent)
    ];
    prop_oneof![
        8 => (0..6usize).prop_map(Event::Target),
        1 => Just(Event::NoTarget),
        3 => limit.prop_map(Event::Limit),
        3 => proptest::bool::weighted(0.3).prop_map(Event::Pause),
        9 => Just(Event::Acknowledge),
        2 => proptest::collection::vec(0..4usize, 0..3).prop_map(Event::GiveUp),
        6 => (word(), proptest::option::weighted(0.2, 0..6usize)).prop_map(|(word, target)| Event::Say(word, target)),
        4 => prop_oneof![4 => Just(GateResult::Pass), 1 => Just(GateResult::Fail), 1 => Just(GateResult::NoData)]
            .prop_map(Event::Gate),
    ]
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        1 => Just(Word::Abort),
        4 => Just(Word::Retry),
        8 => Just(Word::Approve),
        2 => Just(Word::Promote),
    ]
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let join = prop_oneof![3 => Just(OnJoin::LastGood), 1 => Just(OnJoin::Target)];
    let failure = prop_oneof![
        3 => Just(OnFailure::Halt),
        3 => Just(OnFailure::Revert),
        1 => Just(OnFailure::Continue)
    ];
    let ready = prop_oneof![Just(0u64), Just(30)];
    let ordered = Domains {
        ordered: true,
        at_once: Some(2),
        limit: Some(Limit::Count(1)),
    };
    let domains = prop_oneof![
        7 => Just(Domains::ANY),
        2 => Just(Domains::EXCLUSIVE),
        1 => Just(ordered)
    ];
    (
        ready,
        0..2u32,
        join,
        failure,
        domains,
        [0.3, 0.2, 0.1].map(proptest::bool::weighted),
    )
        .prop_map(
            |(min_ready, max_failed, on_join, on_failure, domains, [stages, batches, budget])| Settings {
                min_ready,
                max_failed,
                on_join,
                on_failure,
                domains,
                stages,
                batches,
                budget,
            },
        )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        30 => leaders(),
        16 => (0..4usize).prop_map(Event::Deliver),
        1 => (0..4usize).prop_map(Event::Twice),
        2 => (0..4usize).prop_map(Event::Lose),
        1 => (0..4usize).prop_map(Event::Refuse),
        34 => units(),
        7 => settings(),
        14 => Just(Event::Round),
        1 => (0..NAMES.len()).prop_map(Event::Waver),
        8 => prop_oneof![Just(20u64), Just(100), Just(301), Just(601)].prop_map(Event::Time),
    ]
}

pub(crate) fn history(longest: usize) -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(event(), 1..longest)
}

/// The test command runs the same histories each time; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` select others.
pub(crate) fn runner(cases: u32) -> TestRunner {
    let given = ProptestConfig::default();
    let rng_seed = match given.rng_seed {
        RngSeed::Random => RngSeed::Fixed(20_261_121),
        chosen @ RngSeed::Fixed(_) => chosen,
    };
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => given.cases,
        None => cases,
    };
    println!("{rng_seed:?}, {cases} histories");
    TestRunner::new(ProptestConfig {
        max_shrink_iters: 4000,
        rng_seed,
        cases,
        failure_persistence: None,
        ..given
    })
}

/// Runs a history; a failure is reported with the event after which it occurred.
pub(crate) fn run_history<'a>(
    coverage: &'a Coverage,
    events: &[Event],
    settings: &Settings,
) -> Result<HistorySimulation<'a>, TestCaseError> {
    let mut play = HistorySimulation::new(coverage, settings);
    for (at, event) in events.iter().enumerate() {
        let broken = |broken| TestCaseError::fail(format!("event {at}, {event:?}: {broken}"));
        play.happen(event).map_err(broken)?;
    }
    Ok(play)
}

#[test]
fn whatever_happens() {
    let coverage = Coverage::default();
    let result = runner(2500).run(&(history(120), any_settings()), |(events, settings)| {
        run_history(&coverage, &events, &settings).map(drop)
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    coverage.assert_all(&wanted());
}

/// EL1, EL3, EL5: time passes only when a decision asked to be woken.
#[test]
fn then_a_fair_time_reaches_a_good_target() {
    let coverage = Coverage::default();
    let result = runner(700).run(&(history(80), any_settings()), |(events, settings)| {
        let mut play = run_history(&coverage, &events, &settings)?;
        play.fair_run("r9", 1, &[]).map_err(TestCaseError::fail)?;
        let world = &play.world;
        let selected = world.members.values().filter(|member| member.selected).count();
        prop_assert_eq!(world.on("r9").len(), selected, "{}", world.words());
        if selected > 0 {
            prop_assert_eq!(world.memory.last_good, Some(rev("r9")));
        }
        prop_assert!(world.memory.in_flight.is_empty(), "{:?}", world.memory.in_flight);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// EL2: after any history, and as the very first one.
#[test]
fn then_a_fair_time_ends_a_bad_target_halted() {
    let coverage = Coverage::default();
    let result = runner(300).run(&history(60), |events| {
        let mut play = run_history(&coverage, &events, &Settings::PLAIN)?;
        play.fair_run("r9", 1, &[]).map_err(TestCaseError::fail)?;
        prop_assume!(play.world.members.values().any(|member| member.selected));
        play.fair_run("r8-bad", 1, &[]).map_err(TestCaseError::fail)?;
        prop_assert!(play.world.memory.is_bad(rev("r8-bad")), "{}", play.world.words());
        prop_assert_eq!(play.world.on("r8-bad").len(), 1);
        play.fair_run("r7", 1, &[]).map_err(TestCaseError::fail)?;
        prop_assert_eq!(play.world.memory.last_good, Some(rev("r7")));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let mut first = HistorySimulation::new(&coverage, &Settings::PLAIN);
    first
        .fair_run("r1-bad", 1, &[])
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(first.world.on("r1-bad"), ["a"]);
    assert!(first.world.memory.is_bad(rev("r1-bad")));
}

/// EL4: a stuck or absent unit takes one slot and no more.
#[test]
fn a_stuck_unit_does_not_block_the_others() {
    let coverage = Coverage::default();
    let result = runner(300).run(
        &(history(60), 0..NAMES.len(), any::<bool>()),
        |(events, at, away)| {
            let settings = Settings {
                max_failed: 9,
                ..Settings::PLAIN
            };
            let mut play = run_history(&coverage, &events, &settings)?;
            play.fair_run("r9", 1, &[]).map_err(TestCaseError::fail)?;
            let name = NAMES[at];
            if away {
                play.happen(&Event::Unit(at, UnitEvent::Disappears))
                    .map_err(TestCaseError::fail)?;
            }
            play.fair_run("r8", if away { 1 } else { 2 }, &[name])
                .map_err(TestCaseError::fail)?;
            let world = &play.world;
            let others = world
                .members
                .iter()
                .filter(|(other, member)| member.selected && *other != name);
            let reached = world.on("r8").into_iter().filter(|other| *other != name).count();
            prop_assert_eq!(reached, others.count(), "{}", world.words());
            Ok(())
        },
    );
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Problems of the environment never condemn a good revision: every participant acts at once, and leaders observe it.
#[test]
fn infrastructure_trouble_never_condemns_a_good_revision() {
    let trouble = prop_oneof![
        Just(UnitEvent::IsHeldUp),
        Just(UnitEvent::IsChecked),
        Just(UnitEvent::Recovers),
        Just(UnitEvent::Disappears),
        Just(UnitEvent::Returns)
    ];
    let event = prop_oneof![
        4 => (0..NAMES.len(), trouble).prop_map(|(at, what)| Event::Unit(at, what)),
        3 => prop_oneof![Just(20u64), Just(301), Just(601)].prop_map(Event::Time),
        1 => (1..700u64).prop_map(Event::Gap),
        1 => Just(Event::Forget),
        2 => prop_oneof![Just(0usize), Just(1), Just(3), Just(5)].prop_map(Event::Target),
    ];
    let coverage = Coverage::default();
    let result = runner(300).run(&proptest::collection::vec(event, 1..60), |events| {
        let mut play = HistorySimulation::new(&coverage, &Settings::PLAIN);
        for event in &events {
            play.happen(event).map_err(TestCaseError::fail)?;
            play.run_until_quiet().map_err(TestCaseError::fail)?;
            prop_assert!(play.world.memory.bad.is_empty() && play.world.memory.marks.is_empty());
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    coverage.assert_all(&[
        "held up by its environment",
        "released after its absence",
        "returned unconfirmed",
    ]);
}
