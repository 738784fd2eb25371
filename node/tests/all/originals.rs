//! Promise: the original of a path before muster wrote it is stored once, and is restored when the path is no longer
//! listed.

use muster_node::{Assignment, OnDelete, State};

use crate::support::world::{World, absent, assign_once, file, path, reason, row};

/// A world whose original is `before`, changed by three revisions.
fn thrice() -> World {
    let world = World::new();
    world.disk.put_with(&path("a"), "before", 0o2640);
    let mut agent = world.start();
    for number in 1..=3 {
        let row = row(
            number,
            vec![file(&path("a"), &format!("{number}")), file(&path("sub/b"), "b")],
        );
        assert_eq!(reason(&mut agent, &row), "Confirmed");
    }
    world
}

fn deleted(on_delete: OnDelete) -> Assignment {
    let mut row = row(9, vec![file(&path("a"), "3"), file(&path("sub/b"), "b")]);
    row.deleting = true;
    row.content.on_delete = on_delete;
    row
}

#[test]
fn the_first_one_is_kept_with_its_mode() {
    let world = thrice();
    let mut agent = world.start();
    let files = vec![file(&path("c"), "c")];
    assert_eq!(reason(&mut agent, &row(4, files)), "Confirmed");
    assert_eq!(world.files()[&path("a")], (0o2640, "before".to_owned()));
    assert_eq!(
        world.read(&path("sub/b")),
        None,
        "what was absent is absent again"
    );
    assert!(
        !world.disk.is_there(&path("sub")),
        "and the directory that was made for it with it"
    );
    // The path is released: the current file is the original of the next time.
    world.disk.put(&path("a"), "edited since");
    assert_eq!(
        reason(&mut agent, &row(5, vec![file(&path("a"), "5")])),
        "Confirmed"
    );
    assert_eq!(reason(&mut agent, &row(6, vec![])), "Confirmed");
    assert_eq!(world.read(&path("a")).unwrap(), "edited since");
}

#[test]
fn a_failed_change_keeps_nothing_of_its_new_paths() {
    let world = World::new();
    world.disk.put(&path("a"), "before");
    let mut agent = world.start();
    assert_eq!(
        reason(&mut agent, &row(1, vec![file(&path("a"), "link-down")])),
        "Failed"
    );
    // The file, which no row has, is edited.
    world.disk.put(&path("a"), "edited");
    assert_eq!(
        reason(&mut agent, &row(2, vec![file(&path("b"), "b")])),
        "Confirmed"
    );
    assert_eq!(world.read(&path("a")).unwrap(), "edited");
}

#[test]
fn a_row_that_is_deleted_leaves_its_files_or_brings_the_originals_back() {
    let world = thrice();
    let report = assign_once(&mut world.start(), &deleted(OnDelete::Orphan));
    assert_eq!(report.state, State::Gone);
    assert_eq!(world.read(&path("a")).unwrap(), "3");
    assert_eq!(world.disk.files("/var/lib/muster/node/originals").len(), 0);

    let world = thrice();
    let report = assign_once(&mut world.start(), &deleted(OnDelete::Restore));
    assert_eq!(report.state, State::Gone);
    assert_eq!(world.read(&path("a")).unwrap(), "before");
    assert_eq!(world.read(&path("sub/b")), None);
    assert_eq!(
        assign_once(&mut world.start(), &deleted(OnDelete::Restore)).state,
        State::Gone,
        "and again"
    );
    assert!(
        muster_node::status(&world.agent_environment())
            .unwrap()
            .rows
            .is_empty()
    );
}

#[test]
fn a_row_that_is_gone_does_not_come_back_at_a_start() {
    let world = thrice();
    assert_eq!(
        assign_once(&mut world.start(), &deleted(OnDelete::Restore)).state,
        State::Gone
    );
    drop(world.start());
    assert!(
        muster_node::status(&world.agent_environment())
            .unwrap()
            .rows
            .is_empty()
    );
}

#[test]
fn originals_that_break_the_node_are_taken_back_too() {
    let world = World::new();
    world.disk.put(&path("a"), "link-down");
    world.host.boot();
    let mut agent = world.start();
    assert_eq!(
        reason(&mut agent, &row(1, vec![file(&path("a"), "good")])),
        "Confirmed"
    );
    let mut deleted = row(2, vec![]);
    deleted.deleting = true;
    deleted.content.on_delete = OnDelete::Restore;
    assert_eq!(reason(&mut agent, &deleted), "Failed");
    assert_eq!(world.read(&path("a")).unwrap(), "good");
}

#[test]
fn a_row_that_is_not_given_is_not_deleted() {
    let world = thrice();
    let mut other = row(5, vec![file("/etc/other/x", "x")]);
    other.name = "other".to_owned();
    let mut agent = world.start();
    assert_eq!(reason(&mut agent, &other), "Confirmed");
    assert!(agent.assign(&[], &mut |_| true).reports.is_empty());
    assert_eq!(world.read(&path("a")).unwrap(), "3");
    assert_eq!(
        world.disk.files("/var/lib/muster/node/originals").len(),
        3,
        "all originals stay"
    );
}

#[test]
fn an_original_that_is_damaged_is_not_brought_back() {
    let world = thrice();
    for name in world.disk.files("/var/lib/muster/node/originals").into_keys() {
        world.disk.damage(&name, |bytes| bytes[80] ^= 1);
    }
    let mut agent = world.start();
    let report = assign_once(&mut agent, &row(4, vec![absent(&path("c"))]));
    assert_eq!(
        report.state,
        State::Confirmed,
        "without its head it is no longer known"
    );
    assert_eq!(world.read(&path("a")).unwrap(), "3", "nothing unknown is written");
}
