//! Pods, as handled by scheduler and kubelet: scheduled, started, ready after a while, stopped after a while.

mod containers;
mod stage;
mod status;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::node;
use super::plan::{Plan, Verb, after};
use super::settings::Settings;
use super::shelf::Observed;
use super::world::is_placed;

/// A node and how many pods it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLoad<'a> {
    /// The node.
    pub node: &'a Node,
    /// How many pods are on it.
    pub pods: usize,
}

/// Decides what to do about a pod.
pub(super) fn decide(
    pod: &Observed<Pod>,
    places: &[NodeLoad<'_>],
    settings: &Settings,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    if is_over(&pod.object) {
        return plan;
    }
    if let Some(since) = pod.stopping_since {
        stop(&mut plan, pod, after(since, settings.stop_after), now);
    } else if is_placed(&pod.object) {
        live(&mut plan, pod, settings, now);
    } else if let Some(node) = pick_node(&pod.object, places) {
        let mut changed = pod.object.clone();
        changed.spec.get_or_insert_default().node_name = Some(node);
        plan.write(Verb::Replace, changed);
    } else {
        let status = status::unschedulable(&pod.object, places.len(), now);
        write_status(&mut plan, &pod.object, status);
    }
    plan
}

/// Whether a pod has finished.
pub(super) fn is_over(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether a pod counts for its controller: neither finished nor terminating.
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_over(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// The phase; empty if there is none yet.
pub(super) fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// Since when a pod is ready.
pub(super) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// When a pod becomes available: ready for this many seconds.
pub(super) fn available_from(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    let seconds = u64::try_from(min_ready_seconds).unwrap_or_default(); // negative counts as 0
    ready_since(pod).map(|since| after(since, std::time::Duration::from_secs(seconds)))
}

/// Progress of the pods of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of ready pods.
    pub ready: i32,
    /// Number of pods that have been ready long enough.
    pub available: i32,
    /// When the next one becomes available without a change.
    pub next: Option<Timestamp>,
}

impl Progress {
    /// Counts active pods.
    pub(super) fn of<'a>(
        pods: impl IntoIterator<Item = &'a Pod>,
        min_ready_seconds: Option<i32>,
        now: Timestamp,
    ) -> Self {
        let mut progress = Self::default();
        for from in pods
            .into_iter()
            .filter_map(|pod| available_from(pod, min_ready_seconds.unwrap_or_default()))
        {
            progress.ready += 1;
            if from <= now {
                progress.available += 1;
            } else {
                progress.next = Some(progress.next.map_or(from, |next| next.min(from)));
            }
        }
        progress
    }
}

fn stop(plan: &mut Plan, pod: &Observed<Pod>, end: Timestamp, now: Timestamp) {
    let left = pod
        .object
        .metadata
        .deletion_grace_period_seconds
        .unwrap_or_default(); // none: the pod only waits for finalizers
    if left > 0 && end <= now {
        plan.write(Verb::Stop, pod.object.clone());
    } else if left > 0 {
        plan.wake_at(end);
    }
}

fn live(plan: &mut Plan, pod: &Observed<Pod>, settings: &Settings, now: Timestamp) {
    let (stage, next) = stage::pod_stage(pod, settings, now);
    write_status(plan, &pod.object, status::at(&pod.object, &stage, now));
    if let Some(next) = next {
        plan.wake_at(next);
    }
}

fn write_status(plan: &mut Plan, pod: &Pod, status: k8s_openapi::api::core::v1::PodStatus) {
    if pod.status.as_ref() != Some(&status) {
        plan.write(
            Verb::Status,
            Pod {
                status: Some(status),
                ..pod.clone()
            },
        );
    }
}

/// The node with the fewest pods that accepts the pod; of several, the first by name.
fn pick_node(pod: &Pod, places: &[NodeLoad<'_>]) -> Option<String> {
    let wanted = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
    let fits = |place: &&NodeLoad<'_>| {
        node::is_schedulable(place.node) && wanted.is_none_or(|wanted| node::has_labels(place.node, wanted))
    };
    let best = places
        .iter()
        .filter(fits)
        .min_by_key(|place| (place.pods, &place.node.metadata.name))?;
    best.node.metadata.name.clone()
}
