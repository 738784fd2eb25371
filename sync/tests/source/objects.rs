//! Arbitrary git objects: read, or refused with a specific error; never a panic, never a path outside the repository.

use muster_sync::source::{Limits, Objects, SourceError};

/// One entry of a tree, in git's format.
fn entry(mode: &str, name: &[u8], id: [u8; 20]) -> Vec<u8> {
    [mode.as_bytes(), b" ", name, b"\0", &id].concat()
}

/// Reads a tree of these bytes; returns the paths, or the error.
fn check(objects: &Objects, raw: &[u8], path: &str, expect: &str) {
    let root = objects.tree(raw).unwrap();
    let got = match objects.read(root, path, None, &Limits::default()) {
        Ok(files) => files
            .iter()
            .map(|file| file.path.clone())
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => error.to_string(),
    };
    assert!(
        got == expect || got.contains(expect) && !expect.is_empty(),
        "{}: {got}",
        raw.escape_ascii()
    );
}

#[test]
fn raw_trees_are_read_or_refused() {
    let objects = Objects::new().unwrap();
    let blob = objects.blob(b"a: 1\n").unwrap();
    let inner = objects.tree(&entry("100644", b"b.yaml", blob)).unwrap();
    let both = [entry("100644", b"a.yaml", blob), entry("40000", b"deploy", inner)].concat();
    check(&objects, &both, "", "a.yaml deploy/b.yaml");
    check(&objects, &both, "deploy", "deploy/b.yaml");
    check(&objects, &both, "nowhere", "path not found");
    check(&objects, b"", "", "");
    // Bytes that are not a tree.
    check(&objects, b"100644", "", "does not speak git as expected");
    check(
        &objects,
        b"100644 a.yaml\0short",
        "",
        "does not speak git as expected",
    );
    check(
        &objects,
        &entry("99", b"a.yaml", blob),
        "",
        "does not speak git as expected",
    );
    check(
        &objects,
        &entry("0", b"a.yaml", blob),
        "",
        "it has the unknown mode 0",
    );
    check(
        &objects,
        &entry("40000", b"deploy", [7; 20]),
        "",
        "does not speak git as expected",
    );
    check(
        &objects,
        &entry("100644", b"a.yaml", inner),
        "",
        "does not speak git as expected",
    );
    check(
        &objects,
        &entry("40000", b"deploy", blob),
        "",
        "does not speak git as expected",
    );
    check(
        &objects,
        &entry("40000", b"..", inner),
        "",
        "its name is one that git reserves",
    );
    check(
        &objects,
        &entry("100644", b"../a.yaml", blob),
        "",
        "its name contains a path separator",
    );
}

#[test]
fn a_duplicate_name_in_a_tree_is_refused() {
    let objects = Objects::new().unwrap();
    let (one, other) = (objects.blob(b"a: 1\n").unwrap(), objects.blob(b"a: 2\n").unwrap());
    let twice = [entry("100644", b"a.yaml", one), entry("100644", b"a.yaml", other)].concat();
    let root = objects.tree(&twice).unwrap();
    let error = objects.read(root, "", None, &Limits::default()).unwrap_err();
    assert!(matches!(error, SourceError::Refused { .. }), "{error}");
}
