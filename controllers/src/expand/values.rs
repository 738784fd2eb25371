//! The values of a row's variables: those given, those resolved by its writer, and its bindings.

use std::collections::BTreeMap;

use muster_api::{
    assemblage::{Intent, SyncRow},
    sync::Binding,
};

use super::{
    decide::Refusal,
    wish::{Values, unbound},
};
use crate::{
    bindings::{BindingError, Objects},
    runtime::call::explain,
};

/// Adds the values of `bindings` to those known.
pub async fn bind(objects: &Objects, bindings: &[Binding], mut known: Values) -> Result<Values, Refusal> {
    if !bindings.is_empty() {
        let bound = objects.resolve(bindings, &known).await.map_err(|error: BindingError| unbound(&explain(&error)))?;
        known.extend(bound);
    }
    Ok(known)
}

/// The rows that have variables to be found: those that are carried out.
pub fn carried(rows: &[SyncRow]) -> impl Iterator<Item = &SyncRow> {
    rows.iter().filter(|row| matches!(row.intent(), Intent::Carry { .. }))
}

/// By name of the row.
pub type RowValues = BTreeMap<String, Result<Values, Refusal>>;
