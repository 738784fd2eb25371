//! Promise: the runner itself: what it reads, what it takes for equal, what it counts, when it fails.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    deviations,
    matcher::{Rules, differences},
    reader,
    registry::{Input, System, Table, not_applicable, product},
    run::{Counts, Report, Settings, run},
};

fn case(objects: &Value, input: &Value) -> anyhow::Result<Value> {
    let file = json!({"objects": objects, "cases": [{"name": "a", "input": input, "expect": {}}]});
    Ok(reader::parse(&file.to_string())?.cases.remove(0).input)
}

#[test]
fn references_are_resolved_and_patched() {
    let objects = json!({
        "pod": {"name": "a", "labels": {"x": "1", "y": "2"}, "ports": [1, 2]},
        "ready": {"$ref": "pod", "$patch": {"ready": true}},
        "pods": [{"$ref": "ready"}, {"$o": "pod"}],
    });
    let table = [
        (
            json!({"$ref": "pod"}),
            json!({"name": "a", "labels": {"x": "1", "y": "2"}, "ports": [1, 2]}),
        ),
        (
            json!([{"$ref": "ready", "$patch": {"labels": {"x": null, "z": "3"}, "ports": [3]}}]),
            json!([{"name": "a", "labels": {"y": "2", "z": "3"}, "ports": [3], "ready": true}]),
        ),
        (
            json!({"$ref": "pods", "$patch": {"name": "b"}}),
            json!({"name": "b"}),
        ),
        (
            json!({"in": {"$ref": "pods"}})["in"].clone(),
            json!([
                {"name": "a", "labels": {"x": "1", "y": "2"}, "ports": [1, 2], "ready": true},
                {"name": "a", "labels": {"x": "1", "y": "2"}, "ports": [1, 2]},
            ]),
        ),
    ];
    for (input, expected) in table {
        assert_eq!(case(&objects, &input).unwrap(), expected, "{input}");
    }
}

#[test]
fn what_is_unknown_is_an_error() {
    let objects = json!({"a": {"$ref": "b"}, "b": {"$ref": "a"}});
    for (input, words) in [
        (json!({"$ref": "c"}), "unknown reference \"c\""),
        (json!({"$ref": "a"}), "circle"),
        (json!({"$ref": "a", "more": 1}), "\"more\" beside a reference"),
        (json!({"$else": "a"}), "unknown reference \"$else\""),
        (json!({"$ref": 1}), "one key of objects"),
    ] {
        let error = case(&objects, &input).unwrap_err();
        assert!(format!("{error:#}").contains(words), "{input}: {error:#}");
    }
    for text in [
        r#"{"cases": [], "more": 1}"#,
        r#"{"cases": [{"name": "a", "input": 1, "expect": 1, "more": 1}]}"#,
        r#"{"cases": [{"name": "a", "input": 1, "expect": 1, "safer": {"expect": 1, "why": "", "more": 1}}]}"#,
        r#"{"cases": [{"name": "a", "input": 1, "expect": 1}, {"name": "a", "input": 1, "expect": 1}]}"#,
    ] {
        assert!(reader::parse(text).is_err(), "{text}");
    }
}

const RULES: Rules = Rules {
    unordered: &["set"],
    wording: &["cause"],
    follows: &[("allowed", &["message", "posts"])],
    ..Rules::EXACT
};

const ALONE: Rules = Rules {
    safer_alone: true,
    ..Rules::EXACT
};

/// Rules, `expect`, `safer`, the answer, and whether it is good.
type Compared = (Rules, Value, Option<Value>, Value, bool);

fn compared(table: Vec<Compared>) {
    for (rules, expect, safer, answer, good) in table {
        let found = differences(&expect, safer.as_ref(), &answer, &rules);
        assert_eq!(found.is_empty(), good, "{expect} {safer:?} {answer}: {found:?}");
    }
}

