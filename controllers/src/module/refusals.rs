//! Rows that the API server of the management cluster refused for good, with its words. They are tried again, less and less often.

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

/// The first pause before a refused row is tried again; each is twice as long as the last.
const FIRST: Duration = Duration::from_secs(5);
/// The longest pause: so much later at most a row is written once its refusal ends.
const LONGEST: Duration = Duration::from_mins(1);

/// A row that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Its token; 0 where the row was to be removed.
    pub token: Token,
    /// The words of the API server.
    pub message: Arc<str>,
    /// When it is tried again.
    pub again: Timestamp,
    pause: Duration,
}

/// What became of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// It says something new.
    pub is_new: bool,
    /// When the row is tried again.
    pub again: Timestamp,
}

/// What was refused of one module, by cluster.
pub(crate) type Rows = BTreeMap<UnitId, Refused>;

/// Kept by the process that leads: another one tries at once, and is refused again. Bounded by the rows that a module writes at once.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<Key, Rows>>);

impl Refusals {
    /// What was refused of a module.
    pub(crate) fn of(&self, module: &Key) -> Rows {
        self.0.lock().get(module).cloned().unwrap_or_default()
    }

    /// A row was refused. Other words for the same row are no news: some webhooks name each request.
    pub(crate) fn note(&self, module: &Key, planned: &Planned, message: &str, now: Timestamp) -> Noted {
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

    /// What is left of them: the others were written, or are not wanted any more.
    pub(crate) fn keep(&self, module: &Key, rows: Rows) {
        let mut all = self.0.lock();
        if rows.is_empty() {
            all.remove(module);
        } else {
            all.insert(module.clone(), rows);
        }
    }

    /// A module is gone.
    pub(crate) fn forget(&self, module: &Key) {
        self.0.lock().remove(module);
    }
}

/// What the engine is to know of them.
pub(crate) fn of_engine(rows: &Rows) -> BTreeMap<UnitId, engine::Refusal> {
    let refusal = |refused: &Refused| engine::Refusal {
        token: refused.token,
        message: Arc::clone(&refused.message),
    };
    rows.iter()
        .map(|(cluster, refused)| (cluster.clone(), refusal(refused)))
        .collect()
}

/// Those that are still to be written, now or once that may be: their charge has that token, or a row waits to be removed.
pub(crate) fn left(rows: &Rows, memory: &Memory, planned: &[Planned]) -> Rows {
    let wanted = |cluster: &UnitId, token: Token| match memory.charges.get(cluster) {
        Some(charge) => charge.token == token,
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

/// When a row is tried again that was refused with this token. None: at once, it was not.
pub(crate) fn again(rows: &Rows, planned: &Planned, now: Timestamp) -> Option<Timestamp> {
    let refused = rows.get(&planned.unit)?;
    (refused.token == planned.token() && refused.again > now).then_some(refused.again)
}

#[cfg(test)]
mod tests {
    use muster_driver::{Change, Then};

    use super::*;

    #[test]
    fn the_same_row_is_tried_less_and_less_often_whatever_words_refuse_it() {
        let (refusals, module) = (Refusals::default(), Key::new("fleet", "web"));
        let fence = |token| Planned {
            unit: "eu-1".into(),
            change: Some(Change {
                token: Token(token),
                then: Then::Fenced,
            }),
        };
        let now = Timestamp::UNIX_EPOCH;
        let after = |token, words: &str| {
            let noted = refusals.note(&module, &fence(token), words, now);
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
