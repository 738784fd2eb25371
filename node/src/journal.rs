//! The journal: how far the one change of this node is, so that a restart knows what to do about it.
//!
//! Two slots of a file that is allocated once are written alternately, each durable before the next step is taken. What a power cut tears is
//! the slot that was being written: the other one holds, and the step that it has is safe to restore from.
//!
//! Invariant: what a step names is journalled before it is done, and no step is skipped.
//! Invariant: no write of the journal needs space, so a full disk cannot stop a restore.

use serde::{Deserialize, Serialize};

use crate::{
    content::Key,
    disk::{DiskError, DiskResult},
    outcome::{Outcome, Verdict},
    own::Own,
    sealed::hash,
};

/// Bytes of a slot: what disks write as one.
pub const SLOT: usize = 4096;
/// What this version writes and reads.
pub const FORMAT: u32 = 1;
/// How a slot begins; format, checksum and body follow.
const MAGIC: &str = "muster-journal ";
/// Name in the agent's own folder.
pub const FILE: &str = "journal";

/// How far a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Step {
    /// New files and second names of the old ones stand beside their targets.
    Prepared,
    /// The file of this number may have been swapped, and all before it are.
    Swapping(usize),
    /// All files are swapped, durably.
    Swapped,
    /// All reloaders have succeeded.
    Reloaded,
    /// All checks held: the new files stay.
    Confirmed,
    /// Old files are being brought back.
    Restoring,
    /// The old files are back.
    Restored,
    /// The old files, or the services that read them, could not be brought back.
    RestoreFailed,
}

impl Step {
    /// Whether nothing is left to be done about the change.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Confirmed | Self::Restored)
    }
}

/// Which boot of which host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Identity {
    /// The kernel's name of this boot.
    pub boot_id: String,
    /// The name of this machine.
    pub machine_id: String,
}

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Record {
    /// Grows with each write.
    pub seq: u64,
    /// Where it was written.
    pub identity: Identity,
    /// The row that is changed.
    pub row: String,
    /// The try.
    pub key: Key,
    /// The plan that it is about.
    pub plan: u64,
    /// How many tries of this key there were before.
    pub tries: u32,
    /// How far it is.
    pub step: Step,
    /// How many files may have been swapped: those are restored.
    pub swapped: usize,
    /// When the checks have to hold at the latest, in milliseconds since the boot.
    pub deadline: u64,
    /// How it ended; only with a settled step and [`Step::RestoreFailed`].
    pub outcome: Option<Outcome>,
}

impl Record {
    /// The verdict of a change that ended.
    pub fn verdict(&self) -> Option<Verdict> {
        self.outcome.as_ref().map(|outcome| outcome.verdict)
    }
}

/// What the journal says at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// There is none yet.
    Empty,
    /// The last step.
    Record(Box<Record>),
    /// A newer version wrote it: this one must not write.
    Newer,
    /// Neither slot can be read, and it was written.
    Damaged,
}

/// The journal of this process.
pub(crate) struct Journal {
    own: Own,
    /// The slot that holds the last record; the other one is written next.
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

/// A slot of any format, up to the zeroes behind it: every version keeps this frame, so that an older one sees what it must not touch.
pub fn frame(format: u32, body: &[u8]) -> Vec<u8> {
    let checksum = hash(&[format.to_string().as_bytes(), body]);
    let mut slot = format!("{MAGIC}{format} {checksum}\n").into_bytes();
    slot.extend_from_slice(body);
    slot
}

/// Format and body of a slot whose checksum fits.
fn unframe(slot: &[u8]) -> Option<(u32, &[u8])> {
    let rest = slot.strip_prefix(MAGIC.as_bytes())?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (format, _) = str::from_utf8(&rest[..end]).ok()?.split_once(' ')?;
    let (format, body) = (format.parse().ok()?, &rest[end + 1..]);
    (frame(format, body) == slot).then_some((format, body))
}

/// What the bytes of a journal say.
pub fn read(bytes: &[u8]) -> Reading {
    let (reading, _) = newest(bytes);
    reading
}

/// The newest record, and the slot that it is in.
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
    /// Opens the journal, or makes one, and says what it has.
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

    /// The number of the record that is written next.
    pub(crate) fn next(&self) -> u64 {
        self.seq + 1
    }

    /// Numbers what is written from now on above this: a journal that was lost begins where the memory ended.
    pub(crate) fn go_on_from(&mut self, seq: u64) {
        self.seq = self.seq.max(seq);
    }

    /// Puts a journal of another machine away, and begins a new one.
    pub(crate) fn set_aside(own: Own) -> DiskResult<Self> {
        let disk = &own.disk;
        disk.rename(&own.path(FILE), &own.path("journal.other-machine"))?;
        disk.allocate(&own.path(FILE), 2 * SLOT)?;
        let (journal, _) = Self::open(own)?;
        Ok(journal)
    }
}