#[test]
fn without_safer_all_is_exact() {
    compared(vec![
        (
            RULES,
            json!({"a": 1}),
            None,
            json!({"a": 1.0, "b": [], "c": {}, "~d": 4}),
            true,
        ),
        (RULES, json!({"a": 1, "b": []}), None, json!({"a": 1}), true),
        (RULES, json!({"a": 1}), None, json!({"a": 2}), false),
        (RULES, json!({"a": 1}), None, json!({"a": "1"}), false),
        (RULES, json!({"a": 1}), None, json!({"a": 1, "b": false}), false),
        (RULES, json!({"a": 1, "b": "x"}), None, json!({"a": 1}), false),
        (RULES, json!({"a": [1, 2]}), None, json!({"a": [2, 1]}), false),
        (RULES, json!({"set": [1, 2]}), None, json!({"set": [2, 1]}), true),
        (RULES, json!({"set": [1, 2]}), None, json!({"set": [2, 2]}), false),
        (
            RULES,
            json!({"in": {"cause": "x"}}),
            None,
            json!({"in": {"cause": "y"}}),
            true,
        ),
        (
            RULES,
            json!({"in": {"cause": "x"}}),
            None,
            json!({"in": {}}),
            false,
        ),
        (
            RULES,
            json!({"in": {}}),
            None,
            json!({"in": {"cause": "y"}}),
            false,
        ),
        (
            RULES,
            json!({"a": "x is of the type int64"}),
            None,
            json!({"a": "x is a number"}),
            true,
        ),
        (
            RULES,
            json!({"a": "x is of the type int64"}),
            None,
            json!({}),
            false,
        ),
        (RULES, json!("yes"), None, json!("yes"), true),
        (RULES, json!(null), None, json!(true), false),
        (RULES, json!("any"), None, json!("x"), false),
    ]);
}

#[test]
fn safer_replaces_what_it_names_and_what_follows() {
    let expect = json!({"allowed": true, "message": "fine", "posts": ["a"], "writes": []});
    let safer = |value: Value| Some(value);
    compared(vec![
        (
            RULES,
            expect.clone(),
            safer(json!({"allowed": false})),
            json!({"allowed": false, "message": "no"}),
            true,
        ),
        (
            RULES,
            expect.clone(),
            safer(json!({"allowed": false})),
            expect.clone(),
            false,
        ),
        (
            RULES,
            expect.clone(),
            safer(json!({"allowed": false})),
            json!({"allowed": false, "writes": [1]}),
            false,
        ),
        // What `safer` leaves as it was frees nothing else.
        (
            RULES,
            expect.clone(),
            safer(json!({"allowed": true})),
            json!({"allowed": true, "message": "other", "posts": ["a"]}),
            false,
        ),
        (
            RULES,
            expect.clone(),
            safer(json!({"posts": []})),
            json!({"allowed": true, "message": "fine"}),
            true,
        ),
        (
            ALONE,
            expect.clone(),
            safer(json!({"allowed": true})),
            json!({"allowed": true, "writes": [1]}),
            true,
        ),
        (RULES, json!(true), safer(json!(false)), json!(false), true),
        (RULES, json!(["x"]), safer(json!([])), json!(["x"]), false),
    ]);
}

#[test]
fn operators_of_values() {
    let one = |safer: Value, answer: Value, good: bool| (ALONE, json!({}), Some(safer), answer, good);
    compared(vec![
        one(json!({"x": "any"}), json!({"x": false}), true),
        one(json!({"x": "any"}), json!({}), false),
        one(json!({"x": "nonzero"}), json!({"x": -1}), true),
        one(json!({"x": "nonzero"}), json!({"x": 0}), false),
        one(json!({"x": "at most 4"}), json!({"x": 4}), true),
        one(json!({"x": "at most 4"}), json!({"x": 5}), false),
        one(json!({"x": "at most 4"}), json!({}), false),
        one(
            json!({"error": "some words"}),
            json!({"error": "other words"}),
            true,
        ),
        one(json!({"error": "some words"}), json!({"error": null}), false),
        one(json!({"error": null}), json!({"error": "words"}), false),
        one(
            json!({"messageContains": ["a", "b"]}),
            json!({"message": "b and a"}),
            true,
        ),
        one(
            json!({"messageContains": ["a", "b"]}),
            json!({"message": "a"}),
            false,
        ),
        one(json!({"logMustNotContain": ["a"]}), json!({"log": ["b"]}), true),
        one(
            json!({"logMustNotContain": ["a"]}),
            json!({"log": ["xax"]}),
            false,
        ),
        one(
            json!({"calls": ["a", "b"]}),
            json!({"calls": ["a", "x", "b"]}),
            true,
        ),
        one(json!({"calls": ["a", "b"]}), json!({"calls": ["b", "a"]}), false),
    ]);
}

