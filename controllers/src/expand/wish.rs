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
    derive::{Place, commit, derive},
    view::{Refusal, Wish},
};
pub use crate::bindings::Values;
use crate::{bindings::substitute_package, runtime::call::explain};

/// The desired state of a row. `own`: the capabilities of the process that applies it.
pub fn wish(place: &Place, row: &SyncRow, values: &Result<Values, Refusal>, own: &Agent) -> Wish {
    let source = match row.intent() {
        Intent::Withdraw(how) => return Wish::Withdraw(how),
        Intent::Bare => return Wish::Bare,
        Intent::Carry { source } => source,
    };
    let missing = features::missing(row, Some(own));
    if !missing.is_empty() {
        return Wish::Refused(unsupported(&features::refusal(&missing, Some(own))));
    }
    if source.git().is_some_and(|git| git.verify.is_some()) {
        // A row that a Module writes has none; in a row of another writer it would be a promise that is not kept here.
        let message = "source.git.verify is not supported in a row: set it in a Module, which pins the verified commit";
        return Wish::Refused(unsupported(message));
    }
    let package = row.package.clone().unwrap_or_default();
    let problems = validate::flux::row(source, &package);
    if !problems.is_empty() {
        return Wish::Refused(invalid(validate::message(&problems)));
    }
    let Some(commit) = commit(row, source) else {
        let message = "the row is not an exact state: set commit, or a commit or digest in source";
        return Wish::Refused(invalid(message.to_owned()));
    };
    let values = match values {
        Ok(values) => values,
        Err(refusal) => return Wish::Refused(refusal.clone()),
    };
    match substitute_package(&package, values) {
        Ok(package) => Wish::Carry(Box::new(derive(place, row, source, &commit, &package))),
        Err(error) => Wish::Refused(unbound(&explain(&error))),
    }
}

/// An error that only another row can fix.
fn invalid(message: String) -> Refusal {
    Refusal {
        reason: ObjectReason::InvalidSpec.into(),
        message,
        class: FailureClass::Revision,
        terminal: true,
    }
}

/// Something that the applying process does not support: a failure without blame.
pub fn unsupported(message: &str) -> Refusal {
    Refusal {
        reason: Reason::SyncUnsupported.into(),
        message: message.to_owned(),
        class: FailureClass::Infra,
        terminal: false,
    }
}

/// A binding that could not be evaluated: a failure of this cluster only.
pub fn unbound(message: &str) -> Refusal {
    Refusal {
        reason: Reason::BindingFailed.into(),
        message: message.to_owned(),
        class: FailureClass::Unit,
        terminal: false,
    }
}
