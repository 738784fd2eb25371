//! Finished rollouts: their duration, by verdict.

use std::time::Duration;

use muster_api::revision::Verdict;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
    registry::Registry,
};

/// Upper bounds of the buckets, in seconds: from a minute, for a few clusters, to a week with soaks and approvals.
const BUCKETS: [f64; 11] = [
    60.0, 300.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0,
];

/// By kind and verdict, and not by name: the number of modules times buckets would be too high.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Label {
    kind: &'static str,
    result: &'static str,
}

/// All rollouts that finished while this process was the leader.
pub(super) struct Rollouts(Family<Label, Histogram>);

impl Rollouts {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let rollouts = Self(Family::new_with_constructor(|| Histogram::new(BUCKETS)));
        registry.register(
            "muster_rollout_duration_seconds",
            "Duration of finished rollouts, by result: good, bad, aborted, superseded",
            rollouts.0.clone(),
        );
        rollouts
    }

    pub(super) fn ended(&self, kind: &'static str, verdict: Verdict, took: Duration) {
        let label = Label {
            kind,
            result: match verdict {
                Verdict::Good => "good",
                Verdict::Bad => "bad",
                Verdict::Aborted => "aborted",
                Verdict::Superseded => "superseded",
            },
        };
        self.0.get_or_create(&label).observe(took.as_secs_f64());
    }
}
