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
        // Without rows there is nothing to know: the number of assemblages is not bounded by the number of rows.
        if (1..=MOST).contains(&rows.len()) {
            all.insert(assemblage, (target, rows));
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use muster_api::{assemblage::Withdraw, flux::KubeConfigReference};

    use super::*;

    fn known(rows: &[Shared<SyncRow>]) -> KnownRows {
        let known = |row: &Shared<SyncRow>| {
            let desired = Arc::new(DesiredRow::Withdraw(Withdraw::Prune));
            (
                row.name.clone(),
                KnownRow::new(row.clone(), Ok(Values::new()), desired),
            )
        };
        rows.iter().map(known).collect()
    }

    fn rows(count: usize) -> Vec<Shared<SyncRow>> {
        (0..count)
            .map(|number| SyncRow::bare(&format!("row-{number}"), 1).into())
            .collect()
    }

    fn target(assemblage: &str) -> ExpansionTarget {
        ExpansionTarget {
            namespace: "muster-system".to_owned(),
            assemblage: assemblage.to_owned(),
            owner: OwnerReference::default(),
            kube_config: None,
        }
    }

    fn key(name: &str) -> Key {
        Key::new("muster-system", name)
    }

    #[test]
    fn a_row_is_known_while_all_that_it_was_derived_from_is_the_same() {
        let (row, none) = (SyncRow::bare("a", 1).into(), Ok(Values::new()));
        let one = || known(std::slice::from_ref(&row)).remove("a").unwrap();
        assert!(one().desired(&row, &none).is_some());
        assert!(one().desired(&SyncRow::bare("a", 2).into(), &none).is_none());
        let values = Ok(Values::from([("A".to_owned(), "1".to_owned())]));
        assert!(one().desired(&row, &values).is_none());
    }

    #[test]
    fn rows_are_known_for_the_target_that_they_were_derived_for() {
        let all = Known::default();
        all.keep(key("one"), target("one"), known(&rows(3)));
        assert_eq!(all.take(&key("two"), &target("two")).len(), 0);
        assert_eq!(all.take(&key("one"), &target("one")).len(), 3);
        assert_eq!(all.take(&key("one"), &target("one")).len(), 0, "they were taken");
        all.keep(key("one"), target("one"), known(&rows(3)));
        let elsewhere = ExpansionTarget {
            kube_config: Some(KubeConfigReference::default()),
            ..target("one")
        };
        assert_eq!(all.take(&key("one"), &elsewhere).len(), 0);
    }

    #[test]
    fn the_rows_of_a_large_fleet_are_not_all_kept() {
        let all = Known::default();
        for number in 0..30 {
            let name = format!("assemblage-{number}");
            all.keep(key(&name), target(&name), known(&rows(100)));
            let kept: usize = all.0.lock().values().map(|(_, rows)| rows.len()).sum();
            assert!((100..=MOST).contains(&kept), "{kept}");
        }
        let before = all.0.lock().len();
        all.keep(key("empty"), target("empty"), known(&rows(0)));
        assert_eq!(all.0.lock().len(), before, "one without rows takes no memory");
        all.keep(key("large"), target("large"), known(&rows(MOST + 1)));
        assert_eq!(all.take(&key("large"), &target("large")).len(), 0);
    }
}
