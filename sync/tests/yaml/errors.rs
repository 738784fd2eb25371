//! Errors: the position and the full message, which contains no part of the text that could be secret.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_sync::substitute::{self, Variables};
use muster_sync::yaml::{self, Document, YamlProblem};
use serde_json::{Value, json};

/// The values of all documents, or the error.
fn read(bytes: &[u8]) -> Result<Vec<Value>, String> {
    yaml::documents("deploy/web.yaml", bytes)
        .and_then(|documents| documents.iter().map(Document::value).collect())
        .map_err(|error| error.to_string())
}

/// Every variant of the error enum, as displayed.
#[test]
fn every_kind_of_error_as_people_read_it() {
    let nested = |open: &str, shut: &str| format!("a: {}{}\n", open.repeat(101), shut.repeat(101));
    let cases: &[(&str, &[u8])] = &[
        ("NotUtf8", b"a: 1\nb: caf\xe9\n"),
        ("Utf16", b"\xff\xfea\0:\0 \x001\0\n\0"),
        ("Control", b"a: 1\nb: x\x07\n"),
        ("Directive", b"%YAML 1.2\n---\na: 1\n"),
        ("TextAfterEnd", b"a: 1\n...\nb: 2\n"),
        ("Separator", b"a: 1\n--- b: 2\n"),
        ("Syntax", b"a: 1\n b: 2\n"),
        ("Tab", b"a:\n\tb: 1\n"),
        ("Stricter", b"a: [\n1]\n"),
        ("PlainStart", b"a: [::1]\n"),
        ("TabIndentation", b"a:\n-\tb\n"),
        ("Depth", nested("[", "]").leak().as_bytes()),
        ("AliasBudget", bomb(9, 9).leak().as_bytes()),
        ("AliasLoop", b"a: &a [1, *a]\n"),
        ("UnknownTag", b"a: !!python/object b\n"),
        ("TagMismatch", b"a: !!int five\n"),
        ("DuplicateKey", b"a: 1\nb: 2\na: 3\n"),
        ("Key", b"a: 1\n[b]: 2\n"),
        ("NotFinite", b"a: .nan\n"),
        ("Merge", b"a: {<<: 1}\n"),
    ];
    let mut messages = String::new();
    for (variant, bytes) in cases {
        let error = yaml::documents("deploy/web.yaml", bytes)
            .and_then(|documents| {
                documents
                    .iter()
                    .map(Document::value)
                    .collect::<Result<Vec<_>, _>>()
            })
            .expect_err(variant);
        assert_eq!(name(&error.problem), *variant);
        writeln!(messages, "{variant}\n    {error}").unwrap();
    }
    let several = yaml::to_json("a: 1\n---\nb: 2\n").unwrap_err();
    writeln!(messages, "{}\n    {several}", name(&several.problem)).unwrap();
    insta::assert_snapshot!("yaml_problems", messages);
}

/// A new variant fails to compile here, as a reminder to add it to the list above.
fn name(problem: &YamlProblem) -> &'static str {
    match problem {
        YamlProblem::NotUtf8 => "NotUtf8",
        YamlProblem::Utf16 => "Utf16",
        YamlProblem::Control(_) => "Control",
        YamlProblem::Directive => "Directive",
        YamlProblem::TextAfterEnd => "TextAfterEnd",
        YamlProblem::Separator => "Separator",
        YamlProblem::Syntax(_) => "Syntax",
        YamlProblem::Tab(_) => "Tab",
        YamlProblem::Stricter(_) => "Stricter",
        YamlProblem::PlainStart(_) => "PlainStart",
        YamlProblem::TabIndentation => "TabIndentation",
        YamlProblem::Depth => "Depth",
        YamlProblem::AliasBudget => "AliasBudget",
        YamlProblem::AliasLoop => "AliasLoop",
        YamlProblem::UnknownTag(_) => "UnknownTag",
        YamlProblem::TagMismatch(_) => "TagMismatch",
        YamlProblem::DuplicateKey { .. } => "DuplicateKey",
        YamlProblem::Key(_) => "Key",
        YamlProblem::NotFinite => "NotFinite",
        YamlProblem::Merge => "Merge",
        YamlProblem::SeveralDocuments => "SeveralDocuments",
    }
}

