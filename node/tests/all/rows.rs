//! Promise: one change at a time, each path has one row, and a change that could not be reported does not start.

use muster_node::{Assignment, State, Waiting};

use crate::support::world::{World, assign, assign_once, file, path, pieces, reason, row, until_quiet};

fn named_assignment(name: &str, number: u64, paths: &[&str]) -> Assignment {
    let files = paths.iter().map(|path| file(path, &format!("{name} {number}")));
    Assignment {
        name: name.to_owned(),
        digest: format!("{name}-{number}"),
        ..row(number, files.collect())
    }
}

fn reasons(world: &World, rows: &[Assignment]) -> Vec<&'static str> {
    let answer = assign(&mut world.start(), rows);
    answer
        .reports
        .iter()
        .map(|report| report.state.reason())
        .collect()
}

#[test]
fn one_at_a_time() {
    let world = World::new();
    let rows = [
        named_assignment("one", 1, &["/etc/net/1"]),
        named_assignment("two", 1, &["/etc/net/2"]),
    ];
    let mut agent = world.start();
    let answer = assign(&mut agent, &rows);
    assert_eq!(answer.reports[0].state, State::Confirmed);
    assert_eq!(
        answer.reports[1].state,
        State::Waiting(Waiting::BusyWith("one".to_owned()))
    );
    assert_eq!(world.read("/etc/net/2"), None);
    assert_eq!(answer.again, Some(std::time::Duration::ZERO));
    assert_eq!(
        until_quiet(&world, &mut agent, &rows),
        [State::Confirmed, State::Confirmed]
    );
}

#[test]
fn one_bad_row_does_not_stop_the_others() {
    let world = World::new();
    let mut rows = [
        named_assignment("one", 1, &["/etc/net/1"]),
        named_assignment("two", 1, &["/etc/net/2"]),
    ];
    rows[0].content.files[0].content = pieces("link-down");
    let states = until_quiet(&world, &mut world.start(), &rows);
    assert_eq!(states[0].reason(), "Failed");
    assert_eq!(states[1], State::Confirmed);
}

#[test]
fn paths_of_two_rows() {
    let table: [(&str, &str, bool); 5] = [
        ("/etc/net/a", "/etc/net/a", true),
        ("/etc/net/a", "/etc/net/a/b", true),
        ("/etc/net/a/b/c", "/etc/net/a", true),
        ("/etc/net/a", "/etc/net/ab", false),
        ("/etc/net/x/a", "/etc/net/x/b", false),
    ];
    for (one, two, conflict) in table {
        let world = World::new();
        let before = world.files();
        let rows = [
            named_assignment("one", 1, &[one]),
            named_assignment("two", 1, &[two]),
            named_assignment("three", 1, &["/etc/other/x"]),
        ];
        let found = reasons(&world, &rows);
        if conflict {
            assert_eq!(
                found,
                ["PathConflict", "PathConflict", "Confirmed"],
                "{one} and {two}"
            );
            assert_eq!(world.files().len(), before.len() + 1, "{one} and {two}");
        } else {
            assert_eq!(found[..2], ["Confirmed", "BusyWith"], "{one} and {two}");
        }
    }
}

#[test]
fn a_path_that_another_row_still_has() {
    let world = World::new();
    assert_eq!(
        reasons(&world, &[named_assignment("one", 1, &["/etc/net/a"])]),
        ["Confirmed"]
    );
    // The row is not passed, so it is not known whether it releases the path.
    let two = named_assignment("two", 1, &["/etc/net/a"]);
    assert_eq!(reasons(&world, std::slice::from_ref(&two)), ["PathConflict"]);
    // It releases the path, and then the other one has it.
    let one = named_assignment("one", 2, &["/etc/net/b"]);
    let mut agent = world.start();
    let both = [two, one];
    let answer = assign(&mut agent, &both);
    assert_eq!(
        answer.reports[0].state,
        State::Waiting(Waiting::BusyWith("one".to_owned()))
    );
    assert_eq!(
        until_quiet(&world, &mut agent, &both),
        [State::Confirmed, State::Confirmed]
    );
    assert_eq!(world.read("/etc/net/a").unwrap(), "two 1");
}

#[test]
fn a_start_that_cannot_be_reported() {
    let world = World::new();
    let row = row(1, vec![file(&path("a"), "new")]);
    let before = world.disk.files("/etc");
    let mut agent = world.start();
    let answer = agent.assign(std::slice::from_ref(&row), &mut |_| false);
    assert_eq!(answer.reports[0].state, State::Waiting(Waiting::NotAcknowledged));
    assert_eq!(world.disk.files("/etc"), before);
    let mut reported = Vec::new();
    let answer = agent.assign(std::slice::from_ref(&row), &mut |report| {
        reported.push((report.row.clone(), report.state.reason()));
        true
    });
    assert_eq!(answer.reports[0].state, State::Confirmed);
    assert_eq!(reported, [("fabric".to_owned(), "Changing")]);
}

#[test]
fn a_failed_row_goes_back_to_its_last_good_content_by_a_new_assignment() {
    let world = World::new();
    let mut agent = world.start();
    let good = row(1, vec![file(&path("a"), "good")]);
    assert_eq!(reason(&mut agent, &good), "Confirmed");
    assert_eq!(
        reason(&mut agent, &row(2, vec![file(&path("a"), "link-down")])),
        "Failed"
    );
    world.host.programs.borrow_mut().clear();
    let again = Assignment { token: 3, ..good };
    let report = assign_once(&mut agent, &again);
    assert_eq!((report.state, report.token), (State::Confirmed, 3));
    assert!(
        world.host.programs.borrow().contains(&"/bin/reload".to_owned()),
        "it is observed before it is reported"
    );
}
