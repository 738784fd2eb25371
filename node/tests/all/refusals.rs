//! Promise: content that the node's configuration does not allow, or that could not be restored, is refused with the
//! field before the first write.

use muster_node::{
    Assignment, Checks, Class, FileState, MAX_CONTENT, State,
    disk::Obstacle,
    paths::{self, REFUSED},
};
use proptest::prelude::*;

use crate::support::world::{ETC, World, absent, assign_once, file, path, pieces, row};

/// Requests it, and checks that nothing was written.
fn refused(world: &World, row: &Assignment) -> (&'static str, Class, String) {
    let mut agent = world.start();
    let before = world.disk.files("/");
    let state = assign_once(&mut agent, row).state;
    assert_eq!(world.disk.files("/"), before, "{state:?}");
    let State::Refused(refusal) = &state else {
        panic!("{state:?}")
    };
    (refusal.reason(), refusal.class(), refusal.to_string())
}

#[test]
fn paths() {
    let deep = format!("{ETC}/{}", "x".repeat(256));
    let long = format!("{ETC}{}", "/abc".repeat(1100));
    let table = [
        ("etc/net/a", "Invalid"),
        ("", "Invalid"),
        ("/", "Invalid"),
        ("/etc/net/../shadow", "Invalid"),
        ("/etc/net/./a", "Invalid"),
        ("/etc/net//a", "Invalid"),
        ("/etc/net/a/", "Invalid"),
        ("/etc/net/a\0b", "Invalid"),
        ("/etc/net/a\nb", "Invalid"),
        ("/etc/net/.muster-0123.old", "Invalid"),
        (&deep, "Invalid"),
        (&long, "Invalid"),
        ("/etc/net", "NotAllowed"),
        ("/etc/network/a", "NotAllowed"),
        ("/etc/passwd", "NotAllowed"),
        ("/var/lib/muster/node/journal", "NotAllowed"),
    ];
    for (path, reason) in table {
        let world = World::new();
        let (found, _, text) = refused(
            &world,
            &row(1, vec![file("/etc/other/first", "x"), file(path, "x")]),
        );
        assert_eq!(found, reason, "{path:?}: {text}");
        assert!(text.starts_with("files[1].path: "), "{path:?}: {text}");
    }
}

#[test]
fn what_no_configuration_allows() {
    for directory in REFUSED {
        let mut world = World::new();
        // Even where the node's configuration has a prefix above it.
        let above = directory
            .rsplit_once('/')
            .map(|(above, _)| above)
            .filter(|above| !above.is_empty());
        world.config.prefixes = vec![above.unwrap_or(directory).to_owned()];
        for path in [(*directory).to_owned(), format!("{directory}/x")] {
            let (reason, class, text) = refused(&world, &row(1, vec![file(&path, "x")]));
            assert_eq!((reason, class), ("NotAllowed", Class::Unit), "{path}: {text}");
        }
    }
}

