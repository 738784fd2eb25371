//! The values of a row's variables: those given, those resolved by its writer, and its bindings.

use std::{collections::BTreeMap, time::Duration};

use muster_api::{
    Shared,
    assemblage::{Intent, SyncRow},
    sync::Binding,
};

use super::{
    view::Refusal,
    wish::{Values, unbound},
};
use crate::{
    bindings::{BindingError, Objects},
    runtime::call::explain,
};

/// Adds the values of `bindings` to those known.
pub async fn bind(objects: &Objects, bindings: &[Binding], mut known: Values) -> Result<Values, Refusal> {
    if !bindings.is_empty() {
        let bound = objects
            .resolve(bindings, &known)
            .await
            .map_err(|error: BindingError| unbound(&explain(&error)))?;
        known.extend(bound);
    }
    Ok(known)
}

/// The rows that have variables to be found: those that are carried out.
pub fn carried(rows: &[Shared<SyncRow>]) -> impl Iterator<Item = &Shared<SyncRow>> {
    rows.iter()
        .filter(|row| matches!(row.intent(), Intent::Carry { .. }))
}

/// When to look again at rows whose values could not all be had: what was missing tells of itself, what could not be read does not.
pub fn again(values: &RowValues) -> Option<Duration> {
    values.values().any(Result::is_err).then_some(AGAIN)
}

/// How soon bindings that failed are evaluated again.
const AGAIN: Duration = Duration::from_mins(1);

/// By name of the row.
pub type RowValues = BTreeMap<String, Result<Values, Refusal>>;
