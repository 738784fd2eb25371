//! The desired rows of the last reconcile of each assemblage: a row that did not change is not derived again.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use muster_api::{Shared, assemblage::SyncRow};
use parking_lot::Mutex;

use super::{
    derive::ExpansionTarget,
    desired::Values,
    view::{DesiredRow, RowError},
};
use crate::runtime::Key;

/// How many rows are kept for all assemblages together: those of an agent, or of the assemblages that change most.
const MOST: usize = 1024;

/// What a row derived to, with everything that it was derived from.
#[derive(Debug)]
pub(super) struct KnownRow {
    row: Shared<SyncRow>,
    values: Result<Values, RowError>,
    desired: Arc<DesiredRow>,
}

impl KnownRow {
    pub(super) const fn new(
        row: Shared<SyncRow>,
        values: Result<Values, RowError>,
        desired: Arc<DesiredRow>,
    ) -> Self {
        Self { row, values, desired }
    }

    /// What the row derived to, if it was derived from these.
    pub(super) fn desired(
        self,
        row: &Shared<SyncRow>,
        values: &Result<Values, RowError>,
    ) -> Option<Arc<DesiredRow>> {
        (self.row == *row && self.values == *values).then_some(self.desired)
    }
}

/// The rows of one assemblage, by name.
pub(super) type KnownRows = HashMap<String, KnownRow>;

/// The desired rows of assemblages, each with the target that they were derived for.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeMap<Key, (ExpansionTarget, KnownRows)>>);

impl Known {
    /// Removes and returns the rows of an assemblage, if they were derived for this target.
    pub(super) fn take(&self, assemblage: &Key, target: &ExpansionTarget) -> KnownRows {
        match self.0.lock().remove(assemblage) {
            Some((known, rows)) if known == *target => rows,
            Some(_) | None => KnownRows::new(),
        }
    }

    /// Keeps the rows of an assemblage. If too many are kept, those of all others are dropped first.
    pub(super) fn keep(&self, assemblage: Key, target: ExpansionTarget, rows: KnownRows) {
        let mut all = self.0.lock();
        let kept: usize = all.values().map(|(_, rows)| rows.len()).sum();
        if kept + rows.len() > MOST {
            all.clear();
        }
        if rows.len() <= MOST {
            all.insert(assemblage, (target, rows));
        }
    }
}
