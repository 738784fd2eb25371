//! Repeats the decisions of a record, and compares them with the record.
//!
//! ```text
//!   file ─► log ─► Case ─┬─► again: equal, or the first difference ─┬─► text
//!                        └─► story: changes since the last case ─────┴─► JSON
//! ```
//!
//! Invariant: nothing is printed of a record that cannot be read to its end.

mod log;
mod print;
mod story;

use std::{collections::BTreeSet, path::Path};

use jiff::Timestamp;
use muster_rollout::{Decision, Millis, UnitId, record::Case};

use self::{log::Log, story::Change};
pub use self::{
    log::LogError,
    print::{json, replay_text},
};

/// The result of a replay.
#[derive(Debug, Default)]
pub struct Replay {
    /// Name of the module.
    module: String,
    /// The versions of muster that decided.
    versions: BTreeSet<String>,
    /// Number of decisions.
    decisions: usize,
    /// The changes from one decision to the next.
    changes: Vec<Changed>,
    /// Number of decisions that differ.
    pub differing: usize,
    first: Option<Difference>,
    /// Number of the last line, if it is truncated.
    torn: Option<usize>,
}

/// The changes of the decision on a line.
#[derive(Debug)]
struct Changed {
    line: usize,
    at: Millis,
    change: Change,
}

/// A decision that differs.
#[derive(Debug)]
struct Difference {
    line: usize,
    at: Millis,
    recorded: Decision,
    now: Decision,
}

/// Repeats the decisions of a record. With a cluster, only its changes are returned; all decisions are compared.
pub fn replay(log: &Path, cluster: Option<&str>) -> Result<Replay, LogError> {
    let path = log;
    let mut log = Log::open(path)?;
    let only = cluster.map(UnitId::from);
    let (mut replay, mut clusters, mut before) = (Replay::default(), BTreeSet::new(), None);
    while let Some((line, case)) = log.next()? {
        replay.take(line, case, before.as_ref(), only.as_ref());
        clusters.extend(case.units.iter().map(|unit| unit.id.clone()));
        before = Some(case.decision.clone());
        if let Some(origin) = log.origin() {
            replay.module.clone_from(&origin.module);
            replay.versions.insert(origin.version.clone());
        }
    }
    if let Some(only) = only.filter(|only| !clusters.contains(only)) {
        return Err(LogError::no_cluster(&only, &clusters));
    }
    if replay.decisions == 0 {
        return Err(LogError::Empty {
            path: path.to_owned(),
        });
    }
    replay.torn = log.torn();
    Ok(replay)
}

impl Replay {
    fn take(&mut self, line: usize, case: &Case, before: Option<&Decision>, only: Option<&UnitId>) {
        self.decisions += 1;
        let at = case.now;
        let changes = story::changes(before, &case.decision).into_iter();
        let changes = changes.filter_map(|change| change.about(only));
        self.changes
            .extend(changes.map(|change| Changed { line, at, change }));
        let now = case.again();
        if now != case.decision {
            self.differing += 1;
            self.first.get_or_insert_with(|| Difference {
                line,
                at,
                recorded: case.decision.clone(),
                now,
            });
        }
    }
}

/// Converts a time of the engine.
fn timestamp(at: Millis) -> Timestamp {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// The same in whole seconds, for readability.
fn second(at: Millis) -> Timestamp {
    timestamp(Millis(at.0 / 1000 * 1000))
}
