//! Speeds and failures: for all objects, and for one by its annotations.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

/// The prefix of the annotations that a player reads.
pub const PREFIX: &str = "player.muster-apiserver.dev/";

/// Speed and size of the simulated cluster.
///
/// Annotations override it for one object and for the objects that it controls (a Deployment for its ReplicaSets and
/// pods); the annotation nearest to the pod wins. A duration is written as `3s`, `250ms`, `1m 30s`; an invalid one is
/// ignored.
///
/// | annotation | on | meaning |
/// |---|---|---|
/// | `player.muster-apiserver.dev/ready-after` | pod, owner | from creation to ready |
/// | `player.muster-apiserver.dev/stop-after` | pod, owner | from deletion to stopped |
/// | `player.muster-apiserver.dev/finish-after` | pod, Job | from ready to finished, for pods that run to completion |
/// | `player.muster-apiserver.dev/retry-after` | Job | from a failed pod to the next attempt |
/// | `player.muster-apiserver.dev/progress-deadline` | Deployment | in place of `spec.progressDeadlineSeconds` |
/// | `player.muster-apiserver.dev/fail` | pod, owner | `image-pull`, `crash` or `unready`; `none` overrides an owner |
///
/// Regardless of annotations, an image whose name contains `bad` cannot be pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speeds {
    /// Time from a pod's creation until it is ready.
    pub ready_after: Duration,
    /// Time from a pod's deletion until it has stopped.
    pub stop_after: Duration,
    /// Time from ready until finished, for pods that run to completion.
    pub finish_after: Duration,
    /// Time from the failure of a Job's pod to the next attempt.
    pub retry_after: Duration,
    /// Number of simulated nodes.
    pub nodes: u32,
}

impl Default for Speeds {
    fn default() -> Self {
        Self {
            ready_after: Duration::from_secs(1),
            stop_after: Duration::from_millis(500),
            finish_after: Duration::from_secs(1),
            retry_after: Duration::from_secs(1),
            nodes: 1,
        }
    }
}

/// Simulated failure of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The image cannot be pulled.
    ImagePull,
    /// The containers end with an error immediately after they start.
    Crash,
    /// The containers run and never become ready.
    Unready,
}

/// Settings of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// See [`Speeds::ready_after`].
    pub ready_after: Duration,
    /// See [`Speeds::stop_after`].
    pub stop_after: Duration,
    /// See [`Speeds::finish_after`].
    pub finish_after: Duration,
    /// See [`Speeds::retry_after`].
    pub retry_after: Duration,
    /// Overrides `spec.progressDeadlineSeconds`.
    pub progress_deadline: Option<Duration>,
    /// Simulated failure.
    pub failure: Option<Failure>,
}

impl Settings {
    /// Settings of an object with these annotations: its own first, then those of its controllers.
    pub(super) fn of(speeds: &Speeds, annotations: &[&BTreeMap<String, String>]) -> Self {
        let text = |name: &str| {
            let key = format!("{PREFIX}{name}");
            annotations
                .iter()
                .find_map(|own| own.get(&key))
                .map(String::as_str)
        };
        let duration = |name: &str| text(name).and_then(parse_duration);
        Self {
            ready_after: duration("ready-after").unwrap_or(speeds.ready_after),
            stop_after: duration("stop-after").unwrap_or(speeds.stop_after),
            finish_after: duration("finish-after").unwrap_or(speeds.finish_after),
            retry_after: duration("retry-after").unwrap_or(speeds.retry_after),
            progress_deadline: duration("progress-deadline"),
            failure: match text("fail") {
                Some("image-pull") => Some(Failure::ImagePull),
                Some("crash") => Some(Failure::Crash),
                Some("unready") => Some(Failure::Unready),
                _ => None,
            },
        }
    }
}

/// The annotations that a player reads.
pub(super) fn own(annotations: Option<&BTreeMap<String, String>>) -> BTreeMap<&str, &str> {
    let all = annotations.into_iter().flatten();
    all.filter(|(key, _)| key.starts_with(PREFIX))
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

fn parse_duration(text: &str) -> Option<Duration> {
    // Invalid or negative values are ignored, as documented with `Speeds`.
    text.parse::<SignedDuration>()
        .ok()
        .and_then(|duration| duration.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| (format!("{PREFIX}{name}"), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn the_nearest_annotation_that_can_be_read_counts() {
        let (pod, owner) = (
            annotations(&[("ready-after", "250ms"), ("stop-after", "soon"), ("fail", "none")]),
            annotations(&[
                ("ready-after", "9s"),
                ("finish-after", "1m 30s"),
                ("fail", "crash"),
                ("progress-deadline", "2s"),
            ]),
        );
        let speeds = Speeds::default();
        let settings = Settings::of(&speeds, &[&pod, &owner]);
        let expected = Settings {
            ready_after: Duration::from_millis(250),
            stop_after: speeds.stop_after,
            finish_after: Duration::from_secs(90),
            retry_after: speeds.retry_after,
            progress_deadline: Some(Duration::from_secs(2)),
            failure: None,
        };
        assert_eq!(settings, expected);
        assert_eq!(Settings::of(&speeds, &[&owner]).failure, Some(Failure::Crash));
    }
}
