//! The metrics of rollout-operator: names, types and labels, and which series of groups go.

use std::collections::{BTreeMap, BTreeSet};

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations in buckets.
    Histogram,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name in the text format.
    pub name: &'static str,
    /// What it counts.
    pub kind: Kind,
    /// Names of its labels, in order.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

impl Kind {
    /// The word of the text format.
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

/// Passes over each group.
pub const RECONCILES: &str = "rollout_operator_group_reconciles_total";
/// Passes that failed.
pub const FAILED: &str = "rollout_operator_group_reconciles_failed_total";
/// How long passes took.
pub const DURATION: &str = "rollout_operator_group_reconcile_duration_seconds";
/// When a pass last succeeded.
pub const LAST_SUCCESS: &str = "rollout_operator_last_successful_group_reconcile_timestamp_seconds";

/// All metrics that keep their meaning, by name.
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
        "Requests that another refused for their cluster's label: always 0, as no such label is sent",
    ),
    metric(
        DURATION,
        Kind::Histogram,
        GROUP,
        "Duration of a pass over a group, in seconds",
    ),
    metric(FAILED, Kind::Counter, GROUP, "Passes over a group that failed"),
    metric(RECONCILES, Kind::Counter, GROUP, "Passes over a group"),
    metric(
        "rollout_operator_inflight_requests",
        Kind::Gauge,
        ROUTE,
        "Requests to the webhooks that are being answered",
    ),
    metric(
        "rollout_operator_kubernetes_api_client_rate_limited_requests_total",
        Kind::Counter,
        &["api_group"],
        "Requests to the API server that were held back",
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
        "When a pass over a group last succeeded, in seconds since 1970",
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
        "Size of answers of the webhooks, in bytes",
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
        "Requests with another cluster's label: always 0, as no such label is read",
    ),
    metric(
        "rollout_operator_zpdb_configurations_observed_total",
        Kind::Counter,
        &["result"],
        "ZoneAwarePodDisruptionBudgets that the watch showed",
    ),
    metric(
        "rollout_operator_zpdb_eviction_requests_total",
        Kind::Counter,
        &["reason", "status"],
        "Evictions that were asked for",
    ),
    metric(
        "rollout_operator_zpdb_inflight_eviction_requests",
        Kind::Gauge,
        &[],
        "Evictions that are being answered",
    ),
];

/// The metric of this name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// What the series of a group say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Group {
    /// Passes.
    pub reconciles: u64,
    /// Passes that failed.
    pub failed: u64,
    /// Passes whose duration was observed.
    pub durations: u64,
    /// When a pass last succeeded, in seconds since 1970; 0 before the first.
    pub last_success: i64,
}

/// The series of all groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    groups: BTreeMap<String, Group>,
}

impl Groups {
    /// A pass over all groups: which there are, and which of them failed. Series of groups that are gone go with the first pass in which
    /// none failed, and are returned: a group that could not be read is not taken for one that is gone.
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

    /// A pass over one group.
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

    /// A group that is gone.
    pub fn forget(&mut self, name: &str) {
        self.groups.remove(name);
    }

    /// Each group by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.groups.iter().map(|(name, group)| (name.as_str(), group))
    }
}
