//! Promise: the CA bundle is written where it is requested; metrics keep the names and labels that alerts use; series
//! are removed with their group.

use std::collections::BTreeMap;

use muster_zones::{
    authority::{INJECT_LABEL, NAMESPACE_LABEL, injected},
    budget::Observed,
    metrics::{self, Groups, METRICS},
};

#[test]
fn the_authority_goes_where_it_is_asked_for() {
    let labels = |inject: &str, namespace: &str| {
        let pairs = [(INJECT_LABEL, inject), (NAMESPACE_LABEL, namespace)];
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect::<BTreeMap<_, _>>()
    };
    let (ca, old) = (b"ca".to_vec(), b"old".to_vec());
    let table = [
        (
            labels("true", "test"),
            vec![old.clone(), ca.clone()],
            Some(vec![ca.clone(), ca.clone()]),
        ),
        (labels("true", "test"), vec![Vec::new()], Some(vec![ca.clone()])),
        (labels("true", "test"), vec![ca.clone()], None),
        (labels("true", "test"), vec![], None),
        (labels("True", "test"), vec![old.clone()], None),
        (labels("true", "other"), vec![old.clone()], None),
        (BTreeMap::new(), vec![old], None),
    ];
    for (labels, bundles, expected) in table {
        assert_eq!(
            injected(&labels, "test", &ca, &bundles),
            expected,
            "{labels:?} {bundles:?}"
        );
    }
}

/// The labels that the alerts of rollout-operator select by.
#[test]
fn metrics_that_alerts_name_are_there() {
    let labels = |name| metrics::find_metric(name).unwrap().labels;
    assert!(labels("kube_validating_webhook_failure_policy").starts_with(&["type", "webhook", "policy"]));
    assert_eq!(
        labels("rollout_operator_zpdb_configurations_observed_total"),
        ["result"]
    );
    assert_eq!(Observed::Invalid.as_str(), "invalid");
    let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn series_of_a_group_go_with_the_first_pass_in_which_none_fails() {
    let pass = |groups: &[(&str, bool)]| {
        groups
            .iter()
            .map(|(name, good)| ((*name).to_owned(), *good))
            .collect()
    };
    let mut series = Groups::default();
    assert!(series.passed(&pass(&[("a", true), ("b", true)]), 5).is_empty());
    // A failed pass does not prove that a group is gone.
    assert!(series.passed(&pass(&[("a", false)]), 6).is_empty());
    assert_eq!(series.iter().count(), 2);
    let gone = series.passed(&pass(&[("a", true)]), 7);
    assert_eq!(gone.into_iter().collect::<Vec<_>>(), ["b"]);
    assert_eq!(series.iter().count(), 1);
    let (name, group) = series.iter().next().unwrap();
    assert_eq!(
        (
            name,
            group.reconciles,
            group.failed,
            group.durations,
            group.last_success
        ),
        ("a", 3, 1, 3, 7)
    );
}
