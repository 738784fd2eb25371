//! Rule 15: abandoned units.

use muster_rollout::{Content, Limit, Millis, State, Step, Token, UnitId, Why};

use crate::world::{Member, World, assignment_steps, show};

fn fleet(size: usize) -> World {
    let names: Vec<String> = (0..size).map(|at| format!("u{at:02}")).collect();
    World::settled(&names.iter().map(String::as_str).collect::<Vec<_>>(), "r1")
}

fn give_up(world: &mut World, names: &[&str]) {
    world.spec.abandoned = names.iter().map(|name| UnitId::from(*name)).collect();
}

fn step_texts(world: &mut World) -> Vec<String> {
    let decision = world.step();
    let shown = assignment_steps(&decision).into_iter().map(show);
    shown
        .map(|step| step.split('#').next().unwrap().to_owned())
        .collect()
}

#[test]
fn an_unreachable_deselected_unit_is_abandoned_by_name() {
    let mut world = fleet(3);
    world.lose("u00");
    world.deselect(&["u00"]);
    assert!(step_texts(&mut world).is_empty());
    assert_eq!(world.words(), "u00:Ineligible u01:UpToDate u02:UpToDate");
    give_up(&mut world, &["u00"]);
    assert_eq!(step_texts(&mut world), ["abandon u00"]);
    assert_eq!(world.member("u00").row.unwrap().content, Content::Nothing);
    assert!(step_texts(&mut world).is_empty(), "once is enough");
    assert!(world.in_flight().is_empty());
}

#[test]
fn a_unit_back_unconfirmed_takes_a_slot_until_its_assignment_is_gone() {
    for given_up_while_away in [false, true] {
        let mut world = fleet(3);
        world.aim("r2");
        world.step();
        world.report("u00", State::Updating);
        world.lose("u00");
        world.step();
        world.pass(Millis::minutes(6));
        world.remember();
        assert_eq!(world.in_flight(), ["u01"], "u00 is released after its absence");
        world.deselect(&["u00"]);
        if given_up_while_away {
            give_up(&mut world, &["u00"]);
            world.remember();
        }
        world.find("u00");
        give_up(&mut world, &["u00"]);
        let decision = world.remember();
        let [step @ Step::Abandon { .. }] = assignment_steps(&decision)[..] else {
            panic!("u01 waits: {given_up_while_away} {decision:?}")
        };
        world.carry_out(step);
        assert!(step_texts(&mut world)[0].starts_with("assign u01"));
    }
}

#[test]
fn what_is_left_of_a_row_is_not_made_again_to_withdraw_something() {
    let mut world = fleet(3);
    world.deselect(&["u00"]);
    world.step();
    give_up(&mut world, &["u00"]);
    let before = world.member("u00").clone();
    assert_eq!(step_texts(&mut world), ["abandon u00"]);
    // A leader with an outdated view assumes that the withdrawal continues.
    let now = std::mem::replace(world.member("u00"), before);
    world.spec.complete = false;
    world.remember();
    assert_eq!(world.in_flight(), ["u00"]);
    world.spec.complete = true;
    *world.member("u00") = now;
    assert!(step_texts(&mut world).is_empty());
    assert!(world.in_flight().is_empty());
}

/// A unit in this state is abandoned: is its assignment emptied?
fn check(note: &str, prepare: impl Fn(&mut World), dropped: bool) {
    let mut world = fleet(3);
    prepare(&mut world);
    give_up(&mut world, &["u00"]);
    let before = world.memory.clone();
    assert_eq!(
        step_texts(&mut world).contains(&"abandon u00".to_owned()),
        dropped,
        "{note}"
    );
    if !dropped {
        world.spec.abandoned.clear();
        world.memory = before;
    }
}

#[test]
fn of_effect_where_something_is_left_of_a_unit_that_is_not_selected() {
    check("it carries something", |it| it.deselect(&["u00"]), true);
    check(
        "it is being withdrawn from",
        |it| {
            it.deselect(&["u00"]);
            it.step();
        },
        true,
    );
    check(
        "paused",
        |it| {
            it.deselect(&["u00"]);
            it.spec.paused = true;
        },
        true,
    );
    check(
        "the brake holds it",
        |it| {
            it.deselect(&["u00", "u01"]);
            it.step();
        },
        true,
    );
    check(
        "the withdrawal is confirmed",
        |it| {
            it.deselect(&["u00"]);
            it.step();
            it.report("u00", State::Withdrawn);
        },
        false,
    );
    check(
        "its row is empty",
        |it| {
            it.deselect(&["u00"]);
            it.member("u00").row.as_mut().unwrap().content = Content::Nothing;
        },
        false,
    );
    check("it is selected", |it| it.lose("u00"), false);
    check(
        "the read is not complete",
        |it| {
            it.deselect(&["u00"]);
            it.spec.complete = false;
        },
        false,
    );
    check(
        "the memory was rebuilt just now",
        |it| {
            it.deselect(&["u00"]);
            it.memory.rebuilt = true;
        },
        false,
    );
}

