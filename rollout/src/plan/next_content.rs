//! What a unit gets next, and whether it has to wait for it.

use crate::{Digest, Eligible, Kind, Revision, Unit};

/// What a unit gets next.
#[derive(Clone, Copy)]
pub(super) struct NextContent {
    pub(super) revision: Revision,
    pub(super) digest: Digest,
    pub(super) kind: Kind,
}

/// Whether its turn has not come yet, as the caller says, or its window is closed. A unit that reverts waits only for a
/// window that excludes reverts.
pub(super) fn waits(unit: &Unit, kind: Kind) -> bool {
    let goes_back = kind == Kind::Revert && !unit.is_empty();
    match unit.eligible {
        Eligible::NotYet(_) => !goes_back,
        Eligible::Closed { reverts, .. } => !(goes_back && reverts),
        Eligible::Yes | Eligible::No(_) => false,
    }
}