/// Each level contains the previous one `width` times.
fn bomb(levels: usize, width: usize) -> String {
    let level = |level: usize| {
        format!(
            "a{level}: &a{level} [{}]\n",
            vec![format!("*a{}", level - 1); width].join(", ")
        )
    };
    (1..=levels)
        .map(level)
        .fold("a0: &a0 x\n".to_owned(), |text, line| text + &line)
}

fn refused(bytes: &[u8], expect: &str) {
    let error = read(bytes).expect_err(&bytes.escape_ascii().to_string());
    assert_eq!(
        error,
        format!("deploy/web.yaml:{expect}"),
        "{}",
        bytes.escape_ascii()
    );
}

fn taken(bytes: &[u8], expect: &[Value]) {
    assert_eq!(read(bytes).as_deref(), Ok(expect), "{}", bytes.escape_ascii());
}

/// Files that expand or nest excessively.
#[test]
fn bombs_are_refused() {
    // An alias bomb: in lists, in mappings, and as one long list of aliases.
    refused(
        bomb(9, 9).as_bytes(),
        "6:10: aliases produce more than 10000 nodes",
    );
    refused(
        bomb(9, 9).replace('[', "{k: [").replace(']', "]}").as_bytes(),
        "5:54: aliases produce more than 10000 nodes",
    );
    refused(
        bomb(1, 10_001).as_bytes(),
        "2:50010: aliases produce more than 10000 nodes",
    );
    // A hundred thousand nested collections.
    refused("[".repeat(100_000).as_bytes(), "1:256: nested deeper than 100");
    refused(
        "{a: ".repeat(100_000).as_bytes(),
        "1:1021: nested deeper than 100",
    );
    refused("- ".repeat(100_000).as_bytes(), "1:201: nested deeper than 100");
    refused(
        "{\"a\":".repeat(100_000).as_bytes(),
        "1:501: nested deeper than 100",
    );
}

/// Files that different parsers read differently.
#[test]
fn doubtful_structure_is_refused() {
    // Duplicate keys.
    refused(b"a: 1\na: 2\n", "2:1: duplicate key \"a\", first at 1:1");
    refused(
        b"a: {yes: 1, true: 2}\n",
        "1:13: duplicate key \"true\", first at 1:5",
    );
    refused(
        b"{\"a\": {\"b\": 1, \"b\": 2}}",
        "1:16: duplicate key \"b\", first at 1:8",
    );
    // Merge keys.
    taken(
        b"a: &a {b: 1}\nc: {<<: *a, d: 2}\n",
        &[json!({"a": {"b": 1}, "c": {"b": 1, "d": 2}})],
    );
    refused(
        b"a: {<<: [1]}\n",
        "1:10: << needs a mapping, or a list of mappings",
    );
    refused(b"a: {<<: {}, <<: {}}\n", "1:13: duplicate key <<, first at 1:5");
    // Tags.
    refused(
        b"a: !!python/object/apply:os.system [ls]\n",
        "1:36: unknown tag !!python/object/apply:os.system; quote the value, or remove the tag",
    );
    refused(
        b"a: !vault |\n  x\n",
        "2:3: unknown tag !vault; quote the value, or remove the tag",
    );
    refused(
        b"!foo\na: 1\n",
        "2:2: unknown tag !foo; quote the value, or remove the tag",
    );
}

/// Bytes and characters.
#[test]
fn other_encodings_and_tabs_are_refused() {
    // Other encodings.
    refused(b"a: caf\xe9\n", "1:7: not UTF-8");
    refused(b"a: \xed\xa0\x80\n", "1:4: not UTF-8");
    refused(b"# \xc0\x80\n", "1:3: not UTF-8");
    refused(
        b"\xff\xfea\0:\0 \x001\0\n\0",
        "1:1: UTF-16; save the file as UTF-8",
    );
    refused(
        b"\xfe\xff\0a\0:\0 \x001\0\n",
        "1:1: UTF-16; save the file as UTF-8",
    );
    refused(
        b"a\0:\0 \x001\0\n\0",
        "1:2: character U+0000 is not allowed; write it as an escape in double quotes",
    );
    // Tabs.
    refused(b"a:\n-\tb\n", "2:3: a tab in the indentation; use spaces");
    refused(
        b"a:\n\tb: 1\n",
        "2:2: tabs disallowed within this context (block indentation); replace the tab with spaces (kubectl may accept it, this parser does not)",
    );
    taken(b"a: b\tc\t# d\n", &[json!({"a": "b\tc"})]);
}

