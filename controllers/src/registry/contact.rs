//! Evaluates the probes of one cluster, as a state machine without a clock: when a cluster counts as unreachable, and
//! when to probe again.

use std::time::Duration;

use super::probe::Probe;

/// Consecutive failures that make a cluster unreachable: five, a second apart, outlast a failover of an API server.
const FAILURES: u32 = 5;
/// The pause between the first failures.
const BETWEEN_FAILURES: Duration = Duration::from_secs(1);
/// The longest pause between probes of an unreachable cluster, before jitter.
const BACKOFF_MAX: Duration = Duration::from_secs(27);
/// The pause between probes of a cluster that answers. With ± 10 % of jitter less than the 20 s of a poll.
const BETWEEN_ANSWERS: Duration = Duration::from_secs(18);
/// After this number of answers the identity of a ready cluster is read again, and whether it still serves the kind
/// Assemblage (about every 3 min); if the kind is missing, every probe checks it.
const THOROUGH_EVERY: u32 = 10;

/// The state of the API server of a cluster, from its probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contact {
    /// Whether it answered since its connection was created.
    pub(super) ever: bool,
    /// Failures since the last answer.
    pub(super) failures: u32,
    /// The message of the last failure.
    pub(super) error: String,
    /// Whether the credential was rejected last, also after reading the Secret again.
    pub(super) refused: bool,
    /// What Modules need and the cluster lacks, as a message.
    pub(super) missing: Option<String>,
    /// Answers since the last thorough probe.
    since_thorough: u32,
}

/// The result of the probes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach<'a> {
    /// No probe has completed yet.
    Unknown,
    /// It answers.
    Answers,
    /// It answers, but lacks something that Modules need.
    Missing(&'a str),
    /// It rejects the credential.
    Refuses(&'a str),
    /// It does not answer.
    Silent(&'a str),
}

impl Contact {
    /// Records the result of a probe.
    pub(super) fn record(&mut self, probe: Probe) {
        match probe {
            Probe::Answered { missing, thorough } => {
                self.since_thorough = if thorough {
                    1
                } else {
                    self.since_thorough.saturating_add(1)
                };
                *self = Self {
                    ever: true,
                    missing,
                    since_thorough: self.since_thorough,
                    ..Self::default()
                };
            }
            Probe::Refused(error) => {
                self.refused = true;
                self.failures = self.failures.saturating_add(1);
                self.error = error;
            }
            Probe::Failed(error) => {
                self.failures = self.failures.saturating_add(1);
                self.error = error;
            }
        }
    }

    /// The result of the probes so far. A cluster that never answered counts as unreachable after its first failure.
    pub(super) fn reach(&self) -> Reach<'_> {
        match (self.failures, self.refused, &self.missing) {
            (1.., true, _) => Reach::Refuses(&self.error),
            (FAILURES.., false, _) => Reach::Silent(&self.error),
            (1.., false, _) if !self.ever => Reach::Silent(&self.error),
            (0, _, _) if !self.ever => Reach::Unknown,
            (_, _, Some(missing)) => Reach::Missing(missing),
            (_, _, None) => Reach::Answers,
        }
    }

    /// The pause before the next probe, without jitter.
    pub(super) fn pause(&self) -> Duration {
        match self.failures {
            0 => BETWEEN_ANSWERS,
            1..FAILURES if !self.refused => BETWEEN_FAILURES,
            // 1, 2, 4, ... from the failure that made it unreachable; a shift of 5 exceeds the maximum.
            failures => BETWEEN_FAILURES
                .saturating_mul(1 << failures.saturating_sub(FAILURES).min(5))
                .min(BACKOFF_MAX),
        }
    }

    /// Whether the next probe checks everything.
    pub(super) fn is_thorough(&self) -> bool {
        self.missing.is_some()
            || self.since_thorough == 0
            || self.since_thorough >= THOROUGH_EVERY
            || self.failures > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(missing: Option<&str>) -> Probe {
        Probe::Answered {
            missing: missing.map(str::to_owned),
            thorough: true,
        }
    }

    fn after(probes: impl IntoIterator<Item = Probe>) -> Contact {
        let mut contact = Contact::default();
        probes.into_iter().for_each(|probe| contact.record(probe));
        contact
    }

    fn failures(count: usize) -> impl Iterator<Item = Probe> {
        std::iter::repeat_with(|| Probe::Failed("reset".to_owned())).take(count)
    }

    #[test]
    fn five_failures_in_a_row_are_needed_once_it_has_answered() {
        assert_eq!(after([]).reach(), Reach::Unknown);
        assert_eq!(
            after(failures(1)).reach(),
            Reach::Silent("reset"),
            "it never answered"
        );
        let known = |count| after(std::iter::once(answered(None)).chain(failures(count)));
        assert_eq!(known(4).reach(), Reach::Answers);
        assert_eq!(known(5).reach(), Reach::Silent("reset"));
        let back = after(
            std::iter::once(answered(None))
                .chain(failures(9))
                .chain([answered(Some("no kind"))]),
        );
        assert_eq!(
            back.reach(),
            Reach::Missing("no kind"),
            "one answer brings it back"
        );
    }

    #[test]
    fn a_refusal_counts_at_once() {
        let contact = after([answered(None), Probe::Refused("Unauthorized".to_owned())]);
        assert_eq!(contact.reach(), Reach::Refuses("Unauthorized"));
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let pause = |count| {
            after(std::iter::once(answered(None)).chain(failures(count)))
                .pause()
                .as_secs()
        };
        let pauses: Vec<u64> = (0..12).map(pause).collect();
        assert_eq!(pauses, [18, 1, 1, 1, 1, 1, 2, 4, 8, 16, 27, 27]);
    }
}
