//! Promise: the runner counts the result of each case, fails on anything unknown, and requires that each deviation rule
//! is used.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    deviations,
    matcher::Rules,
    registry::{Input, System, Table, not_applicable, product},
    run::{Counts, Report, Settings, run},
};

/// Answers `a` and `b` with the input's values, `sum` with their sum.
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
        directory: "built",
        tables: Some(&[TABLES]),
    },
    System {
        directory: "later",
        tables: None,
    },
];

fn written(directory: &Path, file: &str, cases: &Value) {
    let file = directory.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, json!({"cases": cases}).to_string()).unwrap();
}

fn settings(directory: &Path, rules: &str) -> Settings {
    Settings {
        directory: directory.to_owned(),
        home: directory.to_owned(),
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
    let directory = tempfile::tempdir().unwrap();
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
    written(directory.path(), "built/echo.json", &cases);
    written(
        directory.path(),
        "built/other.json",
        &json!([plain("x", 1, 2), plain("y", 1, 2)]),
    );
    written(directory.path(), "later/any.json", &json!([]));
    let report = ran(&settings(directory.path(), ""));
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
        "built/echo.json: \"elsewhere\" is in neither directory, so it is not compared",
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
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), file, &json!([]));
        assert_eq!(ran(&settings(directory.path(), "")).total.failed, 1, "{file}");
    }
    let directory = tempfile::tempdir().unwrap();
    written(
        directory.path(),
        "built/other.json",
        &json!([{"name": "a", "input": 1}]),
    );
    assert_eq!(
        ran(&settings(directory.path(), "")).total.failed,
        1,
        "a case without expect"
    );
}

#[test]
fn a_directory_of_one_system_is_run_alone() {
    let directory = tempfile::tempdir().unwrap();
    written(
        directory.path(),
        "built/echo.json",
        &json!([plain("equal", 1, 1)]),
    );
    assert_eq!(ran(&settings(&directory.path().join("built"), "")).total.equal, 1);
}

#[test]
fn a_missing_directory_fails_where_it_is_required() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(&directory.path().join("away"), "");
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
    let (directory, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let case = json!([{"name": "same", "input": {"a": 2}, "expect": {"a": 2}, "sameAs": "equal"}]);
    written(directory.path(), "built/echo.json", &case);
    written(home.path(), "built/echo.json", &json!([plain("equal", 1, 1)]));
    let mut settings = settings(directory.path(), "");
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
        // A missing field is not an error; the rule then matches no case.
        (rule("input.b.c == 5", "a"), failed(1, 2)),
        (rule("input.a == 5", "b"), failed(1, 2)),
        (rule("input.a == 1", "a"), failed(1, 2)),
        (String::new(), failed(1, 1)),
    ];
    for (rules, expected) in table {
        let directory = tempfile::tempdir().unwrap();
        written(
            directory.path(),
            "built/echo.json",
            &json!([plain("one", 1, 1), plain("five", 5, 6)]),
        );
        let report = ran(&settings(directory.path(), &rules));
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
    let (directory, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    written(directory.path(), "built/echo.json", &json!([plain("one", 1, 1)]));
    let mut settings = settings(directory.path(), rules);
    assert!(!ran(&settings).good());
    settings.home = home.path().to_owned();
    assert!(ran(&settings).good());
}
