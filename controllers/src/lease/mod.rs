//! Leader election by a Lease: of several processes one acts.

mod settings;

use kube::Client;

pub use self::settings::{LONGEST, LeaseDuration, LeaseDurationError, SHORTEST};

/// What an election needs.
#[derive(Clone)]
pub struct Election {
    /// A client for the Lease alone, so that no other call is in its way.
    pub client: Client,
    /// How long the lease lasts.
    pub duration: LeaseDuration,
}
