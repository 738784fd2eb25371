//! Expressions: results that match Flux, rejected expressions, and limits of evaluation.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{sync::Arc, time::Duration};

use muster_health::{EvaluationError, Expressions, Field, Problem, Stop, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};

/// A case of `e2e/fixtures/healthexprs`.
#[derive(Deserialize)]
struct Case {
    name: String,
    expressions: Texts,
    object: String,
    status: Option<String>,
    invalid: Option<String>,
    error: Option<String>,
    ours: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Texts {
    current: String,
    in_progress: Option<String>,
    failed: Option<String>,
}

fn parse(texts: &Texts) -> Result<Expressions, muster_health::ParseError> {
    Expressions::parse(
        &texts.current,
        texts.in_progress.as_deref(),
        texts.failed.as_deref(),
    )
}

fn evaluate(case: &Case, object: &Value) -> (String, String) {
    let expressions = match parse(&case.expressions) {
        Ok(expressions) => expressions,
        Err(error) => return ("invalid".into(), error.to_string()),
    };
    match expressions.evaluate(object, &Stop::default()) {
        Ok(Verdict::Current) => ("Current".into(), String::new()),
        Ok(Verdict::Failed) => ("Failed".into(), String::new()),
        Ok(Verdict::InProgress | Verdict::NotCurrent | Verdict::NotObserved) => {
            ("InProgress".into(), String::new())
        }
        Err(error) => ("error".into(), error.to_string()),
    }
}

#[test]
fn the_same_as_flux() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("fixtures/flux/expressions.json")).unwrap();
    let objects: Value = serde_json::from_str(include_str!("fixtures/flux/objects.json")).unwrap();
    assert!(cases.len() > 300, "{}", cases.len());
    let mut others = Vec::new();
    for case in cases {
        let flux = match (&case.invalid, &case.error, &case.status) {
            (Some(_), _, _) => "invalid".to_owned(),
            (_, Some(_), _) => "error".to_owned(),
            (_, _, status) => status.clone().unwrap(),
        };
        let expect = case.ours.clone().unwrap_or(flux);
        let (got, message) = evaluate(&case, &objects[&case.object]);
        if got != expect {
            let flux = case.invalid.or(case.error).unwrap_or_default();
            others.push(format!("{}: {got} {message:?}, not {expect} {flux:?}", case.name));
        }
    }
    assert!(others.is_empty(), "{}:\n{}", others.len(), others.join("\n"));
}

fn refused(current: &str, expect: &Problem) {
    let error = Expressions::parse(current, None, None).unwrap_err();
    assert_eq!(error.problem, *expect, "{current}");
    assert_eq!(error.field, Field::Current);
    assert!(error.to_string().len() < 2 * muster_health::MAX_LENGTH, "{error}");
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    let nested =
        |open: &str, close: &str, times: usize| format!("{}true{}", open.repeat(times), close.repeat(times));
    refused("", &Problem::Empty);
    refused(&" ".repeat(1025), &Problem::TooLong(1025));
    refused(&"é".repeat(513), &Problem::TooLong(1026));
    Expressions::parse(&format!("true{}", " ".repeat(1020)), None, None).unwrap();
    Expressions::parse(&nested("(", ")", 32), None, None).unwrap();
    Expressions::parse(&nested("!(", ")", 31), None, None).unwrap();
    Expressions::parse(
        "'((((((((((((((((((((((((((((((((((((((((((' == \"[[[[[\"",
        None,
        None,
    )
    .unwrap();
    Expressions::parse("true // ((((((((((((((((((((((((((((((((((((((((((", None, None).unwrap();
    Expressions::parse(&vec!["true"; 100].join(" && "), None, None).unwrap();
    for deep in [
        nested("(", ")", 500),
        nested("[", "]", 33),
        nested("!(", ")", 40),
        "(".repeat(1024),
        "true ? ".repeat(140) + "true",
        "true ? true : ".repeat(70) + "true",
        format!("a{}", ".a".repeat(500)),
        format!("1{}", "+1".repeat(400)),
    ] {
        let error = Expressions::parse(&deep, None, None).unwrap_err();
        assert!(
            matches!(error.problem, Problem::TooDeep | Problem::Syntax(_)),
            "{deep}: {error}"
        );
    }
    let loops = "[1].all(a, [1].all(b, [1].map(c, c).size() == 1))";
    refused(loops, &Problem::TooManyComprehensions);
    Expressions::parse(
        "[1].map(a, a).map(a, a).filter(a, [1].all(b, b == a)).all(a, true)",
        None,
        None,
    )
    .unwrap();
    refused(
        "status.quantity() == 1",
        &Problem::UnknownFunction("quantity".into()),
    );
    refused("sets.all([1]) == 1", &Problem::UnknownFunction("sets.all".into()));
    refused("a.B{c: 1} == 1", &Problem::Message);
    refused(
        "status.phase ==",
        &Problem::Syntax("1:16: mismatched input '<EOF>'".into()),
    );
    let failed = Expressions::parse("true", None, Some("(")).unwrap_err();
    assert_eq!(failed.field, Field::Failed);
}