#[test]
fn it_fills_no_window_and_does_not_count_for_the_brake() {
    let mut world = fleet(4);
    world.lose("u00");
    world.deselect(&["u00", "u01"]);
    assert!(step_texts(&mut world).is_empty());
    assert!(matches!(world.why("u01"), Why::WithdrawalHeld { units: 2, .. }));
    give_up(&mut world, &["u00"]);
    assert_eq!(step_texts(&mut world), ["abandon u00", "withdraw u01 Prune"]);

    let mut world = fleet(4);
    world.spec.withdraw.brake = None;
    world.deselect(&["u00", "u01"]);
    assert_eq!(step_texts(&mut world), ["withdraw u00 Prune"]);
    world.lose("u00");
    world.step();
    assert_eq!(
        world.why("u01"),
        window(&["u00"]),
        "it keeps the slot of the window"
    );
    give_up(&mut world, &["u00"]);
    assert_eq!(step_texts(&mut world), ["abandon u00", "withdraw u01 Prune"]);
}

fn window(holders: &[&str]) -> Why {
    Why::WaitingTurn {
        holders: holders.iter().map(|name| UnitId::from(*name)).collect(),
        limit: 1,
    }
}

#[test]
fn an_acknowledged_withdrawal_goes_on_without_it() {
    let mut world = fleet(10);
    world.deselect(&["u00", "u01", "u02", "u03"]);
    world.lose("u00");
    let Why::WithdrawalHeld { acknowledge, .. } = world.why("u01") else {
        panic!("not held")
    };
    world.spec.withdraw.acknowledged = Some(acknowledge.to_string());
    world.spec.withdraw.max = Limit::Count(1);
    assert_eq!(step_texts(&mut world), ["withdraw u01 Prune"]);
    give_up(&mut world, &["u00"]);
    let first = world.remember();
    let second = world.remember();
    assert_eq!(first.memory, second.memory, "what is repeated changes nothing");
    assert_eq!(step_texts(&mut world), ["abandon u00"]);
    for (name, next) in [("u01", "withdraw u02 Prune"), ("u02", "withdraw u03 Prune")] {
        world.report(name, State::Withdrawn);
        assert_eq!(step_texts(&mut world), [next]);
    }
}

#[test]
fn no_later_token_is_smaller_than_what_was_given_up() {
    let mut world = fleet(2);
    world.member("u00").row.as_mut().unwrap().token = Token(40);
    world.deselect(&["u00"]);
    give_up(&mut world, &["u00"]);
    world.step();
    assert_eq!((world.memory.seq, world.token("u00")), (Token(41), 41));
    world.spec.abandoned.clear();
    world.reselect("u00");
    world.step();
    assert_eq!(world.token("u00"), 42);
}

#[test]
fn a_row_that_comes_back_is_given_up_again_while_it_is_named_and_withdrawn_from_later() {
    let mut world = fleet(2);
    let row = world.members["u00"].row;
    world.deselect(&["u00"]);
    give_up(&mut world, &["u00"]);
    world.step();
    world.member("u00").row = row;
    assert_eq!(step_texts(&mut world), ["abandon u00"]);
    world.member("u00").row = row;
    world.spec.abandoned.clear();
    assert_eq!(step_texts(&mut world), ["withdraw u00 Prune"]);
}

#[test]
fn a_write_that_was_decided_before_makes_no_row_of_it() {
    let mut world = fleet(2);
    world.aim("r2");
    let late = world.remember();
    let before = world.members["u00"].row;
    world.deselect(&["u00"]);
    give_up(&mut world, &["u00"]);
    world.step();
    assert!(matches!(&late.steps[0], Step::Assign { unit, .. } if unit.as_str() == "u00"));
    let now = world.members["u00"].row;
    assert_ne!(
        now.map(|row| row.token),
        before.map(|row| row.token),
        "its test of the row fails"
    );
    world.pass(Millis::minutes(60));
    assert_eq!(world.words(), "u00:Excluded u01:Updating");
}

#[test]
fn a_view_from_before_there_was_a_row_frees_no_slot() {
    let mut world = World::new(&["u00", "u01"], "r1");
    let before = world.member("u00").clone();
    world.step();
    world.deselect(&["u00"]);
    give_up(&mut world, &["u00"]);
    world.remember();
    let before = Member {
        selected: false,
        ..before
    };
    let decision = world.remember_on("u00", &before);
    assert_eq!(
        (world.in_flight(), world.on("r1")),
        (vec!["u00".to_owned()], vec!["u00"]),
        "{decision:?}"
    );
    world.step();
    world.step();
    assert_eq!(
        (world.in_flight(), world.on("r1")),
        (vec!["u01".to_owned()], vec!["u01"])
    );
}

#[test]
fn a_view_of_a_row_that_was_given_up_brings_no_token_of_before_back() {
    let mut world = fleet(2);
    world.aim("r2");
    world.step();
    let before = world.member("u00").clone();
    world.deselect(&["u00"]);
    give_up(&mut world, &["u00"]);
    world.step();
    world.step();
    let given_up = world.token("u00");
    world.spec.abandoned.clear();
    world.reselect("u00");
    world.remember_on("u00", &before);
    for name in ["u01", "u00"] {
        world.step();
        world.succeed(name);
        world.step();
    }
    world.step();
    assert!(world.token("u00") > given_up, "{}", world.words());
}

#[test]
fn a_unit_in_withdrawal_is_abandoned_once_even_on_a_stale_view() {
    let mut world = fleet(2);
    world.aim("r2");
    world.step();
    world.deselect(&["u00"]);
    let before = world.member("u00").clone();
    world.step();
    world.step();
    give_up(&mut world, &["u00"]);
    let first = world.remember_on("u00", &before);
    let second = world.remember_on("u00", &before);
    assert_eq!((first.memory, first.steps), (second.memory, second.steps));
}
