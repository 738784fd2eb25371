//! The rows to work on: those of the spec, and those that are gone from it while status still lists them.
//!
//! Pure. A row without token that is gone is withdrawn: that is how writers without tokens say so. A row with a token never just
//! disappears: what it installed stays and is reported.

use std::collections::BTreeSet;

use muster_api::Shared;
use muster_api::assemblage::{AssemblageStatus, SyncRow, SyncState, Withdraw};

use super::unclaimed;

/// A row to work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The row; of one that is gone, what it comes to.
    pub row: Shared<SyncRow>,
    /// It is gone from the spec: nothing is left to say once nothing of it is there.
    pub vanished: bool,
}

/// All rows, by name.
pub fn entries(rows: &[Shared<SyncRow>], status: Option<&AssemblageStatus>) -> Vec<Entry> {
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
