//! Promise: YAML output reads back as the same value, by kubectl's rules.

use muster_sync::{build::print, yaml};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Prints a value, and reads it back.
#[track_caller]
fn round(value: &Value) -> String {
    let text = print::yaml(value);
    let read = yaml::to_json(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(&read, value, "{text}");
    text
}

#[test]
fn strings_that_kubectl_would_take_for_something_else_are_quoted() {
    for text in [
        "",
        " ",
        "yes",
        "No",
        "on",
        "OFF",
        "y",
        "N",
        "true",
        "null",
        "~",
        "0644",
        "0o644",
        "08",
        "1:30",
        "2024-01-01",
        "=",
        "<<",
        "0x1F",
        "0b11",
        "1_000",
        "1e3",
        "1.",
        ".5",
        ".5_5",
        "+1",
        "-0",
        ".inf",
        ".nan",
        "1e400",
        "99999999999999999999",
        "a: b",
        "a #b",
        "a:",
        ":",
        "-",
        "- a",
        "--- a",
        "...",
        "?",
        "? a",
        "[a",
        "{a}",
        "a]",
        "*a",
        "&a",
        "!a",
        "!!str a",
        "%a",
        "@a",
        "`a",
        "'a",
        "\"a",
        "a\"b",
        "a\\b",
        "|",
        ">",
        "a,b",
        "#a",
        " a",
        "a ",
        "a\tb",
        "a\nb",
        "\n",
        "a\r\nb",
        "\u{feff}a",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{0}",
        "\u{1b}[31m",
        "grün",
        "\u{1f600}",
        "a\u{202e}b",
    ] {
        round(&json!(text));
        round(&json!({ text: text }));
        round(&json!([text, [text], {"a": text}]));
    }
}

#[test]
fn yaml_is_printed_in_the_usual_style() {
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}, "annotations": {"b.c/d": "yes"}},
        "data": {"image": "ghcr.io/a/b:v1.2-3@sha256:00", "script": "#!/bin/sh\necho hi\n", "open": "a\n  b", "many": "a\nb\n\n\n"},
        "list": [1, 1.5, true, null, [], [["a", "b"], {"c": [{"d": "two words", "e": "x"}]}]],
    });
    insta::assert_snapshot!(round(&value));
}

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[ -~]{0,12}",
        "[a-z0-9:._# \\-\n]{0,16}",
        any::<String>(),
        "(yes|no|~|0x?[0-9_]{1,4}|[+-]?[0-9_.e:]{1,6})"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[ -~]{0,8}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_it_is(value in values()) {
        round(&json!({"a": [value]}));
    }
}
