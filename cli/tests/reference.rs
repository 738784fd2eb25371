//! Promise: the reference matches the help of the command, every verb has examples, and the manual pages are generated.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

use std::process::Command;

fn muster(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(arguments)
        // The environment has no place in a manual.
        .env("MUSTER_NAMESPACE", "somewhere-else")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_reference_is_as_generated() {
    let page = muster(&["man", "--markdown"]);
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
    let committed = std::fs::read_to_string(committed).unwrap();
    assert!(
        page == committed,
        "docs/cli.md is not up to date: run `cargo xtask generate` and commit"
    );
    assert!(!page.contains("somewhere-else"));
}

#[test]
fn help_begins_with_examples() {
    let page = muster(&["man", "--markdown"]);
    for chapter in page.split("\n## ").skip(1) {
        let verb = chapter.lines().next().unwrap();
        let begins = chapter
            .lines()
            .find(|line| line.starts_with("Examples:") || line.starts_with("Usage:"));
        assert_eq!(begins, Some("Examples:"), "{verb}");
    }
}

#[test]
fn every_verb_has_a_page_of_the_manual() {
    let directory = tempfile::tempdir().unwrap();
    muster(&["man", "--out", directory.path().to_str().unwrap()]);
    let chapters = muster(&["man", "--markdown"]);
    let verbs: Vec<String> = chapters
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|verb| verb.replace(' ', "-"))
        .collect();
    assert!(verbs.len() > 30, "{verbs:?}");
    for verb in &verbs {
        let page = std::fs::read_to_string(directory.path().join(format!("{verb}.1"))).unwrap();
        assert!(page.starts_with(".ie"), "{verb}: {page:.40}");
    }
}

#[test]
fn kubectl_is_answered_under_its_names() {
    let directory = tempfile::tempdir().unwrap();
    let called = |name: &str, arguments: &[&str]| {
        let link = directory.path().join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_muster"), &link).unwrap();
        }
        let output = Command::new(link).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(called("kubectl-muster", &["tree", "--help"]).contains("Usage: kubectl muster tree"));
    let offered = called("kubectl_complete-muster", &["rollout", "p"]);
    let words: Vec<&str> = offered
        .lines()
        .map(|line| line.split('\t').next().unwrap())
        .collect();
    assert_eq!(words, ["pause", "promote", ":4"]);
    let flags = called("kubectl_complete-muster", &["get", "--status"]);
    assert!(flags.starts_with("--status-selector\t"), "{flags}");
}