#[test]
fn operators_of_steps() {
    let answer = json!({"after": [
        {"step": 0, "passes": 2, "calls": ["apply b", "apply a"]},
        {"step": 1, "passes": 2, "calls": ["apply c"], "more": true},
    ]});
    let one = |step: Value, good: bool| {
        (
            ALONE,
            json!({}),
            Some(json!({"after": [step]})),
            answer.clone(),
            good,
        )
    };
    compared(vec![
        one(json!({"step": 1, "passes": "as in step 0"}), true),
        one(json!({"step": 1, "calls": ["apply c"]}), true),
        one(json!({"step": 1, "passes": 3}), false),
        one(json!({"step": 2, "passes": 2}), false),
        one(json!({"step": 0, "contains": ["apply a"]}), true),
        one(json!({"step": 0, "contains": ["apply a", "apply b"]}), false),
        one(json!({"step": 0, "mustNotContain": ["apply c"]}), true),
        one(json!({"step": 1, "mustNotContain": ["apply c"]}), false),
        // kudo has the steps as the whole of `safer`, and no number in the answer.
        (
            ALONE,
            json!([]),
            Some(json!([{"step": 1, "a": {"b": 1}}])),
            json!([{}, {"a": {"b": 1, "c": 2}}]),
            true,
        ),
        (
            ALONE,
            json!([]),
            Some(json!([{"step": 1, "a": {"b": 1}}])),
            json!([{}, {"a": {}}]),
            false,
        ),
    ]);
}

#[test]
fn operators_of_pods_and_writes() {
    let one = |safer: Value, answer: Value, good: bool| (Rules::EXACT, json!({}), Some(safer), answer, good);
    let within = || json!({"deletedPodsWithin": ["z-a-0", "z-a-1", "z-b-0"]});
    let some = || json!({"deletedPodsSome": ["z-a-0", "z-b-0"]});
    let passes = |third: Value| json!({"passes": [{}, {"deletedPods": ["z-a-0"]}, third]});
    let from = |expect: Value, answer: Value, good: bool| {
        let safer = json!({"fromPass": 2, "deletedPods": ["z-a-1"]});
        (Rules::EXACT, expect, Some(safer), answer, good)
    };
    compared(vec![
        one(within(), json!({}), true),
        one(within(), json!({"deletedPods": ["z-a-0", "z-a-1"]}), true),
        one(within(), json!({"deletedPods": ["z-a-0", "z-b-0"]}), false),
        one(within(), json!({"deletedPods": ["z-a-2"]}), false),
        one(some(), json!({"deletedPods": ["z-b-0"]}), true),
        one(some(), json!({}), false),
        one(some(), json!({"deletedPods": ["z-b-0", "z-b-1"]}), false),
        one(
            json!({"noWriteTo": "sets/a"}),
            json!({"writes": [{"target": "sets/b"}]}),
            true,
        ),
        one(
            json!({"noWriteTo": "sets/a"}),
            json!({"writes": [{"target": "sets/a"}]}),
            false,
        ),
        one(
            json!({"recordedKeeps": ["a"]}),
            json!({"recorded": {"a": "{12:00}"}, "~ownTimes": {"a": "12:00"}}),
            true,
        ),
        one(
            json!({"recordedKeeps": ["a"]}),
            json!({"recorded": {"a": "{11:00}"}, "~ownTimes": {"a": "12:00"}}),
            false,
        ),
        one(json!({"recordedKeeps": ["a"]}), json!({"recorded": {}}), false),
        one(
            json!({"configMapKeeps": ["a"]}),
            json!({"~configMap": {"a": "x"}}),
            true,
        ),
        one(
            json!({"configMapKeeps": ["a"]}),
            json!({"configMap": {"b": "x"}}),
            false,
        ),
        one(
            json!({"answers": {"x": true, "y": false}}),
            json!({"answers": [{"id": "y", "allowed": false}, {"id": "x", "allowed": true}]}),
            true,
        ),
        one(
            json!({"answers": {"x": true}}),
            json!({"answers": [{"id": "x", "allowed": false}]}),
            false,
        ),
        one(json!({"refused": true}), json!({"error": "no"}), true),
        one(json!({"refused": true}), json!({"name": "x"}), false),
        from(
            passes(json!({"deletedPods": ["z-b-0"]})),
            passes(json!({"deletedPods": ["z-a-1"], "patches": [1]})),
            true,
        ),
        from(
            passes(json!({})),
            passes(json!({"deletedPods": ["z-b-0"]})),
            false,
        ),
        from(
            json!({"passes": [{"deletedPods": ["x"]}, {}, {}]}),
            passes(json!({"deletedPods": ["z-a-1"]})),
            false,
        ),
    ]);
}

