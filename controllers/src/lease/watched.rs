//! What a candidate concludes from the Lease that it reads. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use tokio::time::Instant;

use super::{LONGEST, LeaseDuration};

/// The maximum gap without a leader, and the value of an unknown gap: longer than every deadline of a rollout, so that
/// in-flight changes restart their time and are not considered overdue.
pub const LONGEST_GAP: Duration = Duration::from_hours(366 * 24);

/// What a candidate has observed of the Lease.
#[derive(Debug, Default)]
pub(super) struct Watched {
    last: Option<Sighting>,
}

/// A state of the Lease, and when it was first observed by the monotonic clock.
#[derive(Debug)]
struct Sighting {
    spec: LeaseSpec,
    at: Instant,
}

/// Whether the Lease can be taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chance {
    /// It does not exist, has no holder, or its holder has not renewed it for too long.
    Free,
    /// It has a holder, at least until this time.
    Held { by: String, until: Instant },
}

impl Watched {
    /// Processes what was read. `own`: the duration of this process's lease.
    ///
    /// The times in the object are from another clock: they are never compared with the local one. What counts is how
    /// long no change was observed. A lease that was deleted while its holder lived stays the holder's for the same
    /// time: the holder does not know yet.
    pub(super) fn observe(&mut self, lease: Option<&Lease>, own: LeaseDuration, now: Instant) -> Chance {
        let read = lease.map(|lease| lease.spec.clone().unwrap_or_default());
        if let Some(spec) = read
            && self.last.as_ref().is_none_or(|last| last.spec != spec)
        {
            self.last = Some(Sighting { spec, at: now });
        }
        let Some(Sighting { spec, at }) = &self.last else {
            return Chance::Free;
        };
        let Some(by) = holder(spec) else {
            return Chance::Free;
        };
        let until = *at + lasts(spec, own);
        if until <= now {
            return Chance::Free;
        }
        Chance::Held {
            by: by.to_owned(),
            until,
        }
    }

    /// How long there was no leader, according to the wall clocks of two hosts: from the last renewal until now.
    pub(super) fn gap(&self, now: Timestamp) -> Duration {
        let renewed = self.last.as_ref().and_then(|last| last.spec.renew_time.as_ref());
        renewed.map_or(LONGEST_GAP, |MicroTime(renewed)| {
            // A negative span is a clock ahead of the local one: no gap.
            let gap = Duration::try_from(now.duration_since(*renewed)).unwrap_or(Duration::ZERO);
            gap.min(LONGEST_GAP)
        })
    }
}

/// The holder of a lease; `None` if the name is empty.
pub(super) fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())
}

/// How long to wait for a holder: the duration in the lease, within limits.
fn lasts(spec: &LeaseSpec, own: LeaseDuration) -> Duration {
    let declared = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    match declared {
        None | Some(0) => own.duration(),
        Some(seconds) => Duration::from_secs(seconds).min(LONGEST),
    }
}

/// The Lease as its new holder writes it.
pub(super) fn taken(
    before: Option<Lease>,
    name: &str,
    me: &str,
    own: LeaseDuration,
    now: Timestamp,
) -> Lease {
    let transitions = before.as_ref().map_or(0, |lease| {
        let spec = lease.spec.as_ref();
        // An invalid count starts again.
        let count = spec.and_then(|spec| spec.lease_transitions).unwrap_or(0).max(0);
        count.saturating_add(1)
    });
    let mut lease = before.unwrap_or_default();
    lease.metadata.name = Some(name.to_owned());
    lease.metadata.managed_fields = None;
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(own.seconds()),
        acquire_time: Some(micro(now)),
        renew_time: Some(micro(now)),
        lease_transitions: Some(transitions),
        // Fields of coordinated leader election, which muster does not take part in; a strategy without candidates
        // would be rejected.
        preferred_holder: None,
        strategy: None,
    });
    lease
}

/// The Lease as its holder writes it to renew.
pub(super) fn renewed(held: &Lease, own: LeaseDuration, now: Timestamp) -> Lease {
    let mut lease = held.clone();
    let spec = lease.spec.get_or_insert_default();
    spec.lease_duration_seconds = Some(own.seconds());
    spec.renew_time = Some(micro(now));
    lease
}

/// The Lease as its holder releases it: without a holder, and short for candidates that check only the duration.
pub(super) fn released_lease(held: &Lease, now: Timestamp) -> Lease {
    let mut lease = held.clone();
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = None;
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(micro(now));
    lease
}

