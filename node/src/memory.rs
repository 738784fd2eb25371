//! What the agent remembers of its rows beside the journal: what each confirmed, how its last try ended, and what is known bad.
//!
//! It is written whole into a new file, and the one before is kept. A damaged memory is an empty one: then files are compared anew.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    content::Key,
    disk::DiskResult,
    journal::Record,
    known_bad::{self, KnownBad},
    outcome::{Class, Outcome, Verdict},
    own::Own,
};

/// How often a try of the same key is repeated that ended for the surroundings' reasons.
pub const MAX_TRIES: u32 = 3;
/// The pause before the first repetition; it doubles with each one.
pub const PAUSE: Duration = Duration::from_mins(1);

/// Its name in the agent's own folder.
pub(crate) const FILE: &str = "memory";

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Memory {
    /// Where it was written.
    pub machine_id: String,
    /// The last record of the journal that was taken over: those before it say nothing new.
    pub taken: u64,
    /// By name of the row.
    pub rows: BTreeMap<String, RowMemory>,
    pub known_bad: Vec<KnownBad>,
}

/// What is remembered of a row.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct RowMemory {
    /// The key whose files stand on the node.
    pub confirmed: Option<Key>,
    /// The boot in which the services last read them.
    pub read_in_boot: String,
    /// The last try.
    pub last: Option<Try>,
}

/// A try that ended.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Try {
    pub key: Key,
    pub outcome: Outcome,
    /// How many there were of this key before.
    pub tries: u32,
    /// When it ended, in milliseconds since the boot of this name.
    pub boot_id: String,
    pub ended: u64,
}

impl Try {
    /// Whether the same is tried again: it ended for the surroundings' reasons, and not too often.
    pub(crate) fn is_repeated(&self) -> bool {
        self.outcome.verdict.class() == Some(Class::Infra) && self.tries + 1 < MAX_TRIES
    }
}

impl Memory {
    /// The memory of this machine, or the one before it, or an empty one.
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

    /// Takes over how a change ended. Whether that is news.
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

    /// Whether the files of this key stand since its last try.
    pub(crate) fn has_confirmed(&self, row: &str, key: &Key) -> bool {
        let last = self.rows.get(row).and_then(|row| row.last.as_ref());
        last.is_some_and(|last| last.key == *key && last.outcome.verdict == Verdict::Confirmed)
    }

    pub(crate) fn known_bad(&self, key: &Key) -> Option<&KnownBad> {
        self.known_bad.iter().find(|bad| bad.is_about(key))
    }
}
