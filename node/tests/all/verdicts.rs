//! Promise: a content is condemned only if the node's checks succeed with the old files and failed with the new ones.

use std::time::Duration;

use muster_node::{ChangeOutcome, Class, State, Verdict, verdict};

use crate::support::world::{World, assign, assign_once, file, path, reason, row, until_quiet};

fn node() -> World {
    let world = World::new();
    world.disk.put(&path("a"), "previous a");
    world.host.boot();
    world
}

fn try_with(world: &World, a: &str) -> ChangeOutcome {
    let mut agent = world.start();
    match assign_once(&mut agent, &row(1, vec![file(&path("a"), a)])).state {
        State::Ended(outcome) => outcome,
        State::Confirmed => ChangeOutcome {
            verdict: Verdict::Confirmed,
            message: String::new(),
            failing: Vec::new(),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn by_the_checks_before_and_after() {
    let names = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let table = [
        // before, after the restore, verdict
        ("", "", Verdict::Failed),
        ("x", "", Verdict::Failed),
        ("x", "x", Verdict::FailsBefore),
        ("x y", "y x", Verdict::FailsBefore),
        ("", "x", Verdict::Inconclusive),
        ("x", "y", Verdict::Inconclusive),
        ("x", "x y", Verdict::Inconclusive),
        ("x y", "x", Verdict::Inconclusive),
    ];
    for (before, after, wanted) in table {
        assert_eq!(
            verdict(true, &names(before), &names(after)),
            wanted,
            "{before:?} then {after:?}"
        );
    }
    assert_eq!(
        verdict(false, &[], &[]),
        Verdict::Inconclusive,
        "where nothing was changed the revision is not at fault"
    );
}

#[test]
fn classes_are_those_of_the_page() {
    let table = [
        (Verdict::Confirmed, None),
        (Verdict::Failed, Some(Class::Revision)),
        (Verdict::FailsBefore, Some(Class::Unit)),
        (Verdict::Inconclusive, Some(Class::Infra)),
        (Verdict::Interrupted, Some(Class::Infra)),
        (Verdict::RestoreFailed, Some(Class::Unit)),
    ];
    for (verdict, class) in table {
        assert_eq!(verdict.class(), class, "{verdict:?}");
    }
}

#[test]
fn a_file_that_takes_the_link_down() {
    let world = node();
    let outcome = try_with(&world, "link-down");
    assert_eq!(outcome.verdict, Verdict::Failed);
    assert_eq!(outcome.message, "interface bond*: bond0 is down");
    assert_eq!(outcome.failing, ["interface bond*"]);
    assert_eq!(world.read(&path("a")).unwrap(), "previous a");
    assert_eq!(
        *world.host.running.borrow(),
        world.host.files(),
        "the services read the old files again"
    );
    assert!(
        world.clock.since_boot.get() < Duration::from_secs(100 + 2 * 120),
        "within confirmWithin, and again for the restore"
    );
}

#[test]
fn a_reload_that_fails() {
    let world = node();
    let outcome = try_with(&world, "refuse");
    assert_eq!(
        (outcome.verdict, outcome.message.as_str()),
        (Verdict::Failed, "reload net: exit code 1: boom")
    );
    assert_eq!(world.read(&path("a")).unwrap(), "previous a");
}

#[test]
fn what_fails_before_and_after_is_the_nodes_own() {
    let world = node();
    world.host.peer_fails.set(true);
    let outcome = try_with(&world, "good");
    assert_eq!(
        (outcome.verdict, outcome.failing),
        (Verdict::FailsBefore, vec!["service peer".to_owned()])
    );
    assert_eq!(
        muster_node::status(&world.agent_environment()).unwrap().known_bad,
        []
    );
}

#[test]
fn a_repair_may_start_from_failing_checks() {
    let world = node();
    world.disk.put(&path("a"), "link-down");
    world.host.boot();
    assert_eq!(try_with(&world, "repaired").verdict, Verdict::Confirmed);
}

#[test]
fn an_outage_condemns_nothing_and_the_change_is_tried_again_after_it() {
    let world = node();
    // It starts while the new files are checked, and continues after the restore.
    world
        .host
        .outage
        .set((Duration::from_secs(112), Duration::from_mins(50)));
    let outcome = try_with(&world, "good");
    assert_eq!(outcome.verdict, Verdict::Inconclusive);
    assert_eq!(outcome.failing, ["tcp 10.0.0.1:179", "apiServer"]);
    let row = row(1, vec![file(&path("a"), "good")]);
    let mut agent = world.start();
    let answer = assign(&mut agent, std::slice::from_ref(&row));
    assert_eq!(answer.reports[0].state.reason(), "Inconclusive");
    let pause = answer.again.unwrap();
    assert!(pause > Duration::ZERO, "not at once");
    world.clock.advance(pause);
    let writes = world.disk.operations.get();
    let answer = assign(&mut agent, std::slice::from_ref(&row));
    assert_eq!(
        answer.reports[0].state.reason(),
        "Inconclusive",
        "while the environment is bad nothing is tried"
    );
    assert!(
        answer.again.unwrap() > Duration::ZERO,
        "and nothing is asked in a circle"
    );
    assert_eq!(world.read(&path("a")).unwrap(), "previous a");
    assert!(
        world.disk.log.borrow()[writes..]
            .iter()
            .all(|operation| !operation.starts_with("rename"))
    );
    world.clock.advance(Duration::from_hours(1));
    assert_eq!(until_quiet(&world, &mut agent, &[row]), [State::Confirmed]);
    assert_eq!(world.read(&path("a")).unwrap(), "good");
}

/// DX11.
#[test]
fn a_restore_with_a_failed_reload_is_reported_and_blocks_the_node() {
    let world = node();
    let mut agent = world.start();
    world.host.reload_fails_after.set(Some(0));
    let State::Ended(outcome) = assign_once(&mut agent, &row(1, vec![file(&path("a"), "new")])).state else {
        panic!()
    };
    assert_eq!(outcome.verdict, Verdict::RestoreFailed);
    assert_eq!(outcome.verdict.class(), Some(Class::Unit));
    assert_eq!(
        world.read(&path("a")).unwrap(),
        "previous a",
        "the files are back all the same"
    );
    assert_eq!(
        reason(&mut agent, &row(1, vec![file(&path("a"), "new")])),
        "RestoreFailed",
        "it is not tried again"
    );
    // Another row is not changed while the node is not restored.
    let mut other = row(9, vec![file("/etc/other/x", "x")]);
    other.name = "other".to_owned();
    assert_eq!(reason(&mut agent, &other), "BusyWith");
    // Once the services can be reloaded, the next assignment restores it first.
    world.host.reload_fails_after.set(None);
    world.host.programs.borrow_mut().clear();
    assert_eq!(
        until_quiet(
            &world,
            &mut agent,
            &[row(2, vec![file(&path("a"), "previous a")])]
        ),
        [State::Confirmed]
    );
    assert!(
        world
            .host
            .programs
            .borrow()
            .iter()
            .any(|program| program == "/bin/reload"),
        "success is reported after it was observed"
    );
}

#[test]
fn nothing_to_change_reloads_nothing_and_is_checked() {
    let world = node();
    let mut agent = world.start();
    assert_eq!(
        reason(&mut agent, &row(1, vec![file(&path("a"), "previous a")])),
        "Confirmed"
    );
    assert_eq!(*world.host.programs.borrow().first().unwrap(), "/bin/peer");
    assert!(
        world
            .host
            .programs
            .borrow()
            .iter()
            .all(|program| program != "/bin/reload")
    );
    assert!(world.host.dialed.get() > 3, "the checks held for a while");
}

#[test]
fn checks_count_after_settle_and_have_to_hold() {
    // Down at every other check for some time: each failure restarts the time.
    let world = node();
    world.host.flaps.set(9);
    let begun = world.clock.since_boot.get();
    let mut agent = world.start();
    assert_eq!(
        reason(&mut agent, &row(1, vec![file(&path("a"), "good")])),
        "Confirmed"
    );
    let taken = world.clock.since_boot.get().saturating_sub(begun);
    assert!(
        taken >= Duration::from_secs(10 + 8 * 3 + 15 - 3),
        "it was confirmed after {taken:?}"
    );
    // Flapping to the end: not confirmed within confirmWithin.
    let world = node();
    world.host.flaps.set(usize::MAX);
    assert_ne!(try_with(&world, "good").verdict, Verdict::Confirmed);
}

#[test]
fn a_failure_after_the_first_good_check_is_not_confirmed() {
    let world = node();
    // The network fails 5 s after the reload, inside settle, and 12 s after it, inside holdFor.
    for begins in [105, 112] {
        let world_begins = Duration::from_secs(begins);
        world.clock.since_boot.set(Duration::from_secs(100));
        world
            .host
            .outage
            .set((world_begins, world_begins + Duration::from_mins(1)));
        let mut agent = world.start();
        let row = row(begins, vec![file(&path("a"), &format!("good {begins}"))]);
        let before = world.clock.since_boot.get();
        assert_eq!(reason(&mut agent, &row), "Confirmed");
        assert!(
            world.clock.since_boot.get().saturating_sub(before) > Duration::from_secs(60 + 15),
            "begins {begins}: it held after the outage"
        );
    }
}

#[test]
fn a_check_that_hangs_holds_no_restore_up() {
    let world = node();
    let mut row = row(1, vec![file(&path("a"), "hang")]);
    row.content.checks.services = vec!["slow".to_owned()];
    let begun = world.clock.since_boot.get();
    assert_eq!(reason(&mut world.start(), &row), "Failed");
    let taken = world.clock.since_boot.get().saturating_sub(begun);
    // The checks of the old files succeed at once: settle and holdFor follow the restore.
    assert!(
        taken <= Duration::from_secs(120 + 10 + 15 + 1),
        "it took {taken:?}"
    );
    assert_eq!(world.read(&path("a")).unwrap(), "previous a");
}
