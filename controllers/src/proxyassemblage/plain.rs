//! The rows of each proxy that are written downstream as they are, with their sizes: while such a row does not change,
//! it is neither resolved nor measured again.

use std::collections::BTreeMap;

use muster_api::{Shared, assemblage::SyncRow};
use parking_lot::Mutex;

use crate::{bindings::Values, runtime::Key};

/// A row, and the bytes of its JSON text.
#[derive(Clone, Debug)]
pub(super) struct SizedRow {
    pub row: Shared<SyncRow>,
    pub size: usize,
}

impl SizedRow {
    /// Measures a row.
    pub(super) fn of(row: Shared<SyncRow>) -> Self {
        // A row was parsed from JSON, so it serializes.
        let size = serde_json::to_vec(&row).map_or(0, |text| text.len());
        Self { row, size }
    }
}

/// Rows by their index in the proxy; `None`: the row is written with other values than the proxy has.
pub(super) type PlainRows = Vec<Option<SizedRow>>;

/// The plain rows of each proxy, with the predefined values of its cluster, which decide what a row resolves to.
#[derive(Debug, Default)]
pub(super) struct Plain(Mutex<BTreeMap<Key, (Values, PlainRows)>>);

impl Plain {
    /// Removes and returns the rows of a proxy, if they were resolved with these values.
    pub(super) fn take(&self, proxy: &Key, given: &Values) -> PlainRows {
        match self.0.lock().remove(proxy) {
            Some((known, rows)) if known == *given => rows,
            Some(_) | None => PlainRows::new(),
        }
    }

    /// Keeps the rows of a proxy.
    pub(super) fn keep(&self, proxy: Key, given: Values, rows: PlainRows) {
        self.0.lock().insert(proxy, (given, rows));
    }

    /// Drops the rows of deleted proxies.
    pub(super) fn retain(&self, lives: impl Fn(&Key) -> bool) {
        self.0.lock().retain(|key, _| lives(key));
    }
}

/// The row at `index`, if it is still this one.
pub(super) fn known_row(rows: &[Option<SizedRow>], index: usize, row: &Shared<SyncRow>) -> Option<SizedRow> {
    let known = rows.get(index)?.as_ref()?;
    Shared::is(&known.row, row).then(|| known.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Shared<SyncRow> {
        SyncRow::bare(name, 1).into()
    }

    #[test]
    fn a_row_is_known_while_it_and_the_values_of_its_cluster_are_the_same() {
        let (plain, key) = (Plain::default(), Key::new("fleet", "a"));
        let given = Values::from([("CLUSTER_NAME".to_owned(), "a".to_owned())]);
        let (first, second) = (row("first"), row("second"));
        let keep = || {
            let rows = vec![Some(SizedRow::of(first.clone())), None];
            plain.keep(key.clone(), given.clone(), rows);
        };
        keep();
        let known = plain.take(&key, &given);
        assert_eq!(known_row(&known, 0, &first).unwrap().size, 26);
        assert!(known_row(&known, 0, &row("first")).is_none(), "another version");
        assert!(known_row(&known, 1, &second).is_none(), "resolved to another row");
        assert!(known_row(&known, 2, &second).is_none(), "a new row");
        assert!(plain.take(&key, &given).is_empty(), "they were taken");
        keep();
        assert!(
            plain.take(&key, &Values::new()).is_empty(),
            "the cluster has other values"
        );
        keep();
        plain.retain(|_| false);
        assert!(plain.take(&key, &given).is_empty(), "the proxy is gone");
    }
}
