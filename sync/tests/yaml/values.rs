//! The table of YAML values, cell by cell. The right-hand sides are the output of `kubectl annotate --local -f F k=v -o
//! json` (1.32) for the same bytes, except where a comment says why ours differs.

use muster_sync::yaml::{self, YamlProblem};
use serde_json::{Value, json};

/// The JSON of `x: <input>`.
fn value(input: &str) -> Result<Value, String> {
    let mut root = yaml::to_json(format!("x: {input}\n")).map_err(|error| error.to_string())?;
    Ok(root["x"].take())
}

#[test]
fn scalars_mean_what_kubectl_takes_them_for() {
    let check = |inputs: &[&str], expect: Value| {
        for input in inputs {
            let got = value(input).unwrap_or_else(|error| panic!("{input}: {error}"));
            assert_eq!(got, expect, "{input}");
            assert_eq!(got.to_string(), expect.to_string(), "{input}: the same text too");
        }
    };
    check(
        &[
            "yes",
            "Yes",
            "YES",
            "on",
            "On",
            "ON",
            "true",
            "True",
            "TRUE",
            "y",
            "Y",
            "!!bool yes",
        ],
        json!(true),
    );
    check(
        &[
            "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE", "n", "N",
        ],
        json!(false),
    );
    check(&["~", "null", "Null", "NULL", "", "&a", "!!null ''"], json!(null));
    check(&["0644", "0o644", "0O644", "0_644"], json!(420));
    check(&["08"], json!(8));
    check(&["0o8"], json!("0o8"));
    check(&["1:30"], json!("1:30"));
    check(&["2024-01-01", "!!timestamp 2024-01-01"], json!("2024-01-01"));
    check(&["2024-01-01T00:00:00Z"], json!("2024-01-01T00:00:00Z"));
    check(&["="], json!("="));
    check(&["0x1F", "0x_1F", "0X1f", "+0x1f"], json!(31));
    check(
        &["0b11", "+0b11", "!!int 3", "!!int '3'", "!!int '0b11'"],
        json!(3),
    );
    check(&["-0b11"], json!(-3));
    check(&["0b2"], json!("0b2"));
    check(&["0b"], json!("0b"));
    check(&["1e3", "1e+3", "1_000", "1000.0"], json!(1000));
    check(&["12e03"], json!(12000));
    check(&["1.0", "1.", "+1", "1_"], json!(1));
    check(&["!!float 1", "!!float 1.0"], json!(1));
    check(&[".5", "0.5", "5e-1"], json!(0.5));
    check(&["-0", "-0.0", "0", "00", "1e-400"], json!(0));
    check(&["1__0"], json!(10));
    check(&["-_1"], json!(-1));
    check(&["0O17"], json!(15));
    check(&["\"yes\"", "'yes'", "!!str yes", "! yes"], json!("yes"));
    check(&["'0644'", "!!str 0644"], json!("0644"));
    check(&["!!str 1", "! 1"], json!("1"));
    check(&["!!str"], json!(""));
    check(&["9223372036854775807"], json!(i64::MAX));
    check(&["9223372036854775808"], json!(9_223_372_036_854_775_808.0_f64));
    check(
        &["18446744073709551615", "+18446744073709551615"],
        json!(18_446_744_073_709_551_615.0_f64),
    );
    check(&["-9223372036854775809"], json!(-9_223_372_036_854_775_809.0_f64));
    check(&["99999999999999999999", "1e20"], json!(1e20));
    check(&["1234567890123456789.0"], json!(1_234_567_890_123_456_800_i64));
    check(&["1e21"], json!(1e21));
    check(&["0x1ffffffffffffffff"], json!("0x1ffffffffffffffff"));
    check(&["0x1p3"], json!("0x1p3"));
    check(&["1e400"], json!("1e400"));
    check(&[".5e400"], json!(".5e400"));
    check(&[".5_5"], json!(0.55));
    check(&["._5"], json!("._5"));
    check(&[".e3"], json!(".e3"));
    check(&["1.7976931348623157e308"], json!(1.797_693_134_862_315_7e308));
    check(&["!!binary aGk=", "!!binary \"aGk=\""], json!("hi"));
    check(&["<<", "!!merge <<"], json!("<<"));
    check(&["|\n  x", "|+\n  x"], json!("x\n"));
    check(&["|-\n  x"], json!("x"));
    check(&[">\n  x\n  y"], json!("x y\n"));
    check(&["\"a\\n  b\""], json!("a\n  b"));
    check(&["{}", "!!map {}"], json!({}));
    check(&["[]", "!!seq []"], json!([]));
}

