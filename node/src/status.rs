//! The output of `muster node-agent status`, read from the agent's own directory while the agent may be running.

use std::{rc::Rc, time::Duration};

use serde::Serialize;

use crate::{
    agent::AgentEnvironment,
    disk::DiskError,
    hold::{self, Hold},
    journal::{self, Reading, Record},
    known_bad::KnownBad,
    memory::Memory,
    outcome::ChangeOutcome,
    own::Own,
};

/// The content of the agent's own directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The last step of the last change; `None` if there was none.
    pub journal: Option<Record>,
    /// Why the journal has no record: `Newer` or `Damaged`.
    pub journal_problem: Option<&'static str>,
    /// All rows.
    pub rows: Vec<RowStatus>,
    /// Known bad contents, which are not tried again.
    pub known_bad: Vec<KnownBad>,
    /// The hold that is active.
    pub hold: Option<Hold>,
}

/// The status of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowStatus {
    /// The name of the row.
    pub name: String,
    /// The digest of the confirmed files; `None` if none was confirmed.
    pub confirmed: Option<String>,
    /// The digest of the last try.
    pub last: Option<String>,
    /// The result of the last try.
    pub outcome: Option<ChangeOutcome>,
}

/// Reads the status. Nothing is written.
pub fn status(surroundings: &AgentEnvironment) -> Result<Status, DiskError> {
    let own = own(surroundings);
    let bytes = own
        .disk
        .read(&own.path(journal::FILE), 2 * journal::SLOT as u64)?;
    let (journal, journal_problem) = match journal::read(bytes.as_deref().unwrap_or_default()) {
        Reading::Record(record) => (Some(*record), None),
        Reading::Empty => (None, None),
        Reading::Newer => (None, Some("Newer")),
        Reading::Damaged => (None, Some("Damaged")),
    };
    let memory = Memory::open(&own, &surroundings.identity.machine_id)?;
    let rows = memory.rows.into_iter().map(|(name, row)| {
        let (last, outcome) = row.last.map(|last| (last.key.digest, last.outcome)).unzip();
        let confirmed = row.confirmed.map(|key| key.digest);
        RowStatus {
            name,
            confirmed,
            last,
            outcome,
        }
    });
    Ok(Status {
        journal,
        journal_problem,
        rows: rows.collect(),
        known_bad: memory.known_bad,
        hold: held(surroundings)?,
    })
}

/// The hold that is active.
pub fn held(surroundings: &AgentEnvironment) -> Result<Option<Hold>, DiskError> {
    let boot_id = &surroundings.identity.boot_id;
    hold::active(&own(surroundings), boot_id, surroundings.clock.as_ref())
}

/// `muster node-agent hold`: stops every write except a pending restore for some time.
pub fn hold_for(surroundings: &AgentEnvironment, time: Duration, reason: &str) -> Result<Hold, DiskError> {
    let boot_id = &surroundings.identity.boot_id;
    hold::set(
        &own(surroundings),
        boot_id,
        surroundings.clock.as_ref(),
        time,
        reason,
    )
}

/// `muster node-agent release`: ends the hold.
pub fn release(surroundings: &AgentEnvironment) -> Result<(), DiskError> {
    hold::end_hold(&own(surroundings))
}

fn own(surroundings: &AgentEnvironment) -> Own {
    Own {
        disk: Rc::clone(&surroundings.disk),
        path: surroundings.directory.clone(),
    }
}
