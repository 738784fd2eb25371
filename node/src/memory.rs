//! The agent's memory of its rows in addition to the journal: the confirmed key of each row, the result of its last
//! try, and known bad contents.
//!
//! It is written atomically, and the previous file is kept. A damaged memory counts as empty: then files are compared
//! again.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    content::Key,
    disk::DiskResult,
    journal::Record,
    known_bad::{self, KnownBad},
    outcome::{ChangeOutcome, Class, Verdict},
    own::Own,
};

/// How often a try of the same key is repeated after it failed because of the environment.
pub const MAX_TRIES: u32 = 3;
/// The pause before the first repetition; it doubles each time.
pub const PAUSE: Duration = Duration::from_mins(1);

/// The file name in the agent's own directory.
pub(crate) const FILE: &str = "memory";

/// The content of the memory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Memory {
    /// The machine on which it was written.
    pub machine_id: String,
    /// The last record of the journal that was merged: earlier ones are already included.
    pub taken: u64,
    /// By name of the row.
    pub rows: BTreeMap<String, RowMemory>,
    pub known_bad: Vec<KnownBad>,
}

/// The memory of a row.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct RowMemory {
    /// The key whose files are on the node.
    pub confirmed: Option<Key>,
    /// The boot in which the services last read them.
    pub read_in_boot: String,
    /// The last try of the row.
    pub last: Option<Try>,
}

/// A completed try.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Try {
    pub key: Key,
    pub outcome: ChangeOutcome,
    /// The number of previous tries of this key.
    pub tries: u32,
    /// When it ended, in milliseconds since the boot of this name.
    pub boot_id: String,
    pub ended: u64,
}

impl Try {
    /// Whether the same is tried again: it failed because of the environment, and not too often.
    pub(crate) fn is_repeated(&self) -> bool {
        self.outcome.verdict.class() == Some(Class::Infra) && self.tries + 1 < MAX_TRIES
    }
}

impl Memory {
    /// The memory of this machine, the previous one, or an empty one.
    pub(crate) fn open(own: &Own, machine_id: &str) -> DiskResult<Self> {
        let mut memory = None;
        for name in [FILE, "memory.before"] {
            if memory.is_none() {
                memory = own
                    .get_json(name)?
                    .filter(|memory: &Self| memory.machine_id == machine_id);
            }
        }
        Ok(memory.unwrap_or_else(|| Self {
            machine_id: machine_id.to_owned(),
            ..Self::default()
        }))
    }

    pub(crate) fn save(&self, own: &Own) -> DiskResult<()> {
        own.put_json(FILE, self, true)
    }

    /// Merges the result of a change. Whether that changed anything.
    pub(crate) fn take(&mut self, record: &Record, now: u64) -> bool {
        let Some(outcome) = record.outcome.as_ref().filter(|_| record.seq > self.taken) else {
            return false;
        };
        self.taken = record.seq;
        let row = self.rows.entry(record.row.clone()).or_default();
        if outcome.verdict == Verdict::Confirmed {
            row.confirmed = Some(record.key.clone());
            row.read_in_boot.clone_from(&record.identity.boot_id);
        }
        row.last = Some(Try {
            key: record.key.clone(),
            outcome: outcome.clone(),
            tries: record.tries,
            boot_id: record.identity.boot_id.clone(),
            ended: now,
        });
        if outcome.verdict.class() == Some(Class::Revision) {
            known_bad::remember(&mut self.known_bad, &record.key, outcome);
        }
        true
    }

    /// Whether the files of this key have been on the node since its last try.
    pub(crate) fn has_confirmed(&self, row: &str, key: &Key) -> bool {
        let last = self.rows.get(row).and_then(|row| row.last.as_ref());
        last.is_some_and(|last| last.key == *key && last.outcome.verdict == Verdict::Confirmed)
    }

    pub(crate) fn known_bad(&self, key: &Key) -> Option<&KnownBad> {
        self.known_bad.iter().find(|bad| bad.is_about(key))
    }
}
