//! The rows to process: those of the spec, and those that were removed from it while status still lists them.
//!
//! Pure. A row without token that is removed is withdrawn: this is how writers without tokens request it. A row with a
//! token is never withdrawn by absence: what it installed stays and is reported.

use std::collections::BTreeSet;

use muster_api::Shared;
use muster_api::assemblage::{AssemblageStatus, SyncRow, SyncState, Withdraw};

use super::unclaimed;

/// A row to process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The row; for a removed one, the row as a withdrawal.
    pub row: Shared<SyncRow>,
    /// The row was removed from the spec: it leaves status once nothing of it is left.
    pub vanished: bool,
}

/// All rows, by name.
pub fn row_entries(rows: &[Shared<SyncRow>], status: Option<&AssemblageStatus>) -> Vec<Entry> {
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let listed = status.map(|status| status.syncs.as_slice()).unwrap_or_default();
    let gone = listed
        .iter()
        .filter(|state| !names.contains(state.name.as_str()))
        .map(|state| Entry {
            row: vanished(state).into(),
            vanished: true,
        });
    let mut entries: Vec<Entry> = rows
        .iter()
        .map(|row| Entry {
            row: row.clone(),
            vanished: false,
        })
        .chain(gone)
        .collect();
    entries.sort_by(|a, b| a.row.name.cmp(&b.row.name));
    entries
}

fn vanished(state: &SyncState) -> SyncRow {
    let withdraw = (state.token.is_none() && !unclaimed(state)).then_some(Withdraw::Prune);
    SyncRow {
        name: state.name.clone(),
        digest: state.digest.clone(),
        token: state.token,
        withdraw,
        ..SyncRow::default()
    }
}
