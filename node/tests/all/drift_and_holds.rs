//! Promise: drift is reported and left alone, a start writes no file, and after a boot the services read a confirmed
//! row's files once.

use std::time::Duration;

use muster_node::{State, hold_for};

use crate::support::{
    disk::Fault,
    world::{World, assign, assign_once, file, path, reason, row},
};

fn confirmed() -> World {
    let world = World::new();
    let files = vec![file(&path("a"), "a"), file(&path("b"), "b")];
    assert_eq!(reason(&mut world.start(), &row(1, files)), "Confirmed");
    world
}

fn the_row() -> muster_node::Assignment {
    row(1, vec![file(&path("a"), "a"), file(&path("b"), "b")])
}

fn writes(world: &World) -> Vec<String> {
    world
        .disk
        .log
        .borrow()
        .iter()
        .filter(|operation| operation.contains(" /"))
        .cloned()
        .collect()
}

#[test]
fn edited_removed_and_with_another_mode() {
    let world = confirmed();
    world.disk.put(&path("a"), "edited");
    let mut agent = world.start();
    world.disk.log.borrow_mut().clear();
    assert_eq!(assign_once(&mut agent, &the_row()).drift, [path("a")]);
    world.disk.remove(&path("b"));
    assert_eq!(assign_once(&mut agent, &the_row()).drift, [path("a"), path("b")]);
    world.disk.put(&path("a"), "a");
    world.disk.put_with(&path("b"), "b", 0o666);
    let report = assign_once(&mut agent, &the_row());
    assert_eq!((report.state, report.drift), (State::Confirmed, vec![path("b")]));
    assert_eq!(writes(&world), Vec::<String>::new());
}

#[test]
fn at_rest_and_at_a_start_nothing_is_written() {
    let world = confirmed();
    let before = world.disk.files("/");
    for _ in 0..3 {
        let mut agent = world.start();
        world.disk.log.borrow_mut().clear();
        for _ in 0..3 {
            let answer = assign(&mut agent, &[the_row()]);
            assert_eq!(
                (answer.reports[0].state.clone(), answer.again),
                (State::Confirmed, None)
            );
        }
        assert_eq!(writes(&world), Vec::<String>::new());
    }
    assert_eq!(world.disk.files("/"), before);
}

#[test]
fn once_after_a_boot_the_services_read_the_files() {
    let mut world = confirmed();
    world.reboot();
    world.host.running.borrow_mut().clear();
    world.host.programs.borrow_mut().clear();
    let mut agent = world.start();
    let files = world.files();
    for _ in 0..3 {
        assert_eq!(assign_once(&mut agent, &the_row()).state, State::Confirmed);
    }
    drop(agent);
    assign_once(&mut world.start(), &the_row());
    let reloads = world
        .host
        .programs
        .borrow()
        .iter()
        .filter(|program| *program == "/bin/reload")
        .count();
    assert_eq!((reloads, world.files()), (1, files));
    assert!(world.host.running.borrow().contains("\"a\""));
}

#[test]
fn but_not_files_that_were_edited_and_not_while_held() {
    for held in [false, true] {
        let mut world = confirmed();
        world.reboot();
        if held {
            hold_for(&world.agent_environment(), Duration::from_hours(1), "works").unwrap();
        } else {
            world.disk.put(&path("a"), "edited");
        }
        world.host.programs.borrow_mut().clear();
        let report = assign_once(&mut world.start(), &the_row());
        assert_eq!((report.state, report.drift.is_empty()), (State::Confirmed, held));
        assert!(world.host.programs.borrow().is_empty(), "held: {held}");
    }
}

/// DX19.
#[test]
fn what_fails_then_is_noted() {
    let mut world = confirmed();
    world.reboot();
    world.host.peer_fails.set(true);
    let report = assign_once(&mut world.start(), &the_row());
    assert_eq!(
        report.note.as_deref(),
        Some("service peer: exit code 1: no session")
    );
    assert_eq!(report.state, State::Confirmed);
}

#[test]
fn a_hold_stops_every_write_but_a_pending_restore() {
    let world = confirmed();
    let mut agent = world.start();
    let second = row(2, vec![file(&path("a"), "two")]);
    assert!(
        world
            .with_fault(Fault::Kill(40), || assign(
                &mut agent,
                std::slice::from_ref(&second)
            ))
            .is_none()
    );
    drop(agent);
    assert_eq!(
        world.read(&path("a")).unwrap(),
        "two",
        "it was killed after the swap"
    );
    hold_for(&world.agent_environment(), Duration::from_hours(1), "works").unwrap();
    let mut agent = world.start();
    assert_eq!(world.files(), confirmed().files());
    world.clock.advance(Duration::from_mins(10));
    let State::Waiting(waiting) = assign_once(&mut agent, &second).state else {
        panic!()
    };
    let muster_node::Waiting::HeldLocally(hold) = waiting else {
        panic!("{waiting:?}")
    };
    assert_eq!(hold.reason, "works");
    assert_eq!(world.files(), confirmed().files());
}
