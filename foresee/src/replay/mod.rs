//! The decisions of a record are made again, told, and held against what was recorded.
//!
//! ```text
//!   file ─► log ─► Case ─┬─► again: the same, or the first difference ─┬─► text
//!                        └─► story: what differs from the case before ─┴─► JSON
//! ```
//!
//! Invariant: nothing is told of a record that cannot be read to its end.

mod log;
mod print;
mod story;

use std::{collections::BTreeSet, path::Path};

use jiff::Timestamp;
use muster_rollout::{Decision, Millis, UnitId, record::Case};

use self::{log::Log, story::Change};
pub use self::{
    log::LogError,
    print::{json, text},
};

/// What became of a record.
#[derive(Debug, Default)]
pub struct Replay {
    /// Whose decisions they are.
    module: String,
    /// The versions of muster that decided.
    versions: BTreeSet<String>,
    /// How many decisions it holds.
    decisions: usize,
    /// What changed from one to the next.
    changes: Vec<Changed>,
    /// How many came out differently.
    pub differing: usize,
    first: Option<Difference>,
    /// The last line, if it was not written to its end.
    torn: Option<usize>,
}

/// What changed with the decision on a line.
#[derive(Debug)]
struct Changed {
    line: usize,
    at: Millis,
    change: Change,
}

/// A decision that comes out differently.
#[derive(Debug)]
struct Difference {
    line: usize,
    at: Millis,
    recorded: Decision,
    now: Decision,
}

/// Makes the decisions of a record again; what is told is about one cluster, if one is named: all are compared.
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

/// An instant of the engine.
fn timestamp(at: Millis) -> Timestamp {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// The same in whole seconds, which people read.
fn second(at: Millis) -> Timestamp {
    timestamp(Millis(at.0 / 1000 * 1000))
}
