//! The metrics of rollout-operator: names, types and labels, and which series are removed with a group.

use std::collections::{BTreeMap, BTreeSet};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A counter, which only increases.
    Counter,
    /// A gauge, which increases and decreases.
    Gauge,
    /// A histogram: observations in buckets.
    Histogram,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric in the text format.
    pub name: &'static str,
    /// Type of the metric.
    pub kind: Kind,
    /// Names of the labels, in order.
    pub labels: &'static [&'static str],
    /// Help text of the metric.
    pub help: &'static str,
}

impl Kind {
    /// Name of the type in the text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const GROUP: &[&str] = &["rollout_group"];
const CALL: &[&str] = &["path", "method", "status_code"];
const ROUTE: &[&str] = &["method", "route"];

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        labels,
        help,
    }
}

/// Number of passes over each group.
pub const RECONCILES: &str = "rollout_operator_group_reconciles_total";
/// Number of failed passes.
pub const FAILED: &str = "rollout_operator_group_reconciles_failed_total";
/// Duration of passes.
pub const DURATION: &str = "rollout_operator_group_reconcile_duration_seconds";
/// Time of the last successful pass.
pub const LAST_SUCCESS: &str = "rollout_operator_last_successful_group_reconcile_timestamp_seconds";

/// All metrics with an unchanged meaning, by name.
pub const METRICS: &[Metric] = &[
    metric(
        "kube_validating_webhook_failure_policy",
        Kind::Gauge,
        &["type", "webhook", "policy"],
        "1 for the failure policy of each webhook",
    ),
    metric(
        "rollout_operator_client_invalid_cluster_validation_label_requests_total",
        Kind::Counter,
        &["method", "protocol", "request_cluster"],
        "Requests that a server rejected because of the cluster validation label: always 0, as no such label is sent",
    ),
    metric(
        DURATION,
        Kind::Histogram,
        GROUP,
        "Duration of a pass over a group, in seconds",
    ),
    metric(FAILED, Kind::Counter, GROUP, "Failed passes over a group"),
    metric(RECONCILES, Kind::Counter, GROUP, "Passes over a group"),
    metric(
        "rollout_operator_inflight_requests",
        Kind::Gauge,
        ROUTE,
        "Requests to the webhooks in progress",
    ),
    metric(
        "rollout_operator_kubernetes_api_client_rate_limited_requests_total",
        Kind::Counter,
        &["api_group"],
        "Requests to the API server that were delayed by rate limiting",
    ),
    metric(
        "rollout_operator_kubernetes_api_client_request_duration_seconds",
        Kind::Histogram,
        CALL,
        "Duration of requests to the API server, in seconds",
    ),
    metric(
        LAST_SUCCESS,
        Kind::Gauge,
        GROUP,
        "Time of the last successful pass over a group, in seconds since 1970",
    ),
    metric(
        "rollout_operator_pod_http_client_request_duration_seconds",
        Kind::Histogram,
        CALL,
        "Duration of requests to pods, in seconds",
    ),
    metric(
        "rollout_operator_request_duration_seconds",
        Kind::Histogram,
        &["method", "route", "status_code", "ws"],
        "Duration of requests to the webhooks, in seconds",
    ),
    metric(
        "rollout_operator_request_message_bytes",
        Kind::Histogram,
        ROUTE,
        "Size of requests to the webhooks, in bytes",
    ),
    metric(
        "rollout_operator_response_message_bytes",
        Kind::Histogram,
        ROUTE,
        "Size of responses of the webhooks, in bytes",
    ),
    metric(
        "rollout_operator_server_invalid_cluster_validation_label_requests_total",
        Kind::Counter,
        &[
            "protocol",
            "method",
            "cluster_validation_label",
            "request_cluster_validation_label",
        ],
        "Requests with an invalid cluster validation label: always 0, as no such label is read",
    ),
    metric(
        "rollout_operator_zpdb_configurations_observed_total",
        Kind::Counter,
        &["result"],
        "ZoneAwarePodDisruptionBudgets observed by the watch",
    ),
    metric(
        "rollout_operator_zpdb_eviction_requests_total",
        Kind::Counter,
        &["reason", "status"],
        "Eviction requests",
    ),
    metric(
        "rollout_operator_zpdb_inflight_eviction_requests",
        Kind::Gauge,
        &[],
        "Eviction requests in progress",
    ),
];

/// The metric with the given name.
pub fn find_metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// The values of a group's series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Group {
    /// Number of passes.
    pub reconciles: u64,
    /// Number of failed passes.
    pub failed: u64,
    /// Number of passes with an observed duration.
    pub durations: u64,
    /// Time of the last successful pass, in seconds since 1970; 0 before the first.
    pub last_success: i64,
}

/// The series of all groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    groups: BTreeMap<String, Group>,
}

impl Groups {
    /// Records a pass over all groups: which groups exist, and which of them failed. Series of groups that no longer
    /// exist are removed, and returned, with the first pass in which no group failed: a group that could not be read is
    /// not treated as removed.
    pub fn passed(&mut self, groups: &BTreeMap<String, bool>, now: i64) -> BTreeSet<String> {
        for (name, succeeded) in groups {
            self.pass(name, *succeeded, now);
        }
        if !groups.values().all(|succeeded| *succeeded) {
            return BTreeSet::new();
        }
        let gone: BTreeSet<String> = self
            .groups
            .keys()
            .filter(|name| !groups.contains_key(*name))
            .cloned()
            .collect();
        self.groups.retain(|name, _| !gone.contains(name));
        gone
    }

    /// Records a pass over one group.
    pub fn pass(&mut self, name: &str, succeeded: bool, now: i64) {
        let group = self.groups.entry(name.to_owned()).or_default();
        group.reconciles += 1;
        group.durations += 1;
        if succeeded {
            group.last_success = now;
        } else {
            group.failed += 1;
        }
    }

    /// Removes a group that no longer exists.
    pub fn remove_group(&mut self, name: &str) {
        self.groups.remove(name);
    }

    /// The series of each group, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.groups.iter().map(|(name, group)| (name.as_str(), group))
    }
}
