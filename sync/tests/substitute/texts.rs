//! The syntax of substitution: the same results as Flux's envsubst, and specific errors for what is refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_sync::substitute::{self, SubstituteProblem, Variables, expand};
use muster_sync::yaml;
use serde_json::{Value, json};

fn variables(pairs: &[(&str, &str)]) -> Variables {
    let pairs: BTreeMap<String, String> = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    Variables::new(&pairs).unwrap()
}

fn known() -> Variables {
    variables(&[
        ("v", "abcABC123ABCabc"),
        ("path", "/path/to/file"),
        ("file", "bash.string.txt"),
        ("empty", ""),
        ("umlaut", "äb"),
        ("_x1", "one"),
        ("lines", "a\nb\n"),
    ])
}

#[test]
fn texts_expand_as_in_flux() {
    let check =
        |text: &str, expect: &str| assert_eq!(expand(text, &known()).as_deref(), Ok(expect), "{text}");
    check("no variable, $v, $ and ${_x1}", "no variable, $v, $ and one");
    check("$${v} $$ $$$$ $$${_x1}", "${v} $ $$ $one");
    check("${_x1}${_x1}", "oneone");
    check("100%$", "100%$");
    check("${lines}", "ab");
    check("${#v}", "15");
    check("${#umlaut}", "3");
    check(
        "${v^} ${v^^} ${v,} ${v,,}",
        "AbcABC123ABCabc ABCABC123ABCABC abcABC123ABCabc abcabc123abcabc",
    );
    check("${umlaut^}", "Äb");
    check("${empty^}", "");
    check(
        "${nothing:-d} ${nothing:=d} ${nothing=d} ${empty:-d} ${_x1:-d}",
        "d d d d one",
    );
    check("${nothing:-}", "");
    check("${nothing:-a b: {c}", "a b: {c");
    check("${nothing:-${_x1}-suffix}", "one-suffix");
    check("${nothing:-prefix${_x1^^}}", "prefixONE");
    check("${nothing:-${other:-${_x1}}}", "one");
    check("${v:3}", "ABC123ABCabc");
    check("${v:3:3}", "ABC");
    check("${v:0:0}", "");
    check("${v:99} ${v:99:1}", " ");
    check("${v:12:99}", "abc");
    check("${v:1:-1}", "bcABC123ABCab");
    check("${v:14:-9}", "");
    check("${umlaut:2}", "b");
    check(
        "${v/abc/x} ${v//abc/x} ${v//abc/}",
        "xABC123ABCabc xABC123ABCx ABC123ABC",
    );
    check(
        "${v/#abc/x} ${v/%abc/x} ${v/#ABC/x}",
        "xABC123ABCabc abcABC123ABCx abcABC123ABCabc",
    );
    check(r"${path//\//-}", "-path-to-file");
    check("${path/to/${_x1}}", "/path/one/file");
    check(
        "${file#*.} ${file##*.} ${file%.*} ${file%%.*}",
        "string.txt txt bash.string bash",
    );
    check("${path#*/} ${path##*/} ${path%/*}", "path/to/file file /path/to");
    check("${file#b?sh.} ${file#nothing}", "string.txt bash.string.txt");
    // As in Flux, an empty match is never removed: here the shortest is one character, the longest is all.
    check("${_x1#*}|${_x1##*}|${_x1%%*}", "ne||");
}

