//! The status of a window: whether it can be parsed, whether it is open, and when that changes. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    conditions::{Conditions, Status},
    ranges,
    reasons::{ObjectReason, Reason},
    rolloutwindow::RolloutWindowStatus,
};
use muster_windows::{Cluster, Window};

use super::object::StoredWindow;
use crate::registry::ClusterRow;

/// How often to search for entries that upcoming clock changes skip.
const AGAIN: SignedDuration = SignedDuration::from_hours(24);
/// How many skipped times a message lists.
const LISTED: usize = 3;

/// The status of a window, and when it may change over time.
pub(super) fn window_status(
    object: &StoredWindow,
    clusters: &[Arc<ClusterRow>],
    now: Timestamp,
) -> (RolloutWindowStatus, Timestamp) {
    let window = object.read();
    let selected: Vec<&ClusterRow> = clusters
        .iter()
        .map(|row| &**row)
        .filter(|row| window.selects_cluster(&cluster(row)))
        .collect();
    let summary = window.summary(now);
    let generation = object.metadata.generation;
    let before: RolloutWindowStatus = object
        .status
        .clone()
        .and_then(|status| serde_json::from_value(status).ok())
        .unwrap_or_default();
    let status = RolloutWindowStatus {
        observed_generation: generation,
        conditions: conditions(&window, &selected, now).merge(
            &before.conditions,
            generation.unwrap_or_default(),
            now,
        ),
        open: summary.open,
        next_change: summary.next_change.map(Time),
        clusters: u32::try_from(selected.len()).ok(),
    };
    // Only at the end of the calendar there is no next day.
    let daily = now.checked_add(AGAIN).unwrap_or(Timestamp::MAX);
    (status, summary.next_change.map_or(daily, |at| at.min(daily)))
}

fn conditions(window: &Window, selected: &[&ClusterRow], now: Timestamp) -> Conditions {
    let invalid = |message: String| {
        let reason = Reason::WindowInvalid.as_str();
        Conditions::ready(Status::False, reason, message.clone()).stalled(reason, message)
    };
    if !window.errors().is_empty() {
        let errors: Vec<String> = window.errors().iter().map(ToString::to_string).collect();
        return invalid(format!(
            "{}; until this is fixed, no change starts in the clusters that the window selects",
            errors.join("; ")
        ));
    }
    let mut unreadable: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for row in selected {
        if let Some(error) = window.error_in(&cluster(row)) {
            unreadable.entry(error.to_string()).or_default().push(&row.name);
        }
    }
    if !unreadable.is_empty() {
        let closed = unreadable
            .iter()
            .map(|(error, names)| format!("{}: {error}", ranges::fold(names.iter().copied())));
        let closed: Vec<String> = closed.collect();
        return invalid(format!(
            "{}; until this is fixed, no change starts there",
            closed.join("; ")
        ));
    }
    Conditions::ready(
        Status::True,
        ObjectReason::Succeeded.as_str(),
        readable(window, selected, now),
    )
}

/// The message for a valid window. It includes times that a clock change skips, at which the window appears to open or
/// close, but does not.
fn readable(window: &Window, selected: &[&ClusterRow], now: Timestamp) -> String {
    let of_clusters = selected
        .iter()
        .flat_map(|row| window.skipped(Some(&cluster(row)), now));
    let mut all: Vec<String> = window
        .skipped(None, now)
        .into_iter()
        .chain(of_clusters)
        .map(|skipped| skipped.to_string())
        .collect();
    all.sort_unstable();
    all.dedup();
    let more = all.len().saturating_sub(LISTED);
    all.truncate(LISTED);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    all.insert(0, "the window can be read".to_owned());
    all.join("; ")
}

fn cluster(row: &ClusterRow) -> Cluster<'_> {
    Cluster {
        labels: &row.labels,
        annotations: &row.annotations,
    }
}
