//! The input of a decision about a row.

use jiff::Timestamp;
use muster_api::{
    assemblage::{FailureClass, SyncRow, SyncState, Withdraw},
    flux::Kustomization,
};

use super::{
    derive::Derived,
    flux_object::FluxObject,
    observed::{KustomizationRow, SourceRow},
};

/// What the rows of one assemblage have in common.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The kind of the assemblage.
    pub kind: String,
    /// The name of the assemblage.
    pub assemblage: String,
    /// muster's field manager.
    pub manager: String,
    /// Why nothing may be written for its cluster now, if so.
    pub away: Option<Away>,
    /// The current time, if Flux applies: then a success may have to settle before it counts.
    pub flux_at: Option<Timestamp>,
}

/// Why the cluster cannot be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// The condition reason.
    pub reason: String,
    /// The message for people.
    pub message: String,
}

/// The desired state of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum DesiredRow {
    /// These objects are applied.
    Carry(Box<Derived>),
    /// What the row installed is removed.
    Withdraw(Withdraw),
    /// Nothing: the row only keeps its token.
    Bare,
    /// Unknown: live objects stay as they are.
    Refused(RowError),
}

/// Why the desired state of a row cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError {
    /// The condition reason.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The class of the failure.
    pub class: FailureClass,
    /// Whether the row itself is wrong, which only another row can fix.
    pub terminal: bool,
}

/// A live object, read as far as needed.
#[derive(Clone, Debug)]
pub enum Live<R, K> {
    /// The object does not exist.
    Absent,
    /// As derived, according to its fingerprint.
    AsDerived(R),
    /// Something differs: the full object.
    Differs(R, Box<K>),
}

impl<R, K> Live<R, K> {
    /// The cached facts of an object that exists.
    pub const fn row(&self) -> Option<&R> {
        match self {
            Self::Absent => None,
            Self::AsDerived(row) | Self::Differs(row, _) => Some(row),
        }
    }
}

/// Everything that is known about one row.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The row of the spec.
    pub row: &'a SyncRow,
    /// The desired state of the row.
    pub desired: &'a DesiredRow,
    /// The row's status as last written.
    pub reported: Option<&'a SyncState>,
    /// The live Kustomization.
    pub kustomization: Live<KustomizationRow, Kustomization>,
    /// The live source, for rows that are applied.
    pub source: Live<SourceRow, FluxObject>,
    /// Whether the cluster was unreachable since the Kustomization was written.
    pub was_away: bool,
}
