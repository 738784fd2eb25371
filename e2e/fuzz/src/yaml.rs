//! Laws of reading YAML: what is read, printed as JSON and read again is the same; every position is within the file;
//! JSON is read as JSON.

use muster_sync::yaml::{self, Document, Kind, Node, Position, YamlProblem};
use serde_json::{Number, Value, json};

/// Pieces of interesting texts, for dictionaries and generators.
pub const TOKENS: &[&str] = &[
    "- ",
    "? ",
    ": ",
    ", ",
    "[",
    "]",
    "{",
    "}",
    "&a ",
    "*a",
    "*a ",
    "<<: ",
    "<<",
    "!!str ",
    "!!int ",
    "!!float ",
    "!!bool ",
    "!!null ",
    "!!binary ",
    "!!timestamp ",
    "!!merge ",
    "!!map ",
    "!!seq ",
    "!!set ",
    "! ",
    "!x ",
    "|",
    ">",
    "|-",
    "|+",
    ">2",
    "|1-\n",
    "---\n",
    "--- ",
    "...\n",
    "%YAML 1.1\n",
    "%TAG ! x\n",
    "# c\n",
    "\n",
    "\n  ",
    "\n    ",
    "\r\n",
    "\r",
    "\t",
    "'",
    "''",
    "\"",
    "\\\"",
    "\\n",
    "\\x41",
    "\\u263A",
    "\\U0001F600",
    "\\ud83d\\ude00",
    "~",
    "null",
    "yes",
    "off",
    "true",
    "0644",
    "0o17",
    "0x_1F",
    "0b11",
    "1_000",
    "1e3",
    "1.5",
    "-0",
    ".5",
    ".inf",
    ".nan",
    "1e400",
    "18446744073709551615",
    "9007199254740993",
    "2024-01-01",
    "1:30",
    "=",
    "a",
    "b: ",
    "kind: List\n",
    "items:\n",
    "{\"a\":",
    "\"a\":1",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "ä",
    "\u{1f600}",
    "\u{7f}",
    "\0",
    " ",
    "  ",
    "@",
    "`",
    "y: ",
    "aGk=",
];

/// The laws, for the bytes of a file.
pub fn check(bytes: &[u8]) {
    let file = File::new(bytes);
    let documents = match yaml::documents("f.yaml", bytes) {
        Ok(documents) => documents,
        Err(error) => return file.assert_error(&error),
    };
    for document in &documents {
        file.assert_within_below(&document.root);
        match document.value() {
            Ok(value) => assert_reads_back(&value),
            Err(error) => file.assert_error(&error),
        }
    }
    if let Ok(expected @ Value::Object(_)) = serde_json::from_slice(bytes) {
        assert_is_json(&documents, expected);
    }
}

/// The length of each line: once split at line feeds only, once at every line break of YAML.
struct File {
    bytes: Vec<u8>,
    by_feed: Vec<usize>,
    by_break: Vec<usize>,
}

impl File {
    fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let lengths =
            |lines: &mut dyn Iterator<Item = &str>| lines.map(|line| line.chars().count()).collect();
        Self {
            bytes: bytes.to_vec(),
            by_feed: lengths(&mut text.split('\n')),
            by_break: lengths(&mut text.replace("\r\n", "\n").split(['\n', '\r'])),
        }
    }

    /// A position is on a character or right behind a line; the end of the file may count as a line. The parser counts
    /// lines that end with a lone carriage return inconsistently: for these any position is accepted.
    fn assert_within(&self, at: Position, what: &dyn std::fmt::Debug) {
        let within = |lines: &[usize]| match lines.get(at.line.wrapping_sub(1)) {
            Some(length) => (1..=length + 2).contains(&at.column),
            None => at.line == lines.len() + 1 && at.column == 1,
        };
        let counts_differ = self.by_feed.len() != self.by_break.len();
        assert!(
            counts_differ || within(&self.by_feed),
            "{at} is not within the file: {what:?} of {:?}",
            String::from_utf8_lossy(&self.bytes)
        );
    }

    fn assert_within_below(&self, node: &Node) {
        self.assert_within(node.at, &"a node");
        match &node.kind {
            Kind::Scalar(_) => {}
            Kind::Sequence(items) => items.iter().for_each(|item| self.assert_within_below(item)),
            Kind::Mapping(pairs) => pairs.iter().for_each(|(key, value)| {
                self.assert_within_below(key);
                self.assert_within_below(value);
            }),
        }
    }

    fn assert_error(&self, error: &yaml::YamlError) {
        self.assert_within(error.at, error);
        let shown = error.to_string();
        let place = format!("f.yaml:{}:{}: ", error.at.line, error.at.column);
        assert!(shown.starts_with(&place) && shown.len() > place.len(), "{shown}");
        assert!(
            !shown.contains(char::is_control),
            "a control character is shown: {shown:?}"
        );
    }
}

