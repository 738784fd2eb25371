//! Memory over gaps: nobody led for a while, or the memory is lost.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Charge, Evidence, Kind, MAX_BAD, MAX_CHARGES, Memory};
use crate::{Content, Millis, Revision, State, Token, Unit};

impl Memory {
    /// A memory in place of one that is absent, unreadable or of another life of the module: from a complete, fresh
    /// read of the rows, and from the verdicts that were recorded elsewhere. It is written before anything moves.
    ///
    /// A unit whose row is not reported as done is charged, without blame, as nobody knows what it was before.
    /// Nothing is withdrawn on the pass that is decided on it.
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
        memory.charges = unconfirmed
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .take(MAX_CHARGES)
            .collect();
        memory
    }

    /// The same memory after a time in which nobody led: that time is on no unit's account, neither of a deadline nor of an
    /// absence.
    ///
    /// To be applied once, to the memory that a process read when it began to lead, with how long nobody led before. A gap of
    /// nothing changes nothing, and one that is said to be longer than it was takes back no more than what ran since it began
    /// to run: what was spent before stays spent. The soak goes on: success is what was seen, whoever looked.
    #[must_use]
    pub fn after_gap(mut self, gap: Millis, now: Millis) -> Self {
        for charge in self.charges.values_mut() {
            for instant in [&mut charge.clock.from, &mut charge.absent_since]
                .into_iter()
                .flatten()
            {
                *instant = instant.plus(gap).min(now.max(*instant));
            }
        }
        self
    }
}

/// The greatest token in rows and reports. A report comes from elsewhere: a token that no decision can have given
/// out is not believed.
pub(crate) fn greatest_token<'a>(units: impl IntoIterator<Item = &'a Unit>) -> Token {
    const BELIEVABLE: Token = Token(1 << 53);
    let tokens = units.into_iter().map(|unit| {
        let echoed = unit
            .observed
            .as_ref()
            .map(|echo| echo.token)
            .filter(|token| *token < BELIEVABLE);
        unit.token().max(echoed.unwrap_or_default())
    });
    tokens.max().unwrap_or_default()
}

fn unconfirmed(unit: &Unit, now: Millis) -> Option<Charge> {
    let row = unit.assigned?;
    let charge = match row.content {
        Content::Carries { revision, digest } if unit.state_at_row() != Some(&State::Succeeded) => Charge {
            revision,
            digest: Some(digest),
            ..Charge::new(unit, Kind::Assign, row.token, now)
        },
        Content::Withdraw if unit.being_withdrawn() => Charge::new(unit, Kind::Withdraw, row.token, now),
        Content::Carries { .. } | Content::Withdraw | Content::Nothing => return None,
    };
    // Who reported about its row may have been confirmed once.
    let reported = unit.state_at_row().is_some();
    let changes = charge.kind != Kind::Withdraw;
    Some(Charge {
        sent: (changes && !reported).then_some(row.token),
        doubtful: changes && reported,
        ..charge
    })
}
