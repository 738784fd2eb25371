//! Promise: selectors match as in Kubernetes, and an invalid one is reported precisely.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use muster_api::selector::Matcher;
use serde_json::{Value, json};

fn matcher(selector: Value) -> Result<Matcher, String> {
    let selector: LabelSelector = serde_json::from_value(selector).unwrap();
    Matcher::new(Some(&selector)).map_err(|error| error.to_string())
}

fn labels(text: &str) -> BTreeMap<String, String> {
    text.split_whitespace()
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn what_is_selected() {
    let check = |selector: Value, text: &str, expect: bool| {
        assert_eq!(
            matcher(selector.clone()).unwrap().matches(&labels(text)),
            expect,
            "{selector} of {text:?}"
        );
    };
    let is = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
    check(json!({}), "", true);
    check(json!({}), "a=1", true);
    check(json!({ "matchLabels": { "env": "prod" } }), "env=prod a=1", true);
    check(json!({ "matchLabels": { "env": "prod" } }), "env=dev", false);
    check(json!({ "matchLabels": { "env": "prod" } }), "", false);
    check(json!({ "matchLabels": { "env": "" } }), "env=", true);
    check(is("env", "In", &["prod", "dev"]), "env=dev", true);
    check(is("env", "In", &["prod"]), "env=dev", false);
    check(is("env", "In", &["prod"]), "", false);
    check(is("env", "NotIn", &["prod"]), "env=dev", true);
    check(is("env", "NotIn", &["prod"]), "env=prod", false);
    check(is("env", "NotIn", &["prod"]), "", true);
    check(is("env", "Exists", &[]), "env=", true);
    check(is("env", "Exists", &[]), "a=1", false);
    check(is("env", "DoesNotExist", &[]), "a=1", true);
    check(is("env", "DoesNotExist", &[]), "env=x", false);
    let both = json!({
        "matchLabels": { "env": "prod" },
        "matchExpressions": [{ "key": "example.com/region", "operator": "NotIn", "values": ["us"] }],
    });
    check(both.clone(), "env=prod example.com/region=eu", true);
    check(both.clone(), "env=prod example.com/region=us", false);
    check(both, "env=dev example.com/region=eu", false);
}

#[test]
fn absent_is_nothing_and_empty_is_everything() {
    let absent = Matcher::new(None).unwrap();
    assert!(absent.selects_none() && !absent.selects_all() && !absent.matches(&labels("a=1")));
    let empty = matcher(json!({ "matchLabels": {}, "matchExpressions": [] })).unwrap();
    assert!(empty.selects_all() && !empty.selects_none() && empty.matches(&labels("")));
    assert!(
        !matcher(json!({ "matchLabels": { "a": "1" } }))
            .unwrap()
            .selects_all()
    );
}

#[test]
fn what_is_said_about_bad_ones() {
    let is = |key: &str, operator: &str, values: Value| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
    let bad = [
        is("env", "in", json!(["prod"])),
        is("env", "In", json!([])),
        is("env", "NotIn", json!(null)),
        is("env", "Exists", json!(["prod"])),
        is("-env", "Exists", json!([])),
        is("a/b/c", "Exists", json!([])),
        is("Example.com/env", "Exists", json!([])),
        is("", "Exists", json!([])),
        is("env", "In", json!(["a b"])),
        json!({ "matchLabels": { "env": "x".repeat(64) } }),
    ];
    let errors: Vec<String> = bad
        .into_iter()
        .map(|selector| matcher(selector).unwrap_err())
        .collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    operator "in" of key "env" does not exist: use In, NotIn, Exists or DoesNotExist
    operator In of key "env" needs values: list at least one, or use Exists or DoesNotExist
    operator NotIn of key "env" needs values: list at least one, or use Exists or DoesNotExist
    operator Exists of key "env" takes no values: remove them, or use In or NotIn
    key "-env" is not a valid label key: use letters, digits, hyphens, underscores and dots, with a letter or digit at both ends
    key "a/b/c" is not a valid label key: use at most one slash, between a DNS subdomain and a name
    key "Example.com/env" is not a valid label key: use lower-case letters, digits, hyphens and dots, with a letter or digit at both ends of each part
    key "" is not a valid label key: it is empty
    value "a b" of key "env" is not a valid label value: use letters, digits, hyphens, underscores and dots, with a letter or digit at both ends
    value "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" of key "env" is not a valid label value: it has 64 bytes, at most 63 are allowed
    "#);
}