/// What is edited, how, the named field, and the reason.
type Field = (&'static str, fn(&mut Assignment), &'static str, &'static str);

fn refuse_all(table: &[Field]) {
    for (what, edit, field, reason) in table {
        let world = World::new();
        let mut row = row(1, vec![file(&path("a"), "x")]);
        edit(&mut row);
        let (found, class, text) = refused(&world, &row);
        assert_eq!(found, *reason, "{what}: {text}");
        assert_eq!(class == Class::Revision, *reason == "Invalid", "{what}");
        assert!(text.starts_with(&format!("{field}: ")), "{what}: {text}");
    }
}

#[test]
fn fields() {
    let table: [Field; 7] = [
        (
            "mode",
            |row| row.content.files[0].mode = Some("4755".to_owned()),
            "files[0].mode",
            "Invalid",
        ),
        (
            "mode",
            |row| row.content.files[0].mode = Some("+644".to_owned()),
            "files[0].mode",
            "Invalid",
        ),
        (
            "owner",
            |row| row.content.files[0].owner = Some("not-here".to_owned()),
            "files[0].owner",
            "NotOnNode",
        ),
        (
            "content",
            |row| row.content.files[0].state = FileState::Absent,
            "files[0].content",
            "Invalid",
        ),
        (
            "twice",
            |row| row.content.files.push(file(&path("a"), "x")),
            "files[1].path",
            "Invalid",
        ),
        (
            "parent",
            |row| row.content.files.push(file(&path("a/b"), "x")),
            "files[1].path",
            "Invalid",
        ),
        (
            "secret",
            |row| row.content.files[0].content = pieces("$(SECRET_other)"),
            "files[0].content",
            "NotAllowed",
        ),
    ];
    refuse_all(&table);
}

#[test]
fn fields_beside_the_files() {
    let table: [Field; 9] = [
        (
            "reload",
            |row| row.content.reload = vec!["sh".to_owned()],
            "reload[0]",
            "NotAllowed",
        ),
        (
            "service",
            |row| row.content.checks.services = vec!["sh".to_owned()],
            "checks.services[0]",
            "NotAllowed",
        ),
        (
            "tcp",
            |row| row.content.checks.tcp = vec!["192.0.2.1:179".to_owned()],
            "checks.tcp[0]",
            "NotAllowed",
        ),
        (
            "port",
            |row| row.content.checks.tcp = vec!["10.0.0.1:22".to_owned()],
            "checks.tcp[0]",
            "NotAllowed",
        ),
        (
            "name",
            |row| row.content.checks.tcp = vec!["router:179".to_owned()],
            "checks.tcp[0]",
            "Invalid",
        ),
        (
            "glob",
            |row| row.content.checks.interfaces = vec!["eth[".to_owned()],
            "checks.interfaces[0]",
            "Invalid",
        ),
        (
            "settle",
            |row| row.content.settle = Some("soon".to_owned()),
            "settle",
            "Invalid",
        ),
        (
            "times",
            |row| row.content.confirm_within = Some("35s".to_owned()),
            "confirmWithin",
            "Invalid",
        ),
        (
            "size",
            |row| row.content.files[0].content = pieces(&"x".repeat(MAX_CONTENT + 1)),
            "files",
            "Invalid",
        ),
    ];
    refuse_all(&table);
}

#[test]
fn a_server_that_the_node_does_not_know() {
    let mut world = World::new();
    world.config.server = None;
    let (reason, _, text) = refused(&world, &row(1, vec![file(&path("a"), "x")]));
    assert_eq!(
        (reason, text.starts_with("checks.apiServer: ")),
        ("NotAllowed", true),
        "{text}"
    );
}

#[test]
fn unsafe_entries_at_the_path_are_refused() {
    type Make = fn(&World);
    let table: [(&str, Make, &str); 7] = [
        (
            "symbolic link",
            |world| world.disk.put_link(&path("a")),
            "is a symbolic link",
        ),
        (
            "a link on the way",
            |world| world.disk.put_link(&path("sub")),
            "has a parent that is not a directory",
        ),
        (
            "directory",
            |world| world.disk.put(&path("a/b"), "x"),
            "is a directory",
        ),
        (
            "file on the way",
            |world| world.disk.put(&path("sub"), "x"),
            "has a parent that is not a directory",
        ),
        (
            "immutable",
            |world| obstacle(world, &path("a"), Obstacle::Immutable),
            "is immutable",
        ),
        (
            "mount",
            |world| obstacle(world, &path("a"), Obstacle::MountPoint),
            "is a mount point",
        ),
        (
            "append-only directory",
            |world| obstacle(world, ETC, Obstacle::AppendOnly),
            "is in a directory that is immutable or append-only",
        ),
    ];
    for (what, make, problem) in table {
        for state in ["present", "absent"] {
            let world = World::new();
            world.disk.put(&path("0"), "the first file is fine");
            make(&world);
            let target = if problem.contains("parent") {
                path("sub/a")
            } else {
                path("a")
            };
            let last = if state == "present" {
                file(&target, "x")
            } else {
                absent(&target)
            };
            let (reason, class, text) = refused(&world, &row(1, vec![file(&path("0"), "x"), last]));
            assert_eq!((reason, class), ("TargetRefused", Class::Unit), "{what}: {text}");
            // In a directory that cannot change, the first file is refused.
            let target = if what == "append-only directory" {
                path("0")
            } else {
                target
            };
            assert_eq!(text, format!("files: {target} {problem}"), "{what}");
        }
    }
}

fn obstacle(world: &World, path: &str, obstacle: Obstacle) {
    if path != ETC {
        world.disk.put(path, "previous x");
    }
    world
        .disk
        .obstacles
        .borrow_mut()
        .insert(path.to_owned(), obstacle);
}

#[test]
fn a_read_only_file_system() {
    let world = World::new();
    world.disk.read_only.set(true);
    let (reason, _, text) = refused(&world, &row(1, vec![file(&path("a"), "x")]));
    assert_eq!(reason, "TargetRefused", "{text}");
}

#[test]
fn a_star_in_a_path_is_literal() {
    // Names of interfaces are patterns, and nothing else is.
    let world = World::new();
    let mut asked = row(1, vec![file(&path("*"), "x")]);
    asked.content.checks = Checks::default();
    assert_eq!(assign_once(&mut world.start(), &asked).state, State::Confirmed);
    assert_eq!(world.read(&path("*")).unwrap(), "x");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_accepted_is_below_a_prefix(parts in proptest::collection::vec("(\\.\\.|\\.|etc|net|root|[a-z]{0,3}|\\PC{1,3})", 0..6), rooted: bool) {
        let text = format!("{}{}", if rooted { "/" } else { "" }, parts.join("/"));
        let world = World::new();
        if paths::check(&text).is_ok() && world.config.allows_path(&text).is_ok() {
            prop_assert!(text.starts_with("/etc/net/") || text.starts_with("/etc/other/"));
            prop_assert!(text.split('/').skip(1).all(|name| !name.is_empty() && name != ".." && name != "."));
        }
    }
}