#[test]
fn what_is_no_substitution_is_refused_by_name() {
    let check = |text: &str, expect: &str| {
        let error = expand(text, &known()).expect_err(text).to_string();
        assert!(error.contains(expect), "{text}: {error}");
        for value in ["abcABC123", "bash.string", "äb"] {
            assert!(!error.contains(value), "{text}: {error} shows a value");
        }
    };
    check(
        "${nothing}",
        "variable nothing is not set and has no default (known: _x1, empty, file, lines, path, umlaut, v)",
    );
    check("${#nothing}", "variable nothing is not set");
    check("${nothing/a/b}", "variable nothing is not set");
    check("${nothing:-${other}}", "variable other is not set");
    check(
        "${v-d}",
        "- is not supported in \"${v-d}\"; write :- for a default",
    );
    check("${v+x}", "+ is not supported");
    check("${v?x}", "? is not supported");
    check("${v:+x}", ":+ is not supported in \"${v:+x}\"");
    check("${v:?m}", ":? is not supported");
    check("${v@Q}", "@ is not supported");
    check("${v[0]}", "[ is not supported");
    check("${v#[a-z}", "a [ or \\ that does not end is not supported");
    check("${v#a\\}", "a [ or \\ that does not end is not supported");
    check(
        "${v%[a-z]}",
        "[ or \\ in the pattern of a suffix is not supported",
    );
    check(
        "${v/#abc/}",
        "an empty replacement after /# or /% is not supported",
    );
    check("${nothing:-$$}", "$$ within ${} is not supported");
    check("${", "a name is needed");
    check("${}", "a name is needed");
    check("${1a}", "a name is needed");
    check("${ä}", "a name is needed");
    check("${v", "the closing } is missing");
    check("${v:-x", "the closing } is missing");
    check("${v x}", "there is text before it");
    check("${v^^^}", "there is text before it");
    check("${v/a}", "a second / is needed");
    check("${v//}", "a second / is needed");
    check("${v///x}", "a text to replace is needed");
    check("${v/#/x}", "a text to replace is needed");
    check("${umlaut#?}", "cuts the value of umlaut inside a character");
    check("${umlaut#*}", "cuts the value of umlaut inside a character");
    check(
        &format!("${{v#{}}}", "*".repeat(1001)),
        "a pattern of more than 1000 characters is not supported",
    );
    check("${v#}", "a pattern is needed");
    check("${v:x}", "must be whole numbers");
    check("${v: -3}", "must be whole numbers");
    check("${umlaut:1}", "cuts the value of umlaut inside a character");
    check(&"${a:-".repeat(50), "nested deeper");
}

/// Every variant of the error enum, as displayed.
#[test]
fn every_kind_of_error_as_people_read_it() {
    let bad_name = Variables::new(&BTreeMap::from([("1st".to_owned(), String::new())])).unwrap_err();
    let of_key = |value: &str| {
        let documents = yaml::documents("a.yaml", b"${N}: {b: 1}\n").unwrap();
        substitute::document(&documents[0], &variables(&[("N", value)])).unwrap_err()
    };
    let long = variables(&[("v", &"a".repeat(1000))]);
    let mut messages = format!("{}\n    {bad_name}\n", name(&bad_name));
    for problem in [
        expand("${nothing}", &known()).unwrap_err(),
        expand("${v:+x}", &known()).unwrap_err(),
        expand("${v x}", &known()).unwrap_err(),
        expand("${umlaut:1}", &known()).unwrap_err(),
        expand(&"${a:-".repeat(50), &known()).unwrap_err(),
        expand(&"${v}".repeat(4000), &long).unwrap_err(),
        of_key("<<").problem,
    ] {
        writeln!(messages, "{}\n    {problem}", name(&problem)).unwrap();
    }
    insta::assert_snapshot!("substitute_problems", messages);
}

/// A new variant fails to compile here, as a reminder to add it to the list above.
fn name(problem: &SubstituteProblem) -> &'static str {
    match problem {
        SubstituteProblem::InvalidName { .. } => "InvalidName",
        SubstituteProblem::Unknown { .. } => "Unknown",
        SubstituteProblem::Unsupported { .. } => "Unsupported",
        SubstituteProblem::Malformed { .. } => "Malformed",
        SubstituteProblem::CutsCharacter { .. } => "CutsCharacter",
        SubstituteProblem::TooDeep(_) => "TooDeep",
        SubstituteProblem::TooLong => "TooLong",
        SubstituteProblem::Merge => "Merge",
    }
}

#[test]
fn a_short_text_makes_no_long_one() {
    let many = variables(&[("v", &"a".repeat(1000))]);
    let nested = |levels: usize| {
        let start = "${v//a/".repeat(levels);
        format!("{start}${{v}}{}", "}".repeat(levels))
    };
    assert_eq!(expand(&nested(1), &many).map(|text| text.len()), Ok(1_000_000));
    assert_eq!(expand(&nested(2), &many), Err(SubstituteProblem::TooLong));
    assert_eq!(expand(&nested(9), &many), Err(SubstituteProblem::TooLong));
    assert_eq!(
        expand(&"${v}".repeat(3146), &many),
        Err(SubstituteProblem::TooLong)
    );
    let text = format!("a: ${{v}}\nb: [{}]\n", "\"${v}\",".repeat(3145));
    let error = document(&text, &[("v", &"a".repeat(1000))]).unwrap_err();
    assert!(
        error.ends_with("substitution expands to more than 3145728 bytes in one document"),
        "{error}"
    );
}

