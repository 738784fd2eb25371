//! When each cluster changed during a rollout: from the engine's memory for clusters in progress, from events for the
//! others.

use jiff::{SignedDuration, Timestamp};
use muster_api::{
    module::ModuleStatus,
    reasons::{EventReason, Reason},
};
use muster_rollout::Kind;
use serde::Serialize;

use crate::{FleetEvent, ModuleRef, ModuleView, Shape, recall};

/// A rollout over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// When the rollout started.
    pub from: Timestamp,
    /// When the rollout ended, or the time of the snapshot.
    pub to: Timestamp,
    /// The clusters, in the order in which they changed.
    pub bars: Vec<Bar>,
}

/// A cluster over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bar {
    /// Name of the cluster.
    pub cluster: String,
    /// Shape of the cluster at the end.
    pub shape: Shape,
    /// When its change started; same as the end if the start is not recorded anymore.
    pub from: Timestamp,
    /// When it was done or failed; `None` while in progress.
    pub to: Option<Timestamp>,
}

/// Period of a rollout; open while the rollout is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When the rollout started.
    pub from: Timestamp,
    /// When the rollout ended.
    pub to: Option<Timestamp>,
}

/// Tolerance for events at the end of a rollout: they are recorded slightly later, and times in statuses are whole
/// seconds.
const LATER: SignedDuration = SignedDuration::from_secs(2);

impl Span {
    /// Whether an event at this time belongs to the rollout.
    pub fn holds(&self, at: Timestamp) -> bool {
        at >= self.from && self.to.is_none_or(|to| at.duration_since(to) <= LATER)
    }
}

impl Timeline {
    /// Builds the timeline of a module's rollout; `None` if nothing is recorded of it. `now` is the time of the
    /// snapshot.
    pub fn of(
        view: &ModuleView,
        status: &ModuleStatus,
        events: &[impl AsRef<FleetEvent>],
        run: Span,
        now: Timestamp,
    ) -> Option<Self> {
        let Span { from, to } = run;
        let module = ModuleRef {
            kind: view.kind,
            name: view.name.clone(),
        };
        let mut bars: Vec<Bar> = Vec::new();
        // Events are sorted newest first: the latest one of each cluster wins.
        for event in events.iter().map(AsRef::as_ref) {
            if !run.holds(event.at) || !event.is_about(&module) {
                continue;
            }
            for (cluster, shape) in clusters_of_event(event, view) {
                if !bars.iter().any(|bar| bar.cluster == cluster) {
                    bars.push(Bar {
                        cluster,
                        shape,
                        from: event.at,
                        to: Some(event.at),
                    });
                }
            }
        }
        // A failed change remains in flight after the end of its run.
        let memory = recall::memory(status).unwrap_or_default();
        for (unit, change) in &memory.in_flight {
            let (Some(began), cell) = (
                recall::instant(change.since),
                view.cells.iter().find(|cell| cell.cluster == unit.as_str()),
            ) else {
                continue;
            };
            if change.kind == Kind::Withdraw || !run.holds(began) {
                continue;
            }
            bars.retain(|bar| bar.cluster != unit.as_str());
            let failed = cell.filter(|cell| cell.shape == Shape::Failed);
            bars.push(Bar {
                cluster: unit.to_string(),
                shape: cell.map_or(Shape::Updating, |cell| cell.shape),
                from: began,
                to: failed.and_then(|cell| cell.since),
            });
        }
        bars.sort_by(|a, b| (a.from, &a.cluster).cmp(&(b.from, &b.cluster)));
        let last = bars.iter().map(|bar| bar.to.unwrap_or(bar.from)).max()?;
        Some(Self {
            from,
            to: to.unwrap_or(now).max(last),
            bars,
        })
    }
}

/// The clusters that an event is about: its message begins with their names.
fn clusters_of_event(event: &FleetEvent, view: &ModuleView) -> Vec<(String, Shape)> {
    let is = |reasons: [EventReason; 2]| reasons.iter().any(|reason| event.reason == reason.as_str());
    let shape = if is([EventReason::ClusterUpdated, EventReason::NodeUpdated]) {
        Shape::Ready
    } else if is([EventReason::ClusterFailed, EventReason::NodeFailed]) {
        Shape::of(Reason::Failed)
    } else {
        return Vec::new();
    };
    let Some((names, _)) = event.note.split_once(": ") else {
        return Vec::new();
    };
    let names = names.split_once(" and ").map_or(names, |(names, _more)| names);
    let is_known = |name: &&str| view.cells.iter().any(|cell| cell.cluster == *name);
    let names = names.split(", ").filter(is_known);
    names.map(|name| (name.to_owned(), shape)).collect()
}
