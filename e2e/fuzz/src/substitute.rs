//! Laws of substitution: a text without `$` is unchanged, values are inserted verbatim and never substituted again, no
//! error contains a value, and no value changes the structure of a document.
//!
//! The bytes are lines `NAME=value`, an empty line, and the text.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_sync::substitute::{self, Variables, expand};
use muster_sync::yaml::{self, Kind, Node, Scalar, Tag};
use serde_json::Value;

/// Pieces of interesting texts, for dictionaries and generators.
pub const TOKENS: &[&str] = &[
    "a=",
    "B_1=",
    "_=",
    "V=hunter2\n",
    "W=<<\n",
    "X=a: b\n",
    "Y=*a\n",
    "Z=ä\n",
    "E=\n",
    "\n\n",
    "\n",
    "=",
    "$",
    "$$",
    "${",
    "}",
    "${V}",
    "${W}",
    "${X}",
    "${Y}",
    "${Z}",
    "${E}",
    "${#V}",
    "${E:-",
    "${V:=",
    "${V=",
    "${V:",
    ":",
    "-1",
    "0",
    "1",
    "2",
    "9223372036854775807",
    "-9223372036854775808",
    "${V^",
    "${V^^}",
    "${Z,,}",
    "${V#",
    "${V##",
    "${V%",
    "${V%%",
    "${V/",
    "${V//",
    "${V/#",
    "${V/%",
    "/",
    "\\/",
    "\\\\",
    "*",
    "?",
    "[",
    "${V-",
    "${V+",
    "${V:+",
    "${V:?",
    "${V@",
    "${V[0]}",
    "V: ",
    "W: ",
    "- ",
    "&a ",
    "*a",
    "!!str ",
    "!!int ",
    "'",
    "\"",
    "|\n  ",
    "{",
    "[",
    ", ",
    ": ",
    "<<: ",
    "ä",
    "hunter2",
];

/// A text that no message of muster contains, and which therefore reveals a leaked value.
const CANARY: &str = "hunter2";

/// The laws, for variables and a text.
pub fn check(bytes: &[u8]) {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return;
    };
    let (lines, text) = input.split_once("\n\n").unwrap_or(("", input));
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    holds(
        &pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        text,
    );
}

fn holds(pairs: &BTreeMap<String, String>, text: &str) {
    let Ok(variables) = Variables::new(pairs) else {
        assert!(!pairs.keys().all(|name| is_name(name)), "refused: {pairs:?}");
        return;
    };
    assert!(pairs.keys().all(|name| is_name(name)), "taken: {pairs:?}");
    let betrays = !text.contains(CANARY) && !pairs.keys().any(|name| name.contains(CANARY));
    let assert_silent = |error: &dyn std::error::Error| {
        assert!(
            !error.to_string().contains(char::is_control),
            "a control character is shown: {error}"
        );
        assert!(
            !betrays || !format!("{error} {error:?}").contains(CANARY),
            "a value is in {error}"
        );
    };
    let expanded = expand(text, &variables);
    if let Err(error) = &expanded {
        assert_silent(error);
    }
    if let Some(expected) = simply(text, pairs) {
        assert!(
            expanded.as_deref() == Ok(&expected),
            "{text:?} is {expanded:?}, not {expected:?}"
        );
    }
    for document in yaml::documents("f.yaml", text.as_bytes()).unwrap_or_default() {
        match substitute::document(&document, &variables) {
            Err(error) => assert_silent(&error),
            Ok(after) if pairs.is_empty() => {
                assert!(after == document, "{text:?} is touched without variables");
            }
            Ok(after) => {
                assert_same_tree(&document.root, &after.root);
                let merges = has_merge(&document.root);
                if let (Ok(before), Ok(after), false) = (document.value(), after.value(), merges) {
                    assert!(
                        skeleton(&before) == skeleton(&after),
                        "{text:?} with {pairs:?}: {before} became {after}"
                    );
                }
            }
        }
    }
}

/// The result, if the text has nothing but literals, `$$` and `${NAME}` of defined variables.
fn simply(text: &str, pairs: &BTreeMap<String, String>) -> Option<String> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = if let Some(rest) = after.strip_prefix('$') {
            expanded.push('$');
            rest
        } else if let Some(after) = after.strip_prefix('{') {
            let (name, rest) = after.split_once('}')?;
            expanded.push_str(&pairs.get(name)?.replace('\n', ""));
            rest
        } else {
            expanded.push('$');
            after
        };
    }
    Some(expanded + rest)
}

/// Only the texts of scalars may differ, and only where there was a `$`.
fn assert_same_tree(before: &Arc<Node>, after: &Arc<Node>) {
    assert!(before.at == after.at, "{before:?} became {after:?}");
    match (&before.kind, &after.kind) {
        (Kind::Scalar(old), Kind::Scalar(new)) => {
            assert!(
                (old.plain, old.tag) == (new.plain, new.tag),
                "{old:?} became {new:?}"
            );
            assert!(
                old.text == new.text || old.text.contains('$'),
                "{old:?} became {new:?}"
            );
        }
        (Kind::Sequence(old), Kind::Sequence(new)) => {
            assert!(old.len() == new.len(), "{before:?} became {after:?}");
            old.iter()
                .zip(new)
                .for_each(|(old, new)| assert_same_tree(old, new));
        }
        (Kind::Mapping(old), Kind::Mapping(new)) => {
            assert!(old.len() == new.len(), "{before:?} became {after:?}");
            for (old, new) in old.iter().zip(new) {
                assert_same_tree(&old.0, &new.0);
                assert_same_tree(&old.1, &new.1);
            }
        }
        _ => assert!(before.kind == after.kind, "{before:?} became {after:?}"),
    }
}

/// A merge key makes the structure of a document depend on the names of its keys, as its author intends.
fn has_merge(node: &Node) -> bool {
    match &node.kind {
        Kind::Scalar(_) => false,
        Kind::Sequence(items) => items.iter().any(|item| has_merge(item)),
        Kind::Mapping(pairs) => pairs
            .iter()
            .any(|(key, value)| is_merge(key) || has_merge(key) || has_merge(value)),
    }
}

fn is_merge(key: &Node) -> bool {
    let Kind::Scalar(Scalar { text, plain, tag, .. }) = &key.kind else {
        return false;
    };
    *tag == Some(Tag::Merge) || (*plain && tag.is_none() && text == "<<")
}

/// The structure of lists and objects, without names and scalars.
fn skeleton(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(skeleton).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let mut members: Vec<String> = members.values().map(skeleton).collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        _ => String::new(),
    }
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c == '_' || c.is_ascii_alphabetic();
    name.chars().next().is_some_and(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}