fn error_of(current: &str, object: &Value) -> String {
    let expressions = Expressions::parse(current, None, None).unwrap();
    expressions
        .evaluate(object, &Stop::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn what_is_no_boolean_is_named_without_its_value() {
    let object = json!({ "status": { "phase": "secret", "n": "secret", "list": [1] } });
    for (current, expect) in [
        (
            "status.phase",
            "current \"status.phase\" is of type string, not bool",
        ),
        ("status.list", "current \"status.list\" is of type list, not bool"),
        ("status.a", "current \"status.a\": no such key: a"),
        ("spec.a", "current \"spec.a\": no such attribute: spec"),
        (
            "int(status.n) == 1",
            "current \"int(status.n) == 1\": int: the string cannot be converted",
        ),
        (
            "status.phase < 1",
            "current \"status.phase < 1\": _<_ is not defined for values of these types",
        ),
        (
            "{'a': 1}[status.phase] == 1",
            "current \"{'a': 1}[status.phase] == 1\": no such key, or index out of bounds",
        ),
    ] {
        assert_eq!(error_of(current, &object), expect);
    }
}

#[test]
fn what_makes_too_much_ends() {
    let object = json!({ "status": { "text": "x".repeat(1024 * 1024) } });
    let double = "(status.text".to_owned() + "+status.text".repeat(20).as_str() + ").size() > 0";
    for current in [
        double.as_str(),
        "status.text.replace('', status.text).size() > 0",
        "status.text.split('').map(a, status.text).join().size() > 0",
        "'%.999999999f'.format([1.0]) == ''",
    ] {
        let error = error_of(current, &object);
        assert!(error.contains("makes more than 16 MiB"), "{error}");
    }
}

#[tokio::test]
async fn what_never_ends_is_stopped() {
    let list: Vec<usize> = (0..200_000).collect();
    let object = json!({ "status": { "list": list } });
    for current in [
        "status.list.all(a, status.list.all(b, a + b >= 0))",
        "status.list.all(a, !(-1 in status.list))",
        "sets.contains(status.list, status.list.map(a, a + 1))",
    ] {
        let expressions = Arc::new(Expressions::parse(current, None, None).unwrap());
        let deadline = Duration::from_millis(50);
        let judged = Arc::clone(&expressions).judge(object.clone(), deadline).await;
        assert_eq!(judged, Err(EvaluationError::TooSlow(deadline)));
        // The worker releases them when it ends.
        while Arc::strong_count(&expressions) > 1 {
            tokio::task::yield_now().await;
        }
    }
}

/// Usual expressions read a status of one mebibyte within the time limit.
#[tokio::test]
async fn large_statuses() {
    let condition =
        |index: usize| json!({ "type": format!("T{index}"), "status": "True", "message": "m".repeat(200) });
    let conditions: Vec<Value> = (0..4_500).map(condition).collect();
    let object = json!({ "status": { "conditions": conditions } });
    assert!(object.to_string().len() > 1024 * 1024);
    let expressions = Expressions::parse(
        "status.conditions.filter(c, c.type == 'T4499').all(c, c.status == 'True') && status.conditions.map(c, c.type).size() == 4500",
        None,
        Some("status.conditions.exists(c, c.status == 'False')"),
    );
    let judged = Arc::new(expressions.unwrap())
        .judge(object, muster_health::DEADLINE * 10)
        .await;
    assert_eq!(judged, Ok(Verdict::Current));
}
