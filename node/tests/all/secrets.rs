//! Promise: a secret is only in its file, and in nothing else that is stored, printed or reported.

use muster_node::{File, Piece, State};
use proptest::prelude::*;

use crate::support::{
    disk::Fault,
    world::{World, assign, assign_once, file, path, row},
};

const SECRET: &str = "correct horse\nbattery staple";
const FILE: &str = "/etc/secret-of-net";

fn node() -> World {
    let world = World::new();
    world.disk.put(&path("a"), "previous a");
    world
        .host
        .secrets
        .borrow_mut()
        .insert(FILE.to_owned(), format!("{SECRET}\n"));
    world
}

fn leaks(text: &str) -> bool {
    ["correct horse", "battery staple"]
        .iter()
        .any(|line| text.contains(line))
}

#[test]
fn in_its_file_and_nowhere_else() {
    let world = node();
    let row = row(
        1,
        vec![file(&path("a"), "psk=$(SECRET_key)!\nagain=$(SECRET_key)")],
    );
    let mut agent = world.start();
    let report = assign_once(&mut agent, &row);
    assert_eq!(report.state, State::Confirmed);
    assert_eq!(
        world.read(&path("a")).unwrap(),
        format!("psk={SECRET}!\nagain={SECRET}")
    );
    assert!(!leaks(&format!("{report:?} {:?}", agent.journal())));
    assert!(!leaks(&world.everything_kept()), "{}", world.everything_kept());
}

#[test]
fn at_every_operation() {
    for at in (0..).step_by(3) {
        let world = node();
        let row = row(1, vec![file(&path("a"), "link-down $(SECRET_key)")]);
        let mut agent = world.start();
        let through = world.with_fault(Fault::Kill(at), || assign(&mut agent, std::slice::from_ref(&row)));
        assert!(!leaks(&world.everything_kept()), "killed at {at}");
        drop(agent);
        drop(world.start());
        assert!(!leaks(&world.everything_kept()), "started after {at}");
        if let Some(answer) = through {
            assert!(!leaks(&format!("{answer:?}")));
            return;
        }
    }
}

#[test]
fn what_programs_print_is_masked() {
    let world = node();
    *world.host.reload_output.borrow_mut() = format!("bad line: psk={SECRET} at 3, battery staple");
    let row = row(1, vec![file(&path("a"), "refuse $(SECRET_key)")]);
    let State::Ended(outcome) = assign_once(&mut world.start(), &row).state else {
        panic!()
    };
    assert_eq!(
        outcome.message,
        "reload net: exit code 1: bad line: psk=*** at 3, ***"
    );
    assert!(!leaks(&world.everything_kept()));
}

#[test]
fn after_a_restart_too() {
    let world = node();
    let row = row(1, vec![file(&path("a"), "good $(SECRET_key)")]);
    let mut agent = world.start();
    world.with_fault(Fault::Kill(40), || assign(&mut agent, std::slice::from_ref(&row)));
    drop(agent);
    *world.host.reload_output.borrow_mut() = format!("reading {SECRET}");
    world.host.reload_fails_after.set(Some(0));
    drop(world.start());
    let status = muster_node::status(&world.agent_environment()).unwrap();
    let message = status.journal.unwrap().outcome.unwrap().message;
    assert_eq!(message, "reload net: reading ***");
}

#[test]
fn a_content_that_grows_beyond_bounds() {
    let world = node();
    world
        .host
        .secrets
        .borrow_mut()
        .insert(FILE.to_owned(), "x".repeat(60_000));
    let row = row(1, vec![file(&path("a"), &"$(SECRET_key)".repeat(20_000))]);
    assert_eq!(assign_once(&mut world.start(), &row).state.reason(), "Invalid");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_pieces_that_are_secrets_are_filled_in(parts in proptest::collection::vec(prop_oneof![
        "(\\$\\(SECRET_key\\)|\\$\\(SECRET_|\\$|[a-z ]{0,5})".prop_map(Piece::Text),
        Just(Piece::Secret("key".to_owned())),
    ], 0..12)) {
        let world = node();
        world.host.secrets.borrow_mut().insert(FILE.to_owned(), "S".to_owned());
        let wanted: String = parts.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Secret(_) => "S",
        }).collect();
        let file = File { content: parts, ..file(&path("b"), "") };
        let state = assign_once(&mut world.start(), &row(1, vec![file])).state;
        prop_assert_eq!(state, State::Confirmed);
        prop_assert_eq!(world.read(&path("b")).unwrap(), wanted);
    }
}