#[test]
fn what_is_no_value_is_an_error_with_its_place() {
    let check = |input: &str, expect: &str| match value(input) {
        Ok(got) => panic!("{input}: {got}"),
        Err(error) => assert_eq!(error, format!("<text>:{expect}"), "{input}"),
    };
    check(
        ".inf",
        "1:4: a number that JSON cannot represent (infinite, NaN, or too large); quote it if it is text",
    );
    check(
        ".nan",
        "1:4: a number that JSON cannot represent (infinite, NaN, or too large); quote it if it is text",
    );
    check(
        "-.inf",
        "1:4: a number that JSON cannot represent (infinite, NaN, or too large); quote it if it is text",
    );
    // kubectl silently drops an unknown tag.
    check(
        "!foo x",
        "1:9: unknown tag !foo; quote the value, or remove the tag",
    );
    check(
        "!a%1B%5B31m x",
        r"1:16: unknown tag !a\u{1b}[31m; quote the value, or remove the tag",
    );
    check(
        "!!python/object x",
        "1:20: unknown tag !!python/object; quote the value, or remove the tag",
    );
    check(
        "!!set {a}",
        "1:10: unknown tag !!set; quote the value, or remove the tag",
    );
    check(
        "!!str {a: 1}",
        "1:10: unknown tag !!str; quote the value, or remove the tag",
    );
    check(
        "!!int 5.5",
        "1:10: the text after !!int is not a valid value of that type",
    );
    check(
        "!!null x",
        "1:11: the text after !!null is not a valid value of that type",
    );
    check(
        "!!timestamp soon",
        "1:16: the text after !!timestamp is not a valid value of that type",
    );
    check(
        "!!binary ////",
        "1:13: the text after !!binary (base64 of UTF-8) is not a valid value of that type",
    );
    check(
        "{~: a}",
        "1:5: a key must be text, a number or a boolean, not null",
    );
    check(
        "{[a]: 1}",
        "1:5: a key must be text, a number or a boolean, not a list or a mapping",
    );
    check(
        "{18446744073709551615: a}",
        "1:5: a key must be text, a number or a boolean, not an integer beyond 64 bits",
    );
    check("{<<: 5}", "1:9: << needs a mapping, or a list of mappings");
    check("{<<: [5]}", "1:10: << needs a mapping, or a list of mappings");
}

#[test]
fn keys_resolve_as_values_do() {
    let check = |input: &str, expect: Value| assert_eq!(value(input).unwrap(), expect, "{input}");
    check(
        "{y: a, 0644: b, -0: c}",
        json!({"true": "a", "420": "b", "0": "c"}),
    );
    check(
        "{1.5: a, 1e3: b, 1e6: c, 0.1: d, 0.00001: e, 16777217.0: f}",
        json!({"1.5": "a", "1000": "b", "1e+06": "c", "0.1": "d", "1e-05": "e", "1.6777216e+07": "f"}),
    );
    check("{.inf: 1}", json!({".inf": 1}));
    check("{!!binary aGk=: 1}", json!({"hi": 1}));
    check("{!!str 1: 1}", json!({"1": 1}));
    check("{\"<<\": {a: 1}}", json!({"<<": {"a": 1}}));
}

