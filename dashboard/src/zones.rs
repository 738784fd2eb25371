//! Why a zone group is in its state: from its ZoneRollout, down to the pod and the message of its container.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::{
    ZoneRollout,
    conditions::{READY, STALLED},
    zonerollout::{ZoneReason, ZoneRolloutStatus},
};
use serde::Serialize;

use crate::{
    Shape, Step, Why, listed,
    words::{counted, shell_word},
};

/// The reason for a StatefulSet or pod without problems.
const UP_TO_DATE: &str = "UpToDate";
/// Names listed on one line; more are counted.
const LISTED: usize = 5;

/// A zone group, as shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZonesView {
    /// Name of the ZoneRollout.
    pub name: String,
    /// Value of the label `rollout-group`.
    pub group: String,
    /// State of the group, as a shape.
    pub shape: Shape,
    /// Reason of the condition Ready.
    pub reason: String,
    /// Message of the condition Ready.
    pub message: String,
    /// Number of available pods at the current revision of their StatefulSet.
    pub done: u32,
    /// Number of all pods.
    pub total: u32,
    /// StatefulSets of the group, one per zone.
    pub zones: Vec<ZoneView>,
}

/// A StatefulSet of a group, as shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneView {
    /// Name of the StatefulSet.
    pub name: String,
    /// State of the StatefulSet, as a shape.
    pub shape: Shape,
    /// Revision of the pod template.
    pub revision: String,
    /// Why the StatefulSet, or a pod of it, is in its state.
    pub steps: Vec<Step>,
}

impl ZonesView {
    /// Builds the view of a ZoneRollout.
    pub fn of(rollout: &ZoneRollout) -> Self {
        let empty = ZoneRolloutStatus::default();
        let status = rollout.status.as_ref().unwrap_or(&empty);
        let is_stalled = is(status, STALLED, "True");
        let is_ready = is(status, READY, "True");
        let ready = condition(status, READY);
        let progress = status.progress.as_ref();
        let zones = status.sets.iter().map(|(name, set)| {
            let of_zone = status.reasons.iter().filter(|reason| reason.set == *name);
            let steps: Vec<Step> = of_zone.map(|reason| step(reason, is_stalled)).collect();
            let worst = steps.iter().map(|step| step.shape);
            ZoneView {
                name: name.clone(),
                shape: worst.min_by_key(|shape| shape.urgency()).unwrap_or(if set.done {
                    Shape::Ready
                } else {
                    Shape::Waiting
                }),
                revision: set.update_revision.clone(),
                steps,
            }
        });
        let reason = ready.map_or("", |ready| ready.reason.as_str());
        Self {
            name: rollout.metadata.name.clone().unwrap_or_default(),
            group: rollout.spec.group.clone(),
            shape: match (is_ready, is_stalled) {
                (true, _) => Shape::Ready,
                (_, true) => Shape::Failed,
                _ if ready.is_none() => Shape::Unknown,
                _ => shape(reason),
            },
            reason: reason.to_owned(),
            message: ready.map_or_else(String::new, |ready| ready.message.clone()),
            done: progress.map_or(0, |progress| progress.done),
            total: progress.map_or(0, |progress| progress.total),
            zones: zones.collect(),
        }
    }
}

/// Explains a zone group.
pub fn why_zones(rollout: &ZoneRollout) -> Why {
    let view = ZonesView::of(rollout);
    let all = view.zones.iter().flat_map(|zone| &zone.steps);
    let (ready, mut open): (Vec<&Step>, Vec<&Step>) = all.partition(|step| step.shape == Shape::Ready);
    open.sort_by_key(|step| step.shape.urgency());
    let mut steps: Vec<Step> = open.into_iter().cloned().collect();
    if steps.is_empty() && view.shape != Shape::Ready {
        // The group as a whole.
        steps.push(Step {
            shape: view.shape,
            who: view.name.clone(),
            cluster: None,
            reason: view.reason.clone(),
            message: view.message.clone(),
            since: None,
        });
    }
    if let Some(first) = ready.first() {
        let mut together = Step::clone(first);
        if ready.len() > 1 {
            together.who = listed(ready.iter().map(|step| step.who.as_str()), LISTED);
            // Each StatefulSet has its own revision.
            "all their pods are available at the revision of their StatefulSet"
                .clone_into(&mut together.message);
        }
        steps.push(together);
    }
    let (next, command) = next(rollout, &view).unzip();
    let reason = match &*view.reason {
        "" => "muster zones has not reported on it yet",
        reason => reason,
    };
    Why::of(
        format!(
            "{}: {} of {} available at the revision of their StatefulSet: {reason}",
            view.group,
            view.done,
            counted(usize::try_from(view.total).unwrap_or(usize::MAX), "pod"),
        ),
        steps,
        next,
        command,
    )
}

/// What a person can do, and the command.
fn next(rollout: &ZoneRollout, view: &ZonesView) -> Option<(String, String)> {
    let namespace = shell_word(rollout.metadata.namespace.as_deref().unwrap_or("default"));
    let name = shell_word(&view.name);
    let status = rollout.status.as_ref()?;
    let condemned = status.sets.iter().find(|(_, set)| set.condemned);
    if let Some((set, _)) = condemned {
        return Some((
            format!("correct the pod template of {set}, or retry the same revision"),
            format!("muster rollout retry zonerollout/{name} -n {namespace}"),
        ));
    }
    if rollout.spec.paused {
        return Some((
            "it is paused; to resume it".to_owned(),
            format!("muster rollout resume zonerollout/{name} -n {namespace}"),
        ));
    }
    let open = |reason: &&ZoneReason| reason.reason != UP_TO_DATE && shape(&reason.reason) != Shape::Waiting;
    let first = status.reasons.iter().filter(open);
    let (pods, sets): (Vec<&ZoneReason>, Vec<&ZoneReason>) = first.partition(|reason| reason.pod.is_some());
    if let Some(pod) = pods.first().and_then(|reason| reason.pod.as_deref()) {
        return Some((
            format!("check pod {pod}"),
            format!("kubectl describe pod {} -n {namespace}", shell_word(pod)),
        ));
    }
    let set = &sets.first()?.set;
    Some((
        format!("check StatefulSet {set}"),
        format!("kubectl describe statefulset {} -n {namespace}", shell_word(set)),
    ))
}

fn step(reason: &ZoneReason, is_stalled: bool) -> Step {
    let ZoneReason {
        set,
        pod,
        reason,
        message,
    } = reason;
    let of_word = shape(reason);
    Step {
        // Once the rollout has stalled, an unavailable pod counts as failed.
        shape: if is_stalled && of_word == Shape::Updating {
            Shape::Failed
        } else {
            of_word
        },
        who: pod.as_ref().unwrap_or(set).clone(),
        cluster: None,
        reason: reason.clone(),
        message: message.clone(),
        since: None,
    }
}

/// The shape of a reason.
fn shape(reason: &str) -> Shape {
    match reason {
        UP_TO_DATE => Shape::Ready,
        "Replacing" | "Unavailable" | "Stuck" | "ScalingDown" | "Progressing" => Shape::Updating,
        "Paused" => Shape::Held,
        "Soaking" | "Waiting" | "TwoZones" | "Limit" | "Budget" | "NotObserved" | "NotScaled" => {
            Shape::Waiting
        }
        _ => Shape::Failed,
    }
}

fn condition<'a>(status: &'a ZoneRolloutStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind)
}

fn is(status: &ZoneRolloutStatus, kind: &str, expected: &str) -> bool {
    condition(status, kind).is_some_and(|condition| condition.status == expected)
}
