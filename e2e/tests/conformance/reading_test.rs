//! Promise: the runner resolves references, and applies the equalities that the README defines.

use serde_json::{Value, json};

use crate::{
    matcher::{Rules, differences},
    reader,
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

/// Rules, `expect`, `safer`, the answer, and whether it must match.
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
        // What `safer` leaves unchanged frees no dependent keys.
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

/// Steps are compared in full, whichever of them has the key; keys without a counterpart in the product are not
/// compared.
#[test]
fn steps_are_as_the_ones_before() {
    let rules = Rules {
        carried: true,
        safer_alone: true,
        wording: &["message"],
        without: &["log"],
        ..Rules::EXACT
    };
    let steps = |first: Value, second: Value| json!({"after": [first, second]});
    let expect = steps(
        json!({"a": 1, "log": ["x"], "written": [1]}),
        json!({"log": ["y"]}),
    );
    let safer = |value: Value| Some(json!({"after": [value]}));
    compared(vec![
        (
            rules,
            expect.clone(),
            None,
            steps(json!({"a": 1, "written": [1]}), json!({"a": 1})),
            true,
        ),
        (
            rules,
            expect.clone(),
            None,
            steps(json!({"a": 1, "written": [1]}), json!({"a": 2})),
            false,
        ),
        (
            rules,
            expect.clone(),
            None,
            steps(json!({"a": 1, "written": [1]}), json!({"written": [1]})),
            false,
        ),
        // An answer with a translation.
        (
            rules,
            expect.clone(),
            safer(json!({"step": 1, "b": 1, "message": "no"})),
            json!({"after": [], "~safer": steps(json!({"step": 0, "b": 1}), json!({"step": 1, "message": "never"}))}),
            true,
        ),
        (
            rules,
            expect,
            safer(json!({"step": 1, "b": 1, "message": "no"})),
            json!({"after": [], "~safer": steps(json!({"step": 0, "b": 1}), json!({"step": 1, "message": ""}))}),
            false,
        ),
    ]);
}

/// Deviations name keys, or paths without the indexes of steps.
#[test]
fn a_difference_is_under_its_paths() {
    let (expect, answer) = (
        json!({"after": [{"a": {"b": 1}}]}),
        json!({"after": [{"a": {"b": 2}}]}),
    );
    let found = differences(&expect, None, &answer, &Rules::EXACT);
    for (at, is_under) in [
        ("after", true),
        ("after.a", true),
        ("after.a.b", true),
        ("after.a.bc", false),
        ("a", false),
        ("aft", false),
    ] {
        assert_eq!(found[0].is_under(at), is_under, "{at}: {}", found[0].text);
    }
}

#[test]
fn a_panic_of_the_original_is_a_refusal() {
    let rules = Rules {
        follows: &[("answers", &["count"])],
        ..Rules::EXACT
    };
    let expect = json!({"answers": [{"allowed": false, "panics": "nil"}], "count": 0, "more": 1});
    let answer = |allowed: bool, more: i64| json!({"answers": [{"allowed": allowed, "code": 500}], "count": 1, "more": more});
    compared(vec![
        (rules, expect.clone(), None, answer(false, 1), true),
        (rules, expect.clone(), None, answer(true, 1), false),
        (rules, expect, None, answer(false, 2), false),
        (
            RULES,
            json!({"panics": "nil"}),
            None,
            json!({"status": 400}),
            true,
        ),
        (
            RULES,
            json!({"panics": "nil"}),
            None,
            json!({"status": 200}),
            false,
        ),
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
        // In kudo, the steps are the complete `safer`, and the answer has no number.
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