#[test]
fn merge_keys_bring_what_the_mapping_does_not_have() {
    let check = |text: &str, expect: Value| {
        let got = yaml::to_json(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(got["x"], expect, "{text}");
    };
    check(
        "a: &a {p: 1, q: 2}\nx:\n  <<: *a\n  q: 3\n",
        json!({"p": 1, "q": 3}),
    );
    // In kubectl a later `<<` overrides the mapping's own key; not in ours.
    check(
        "a: &a {p: 1, q: 2}\nx:\n  q: 3\n  <<: *a\n",
        json!({"p": 1, "q": 3}),
    );
    check("x: {<<: [{a: 1}, {a: 2, b: 3}]}\n", json!({"a": 1, "b": 3}));
    check("a: &a {p: {<<: {r: 1}}}\nx: {<<: *a}\n", json!({"p": {"r": 1}}));
}

#[test]
fn the_second_of_two_equal_keys_is_named() {
    let check = |text: &str, expect: &str| {
        let error = yaml::to_json(text).unwrap_err();
        assert_eq!(error.to_string(), format!("<text>:{expect}"), "{text}");
        assert!(matches!(error.problem, YamlProblem::DuplicateKey { .. }));
    };
    check(
        "a: 1\nb:\n  c: 1\n  c: 2\n",
        "4:3: duplicate key \"c\", first at 3:3",
    );
    check("y: 1\ntrue: 2\n", "2:1: duplicate key \"true\", first at 1:1");
    check("x: {a: 1, \"a\": 2}", "1:11: duplicate key \"a\", first at 1:5");
    check("<<: {a: 1}\n<<: {b: 1}\n", "2:1: duplicate key <<, first at 1:1");
    let json = yaml::to_json("{\"a\": 1,\n \"a\": 2}").unwrap_err().to_string();
    assert_eq!(json, "<text>:2:2: duplicate key \"a\", first at 1:2");
}

#[test]
fn aliases_have_a_budget() {
    let nine = |name: &str, of: &str| format!("{name}: &{name} [{}]\n", [of; 9].join(","));
    let mut bomb = nine("a", "x");
    for (name, of) in [
        ("b", "*a"),
        ("c", "*b"),
        ("d", "*c"),
        ("e", "*d"),
        ("f", "*e"),
        ("g", "*f"),
        ("h", "*g"),
        ("i", "*h"),
    ] {
        bomb += &nine(name, of);
    }
    let error = yaml::to_json(&bomb).unwrap_err();
    assert_eq!(error.problem, YamlProblem::AliasBudget, "{error}");
    let page = format!("a: &a x\nb: [{}]\n", vec!["*a"; yaml::ALIAS_BUDGET].join(","));
    assert_eq!(
        yaml::to_json(&page).unwrap()["b"].as_array().unwrap().len(),
        yaml::ALIAS_BUDGET
    );
    let over = page.replacen("[*a", "[*a,*a", 1);
    assert_eq!(
        yaml::to_json(&over).unwrap_err().problem,
        YamlProblem::AliasBudget
    );
    let itself = yaml::to_json("a: &a [1, *a]\n").unwrap_err();
    assert_eq!(
        itself.to_string(),
        "<text>:1:11: an alias to a node that contains it"
    );
    // An anchor is only valid in its own document.
    assert!(yaml::documents("f", b"a: &a 1\n---\nb: *a\n").is_err());
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(yaml::to_json(nested(yaml::MAX_DEPTH)).is_ok());
    for text in [
        nested(yaml::MAX_DEPTH + 1),
        "- ".repeat(yaml::MAX_DEPTH + 1) + "x",
        nested(100_000),
        "{\"a\":".repeat(101) + "1" + &"}".repeat(101),
    ] {
        let error = yaml::to_json(&text).unwrap_err().to_string();
        assert!(
            error.contains("nested deeper than 100") || error.contains("recursion limit"),
            "{error}"
        );
    }
    let by_alias = format!(
        "a: &a {}\nb: {}*a{}\n",
        nested(60),
        "[".repeat(60),
        "]".repeat(60)
    );
    assert_eq!(yaml::to_json(by_alias).unwrap_err().problem, YamlProblem::Depth);
}

/// The values of all documents, or the error.
fn documents(text: &[u8]) -> Result<Vec<Value>, String> {
    let documents = yaml::documents("a.yaml", text).map_err(|error| error.to_string())?;
    documents
        .iter()
        .map(|document| document.value().map_err(|error| error.to_string()))
        .collect()
}

#[test]
fn files_of_several_documents() {
    let check = |text: &str, expect: &[Value]| {
        assert_eq!(documents(text.as_bytes()).as_deref(), Ok(expect), "{text:?}");
    };
    check("", &[]);
    check("# only a comment\n", &[]);
    check("---\n---\n\n--- # nothing\n", &[]);
    check("~\n---\nnull\n", &[]);
    check("a: 1\n---\nb: 2\n", &[json!({"a": 1}), json!({"b": 2})]);
    check(
        "---\na: 1\n...\n---\nb: 2\n...\n# end\n",
        &[json!({"a": 1}), json!({"b": 2})],
    );
    check(
        "\u{feff}a: 1\r\nb: |\r\n  x\r\n  y\r\n",
        &[json!({"a": 1, "b": "x\ny\n"})],
    );
    // Concatenated files, each with its byte order mark.
    let two = [json!({"a": 1}), json!({"b": 2})];
    for joined in [
        "a: 1\n---\n\u{feff}b: 2\n",
        "\u{feff}a: 1\r\n---\r\n\u{feff}b: 2\r\n",
        "a: 1\n\u{feff}---\nb: 2\n",
        "\u{feff}---\na: 1\n\u{feff}---\nb: 2\n",
        "a: 1\n---\n# of b\n\n\u{feff}# here\nb: 2\n",
        "{\"a\": 1}\n---\n\u{feff}{\"b\": 2}\n",
    ] {
        check(joined, &two);
    }
    check("a: 1\n---\n\u{feff}", &[json!({"a": 1})]);
    // In a value it is an ordinary character.
    check("a: |\n  x\n  \u{feff}---\n", &[json!({"a": "x\n\u{feff}---\n"})]);
    check("a: |\n  x", &[json!({"a": "x\n"})]);
    check("a: |-\n  x", &[json!({"a": "x"})]);
    check(
        "a: \"50%\"\nb: |\n  %not a directive\n",
        &[json!({"a": "50%", "b": "%not a directive\n"})],
    );
    check(
        "{\"a\": 1.0, \"b\": [true, null, \"\\ud83d\\ude00\", \"yes\", 1e3]}",
        &[json!({"a": 1, "b": [true, null, "😀", "yes", 1000]})],
    );
    check("{\"a\": 1}\n{\"b\": 2}\n", &[json!({"a": 1}), json!({"b": 2})]);
    check("a: 'x\ty'\n", &[json!({"a": "x\ty"})]);
}

#[test]
fn texts_that_are_refused_say_where() {
    let check = |text: &[u8], expect: &str| {
        let error = documents(text).expect_err(&String::from_utf8_lossy(text));
        assert!(
            error.starts_with(&format!("a.yaml:{expect}")),
            "{}: {error}",
            text.escape_ascii()
        );
    };
    check(b"a: 1\nb: \xff\n", "2:4: not UTF-8");
    check(b"\xff\xfea\0", "1:1: UTF-16; save the file as UTF-8");
    check(b"a: x\x07\n", "1:5: character U+0007 is not allowed");
    check(
        "a: x\u{2028}y\n".as_bytes(),
        "1:5: character U+2028 is not allowed",
    );
    check(b"%YAML 1.2\n---\na: 1\n", "1:1: directives");
    check("a: 1\n---\n\u{feff}%YAML 1.2\n".as_bytes(), "3:1: directives");
    check("a: 1\n---\n# b\n\u{feff}b: [\n".as_bytes(), "5:1: ");
    check("a: 1\n\u{feff}--- b\n".as_bytes(), "2:1: ");
    check(b"a: 1\n...\n%TAG ! tag:x,2020:\n---\nb: 1\n", "3:1: directives");
    check(
        b"a: 1\n...\nb: 2\n",
        "3:1: text after the end of the document; start it with ---",
    );
    check(b"a:\n\tb: 1\n", "2:2: tabs disallowed");
    check(b"a: [1, 2\n", "2:1: ");
    check(b"a: 1\n b: 2\n", "2:3: ");
    check(b"a: \"\\/\n", "1:");
    check(b"a: *nothing\n", "1:4: while parsing node, found unknown anchor");
    check(
        b"{\"a\": 1}\n{\"b\": 2}\n{\"c\": 3 4}\n",
        "3:9: `,` or `}` is expected",
    );
    check(b"key: a: b\n", "1:7: ");
}

#[test]
fn one_document_is_wanted_where_json_is() {
    assert_eq!(yaml::to_json("").unwrap(), Value::Null);
    let error = yaml::to_json("a: 1\n---\nb: 2\n").unwrap_err().to_string();
    assert_eq!(error, "<text>:3:1: a second document where only one is expected");
}
