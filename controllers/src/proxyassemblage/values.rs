//! The proxy's rows as they should be downstream: with the values that only this cluster knows.

use std::collections::BTreeMap;

use muster_api::{
    ProxyAssemblage, Shared,
    assemblage::{Agent, FailureClass, Intent, SyncRow},
    features,
    reasons::ObjectReason,
    schema::{MAX_ASSEMBLAGE, MAX_ROW},
};

use super::{
    Mirroring,
    plain::{PlainRows, SizedRow, known_row},
};
use crate::{
    bindings::{Values, given, used_by},
    expand::{desired::unsupported, values::bind, view::RowError},
    runtime::Key,
};

/// The rows of a proxy.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Rows that can be written downstream.
    pub resolved: Vec<Shared<SyncRow>>,
    /// Rows that cannot, by name: their live rows stay.
    pub refused: BTreeMap<String, RowError>,
}

impl Mirroring {
    /// The rows of a proxy with their control-plane bindings evaluated.
    pub(super) async fn rows(&self, proxy: &ProxyAssemblage) -> Rows {
        let (key, given) = (Key::of(proxy), self.given(proxy));
        let known = self.plain.take(&key, &given);
        let mut plain = PlainRows::with_capacity(proxy.spec.syncs.len());
        let mut rows = Vec::with_capacity(proxy.spec.syncs.len());
        for (index, row) in proxy.spec.syncs.iter().enumerate() {
            let resolved = match known_row(&known, index, row) {
                Some(known) => Ok(known),
                None => self.resolved(row, &given).await.map(SizedRow::of),
            };
            let same = resolved
                .as_ref()
                .ok()
                .filter(|resolved| Shared::is(&resolved.row, row));
            plain.push(same.cloned());
            rows.push((row.name.clone(), resolved));
        }
        self.plain.keep(key, given, plain);
        within_limits(rows)
    }

    async fn resolved(&self, row: &Shared<SyncRow>, given: &Values) -> Result<Shared<SyncRow>, RowError> {
        if !matches!(row.intent(), Intent::Carry { .. }) {
            return Ok(row.clone());
        }
        let mut known = given.clone();
        known.extend(row.values.clone());
        let mut values = row.values.clone();
        let bound = bind(&self.objects, &row.control_plane_bindings, known).await?;
        let used = used_by(&row.package.clone().unwrap_or_default(), &row.bindings);
        // The cluster itself does not know its name and labels: those that the row uses are sent with it.
        values.extend(
            bound
                .into_iter()
                .filter(|(name, _)| !given.contains_key(name) || used.contains(name)),
        );
        let mut resolved = row.clone();
        if values != row.values || !row.control_plane_bindings.is_empty() {
            resolved.values = values;
            resolved.control_plane_bindings = Vec::new();
        }
        Ok(resolved)
    }

    /// The predefined values of the cluster.
    fn given(&self, proxy: &ProxyAssemblage) -> Values {
        let Some(cluster) = &proxy.spec.cluster_ref else {
            return Values::new();
        };
        let labels = self
            .context
            .registry
            .get(&cluster.name)
            .map(|row| row.labels.clone())
            .unwrap_or_default();
        given(&cluster.name, &labels)
    }
}

impl Rows {
    /// Leaves out the rows with features that the agent does not report as supported: an agent that ignores a field
    /// would apply something else than intended.
    pub(super) fn leave_out(&mut self, agent: Option<&Agent>) {
        let rows = std::mem::take(&mut self.resolved);
        for row in rows {
            let missing = features::missing(&row, agent);
            if missing.is_empty() {
                self.resolved.push(row);
            } else {
                let refusal = unsupported(&features::refusal(&missing, agent));
                self.refused.insert(row.name.clone(), refusal);
            }
        }
    }

    /// Leaves out all rows that need a feature whose field the CRD in the cluster does not have. False: there are none.
    pub(super) fn leave_out_all(&mut self, why: &str) -> bool {
        let rows = std::mem::take(&mut self.resolved);
        let (plain, needy): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| features::needed(row).is_empty());
        self.resolved = plain;
        let any = !needy.is_empty();
        let refused = needy.into_iter().map(|row| (row.name.clone(), unsupported(why)));
        self.refused.extend(refused);
        any
    }
}

/// The rows that fit: a row that is too large, or would make the assemblage too large, fails alone. By name, so that
/// the result does not depend on the order of rows.
fn within_limits(mut rows: Vec<(String, Result<SizedRow, RowError>)>) -> Rows {
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let mut fitting = Rows::default();
    let mut total = 0;
    for (name, row) in rows {
        match row.and_then(|row| fits(row, &mut total)) {
            Ok(row) => fitting.resolved.push(row),
            Err(refusal) => {
                fitting.refused.insert(name, refusal);
            }
        }
    }
    fitting
}

fn fits(SizedRow { row, size }: SizedRow, total: &mut usize) -> Result<Shared<SyncRow>, RowError> {
    let too_large = |what: &str, size: usize, limit: usize| RowError {
        reason: ObjectReason::TooLarge.into(),
        message: format!("{what} {size} bytes, at most {limit} are allowed"),
        class: FailureClass::Unit,
        terminal: true,
    };
    if size > MAX_ROW {
        return Err(too_large("the row has", size, MAX_ROW));
    }
    if *total + size > MAX_ASSEMBLAGE {
        return Err(too_large(
            "with this row the assemblage would have",
            *total + size,
            MAX_ASSEMBLAGE,
        ));
    }
    *total += size;
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, bytes: usize) -> (String, Result<SizedRow, RowError>) {
        let values = Values::from([("A".to_owned(), "x".repeat(bytes))]);
        (
            name.to_owned(),
            Ok(SizedRow::of(
                SyncRow {
                    name: name.to_owned(),
                    values,
                    ..SyncRow::default()
                }
                .into(),
            )),
        )
    }

    #[test]
    fn a_row_that_does_not_fit_fails_alone() {
        let mut rows = vec![row("large", MAX_ROW)];
        rows.extend((0..30).map(|number| row(&format!("row-{number:02}"), 30_000)));
        rows.push(row("small", 10));
        let rows = within_limits(rows);
        let refused: Vec<&str> = rows.refused.keys().map(String::as_str).collect();
        assert_eq!(refused, ["large", "row-26", "row-27", "row-28", "row-29"]);
        assert_eq!(rows.resolved.last().map(|row| row.name.as_str()), Some("small"));
    }
}
