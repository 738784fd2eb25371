//! What a decision about a row rests on.

use jiff::Timestamp;
use muster_api::{
    assemblage::{FailureClass, SyncRow, SyncState, Withdraw},
    flux::Kustomization,
};

use super::{
    derive::Derived,
    flux_object::FluxObject,
    seen::{KustomizationRow, SourceRow},
};

/// What the rows of one assemblage have in common.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The kind of the assemblage.
    pub kind: String,
    /// Its name.
    pub assemblage: String,
    /// Our field manager.
    pub manager: String,
    /// Why nothing may be written for its cluster now, if so.
    pub away: Option<Away>,
    /// The time, where Flux applies: then a success may have to stand for a while before it counts.
    pub flux_at: Option<Timestamp>,
}

/// The cluster cannot be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// The word.
    pub reason: String,
    /// In words.
    pub message: String,
}

/// What a row comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// These objects.
    Carry(Box<Derived>),
    /// Their removal.
    Withdraw(Withdraw),
    /// Nothing: the row holds the place of its token.
    Bare,
    /// It cannot be known: what is there stays.
    Refused(Refusal),
}

/// Why it cannot be known what a row comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The word.
    pub reason: String,
    /// In words.
    pub message: String,
    /// Whose fault it is.
    pub class: FailureClass,
    /// Whether it is a failure of what the row says, which only another row can fix.
    pub terminal: bool,
}

/// A live object, read as far as needed.
#[derive(Clone, Debug)]
pub enum Live<R, K> {
    /// Not there.
    Absent,
    /// As derived, by its fingerprint.
    AsDerived(R),
    /// Something is different: the whole object.
    Differs(R, Box<K>),
}

impl<R, K> Live<R, K> {
    /// The row of an object that is there.
    pub const fn row(&self) -> Option<&R> {
        match self {
            Self::Absent => None,
            Self::AsDerived(row) | Self::Differs(row, _) => Some(row),
        }
    }
}

/// Everything about one row.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The row.
    pub row: &'a SyncRow,
    /// What it comes to.
    pub wish: &'a Wish,
    /// Its status as last written.
    pub said: Option<&'a SyncState>,
    /// Its Kustomization.
    pub kustomization: Live<KustomizationRow, Kustomization>,
    /// Its source, for rows that are carried out.
    pub source: Live<SourceRow, FluxObject>,
    /// Whether the cluster was away since the Kustomization was written.
    pub was_away: bool,
}
