//! Memory after a gap: no leader for some time, or a lost memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Evidence, InFlight, Kind, MAX_BAD, MAX_IN_FLIGHT, Memory};
use crate::{Content, Millis, Revision, State, Token, Unit};

impl Memory {
    /// Replaces a memory that is absent, unreadable or of another incarnation of the module: from a complete, fresh
    /// read of the assignments, and from the verdicts that were recorded elsewhere. It is written before anything
    /// changes.
    ///
    /// A unit whose assignment is not reported as done becomes in flight, without blame, as its previous state is
    /// unknown. Nothing is withdrawn on the pass that uses this memory.
    pub fn rebuild(
        units: &[Unit],
        last_good: Option<Revision>,
        bad: BTreeMap<Revision, Evidence>,
        now: Millis,
    ) -> Self {
        let mut memory = Self {
            seq: greatest_token(units),
            last_good: last_good.filter(|good| !bad.contains_key(good)),
            rebuilt: true,
            ..Self::default()
        };
        let mut bad: Vec<(Revision, Evidence)> = bad.into_iter().collect();
        bad.sort_unstable_by_key(|(revision, evidence)| (Reverse(evidence.at), *revision));
        bad.truncate(MAX_BAD);
        let fit = |evidence: Evidence| Evidence::new(evidence.unit, &evidence.message, evidence.at);
        memory.bad = bad
            .into_iter()
            .map(|(revision, evidence)| (revision, fit(evidence)))
            .collect();
        let unconfirmed = units
            .iter()
            .filter_map(|unit| Some((unit.id.clone(), unconfirmed(unit, now)?)));
        memory.in_flight = unconfirmed
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .take(MAX_IN_FLIGHT)
            .collect();
        memory
    }

    /// The same memory after a time without a leader: that time counts against no deadline and no absence.
    ///
    /// Must be applied once, to the memory that a process reads when it becomes the leader, with the duration without a
    /// leader. A zero duration changes nothing, and one that is too long removes at most the time since the clock was
    /// started: time spent before remains. The soak continues: success remains observed, whichever process observed it.
    #[must_use]
    pub fn after_gap(mut self, gap: Millis, now: Millis) -> Self {
        for change in self.in_flight.values_mut() {
            for instant in [&mut change.clock.from, &mut change.absent_since]
                .into_iter()
                .flatten()
            {
                *instant = instant.plus(gap).min(now.max(*instant));
            }
        }
        self
    }
}

/// The greatest token in assignments and reports. A report is untrusted input: a token that no decision can have issued
/// is ignored.
pub(crate) fn greatest_token<'a>(units: impl IntoIterator<Item = &'a Unit>) -> Token {
    const BELIEVABLE: Token = Token(1 << 53);
    let tokens = units.into_iter().map(|unit| {
        let reported = unit
            .observed
            .as_ref()
            .map(|report| report.token)
            .filter(|token| *token < BELIEVABLE);
        unit.token().max(reported.unwrap_or_default())
    });
    tokens.max().unwrap_or_default()
}

fn unconfirmed(unit: &Unit, now: Millis) -> Option<InFlight> {
    let row = unit.assigned?;
    let change = match row.content {
        Content::Carries { revision, digest } if unit.state_at_assignment() != Some(&State::Succeeded) => {
            InFlight {
                revision,
                digest: Some(digest),
                ..InFlight::new(unit, Kind::Assign, row.token, now)
            }
        }
        Content::Withdraw if unit.being_withdrawn() => InFlight::new(unit, Kind::Withdraw, row.token, now),
        Content::Carries { .. } | Content::Withdraw | Content::Nothing => return None,
    };
    // A unit that reported about its assignment may have been confirmed once.
    let reported = unit.state_at_assignment().is_some();
    let is_change = change.kind != Kind::Withdraw;
    Some(InFlight {
        sent: (is_change && !reported).then_some(row.token),
        doubtful: is_change && reported,
        ..change
    })
}
