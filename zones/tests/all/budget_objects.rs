//! Promise: a ZoneAwarePodDisruptionBudget has the same meaning as in rollout-operator, and is rejected with the same
//! texts.

use std::collections::BTreeMap;

use muster_zones::{
    budget::{Budget, KnownBudgets, Limit, Observed, validate},
    model::{Set, SetStatus},
};
use serde_json::{Value, json};

#[test]
fn a_recreated_budget_replaces_the_previous_one() {
    let budget = |uid: &str, generation: i64, limit: i64| {
        json!({
            "kind": "ZoneAwarePodDisruptionBudget",
            "metadata": {"name": "store", "uid": uid, "generation": generation},
            "spec": {"maxUnavailable": limit, "selector": {"matchLabels": {"a": "b"}}},
        })
    };
    let mut known = KnownBudgets::default();
    assert_eq!(known.put(&budget("one", 4, 1)), Observed::Updated);
    assert_eq!(known.put(&budget("one", 3, 1)), Observed::Ignored);
    assert_eq!(known.put(&budget("one", 5, -1)), Observed::Invalid);
    assert_eq!(known.put(&budget("two", 1, 2)), Observed::Updated);
    assert_eq!(known.delete(&budget("one", 9, 1)), Observed::DeleteIgnored);
    let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    assert_eq!(known.find(&labels).unwrap().unwrap().limit, Limit::Count(2));
    assert_eq!(
        known.find(&BTreeMap::new()).unwrap().map(|budget| &budget.name),
        None
    );
    assert_eq!(known.delete(&budget("two", 1, 2)), Observed::Deleted);
    assert_eq!(known.iter().count(), 0);
}

#[test]
fn percentages_are_of_pods_that_are_both_desired_and_there() {
    let table: [(u32, Option<u32>, u32, u32); 7] = [
        (50, Some(10), 10, 5),
        (50, Some(10), 4, 2),
        (50, Some(4), 10, 2),
        (1, Some(10), 10, 1),
        (0, Some(10), 10, 0),
        (50, Some(10), 0, 0),
        (50, None, 10, 0),
    ];
    for (percentage, desired, reported, expected) in table {
        let status = SetStatus {
            replicas: reported,
            ..SetStatus::default()
        };
        let set = Set {
            replicas: desired,
            status,
            ..Set::default()
        };
        assert_eq!(
            Limit::Percentage(percentage).pods(&set),
            expected,
            "{percentage} {desired:?} {reported}"
        );
    }
}

#[test]
fn what_is_refused_says_why() {
    let spec = |spec: Value| {
        let mut object = json!({"kind": "ZoneAwarePodDisruptionBudget", "spec": {"selector": {"matchLabels": {"a": "b"}}}});
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        object
    };
    let table = [
        (json!({}), "Object 'Kind' is missing in '{}'"),
        (
            json!({"kind": "Pod", "spec": {}}),
            "unexpected object kind - expecting ZoneAwarePodDisruptionBudget",
        ),
        (
            json!({"kind": "ZoneAwarePodDisruptionBudget"}),
            "no spec found in unstructured object",
        ),
        (
            spec(json!({"selector": {}})),
            "invalid value: selector is not found",
        ),
        (
            spec(json!({"maxUnavailable": 1, "maxUnavailablePercentage": 1})),
            "invalid value: only one of maxUnavailable or maxUnavailablePercentage may be set",
        ),
        (
            spec(json!({"maxUnavailable": null})),
            "failed to extract value from config field maxUnavailable",
        ),
        (
            spec(json!({"maxUnavailable": -2})),
            "invalid value: max unavailable must be 0 <= val, got -2",
        ),
        (
            spec(json!({"maxUnavailablePercentage": 101})),
            "invalid value: max unavailable percentage must be 0 <= val <= 100, got 101",
        ),
        (
            spec(json!({"podNamePartitionRegex": "(a)", "podNameRegexGroup": 0})),
            "invalid value: regex is not valid, got regular expression subexpression index out of range",
        ),
        (
            spec(json!({"podNamePartitionRegex": "(a"})),
            "invalid value: regex is not valid, got error parsing regexp: missing closing ): `^(a$`",
        ),
        (
            spec(json!({"podNamePartitionRegex": "a**([0-9]+)\\q"})),
            "invalid value: regex is not valid, got error parsing regexp: invalid escape sequence: `\\q`",
        ),
        (
            spec(json!({"crossZoneEvictionDelay": "20m"})),
            "invalid value: crossZoneEvictionDelay requires podNamePartitionRegex to be set",
        ),
        (
            spec(json!({"crossZoneEvictionDelay": "-1m", "podNamePartitionRegex": "(a)"})),
            "invalid value: crossZoneEvictionDelay must be >= 0, got -1m",
        ),
        (
            spec(json!({"crossZoneEvictionDelay": "5", "podNamePartitionRegex": "(a)"})),
            "invalid value: crossZoneEvictionDelay is not a valid duration, got time: missing unit in duration \"5\"",
        ),
    ];
    for (object, expected) in table {
        assert_eq!(validate(&object).unwrap_err().to_string(), expected, "{object}");
    }
    let parsed = Budget::parse(&spec(json!({"podNamePartitionRegex": "x-([0-9]+)"}))).unwrap();
    assert_eq!(parsed.partition.unwrap().regex(), "^x-([0-9]+)$");
}
