//! The journal: the progress of this node's current change, so that a restart knows how to continue.
//!
//! Two slots of a file that is allocated once are written alternately, each durable before the next step begins. A
//! power cut can tear only the slot that was being written: the other one is intact, and its step is safe to restore
//! from.
//!
//! Invariant: a step is journalled before it begins, and no step is skipped.
//! Invariant: writing the journal needs no space, so a full disk cannot stop a restore.

use serde::{Deserialize, Serialize};

use crate::{
    content::Key,
    disk::{DiskError, DiskResult},
    outcome::{ChangeOutcome, Verdict},
    own::Own,
    sealed::hash,
};

/// Size of a slot in bytes: what disks write atomically.
pub const SLOT: usize = 4096;
/// The version that is written and read.
pub const FORMAT: u32 = 1;
/// The magic bytes of a slot; format, checksum and body follow.
const MAGIC: &str = "muster-journal ";
/// File name in the agent's own directory.
pub const FILE: &str = "journal";

/// The progress of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Step {
    /// New files and hard links of the old ones exist beside their targets.
    Prepared,
    /// The file with this index may have been swapped, and all before it are.
    Swapping(usize),
    /// All files are swapped, durably.
    Swapped,
    /// All reloaders have succeeded.
    Reloaded,
    /// All checks were successful: the new files stay.
    Confirmed,
    /// The old files are being restored.
    Restoring,
    /// The old files are restored.
    Restored,
    /// The old files, or the services that read them, could not be restored.
    RestoreFailed,
}

impl Step {
    /// Whether the change is complete.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Confirmed | Self::Restored)
    }
}

/// Identifies a boot of a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Identity {
    /// The boot id of the kernel.
    pub boot_id: String,
    /// The machine id.
    pub machine_id: String,
}

/// The content of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Record {
    /// Increases with each write.
    pub seq: u64,
    /// The boot in which it was written.
    pub identity: Identity,
    /// The row that is being changed.
    pub row: String,
    /// The key of the try.
    pub key: Key,
    /// The id of the plan.
    pub plan: u64,
    /// The number of previous tries of this key.
    pub tries: u32,
    /// The progress.
    pub step: Step,
    /// Number of files that may have been swapped, and must be restored.
    pub swapped: usize,
    /// The deadline of the checks, in milliseconds since the boot.
    pub deadline: u64,
    /// The result; only with a settled step and [`Step::RestoreFailed`].
    pub outcome: Option<ChangeOutcome>,
}

impl Record {
    /// The verdict of a change that ended.
    pub fn verdict(&self) -> Option<Verdict> {
        self.outcome.as_ref().map(|outcome| outcome.verdict)
    }
}

/// The state of the journal at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It does not exist yet.
    Empty,
    /// The last record.
    Record(Box<Record>),
    /// A newer version wrote it, so this one must not write.
    Newer,
    /// It was written, and neither slot can be read.
    Damaged,
}

/// The journal file of this process.
pub(crate) struct Journal {
    own: Own,
    /// The slot with the last record; the other one is written next.
    slot: usize,
    seq: u64,
}

enum Slot {
    Blank,
    Torn,
    Newer,
    Valid(Box<Record>),
}

fn parse(bytes: &[u8]) -> Slot {
    if bytes.iter().all(|byte| *byte == 0) {
        return Slot::Blank;
    }
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    match unframe(&bytes[..end]) {
        None => Slot::Torn,
        Some((FORMAT, body)) => match serde_json::from_slice(body) {
            Ok(record) => Slot::Valid(Box::new(record)),
            Err(_) => Slot::Torn,
        },
        Some(_) => Slot::Newer,
    }
}

/// A slot of any format, up to the trailing zeroes: every version keeps this frame, so that an older version recognizes
/// what it must not touch.
pub fn frame(format: u32, body: &[u8]) -> Vec<u8> {
    let checksum = hash(&[format.to_string().as_bytes(), body]);
    let mut slot = format!("{MAGIC}{format} {checksum}\n").into_bytes();
    slot.extend_from_slice(body);
    slot
}

/// Format and body of a slot with a valid checksum.
fn unframe(slot: &[u8]) -> Option<(u32, &[u8])> {
    let rest = slot.strip_prefix(MAGIC.as_bytes())?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (format, _) = str::from_utf8(&rest[..end]).ok()?.split_once(' ')?;
    let (format, body) = (format.parse().ok()?, &rest[end + 1..]);
    (frame(format, body) == slot).then_some((format, body))
}

/// Parses the bytes of a journal.
pub fn read(bytes: &[u8]) -> Reading {
    let (reading, _) = newest(bytes);
    reading
}

/// The newest record, and its slot.
fn newest(bytes: &[u8]) -> (Reading, usize) {
    let slots: Vec<Slot> = bytes.chunks(SLOT).take(2).map(parse).collect();
    if slots.iter().any(|slot| matches!(slot, Slot::Newer)) {
        return (Reading::Newer, 0);
    }
    let blank = slots.iter().any(|slot| matches!(slot, Slot::Blank));
    let records = slots
        .into_iter()
        .enumerate()
        .filter_map(|(number, slot)| match slot {
            Slot::Valid(record) => Some((record, number)),
            _ => None,
        });
    match records.max_by_key(|(record, _)| record.seq) {
        Some((record, number)) => (Reading::Record(record), number),
        // The very first write was torn: nothing was done yet.
        None if blank || bytes.is_empty() => (Reading::Empty, 1),
        None => (Reading::Damaged, 1),
    }
}

impl Journal {
    /// Opens or creates the journal, and returns its state.
    pub(crate) fn open(own: Own) -> DiskResult<(Self, Reading)> {
        let bytes = own.disk.read(&own.path(FILE), 2 * SLOT as u64)?;
        if bytes.as_ref().is_none_or(|bytes| bytes.len() < 2 * SLOT) {
            own.disk.allocate(&own.path(FILE), 2 * SLOT)?;
        }
        let (reading, slot) = newest(bytes.as_deref().unwrap_or_default());
        let seq = match &reading {
            Reading::Record(record) => record.seq,
            _ => 0,
        };
        Ok((Self { own, slot, seq }, reading))
    }

    /// Writes the record into the older slot.
    pub(crate) fn write(&mut self, record: &mut Record) -> DiskResult<()> {
        record.seq = self.seq + 1;
        let json = serde_json::to_vec(record).unwrap_or_default();
        let mut slot = frame(FORMAT, &json);
        let path = self.own.path(FILE);
        if slot.len() > SLOT {
            return Err(DiskError::new(
                "journal in one slot",
                &path,
                rustix::io::Errno::FBIG,
            ));
        }
        slot.resize(SLOT, 0);
        let other = 1 - self.slot;
        self.own.disk.write_at(&path, other * SLOT, &slot)?;
        (self.slot, self.seq) = (other, record.seq);
        Ok(())
    }

    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.seq + 1
    }

    /// Numbers later records above this one: after a lost journal, numbers continue from the memory.
    pub(crate) fn go_on_from(&mut self, seq: u64) {
        self.seq = self.seq.max(seq);
    }

    /// Renames a journal of another machine, and starts a new one.
    pub(crate) fn set_aside(own: Own) -> DiskResult<Self> {
        let disk = &own.disk;
        disk.rename(&own.path(FILE), &own.path("journal.other-machine"))?;
        disk.allocate(&own.path(FILE), 2 * SLOT)?;
        let (journal, _) = Self::open(own)?;
        Ok(journal)
    }
}
