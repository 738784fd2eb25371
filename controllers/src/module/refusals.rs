//! Rows that the API server of the management cluster rejected permanently, with its message. They are retried with
//! increasing pauses.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use muster_api::{conditions::bounded, schema::MAX_MESSAGE};
use muster_driver::Planned;
use muster_rollout::{self as engine, Memory, Token, UnitId};
use parking_lot::Mutex;

use crate::runtime::Key;

/// The first pause before a refused row is retried; each is twice as long as the last.
const FIRST: Duration = Duration::from_secs(5);
/// The longest pause: the maximum delay of a row's write after the cause of its refusal is fixed.
const LONGEST: Duration = Duration::from_mins(1);

/// A row that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Its token; 0 if the row was to be removed.
    pub token: Token,
    /// The message of the API server.
    pub message: Arc<str>,
    /// When it is retried.
    pub again: Timestamp,
    pause: Duration,
}

/// The result of recording a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Whether this row was not refused before.
    pub is_new: bool,
    /// When the row is retried.
    pub again: Timestamp,
}

/// The refused rows of one module, by cluster.
pub(crate) type Rows = BTreeMap<UnitId, Refused>;

/// Kept in memory by the leader: a new leader tries at once and is refused again. Bounded by the rows that a module
/// writes at once.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<Key, Rows>>);

impl Refusals {
    /// The refused rows of a module.
    pub(crate) fn of(&self, module: &Key) -> Rows {
        self.0.lock().get(module).cloned().unwrap_or_default()
    }

    /// Records a refusal. A different message for the same row is not new: some webhooks include the request's id.
    pub(crate) fn record(&self, module: &Key, planned: &Planned, message: &str, now: Timestamp) -> Noted {
        let token = planned.token();
        let message = bounded(message, MAX_MESSAGE);
        let mut all = self.0.lock();
        let rows = all.entry(module.clone()).or_default();
        let known = rows.get(&planned.unit).filter(|known| known.token == token);
        let pause = known.map_or(FIRST, |known| (known.pause * 2).min(LONGEST));
        let is_new = known.is_none();
        let refused = Refused {
            token,
            message: message.into(),
            again: now + pause,
            pause,
        };
        let again = refused.again;
        rows.insert(planned.unit.clone(), refused);
        Noted { is_new, again }
    }

    /// Replaces the refused rows of a module: the others were written, or are no longer needed.
    pub(crate) fn keep(&self, module: &Key, rows: Rows) {
        let mut all = self.0.lock();
        if rows.is_empty() {
            all.remove(module);
        } else {
            all.insert(module.clone(), rows);
        }
    }

    /// Drops the entries of a deleted module.
    pub(crate) fn drop_module(&self, module: &Key) {
        self.0.lock().remove(module);
    }
}

/// The refusals in the engine's form.
pub(crate) fn of_engine(rows: &Rows) -> BTreeMap<UnitId, engine::RefusedWrite> {
    let refusal = |refused: &Refused| engine::RefusedWrite {
        token: refused.token,
        message: Arc::clone(&refused.message),
    };
    rows.iter()
        .map(|(cluster, refused)| (cluster.clone(), refusal(refused)))
        .collect()
}

/// The refused rows that still must be written, now or later: their in-flight change has that token, or a row waits to
/// be removed.
pub(crate) fn remaining_refusals(rows: &Rows, memory: &Memory, planned: &[Planned]) -> Rows {
    let wanted = |cluster: &UnitId, token: Token| match memory.in_flight.get(cluster) {
        Some(change) => change.token == token,
        None => planned
            .iter()
            .any(|planned| planned.unit == *cluster && planned.token() == token),
    };
    let left = rows
        .iter()
        .filter(|(cluster, refused)| wanted(cluster, refused.token));
    left.map(|(cluster, refused)| (cluster.clone(), refused.clone()))
        .collect()
}

/// When a row that was refused with this token is retried; `None` means at once.
pub(crate) fn retry_at(rows: &Rows, planned: &Planned, now: Timestamp) -> Option<Timestamp> {
    let refused = rows.get(&planned.unit)?;
    (refused.token == planned.token() && refused.again > now).then_some(refused.again)
}

#[cfg(test)]
mod tests {
    use muster_driver::{Change, NewContent};

    use super::*;

    #[test]
    fn the_same_row_is_tried_less_and_less_often_whatever_words_refuse_it() {
        let (refusals, module) = (Refusals::default(), Key::new("fleet", "web"));
        let fence = |token| Planned {
            unit: "eu-1".into(),
            change: Some(Change {
                token: Token(token),
                then: NewContent::Fenced,
            }),
        };
        let now = Timestamp::UNIX_EPOCH;
        let after = |token, words: &str| {
            let noted = refusals.record(&module, &fence(token), words, now);
            (noted.is_new, noted.again.as_second())
        };
        assert_eq!(after(3, "request 1 is denied"), (true, 5));
        assert_eq!(after(3, "request 2 is denied"), (false, 10));
        assert_eq!(after(3, "request 3 is denied"), (false, 20));
        assert_eq!(after(3, "request 4 is denied"), (false, 40));
        assert_eq!(after(3, "request 5 is denied"), (false, 60));
        assert_eq!(after(3, "request 6 is denied"), (false, 60));
        assert_eq!(after(4, "request 7 is denied"), (true, 5));
    }
}