/// Answers `a` and `b` of the input as they are, `sum` as their sum.
fn echo(input: &Input<'_>) -> anyhow::Result<Value> {
    let value = input.value;
    anyhow::ensure!(value["refuse"].is_null(), "refused");
    assert!(value["panic"].is_null(), "as asked");
    Ok(json!({"a": value["a"], "b": value["b"], "now": input.now}))
}

const TABLES: &[Table] = &[
    Table {
        rules: Rules {
            identity: &["a"],
            ..Rules::EXACT
        },
        ..product("echo.json", "echo", echo)
    },
    not_applicable("other.json", "nothing of ours"),
];

const SYSTEMS: &[System] = &[
    System {
        folder: "built",
        tables: Some(&[TABLES]),
    },
    System {
        folder: "later",
        tables: None,
    },
];

fn written(folder: &Path, file: &str, cases: &Value) {
    let file = folder.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, json!({"cases": cases}).to_string()).unwrap();
}

fn settings(folder: &Path, rules: &str) -> Settings {
    Settings {
        folder: folder.to_owned(),
        home: folder.to_owned(),
        required: false,
        only: String::new(),
        deviations: deviations::parse(rules).unwrap(),
    }
}

fn ran(settings: &Settings) -> Report {
    run(settings, SYSTEMS).unwrap()
}

fn plain(name: &str, a: i64, expected: i64) -> Value {
    json!({"name": name, "input": {"a": a}, "expect": {"a": expected}})
}

#[test]
fn cases_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let cases = json!([
        plain("equal", 1, 1),
        plain("failed", 1, 2),
        {"name": "safer", "input": {"a": 1}, "expect": {"a": 2}, "safer": {"expect": {"a": 1}, "why": ""}},
        {"name": "not safer", "input": {"a": 2}, "expect": {"a": 2}, "safer": {"expect": {"a": 1}, "why": ""}},
        {"name": "an error", "input": {"refuse": true}, "expect": {}},
        {"name": "a panic", "input": {"panic": true}, "expect": {}},
        {"name": "same", "input": {"a": 1}, "expect": {"a": 1}, "sameAs": "equal"},
        {"name": "not the same", "input": {"a": 3}, "expect": {"a": 3}, "sameAs": "equal"},
        {"name": "not different", "input": {"a": 1}, "expect": {"a": 1}, "differsFrom": "equal"},
        {"name": "compared with nothing", "input": {"a": 1}, "expect": {"a": 1}, "sameAs": "elsewhere"},
    ]);
    written(folder.path(), "built/echo.json", &cases);
    written(
        folder.path(),
        "built/other.json",
        &json!([plain("x", 1, 2), plain("y", 1, 2)]),
    );
    written(folder.path(), "later/any.json", &json!([]));
    let report = ran(&settings(folder.path(), ""));
    let expected = Counts {
        equal: 3,
        safer: 1,
        not_applicable: 2,
        failed: 6,
        ..Counts::default()
    };
    assert_eq!(report.total, expected, "{report}");
    let printed = report.to_string();
    for line in [
        "built/echo.json: 3 equal, 1 safer, 0 deviating, 0 not applicable, 6 failed (echo)",
        "built/other.json: 0 equal, 0 safer, 0 deviating, 2 not applicable, 0 failed (nothing of ours)",
        "later: not built",
        "FAILED  built/echo.json: failed",
        "    a: expected 2, got 1",
        "    panicked: as asked",
        "built/echo.json: \"elsewhere\" is in neither folder, not compared",
    ] {
        assert!(
            printed.lines().any(|printed| printed == line),
            "{line} in:\n{printed}"
        );
    }
}

