//! Promise: a scalar in a file is replaced and no other byte changes; if that is impossible, the edit is refused.

use std::sync::Arc;

use muster_sync::yaml::{
    self, Kind, Node,
    edit::{Edit, EditError, replace},
};
use proptest::prelude::*;

/// The pairs of the mapping `version` in the last document that has one.
fn version(text: &str) -> Vec<(Arc<Node>, Arc<Node>)> {
    let documents = yaml::documents("f.yaml", text.as_bytes()).unwrap();
    let found = documents
        .iter()
        .rev()
        .find_map(|document| document.root.get("version").cloned());
    let Kind::Mapping(pairs) = &found.unwrap().kind else {
        panic!("version is no mapping")
    };
    pairs.clone()
}

fn edited(text: &str, key: &str, tag: &str) -> Result<String, EditError> {
    let pairs = version(text);
    let (name, value) = &pairs[0];
    let edits = [
        Edit {
            node: name,
            text: key,
        },
        Edit {
            node: value,
            text: tag,
        },
    ];
    replace("f.yaml", text, &edits[usize::from(name.text() == Some(key))..])
}

fn check(text: &str, key: &str, tag: &str, expect: &str) {
    assert_eq!(edited(text, key, tag).as_deref(), Ok(expect), "{text:?}");
}

#[test]
fn no_other_byte_changes() {
    check(
        "version:\n  tag: v2   # now\n",
        "tag",
        "v1",
        "version:\n  tag: v1   # now\n",
    );
    check(
        "# ä\nversion: {tag: v2} # ö\nb: 1",
        "tag",
        "v1.0",
        "# ä\nversion: {tag: v1.0} # ö\nb: 1",
    );
    check(
        "version: {\"tag\": \"v2\"}\n",
        "tag",
        "v1",
        "version: {\"tag\": \"v1\"}\n",
    );
    check("version: {tag: 'v2'}", "tag", "it's", "version: {tag: \"it's\"}");
    check(
        "{\"version\": {\"tag\": \"v2\"}}",
        "tag",
        "v1",
        "{\"version\": {\"tag\": \"v1\"}}",
    );
    check(
        "version:\r\n  tag: v2\r\nx: y\r\n",
        "tag",
        "v1",
        "version:\r\n  tag: v1\r\nx: y\r\n",
    );
    check(
        "\u{feff}version: {tag: v2}\n",
        "tag",
        "v1",
        "\u{feff}version: {tag: v1}\n",
    );
    check(
        "\u{feff}a: v2\n---\n\u{feff}version: {tag: v2}\n",
        "tag",
        "v1",
        "\u{feff}a: v2\n---\n\u{feff}version: {tag: v1}\n",
    );
    check(
        "a: {tag: v2}\n---\n# of web\nversion:\n    tag:   v2\n---\nb: v2\n",
        "tag",
        "v1",
        "a: {tag: v2}\n---\n# of web\nversion:\n    tag:   v1\n---\nb: v2\n",
    );
    let block = |tag: &str| format!("version:\n  tag: |-\n    {tag}\n");
    check(&block("v2"), "tag", "v1", &block("v1"));
    // A different meaning of version.
    check(
        "version:\n  commit: 0123abcd\n",
        "tag",
        "v1",
        "version:\n  tag: v1\n",
    );
}

#[test]
fn what_would_be_no_text_is_quoted() {
    for tag in ["1.0", "0644", "true", "null", "~", "a: b", "#x", "- x", "*x"] {
        let text = edited("version:\n  tag: v2 # c\n", "tag", tag).unwrap();
        assert_eq!(text, format!("version:\n  tag: \"{tag}\" # c\n"));
        assert_eq!(version(&text)[0].1.text(), Some(tag));
    }
}

#[test]
fn what_is_intricate_is_left_to_people() {
    for text in [
        "t: &t v2\nversion: {tag: *t}\n",
        "version:\n  tag: &t v2\nother: *t\n",
        "version:\n  tag: \"v\\x32\"\n",
        "version: {tag: \"v\n  2\"}\n",
        "base: &b {tag: v2}\nversion: *b\n",
    ] {
        let error = edited(text, "tag", "v1").unwrap_err();
        assert!(matches!(error, EditError::Intricate { .. }), "{text}: {error}");
        assert!(error.to_string().contains("change it by hand"), "{error}");
    }
}

proptest! {
    #[test]
    fn whatever_the_tag_is_it_is_read_back(tag in "[ -~]{1,12}", quote in "['\"]?", before in "(# [a-zä]{0,8}\n|x: [a-z]{1,5}\n|---\n){0,4}") {
        let text = format!("{before}version:\n  tag: {quote}v2{quote}  # kept\nlast: v2\n");
        if yaml::documents("f.yaml", text.as_bytes()).is_ok() {
            let edited = edited(&text, "tag", &tag).unwrap();
            let read = version(&edited);
            prop_assert_eq!(read[0].1.text(), Some(&*tag));
            prop_assert!(edited.starts_with(&before) && edited.ends_with("  # kept\nlast: v2\n"));
        }
    }
}
