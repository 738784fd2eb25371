//! The metrics of rollout-operator, under its names.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Client, client::Body};
use muster_zones::{
    budget::{Observed, Verdict},
    metrics::{self, Groups},
    scale::pods::Method,
};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};
use tower::service_fn;

use crate::metrics::Metrics;

/// Upper bounds of the duration buckets, in seconds: the defaults of Prometheus clients.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Upper bounds of the size buckets, in bytes: up to the largest review.
const BYTES: [f64; 6] = [
    1_024.0,
    16_384.0,
    131_072.0,
    1_048_576.0,
    4_194_304.0,
    8_388_608.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GroupLabel {
    rollout_group: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabel {
    path: String,
    method: String,
    status_code: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabel {
    method: String,
    route: String,
    status_code: String,
    ws: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabel {
    method: String,
    route: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EvictionLabel {
    reason: String,
    status: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct PolicyLabel {
    r#type: String,
    webhook: String,
    policy: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of `muster zones`. Clones share them.
#[derive(Clone)]
pub struct ZoneMetrics(Arc<Inner>);

struct Inner {
    groups: Arc<PerGroup>,
    pod_requests: Histograms<CallLabel>,
    calls: Histograms<CallLabel>,
    requests: Histograms<RequestLabel>,
    request_bytes: Histograms<RouteLabel>,
    response_bytes: Histograms<RouteLabel>,
    requests_in_flight: Family<RouteLabel, Gauge>,
    budgets: Family<ResultLabel, Counter>,
    evictions: Family<EvictionLabel, Counter>,
    evictions_in_flight: Gauge,
    policies: Family<PolicyLabel, Gauge>,
    known_policies: Mutex<BTreeSet<PolicyLabel>>,
}

/// The series of groups: they are removed with their group.
#[derive(Debug, Default)]
struct PerGroup {
    groups: Mutex<Groups>,
    durations: Mutex<BTreeMap<String, Histogram>>,
}

impl ZoneMetrics {
    /// Registers them with the metrics of the process.
    pub fn new(metrics: &Metrics) -> Self {
        let durations: fn() -> Histogram = || Histogram::new(BUCKETS);
        let bytes: fn() -> Histogram = || Histogram::new(BYTES);
        let inner = Inner {
            groups: Arc::default(),
            pod_requests: Family::new_with_constructor(durations),
            calls: Family::new_with_constructor(durations),
            requests: Family::new_with_constructor(durations),
            request_bytes: Family::new_with_constructor(bytes),
            response_bytes: Family::new_with_constructor(bytes),
            requests_in_flight: Family::default(),
            budgets: Family::default(),
            evictions: Family::default(),
            evictions_in_flight: Gauge::default(),
            policies: Family::default(),
            known_policies: Mutex::default(),
        };
        metrics.register(|registry| inner.register(registry));
        Self(Arc::new(inner))
    }

    /// Records a pass over a group.
    pub(super) fn passed(&self, group: &str, succeeded: bool, took: Duration, now: i64) {
        let of = &self.0.groups;
        of.groups.lock().pass(group, succeeded, now);
        let mut durations = of.durations.lock();
        let duration = durations
            .entry(group.to_owned())
            .or_insert_with(|| Histogram::new(BUCKETS));
        duration.observe(took.as_secs_f64());
    }

    /// A group has no StatefulSets any more.
    pub(super) fn gone(&self, group: &str) {
        self.0.groups.groups.lock().remove_group(group);
        self.0.groups.durations.lock().remove(group);
    }

    /// Records the status of a pod's response; 0: no response.
    pub(super) fn asked_pod(&self, method: Method, status: u16, took: Duration) {
        let label = CallLabel {
            // Paths are set by annotations: one series for all.
            path: "pod".to_owned(),
            method: method.as_str().to_owned(),
            status_code: status_code(status),
        };
        self.0
            .pod_requests
            .get_or_create(&label)
            .observe(took.as_secs_f64());
    }

    /// A client that sends everything to `inner`, with timing.
    pub fn timed(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        let metrics = self.clone();
        let service = service_fn(move |request: http::Request<Body>| {
            let (metrics, inner) = (metrics.clone(), inner.clone());
            async move {
                let mut label = CallLabel {
                    path: resource(request.uri().path()).to_owned(),
                    method: request.method().to_string(),
                    status_code: status_code(0),
                };
                let began = tokio::time::Instant::now();
                let answer = inner.send(request).await;
                if let Ok(answer) = &answer {
                    label.status_code = answer.status().as_u16().to_string();
                }
                let took = began.elapsed().as_secs_f64();
                metrics.0.calls.get_or_create(&label).observe(took);
                answer
            }
        });
        Client::new(service, namespace)
    }

    /// Records an incoming review; its end is counted when the result is dropped.
    pub(super) fn review(&self, method: &str, route: &'static str, bytes: usize) -> Reviewing {
        let label = RouteLabel {
            method: method.to_owned(),
            route: route.to_owned(),
        };
        self.0.request_bytes.get_or_create(&label).observe(count(bytes));
        self.0.requests_in_flight.get_or_create(&label).inc();
        Reviewing {
            metrics: self.clone(),
            label,
            began: tokio::time::Instant::now(),
            answer: None,
        }
    }

    /// Records a budget that the watch delivered.
    pub(super) fn observed(&self, observed: Observed) {
        let result = observed.as_str();
        self.0.budgets.get_or_create(&ResultLabel { result }).inc();
    }

    /// Records an eviction that is being answered.
    pub(super) fn evicting(&self) {
        self.0.evictions_in_flight.inc();
    }

    /// Records an answered eviction.
    pub(super) fn evicted(&self, verdict: Option<&Verdict>) {
        self.0.evictions_in_flight.dec();
        if let Some(verdict) = verdict {
            let label = EvictionLabel {
                reason: verdict.reason.as_str().to_owned(),
                status: verdict.reason.code().to_string(),
            };
            self.0.evictions.get_or_create(&label).inc();
        }
    }

    /// Replaces the failure policies of one kind of webhook, by the name of the webhook. `kind` is `validating` or
    /// `mutating`.
    pub fn policies(&self, kind: &str, policies: impl IntoIterator<Item = (String, String)>) {
        let mut known = self.0.known_policies.lock();
        let labels = policies.into_iter().map(|(webhook, policy)| PolicyLabel {
            r#type: kind.to_owned(),
            webhook,
            policy,
        });
        let labels: BTreeSet<PolicyLabel> = labels.collect();
        let gone = known
            .iter()
            .filter(|label| label.r#type == kind && !labels.contains(label));
        for label in gone {
            self.0.policies.remove(label);
        }
        known.retain(|label| label.r#type != kind);
        for label in &labels {
            self.0.policies.get_or_create(label).set(1);
        }
        known.extend(labels);
    }
}

/// A review that is being answered.
pub(super) struct Reviewing {
    metrics: ZoneMetrics,
    label: RouteLabel,
    began: tokio::time::Instant,
    answer: Option<(u16, usize)>,
}

impl Reviewing {
    /// Records the response: its status and its size in bytes.
    pub(super) fn answered(&mut self, status: u16, bytes: usize) {
        self.answer = Some((status, bytes));
    }
}

impl Drop for Reviewing {
    fn drop(&mut self) {
        let inner = &self.metrics.0;
        inner.requests_in_flight.get_or_create(&self.label).dec();
        // Cut off by its deadline.
        let (status, bytes) = self.answer.unwrap_or((504, 0));
        let label = RequestLabel {
            method: self.label.method.clone(),
            route: self.label.route.clone(),
            status_code: status.to_string(),
            ws: "false".to_owned(),
        };
        inner
            .requests
            .get_or_create(&label)
            .observe(self.began.elapsed().as_secs_f64());
        inner
            .response_bytes
            .get_or_create(&self.label)
            .observe(count(bytes));
    }
}

impl Inner {
    fn register(&self, registry: &mut Registry) {
        let help = |name: &str| metrics::find_metric(name).map_or("", |metric| metric.help);
        macro_rules! register {
            ($($name:literal: $metric:expr),+ $(,)?) => {
                // Counters get their suffix when they are written.
                $(registry.register($name.trim_end_matches("_total"), help($name), $metric.clone());)+
            };
        }
        register! {
            "rollout_operator_pod_http_client_request_duration_seconds": self.pod_requests,
            "rollout_operator_kubernetes_api_client_request_duration_seconds": self.calls,
            "rollout_operator_request_duration_seconds": self.requests,
            "rollout_operator_request_message_bytes": self.request_bytes,
            "rollout_operator_response_message_bytes": self.response_bytes,
            "rollout_operator_inflight_requests": self.requests_in_flight,
            "rollout_operator_zpdb_configurations_observed_total": self.budgets,
            "rollout_operator_zpdb_eviction_requests_total": self.evictions,
            "rollout_operator_zpdb_inflight_eviction_requests": self.evictions_in_flight,
            "kube_validating_webhook_failure_policy": self.policies,
        }
        registry.register_collector(Box::new(Arc::clone(&self.groups)));
    }
}

impl Collector for PerGroup {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let groups = self.groups.lock();
        let help = |name: &str| metrics::find_metric(name).map_or("", |metric| metric.help);
        for (name, value) in [
            (
                metrics::RECONCILES,
                (|group| group.reconciles) as fn(&metrics::Group) -> u64,
            ),
            (metrics::FAILED, |group| group.failed),
        ] {
            let short = name.trim_end_matches("_total");
            let mut family = encoder.encode_descriptor(
                short,
                help(name),
                None,
                prometheus_client::metrics::MetricType::Counter,
            )?;
            for (group, counts) in groups.iter() {
                let label = label(group);
                ConstCounter::new(value(counts)).encode(family.encode_family(&label)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            metrics::LAST_SUCCESS,
            help(metrics::LAST_SUCCESS),
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for (group, counts) in groups.iter() {
            let label = label(group);
            ConstGauge::new(counts.last_success).encode(family.encode_family(&label)?)?;
        }
        let durations = self.durations.lock();
        let mut family = encoder.encode_descriptor(
            metrics::DURATION,
            help(metrics::DURATION),
            None,
            prometheus_client::metrics::MetricType::Histogram,
        )?;
        for (group, histogram) in durations.iter() {
            let label = label(group);
            histogram.encode(family.encode_family(&label)?)?;
        }
        Ok(())
    }
}

fn label(group: &str) -> GroupLabel {
    GroupLabel {
        rollout_group: group.to_owned(),
    }
}

/// The resource of an API server path: `pods` of `/api/v1/namespaces/a/pods/b`. One series for each name would be too
/// many.
fn resource(path: &str) -> &str {
    let mut segments = path.trim_start_matches('/').split('/');
    let skipped = if segments.next() == Some("api") { 1 } else { 2 };
    let mut segments = segments.skip(skipped);
    match (segments.next(), segments.next(), segments.next()) {
        (Some("namespaces"), Some(_), Some(resource)) | (Some(resource), ..) => resource,
        _ => "other",
    }
}

fn status_code(status: u16) -> String {
    if status == 0 {
        "error".to_owned()
    } else {
        status.to_string()
    }
}

#[allow(clippy::cast_precision_loss, reason = "sizes of reviews are far below 2^52")]
fn count(bytes: usize) -> f64 {
    bytes as f64
}