#[test]
fn what_is_not_known_fails() {
    for file in ["built/unknown.json", "unknown/echo.json"] {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), file, &json!([]));
        assert_eq!(ran(&settings(folder.path(), "")).total.failed, 1, "{file}");
    }
    let folder = tempfile::tempdir().unwrap();
    written(
        folder.path(),
        "built/other.json",
        &json!([{"name": "a", "input": 1}]),
    );
    assert_eq!(
        ran(&settings(folder.path(), "")).total.failed,
        1,
        "a case without expect"
    );
}

#[test]
fn a_folder_of_one_system_is_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "built/echo.json", &json!([plain("equal", 1, 1)]));
    assert_eq!(ran(&settings(&folder.path().join("built"), "")).total.equal, 1);
}

#[test]
fn a_missing_folder_fails_where_it_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&folder.path().join("away"), "");
    let report = ran(&settings);
    assert!(
        report.good() && report.to_string().contains("not run"),
        "{report}"
    );
    settings.required = true;
    assert!(!ran(&settings).good());
}

#[test]
fn a_case_that_others_name_is_found_at_home() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let case = json!([{"name": "same", "input": {"a": 2}, "expect": {"a": 2}, "sameAs": "equal"}]);
    written(folder.path(), "built/echo.json", &case);
    written(home.path(), "built/echo.json", &json!([plain("equal", 1, 1)]));
    let mut settings = settings(folder.path(), "");
    settings.home = home.path().to_owned();
    assert_eq!(ran(&settings).total.failed, 1);
}

#[test]
fn deviations_are_rules_over_the_input() {
    let rule = |when: &str, differs: &str| {
        format!(
            "[[deviation]]\nsystem = 'built'\nfile = 'echo.json'\nwhen = '{when}'\ndiffers = ['{differs}']\nreason = 'why'\n"
        )
    };
    let two = Counts {
        equal: 1,
        deviating: 1,
        ..Counts::default()
    };
    let failed = |equal, failed| Counts {
        equal,
        failed,
        ..Counts::default()
    };
    let table = [
        (rule("input.a == 5", "a"), two),
        // A field that is not there is no error, and the rule then fits no case.
        (rule("input.b.c == 5", "a"), failed(1, 2)),
        (rule("input.a == 5", "b"), failed(1, 2)),
        (rule("input.a == 1", "a"), failed(1, 2)),
        (String::new(), failed(1, 1)),
    ];
    for (rules, expected) in table {
        let folder = tempfile::tempdir().unwrap();
        written(
            folder.path(),
            "built/echo.json",
            &json!([plain("one", 1, 1), plain("five", 5, 6)]),
        );
        let report = ran(&settings(folder.path(), &rules));
        assert_eq!(report.total, expected, "{rules}\n{report}");
    }
    for bad in [
        rule("input.a ==", "a"),
        rule("true", "a").replace("'why'", "''"),
        rule("true", "a").replace("['a']", "[]"),
        rule("true", "a") + "name = 'five'\n",
    ] {
        assert!(deviations::parse(&bad).is_err(), "{bad}");
    }
}

#[test]
fn rules_of_deviation_have_to_fit_at_home_only() {
    let rules = "[[deviation]]\nsystem = 'built'\nfile = 'echo.json'\nwhen = 'input.a == 5'\ndiffers = ['a']\nreason = 'why'\n";
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    written(folder.path(), "built/echo.json", &json!([plain("one", 1, 1)]));
    let mut settings = settings(folder.path(), rules);
    assert!(!ran(&settings).good());
    settings.home = home.path().to_owned();
    assert!(ran(&settings).good());
}
