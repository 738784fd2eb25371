//! From a row to its desired state: its commit, its variables, its objects.
//!
//! Pure: the values of bindings, or why they are not available, are passed in.

use muster_api::{
    assemblage::{Agent, FailureClass, Intent, SyncRow},
    features,
    reasons::{ObjectReason, Reason},
    validate,
};

use super::{
    derive::{ExpansionTarget, commit, derive},
    view::{DesiredRow, RowError},
};
pub use crate::bindings::Values;
use crate::{bindings::substitute_package, runtime::call::error_chain};

/// The desired state of a row. `own`: the capabilities of the process that applies it.
pub fn desired_row(
    place: &ExpansionTarget,
    row: &SyncRow,
    values: &Result<Values, RowError>,
    own: &Agent,
) -> DesiredRow {
    let source = match row.intent() {
        Intent::Withdraw(how) => return DesiredRow::Withdraw(how),
        Intent::Bare => return DesiredRow::Bare,
        Intent::Carry { source } => source,
    };
    let missing = features::missing(row, Some(own));
    if !missing.is_empty() {
        return DesiredRow::Refused(unsupported(&features::refusal(&missing, Some(own))));
    }
    if source.git().is_some_and(|git| git.verify.is_some()) {
        // A row that a Module writes has none; in a row of another writer it would be a promise that is not kept here.
        let message =
            "source.git.verify is not supported in a row: set it in a Module, which pins the verified commit";
        return DesiredRow::Refused(unsupported(message));
    }
    let package = row.package.clone().unwrap_or_default();
    let problems = validate::flux::row(source, &package);
    if !problems.is_empty() {
        return DesiredRow::Refused(invalid(validate::message(&problems)));
    }
    let Some(commit) = commit(row, source) else {
        let message = "the row is not an exact state: set commit, or a commit or digest in source";
        return DesiredRow::Refused(invalid(message.to_owned()));
    };
    let values = match values {
        Ok(values) => values,
        Err(refusal) => return DesiredRow::Refused(refusal.clone()),
    };
    match substitute_package(&package, values) {
        Ok(package) => DesiredRow::Carry(Box::new(derive(place, row, source, &commit, &package))),
        Err(error) => DesiredRow::Refused(unbound(&error_chain(&error))),
    }
}

/// An error that only another row can fix.
fn invalid(message: String) -> RowError {
    RowError {
        reason: ObjectReason::InvalidSpec.into(),
        message,
        class: FailureClass::Revision,
        terminal: true,
    }
}

/// Something that the applying process does not support: a failure without blame.
pub fn unsupported(message: &str) -> RowError {
    RowError {
        reason: Reason::SyncUnsupported.into(),
        message: message.to_owned(),
        class: FailureClass::Infra,
        terminal: false,
    }
}

/// A binding that could not be evaluated: a failure of this cluster only.
pub fn unbound(message: &str) -> RowError {
    RowError {
        reason: Reason::BindingFailed.into(),
        message: message.to_owned(),
        class: FailureClass::Unit,
        terminal: false,
    }
}