/// As a file, and as a value within YAML.
fn assert_reads_back(value: &Value) {
    if depth(value) >= yaml::MAX_DEPTH {
        return;
    }
    let whole = json!({ "x": value });
    let text = printed(&whole);
    let again = yaml::to_json(&text);
    assert!(again.as_ref() == Ok(&whole), "{text} is read as {again:?}");
    if longest_key(&whole) < 500 {
        let text = format!("# YAML, not JSON\n{text}\n");
        let again = yaml::to_json(&text);
        assert!(again.as_ref() == Ok(&whole), "{text} is read as {again:?}");
    }
}

/// One-line JSON without the characters that YAML forbids.
fn printed(value: &Value) -> String {
    let escaped = |c: char| match u32::from(c) {
        code @ (0x7f..=0x9f | 0x2028 | 0x2029 | 0xfeff | 0xfffe | 0xffff) => format!("\\u{code:04x}"),
        _ => c.to_string(),
    };
    value.to_string().chars().map(escaped).collect()
}

/// What serde_json accepts is read identically, or rejected because of a duplicate key.
fn assert_is_json(documents: &[Document], expected: Value) {
    assert!(
        documents.len() == 1,
        "{expected} is read as {} documents",
        documents.len()
    );
    let got = documents[0].value();
    if matches!(&got, Err(error) if matches!(error.problem, YamlProblem::DuplicateKey { .. })) {
        return;
    }
    let expected = in_our_numbers(expected);
    assert!(
        got.as_ref().is_ok_and(|got| is_as_good(got, &expected)),
        "{expected} is read as {got:?}"
    );
}

/// Equality; serde_json's floats may be off by one in the last binary digit.
fn is_as_good(got: &Value, expected: &Value) -> bool {
    match (got, expected) {
        (Value::Array(got), Value::Array(expected)) => {
            got.len() == expected.len()
                && got
                    .iter()
                    .zip(expected)
                    .all(|(got, expected)| is_as_good(got, expected))
        }
        (Value::Object(got), Value::Object(expected)) => {
            let member = |(name, expected)| got.get(name).is_some_and(|got| is_as_good(got, expected));
            got.len() == expected.len() && expected.iter().all(member)
        }
        (Value::Number(got), Value::Number(expected)) if got != expected => {
            let (got, expected) = (
                got.as_f64().unwrap_or_default(),
                expected.as_f64().unwrap_or_default(),
            );
            (got - expected).abs() <= expected.abs() * 2.0 * f64::EPSILON
        }
        _ => got == expected,
    }
}

/// Numbers as kubectl keeps them: an integer wherever a 64-bit one is exact.
fn in_our_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap_or_default();
            let int = float.to_string().parse::<i64>().ok().map(Number::from);
            int.or_else(|| Number::from_f64(float))
                .map_or(Value::Null, Value::Number)
        }
        Value::Array(items) => items.into_iter().map(in_our_numbers).collect(),
        Value::Object(members) => {
            let members = members
                .into_iter()
                .map(|(name, value)| (name, in_our_numbers(value)));
            Value::Object(members.collect())
        }
        other => other,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// A key in one line of YAML has at most 1,024 characters, escapes included.
fn longest_key(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(longest_key).max().unwrap_or(0),
        Value::Object(members) => {
            let longest = members
                .iter()
                .map(|(name, value)| name.len().max(longest_key(value)));
            longest.max().unwrap_or(0)
        }
        _ => 0,
    }
}
