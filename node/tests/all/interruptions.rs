//! Promise: the process may be killed between any two operations. After the next start all files are old or all are
//! new, and which is known.

use std::collections::BTreeMap;

use muster_node::{Assignment, State, Verdict, journal::Step};

use crate::support::{
    disk::Fault,
    world::{World, absent, assign, file, path, row, until_quiet},
};

type Files = BTreeMap<String, (u32, String)>;

/// A node with a confirmed first configuration: a file that existed, one that did not, one that is removed, one that is
/// no longer listed.
pub(crate) fn node() -> World {
    let world = World::new();
    world.disk.put_with(&path("a"), "previous a", 0o600);
    world.disk.put_with(&path("gone"), "previous gone", 0o644);
    world.disk.put_with(&path("dropped"), "previous dropped", 0o640);
    let mut agent = world.start();
    let first = row(
        1,
        vec![file(&path("a"), "a one"), file(&path("dropped"), "dropped one")],
    );
    assert_eq!(until_quiet(&world, &mut agent, &[first]), [State::Confirmed]);
    world
}

/// The second configuration, good or not.
pub(crate) fn second(a: &str) -> Assignment {
    let files = vec![
        file(&path("a"), a),
        file(&path("sub/deep/new"), "new two"),
        absent(&path("gone")),
    ];
    row(2, files)
}

pub(crate) fn files_of(first: bool, a: &str) -> Files {
    let file = |name: &str, mode: u32, content: &str| (path(name), (mode, content.to_owned()));
    if first {
        Files::from([
            file("a", 0o644, "a one"),
            file("gone", 0o644, "previous gone"),
            file("dropped", 0o644, "dropped one"),
        ])
    } else {
        Files::from([
            file("a", 0o644, a),
            file("sub/deep/new", 0o644, "new two"),
            file("dropped", 0o640, "previous dropped"),
        ])
    }
}

/// Conditions after a restart: all files are consistent, the state is known, and no temporary files remain.
pub(crate) fn is_whole(world: &World, a: &str, context: &str) {
    let files = world.files();
    let (first, new) = (files_of(true, a), files_of(false, a));
    assert!(files == first || files == new, "{context}: {files:#?}");
    let status = muster_node::status(&world.agent_environment()).unwrap();
    let confirmed = status.rows[0].confirmed.as_deref();
    let known = if files == new { "digest-2" } else { "digest-1" };
    assert_eq!(confirmed, Some(known), "{context}");
    if let Some(journal) = &status.journal {
        assert!(
            matches!(journal.step, Step::Confirmed | Step::Restored),
            "{context}: {journal:?}"
        );
    }
    assert_eq!(world.leftovers(), Vec::<String>::new(), "{context}");
    assert!(
        files == new || !world.disk.is_there(&path("sub")),
        "{context}: a directory stays"
    );
}

/// Runs the second configuration with a fault at each operation in turn, until it succeeds.
fn at_each_operation(a: &str, restart: impl Fn(&mut World), then: impl Fn(&World, &str)) -> usize {
    for at in 0.. {
        let mut world = node();
        let mut agent = world.start();
        let through = world.with_fault(Fault::Kill(at), || assign(&mut agent, &[second(a)]));
        drop(agent);
        let context = format!("killed at {at}, after {:?}", world.disk.log.borrow().last());
        restart(&mut world);
        is_whole(&world, a, &context);
        then(&world, &context);
        if through.is_some() {
            return at;
        }
    }
    unreachable!()
}

#[test]
fn killed_anywhere_in_a_change_that_is_good() {
    let operations = at_each_operation(
        "a two",
        |world| drop(world.start()),
        |world, context| {
            let mut agent = world.start();
            assert_eq!(
                until_quiet(world, &mut agent, &[second("a two")]),
                [State::Confirmed],
                "{context}"
            );
            assert_eq!(world.files(), files_of(false, "a two"), "{context}");
        },
    );
    assert!(
        operations > 60,
        "{operations} operations are too few for a whole change"
    );
}

#[test]
fn killed_anywhere_in_a_change_that_is_bad() {
    let operations = at_each_operation(
        "a link-down",
        |world| drop(world.start()),
        |world, context| {
            let mut agent = world.start();
            let states = until_quiet(world, &mut agent, &[second("a link-down")]);
            let [State::Ended(outcome)] = &states[..] else {
                panic!("{context}: {states:?}")
            };
            assert_eq!(outcome.verdict, Verdict::Failed, "{context}");
            assert_eq!(world.files(), files_of(true, ""), "{context}");
            assert_eq!(*world.host.running.borrow(), world.host.files(), "{context}");
        },
    );
    assert!(
        operations > 100,
        "{operations} operations are too few for a change that is restored"
    );
}

#[test]
fn the_host_reboots_anywhere_in_a_change() {
    at_each_operation("a link-down", World::reboot, |world, context| {
        let status = muster_node::status(&world.agent_environment()).unwrap();
        let journal = status.journal.unwrap();
        let verdict = journal.outcome.as_ref().map(|outcome| outcome.verdict);
        // At boot no program is run, so it is only known that it was interrupted.
        let interrupted = verdict == Some(Verdict::Interrupted) && journal.key.digest == "digest-2";
        let before = verdict == Some(Verdict::Confirmed) && journal.key.digest == "digest-1";
        let done = verdict == Some(Verdict::Failed) && journal.key.digest == "digest-2";
        assert!(interrupted || before || done, "{context}: {journal:?}");
        assert!(
            status.known_bad.is_empty() || done,
            "{context}: an interruption condemns nothing"
        );
    });
}

#[test]
fn the_restore_is_killed_too() {
    let mut world = node();
    let mut agent = world.start();
    // In the middle of the swaps.
    assert!(
        world
            .with_fault(Fault::Kill(45), || assign(&mut agent, &[second("a two")]))
            .is_none()
    );
    drop(agent);
    let mut kills = 0;
    while world
        .with_fault(Fault::Kill(kills), || drop(world.start()))
        .is_none()
    {
        kills += 1;
    }
    assert!(kills > 3, "the restore had only {kills} operations");
    is_whole(&world, "a two", "after all kills");
    world.reboot();
    is_whole(&world, "a two", "after the reboot");
}

#[test]
fn a_change_that_is_interrupted_again_and_again_is_left_alone() {
    let world = node();
    for attempt in 0..5 {
        let mut agent = world.start();
        let row = second("a two");
        let answer = world.with_fault(Fault::Kill(45), || assign(&mut agent, std::slice::from_ref(&row)));
        assert_eq!(answer.is_some(), attempt >= 3, "try {attempt}");
        drop(agent);
        let _ = world.start();
        world.clock.advance(std::time::Duration::from_hours(1));
    }
    assert_eq!(world.files(), files_of(true, ""));
}