/// A `metav1.MicroTime` of a time.
fn micro(at: Timestamp) -> MicroTime {
    MicroTime(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn lease(holder: Option<&str>, seconds: Option<i32>, renewed: Option<&str>) -> Lease {
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: seconds,
                renew_time: renewed.map(|text| micro(at(text))),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    #[test]
    fn how_long_a_holder_is_waited_for() {
        let check = |lease: Lease, expect: Option<u64>| {
            let now = Instant::now();
            let own = LeaseDuration::default();
            let until = match Watched::default().observe(Some(&lease), own, now) {
                Chance::Free => None,
                Chance::Held { until, .. } => Some((until - now).as_secs()),
            };
            assert_eq!(until, expect, "{lease:?}");
        };
        let now = Some("2026-01-01T00:00:00Z");
        check(lease(Some("a"), Some(15), now), Some(15));
        check(lease(Some("a"), Some(60), now), Some(60));
        check(lease(Some("a"), Some(1), now), Some(1));
        check(lease(None, Some(15), now), None);
        check(lease(Some(""), Some(15), now), None);
        check(Lease::default(), None);
        // An invalid value neither locks out nor lets in.
        check(lease(Some("a"), None, now), Some(15));
        check(lease(Some("a"), Some(0), now), Some(15));
        check(lease(Some("a"), Some(-5), now), Some(15));
        check(lease(Some("a"), Some(i32::MAX), now), Some(600));
        check(lease(Some("a"), Some(15), Some("1970-01-01T00:00:00Z")), Some(15));
        check(lease(Some("a"), Some(15), Some("9998-01-01T00:00:00Z")), Some(15));
        check(lease(Some("a"), Some(15), None), Some(15));
    }

    #[test]
    fn only_a_change_that_we_see_prolongs() {
        let (mut watched, own, start) = (Watched::default(), LeaseDuration::default(), Instant::now());
        let mut chance = |lease: Option<&Lease>, after: u64| {
            let until = match watched.observe(lease, own, start + SECOND * u32::try_from(after).unwrap()) {
                Chance::Free => None,
                Chance::Held { until, .. } => Some((until - start).as_secs()),
            };
            (after, until)
        };
        let mut held = lease(Some("a"), Some(15), Some("2026-01-01T00:00:00Z"));
        assert_eq!(chance(Some(&held), 0), (0, Some(15)));
        held.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
        assert_eq!(
            chance(Some(&held), 10),
            (10, Some(15)),
            "an annotation renews nothing"
        );
        held.spec.as_mut().unwrap().renew_time = Some(micro(at("2025-01-01T00:00:00Z")));
        assert_eq!(
            chance(Some(&held), 14),
            (14, Some(29)),
            "a change is a change, whatever its clock says"
        );
        assert_eq!(chance(None, 20), (20, Some(29)), "deleted under its holder");
        assert_eq!(chance(None, 29), (29, None));
    }

    #[test]
    fn gaps() {
        let check = |renewed: Option<&str>, expect: Duration| {
            let mut watched = Watched::default();
            watched.observe(
                Some(&lease(Some("a"), None, renewed)),
                LeaseDuration::default(),
                Instant::now(),
            );
            assert_eq!(watched.gap(at("2026-01-01T00:00:20Z")), expect, "{renewed:?}");
        };
        check(Some("2026-01-01T00:00:03Z"), 17 * SECOND);
        check(Some("2026-01-01T00:00:30Z"), Duration::ZERO);
        check(Some("1970-01-01T00:00:00Z"), LONGEST_GAP);
        check(None, LONGEST_GAP);
        assert_eq!(
            Watched::default().gap(at("2026-01-01T00:00:00Z")),
            LONGEST_GAP,
            "never observed"
        );
    }

    #[test]
    fn what_is_written() {
        let (own, now) = (LeaseDuration::default(), at("2026-01-01T00:00:00.000001Z"));
        let mut before = lease(Some("a"), Some(60), None);
        before.metadata.resource_version = Some("7".to_owned());
        before.metadata.labels = Some([("team".to_owned(), "x".to_owned())].into());
        before.spec.as_mut().unwrap().lease_transitions = Some(4);
        let taken = taken(Some(before), "muster-controller", "b", own, now);
        let renewed = renewed(&taken, own, at("2026-01-01T00:00:05Z"));
        let released = released_lease(&renewed, at("2026-01-01T00:00:06Z"));
        insta::assert_json_snapshot!([taken, renewed, released]);
        let mut odd = Lease::default();
        odd.spec.get_or_insert_default().lease_transitions = Some(-3);
        let transitions = |before| {
            super::taken(before, "l", "b", own, now)
                .spec
                .unwrap()
                .lease_transitions
        };
        assert_eq!(transitions(Some(odd)), Some(1));
        assert_eq!(transitions(None), Some(0));
    }
}
