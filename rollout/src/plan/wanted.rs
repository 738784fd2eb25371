//! What a unit gets next, and whether it has to wait for it.

use crate::{Digest, Eligible, Kind, Revision, Unit};

/// What a unit gets next.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) revision: Revision,
    pub(super) digest: Digest,
    pub(super) kind: Kind,
}

/// Its turn has not come yet, as the caller knows, or its window is closed. A unit that goes back to what was good waits for nothing but a
/// window that says so.
pub(super) fn waits(unit: &Unit, kind: Kind) -> bool {
    let goes_back = kind == Kind::Revert && !unit.is_empty();
    match unit.eligible {
        Eligible::NotYet(_) => !goes_back,
        Eligible::Closed { reverts, .. } => !(goes_back && reverts),
        Eligible::Yes | Eligible::No(_) => false,
    }
}