/// Numbers and words that look like something else, empty documents, line endings.
#[test]
fn doubtful_scalars_mean_what_kubectl_takes_them_for() {
    // Numbers.
    for number in [".nan", ".NaN", "-.inf"] {
        refused(
            format!("a: {number}\n").as_bytes(),
            "1:4: a number that JSON cannot represent (infinite, NaN, or too large); quote it if it is text",
        );
    }
    taken(b"[0o7, 07, '0o7']\n", &[json!([7, 7, "0o7"])]);
    taken(b"[no, off, 'no']\n", &[json!([false, false, "no"])]);
    taken(b"[1e400, -1e400, 1e-400]\n", &[json!(["1e400", "-1e400", 0])]);
    refused(
        b"{\"a\": 1e400}",
        "1:7: a number that JSON cannot represent (infinite, NaN, or too large); quote it if it is text",
    );
    taken(
        b"[9007199254740993, -9007199254740993, 9223372036854775807]\n",
        &[json!([
            9_007_199_254_740_993_i64,
            -9_007_199_254_740_993_i64,
            i64::MAX
        ])],
    );
    // Empty documents.
    taken(b"---\n---\n# a\n---\n~\n---\na: 1\n---\n", &[json!({"a": 1})]);
    taken(b"", &[]);
    taken(b"\xef\xbb\xbf", &[]);
    // Line endings.
    taken(
        b"\xef\xbb\xbfa: |\r\n  b\r\n  c\r\n---\r\nd: 1\r\n",
        &[json!({"a": "b\nc\n"}), json!({"d": 1})],
    );
    taken(b"a: 1\rb: 2\r", &[json!({"a": 1, "b": 2})]);
    refused(
        b"a: 1\r\nb: !x\r\n",
        "3:1: unknown tag !x; quote the value, or remove the tag",
    );
}

/// Whatever is wrong with a Secret, no message contains its values.
#[test]
fn no_value_of_a_secret_is_in_a_message() {
    let variables = BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]);
    let variables = Variables::new(&variables).unwrap();
    let message = |body: &str| -> String {
        let text = format!("kind: Secret\nstringData:\n{body}");
        let documents = match yaml::documents("a.yaml", text.as_bytes()) {
            Ok(documents) => documents,
            Err(error) => return error.to_string(),
        };
        let expanded = match substitute::document(&documents[0], &variables) {
            Ok(expanded) => expanded,
            Err(error) => return error.to_string(),
        };
        expanded.value().expect_err(body).to_string()
    };
    for body in [
        "  a: !!int hunter2\n",
        "  a: !!binary hunter2\n",
        "  a: !!timestamp hunter2\n",
        "  a: !hunt hunter2\n",
        "  a: \"hunter2\n",
        "  a: \"hunter2\\q\"\n",
        "  a: hunter2: b\n",
        "  a: [hunter2\n",
        "  a: @hunter2\n",
        "  a: hunter2\n b: c\n",
        "  a: 'hunter2'x\n",
        "  a: |\n    hunter2\n   hunter2\n",
        "  a: {<<: hunter2}\n",
        "  a: *hunter2\n",
        "  a: \u{7}hunter2\n",
        "  ${TOKEN}: 1\n  ${TOKEN}: 2\n",
        "  ${TOKEN}: 1\n  hunter2: ${}\n",
        "  a: !!int ${TOKEN}\n",
        "  a: ${TOKEN/%hunter2/}\n",
        "  a: x${hunter2}\n",
        "  a: x${hunter2?}\n",
    ] {
        let message = message(body);
        assert!(message.starts_with("a.yaml:"), "{message}");
        assert!(!message.contains("hunter2"), "{body:?}: {message}");
    }
}
