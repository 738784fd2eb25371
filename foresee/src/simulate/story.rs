//! The result of a simulation: every change of every cluster, and how it ended.

use jiff::Timestamp;
use muster_api::{Duration, reasons::Reason};
use muster_controllers::module::Opening;
use muster_dashboard::{Shape, fold_names};
use muster_rollout::Millis;
use serde::Serialize;

/// A simulated rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// The clusters, by name.
    pub clusters: Vec<Track>,
    /// Duration of the rollout.
    pub took: Millis,
    /// Number of times that clusters started to update.
    pub batches: usize,
    /// Number of clusters with the version at the end.
    pub carrying: usize,
    /// Number of clusters on which it failed.
    pub failed: usize,
    /// When the change windows of waiting clusters opened.
    pub openings: Vec<Opening>,
    /// How it ended.
    pub end: End,
}

/// A cluster in the simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Name of the cluster.
    pub name: String,
    /// Index of its stage; the maximum value for none.
    pub place: usize,
    /// Name of its stage.
    pub stage: Option<String>,
    /// Its reasons with their times, in order.
    pub changes: Vec<(Millis, Reason)>,
}

/// How a rollout ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every cluster that could be reached has the version.
    Done,
    /// The version was marked bad; with the cluster that failed, and how.
    Halted(String),
    /// The same, and all clusters that had it were reverted.
    Reverted(String),
    /// No further change follows, and it is not complete.
    Waiting,
}

/// The JSON form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed<'a> {
    schema: &'static str,
    verdict: &'static str,
    evidence: Option<&'a str>,
    seconds: f64,
    batches: usize,
    carrying: usize,
    failed: usize,
    openings: Vec<PrintedOpening<'a>>,
    clusters: Vec<PrintedTrack<'a>>,
}

#[derive(Serialize)]
struct PrintedOpening<'a> {
    at: Timestamp,
    local: &'a str,
    window: &'a str,
    clusters: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PrintedTrack<'a> {
    name: &'a str,
    stage: Option<&'a str>,
    changes: Vec<PrintedChange>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PrintedChange {
    seconds: f64,
    reason: &'static str,
    shape: Shape,
}

impl Track {
    /// Records the current reason; false if it did not change.
    pub fn record_reason(&mut self, now: Millis, reason: Reason) -> bool {
        if self.changes.last().is_some_and(|(_, last)| *last == reason) {
            return false;
        }
        // A reason that is replaced at the same time was never visible.
        self.changes.retain(|(at, _)| *at != now);
        self.changes.push((now, reason));
        true
    }

    /// The final shape.
    pub fn last(&self) -> Shape {
        self.changes
            .last()
            .map_or(Shape::NotSelected, |(_, reason)| Shape::of(*reason))
    }

    /// Whether an update failed on it, or was late.
    pub fn has_failed(&self) -> bool {
        self.changes
            .iter()
            .any(|(_, reason)| Shape::of(*reason) == Shape::Failed)
    }

    /// When its update started.
    pub fn began(&self) -> Option<Millis> {
        let changing = |(_, reason): &&(Millis, Reason)| Shape::of(*reason) == Shape::Updating;
        self.changes.iter().find(changing).map(|(at, _)| *at)
    }
}

impl Story {
    /// How it ended, in one line.
    pub fn verdict(&self) -> String {
        let (took, all, carrying) = (time(self.took), self.clusters.len(), self.carrying);
        let ready = self.clusters.iter().filter(|track| track.last() == Shape::Ready);
        let ready = ready.count();
        match &self.end {
            End::Done => format!("done in {took}: {ready} of {all} clusters are ready at the version"),
            End::Halted(evidence) => format!(
                "marked bad, settled after {took}: {evidence}; {carrying} of {all} clusters have the version, and no other gets it"
            ),
            End::Reverted(evidence) => {
                format!("marked bad, reverted after {took}: {evidence}; no cluster has the version any more")
            }
            End::Waiting => format!(
                "not done, settled after {took}: {ready} of {all} clusters are ready at the version; {}",
                self.hindrance()
            ),
        }
    }

    /// The counts, in one line.
    pub fn totals(&self) -> String {
        let plural = if self.batches == 1 { "" } else { "es" };
        format!("{} batch{plural}, failed on {}", self.batches, self.failed)
    }

    /// When the change windows of waiting clusters opened, one line each.
    pub fn openings(&self) -> Vec<String> {
        let line = |opening: &Opening| {
            let clusters = fold_names(opening.clusters.iter().map(String::as_str)).join(", ");
            format!("{clusters} not before {} ({})", opening.local, opening.window)
        };
        self.openings.iter().map(line).collect()
    }

    fn hindrance(&self) -> String {
        let behind = self.clusters.iter().filter(|track| track.last() != Shape::Ready);
        let first = behind
            .filter_map(|track| Some((track, track.changes.last()?)))
            .min_by_key(|(track, (_, reason))| (Shape::of(*reason).urgency(), track.place));
        first.map_or_else(
            || "nothing is left to do".to_owned(),
            |(track, (_, reason))| format!("{} says {reason}", track.name),
        )
    }

    /// The simulation as JSON.
    pub fn json(&self) -> String {
        let (verdict, evidence) = match &self.end {
            End::Done => ("Done", None),
            End::Halted(evidence) => ("Halted", Some(evidence.as_str())),
            End::Reverted(evidence) => ("Reverted", Some(evidence.as_str())),
            End::Waiting => ("Waiting", None),
        };
        let clusters = self.clusters.iter().map(|track| PrintedTrack {
            name: &track.name,
            stage: track.stage.as_deref(),
            changes: track
                .changes
                .iter()
                .map(|(at, reason)| PrintedChange {
                    seconds: seconds(*at),
                    reason: reason.as_str(),
                    shape: Shape::of(*reason),
                })
                .collect(),
        });
        let openings = self.openings.iter().map(|opening| PrintedOpening {
            at: opening.at,
            local: &opening.local,
            window: &opening.window,
            clusters: &opening.clusters,
        });
        let printed = Printed {
            schema: "simulate/v1",
            verdict,
            evidence,
            seconds: seconds(self.took),
            batches: self.batches,
            carrying: self.carrying,
            failed: self.failed,
            openings: openings.collect(),
            clusters: clusters.collect(),
        };
        // Text and numbers always serialize to JSON.
        let text = serde_json::to_string_pretty(&printed).unwrap_or_default();
        format!("{text}\n")
    }
}

/// A duration for display, in whole seconds.
pub(crate) fn time(at: Millis) -> String {
    Duration::from_secs(at.0 / 1000).to_string()
}

fn seconds(at: Millis) -> f64 {
    std::time::Duration::from(at).as_secs_f64()
}
