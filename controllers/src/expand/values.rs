//! The values of a row's variables: predefined ones, those resolved by the row's writer, and its bindings.

use std::{collections::BTreeMap, time::Duration};

use muster_api::{
    Shared,
    assemblage::{Intent, SyncRow},
    sync::Binding,
};

use super::{
    desired::{Values, unbound},
    view::RowError,
};
use crate::{
    bindings::{BindingError, Objects},
    runtime::call::error_chain,
};

/// Adds the values of `bindings` to those known.
pub async fn bind(objects: &Objects, bindings: &[Binding], mut known: Values) -> Result<Values, RowError> {
    if !bindings.is_empty() {
        let bound = objects
            .resolve(bindings, &known)
            .await
            .map_err(|error: BindingError| unbound(&error_chain(&error)))?;
        known.extend(bound);
    }
    Ok(known)
}

/// The rows with variables to evaluate: those that are applied.
pub fn carried(rows: &[Shared<SyncRow>]) -> impl Iterator<Item = &Shared<SyncRow>> {
    rows.iter()
        .filter(|row| matches!(row.intent(), Intent::Carry { .. }))
}

/// When to evaluate rows again whose values are not all available: a watch reports objects that were missing, but not
/// those that could not be read.
pub fn requeue_after(values: &RowValues) -> Option<Duration> {
    values.values().any(Result::is_err).then_some(AGAIN)
}

/// How soon bindings that failed are evaluated again.
const AGAIN: Duration = Duration::from_mins(1);

/// Results by name of the row.
pub type RowValues = BTreeMap<String, Result<Values, RowError>>;
