//! Promise: a content that failed on this node is not tried again until it, its attempt, or a definition that it names
//! in the node's configuration changes.

use std::time::Duration;

use muster_node::{Assignment, Config, State};
use serde_json::json;

use crate::support::world::{ETC, World, assign_once, config, file, path, reason, row};

fn failed() -> (World, Assignment) {
    let world = World::new();
    world.disk.put(&path("a"), "previous a");
    world.host.boot();
    let row = row(1, vec![file(&path("a"), "link-down")]);
    assert_eq!(reason(&mut world.start(), &row), "Failed");
    (world, row)
}

/// Whether the row is tried, by what the services had to reload.
fn is_tried(world: &World, row: &Assignment) -> bool {
    let mut agent = world.start();
    world.host.programs.borrow_mut().clear();
    assign_once(&mut agent, row);
    world
        .host
        .programs
        .borrow()
        .iter()
        .any(|program| program == "/bin/reload")
}

#[test]
fn by_what_changes() {
    type Change = fn(&mut World, &mut Assignment);
    let table: [(&str, Change, bool); 9] = [
        ("nothing", |_, _| {}, false),
        (
            "a day",
            |world, _| world.clock.advance(Duration::from_hours(24)),
            false,
        ),
        ("a boot", |world, _| world.reboot(), false),
        ("the token", |_, row| row.token = 2, false),
        (
            "the revision's name",
            |_, row| row.revision = "r2".to_owned(),
            false,
        ),
        ("the attempt", |_, row| row.attempt = 1, true),
        ("the digest", |_, row| row.digest = "digest-2".to_owned(), true),
        (
            "the reloader",
            |world, _| world.config = other_reloader("5s"),
            true,
        ),
        (
            "something that it does not name",
            |world, _| world.config.services.clear(),
            true,
        ),
    ];
    for (what, change, tried) in table {
        let (mut world, mut row) = failed();
        change(&mut world, &mut row);
        if what == "something that it does not name" {
            // Without its own service the content would be refused.
            world.config = config();
            world
                .config
                .services
                .insert("unused".to_owned(), world.config.reloaders["net"].clone());
            assert!(!is_tried(&world, &row), "{what}");
            continue;
        }
        assert_eq!(is_tried(&world, &row), tried, "{what}");
        assert_eq!(world.read(&path("a")).unwrap(), "previous a", "{what}");
    }
}

fn other_reloader(timeout: &str) -> Config {
    let other = Config::parse(&json!({
        "prefixes": [ETC],
        "reloaders": {"net": {"argv": ["/bin/reload"], "timeout": timeout}},
    }));
    Config {
        reloaders: other.unwrap().reloaders,
        ..config()
    }
}

#[test]
fn a_secret_that_changes_makes_another_content() {
    let world = World::new();
    world.disk.put(&path("a"), "previous a");
    world
        .host
        .secrets
        .borrow_mut()
        .insert("/etc/secret-of-net".to_owned(), "link-down\n".to_owned());
    let row = row(1, vec![file(&path("a"), "key $(SECRET_key)")]);
    assert_eq!(reason(&mut world.start(), &row), "Failed");
    assert!(!is_tried(&world, &row));
    world
        .host
        .secrets
        .borrow_mut()
        .insert("/etc/secret-of-net".to_owned(), "correct\n".to_owned());
    assert_eq!(reason(&mut world.start(), &row), "Confirmed");
    assert_eq!(world.read(&path("a")).unwrap(), "key correct");
}

#[test]
fn it_is_reported_with_what_failed_and_with_the_new_token() {
    let (world, mut row) = failed();
    row.token = 7;
    let report = assign_once(&mut world.start(), &row);
    let State::Ended(outcome) = report.state else {
        panic!()
    };
    assert_eq!(outcome.message, "interface bond*: bond0 is down");
    assert_eq!(report.token, 7);
}

#[test]
fn another_content_in_between_does_not_make_it_good() {
    let (world, row) = failed();
    let mut agent = world.start();
    for number in 2..90 {
        let good = crate::support::world::row(number, vec![file(&path("a"), &format!("good {number}"))]);
        assert_eq!(reason(&mut agent, &good), "Confirmed");
    }
    assert!(!is_tried(&world, &row));
}