#[test]
fn names_are_checked_and_values_never_shown() {
    let bad = BTreeMap::from([("a-b".to_owned(), "secret".to_owned())]);
    let error = Variables::new(&bad).unwrap_err();
    assert_eq!(
        error,
        SubstituteProblem::InvalidName {
            name: "a-b".to_owned()
        }
    );
    assert_eq!(format!("{:?}", variables(&[("TOKEN", "secret")])), "{\"TOKEN\"}");
}

/// The result for a document.
fn document(text: &str, pairs: &[(&str, &str)]) -> Result<Value, String> {
    let documents = yaml::documents("a.yaml", text.as_bytes()).unwrap();
    let expanded =
        substitute::document(&documents[0], &variables(pairs)).map_err(|error| error.to_string())?;
    expanded.value().map_err(|error| error.to_string())
}

#[test]
fn a_value_cannot_inject_structure() {
    let check = |text: &str, value: &str, expect: Value| {
        assert_eq!(document(text, &[("N", value)]), Ok(expect), "{text}");
    };
    check("a: ${N}\n", "3", json!({"a": 3}));
    check("a: ${N}\n", "yes", json!({"a": true}));
    check("a: ${N}\n", "", json!({"a": null}));
    check("a: \"${N}\"\n", "3", json!({"a": "3"}));
    check("a: '${N}'\n", "yes", json!({"a": "yes"}));
    check("a: !!str ${N}\n", "3", json!({"a": "3"}));
    check("a: ${N}0\n", "3", json!({"a": 30}));
    check("a: |\n  n=${N}\n", "3", json!({"a": "n=3\n"}));
    check("a: ${N}\n", "{b: [1, 2]}", json!({"a": "{b: [1, 2]}"}));
    check("a: ${N}\n", "1\nb: 2", json!({"a": "1b: 2"}));
    check("a: ${N}\n", "x # no comment", json!({"a": "x # no comment"}));
    check("a: ${N}\n", "*alias", json!({"a": "*alias"}));
    check("${N}: 1\n", "key", json!({"key": 1}));
    check("\"${N}\": 1\n", "3", json!({"3": 1}));
    check("{\"a\": \"${N}\"}", "3", json!({"a": "3"}));
}

#[test]
fn a_value_cannot_make_a_merge_key() {
    let error = document("a: 1\n${N}: {b: 2}\n", &[("N", "<<")]).unwrap_err();
    assert!(error.starts_with("a.yaml:2:1: a key becomes <<"), "{error}");
    assert_eq!(
        document("\"${N}\": {b: 2}\n", &[("N", "<<")]),
        Ok(json!({"<<": {"b": 2}}))
    );
    assert_eq!(document("a: ${N}\n", &[("N", "<<")]), Ok(json!({"a": "<<"})));
}

#[test]
fn errors_have_the_place_of_their_scalar() {
    let error = document("a: 1\nb:\n  - x\n  - ${M}\n", &[("N", "1")]).unwrap_err();
    assert!(error.starts_with("a.yaml:4:5: variable M is not set"), "{error}");
    let error = document("a: 1\n${N}: 2\n", &[("N", "a")]).unwrap_err();
    assert_eq!(error, "a.yaml:2:1: duplicate key ${…}, first at 1:1");
}

#[test]
fn no_message_contains_the_content_of_a_secret() {
    let check = |value: &str, expect: &str| {
        let text = format!("kind: Secret\nstringData:\n  password: 'x{value}'\n");
        let error = document(&text, &[("umlaut", "ä")]).unwrap_err();
        assert_eq!(error, format!("a.yaml:3:13: {expect}"), "{value}");
    };
    check(
        "${hunter2}",
        "variable ${…} is not set and has no default (known: umlaut); write $${ for a literal ${",
    );
    check(
        "${hunter2-x}",
        "- is not supported in \"${…}\"; write :- for a default",
    );
    check(
        "${hun ter2}",
        "\"${…}\" is not a substitution: the closing } is missing, or there is text before it; write $${ for a literal ${",
    );
    check(
        "${umlaut:1}",
        "\"${…}\" cuts the value of ${…} inside a character; offsets, lengths and patterns count bytes",
    );
}

#[test]
fn without_variables_nothing_is_touched() {
    assert_eq!(document("a: ${M} $$ ${\n", &[]), Ok(json!({"a": "${M} $$ ${"})));
}
