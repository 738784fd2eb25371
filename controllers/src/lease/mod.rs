//! Leader election by a Lease: of several processes one acts, and one that may no longer act does not.
//!
//! ```text
//!   Candidate ──stand()──► reads the Lease each 2/15 of its duration ──free──► takes it (compare-and-swap) ──► Term
//!   Term ──keep()──► renews each third ──not for two thirds, or taken──► Lost: the process ends
//!    │└─ Leadership: until when this process may act, by its own monotonic clock; asked before every write
//!    └──release()──► nobody's: the next one takes it at its next look
//! ```
//!
//! After client-go's leader election, whose proportions the times have, and stricter where that is weak: the name of a holder is a
//! process's own and is never believed to be ours because it reads like it; the right to act ends by the local clock before each write,
//! not only when the renewing task wakes; a lease deleted under its holder stays the holder's until its time is over; a duration that
//! makes no sense locks nobody out.
//!
//! Invariant: times that another process wrote decide nothing but the length of [`Term::gap`].
//! Invariant: the right to act, once over, does not come back in the same process.
//! Invariant: each call has a deadline of a sixth of the lease, on a client of its own.

mod candidate;
mod leadership;
mod post;
mod settings;
mod term;
mod watched;

pub use self::{
    candidate::Candidate,
    leadership::Leadership,
    settings::{LONGEST, LeaseDuration, LeaseDurationError, SHORTEST},
    term::{Lost, Term},
    watched::LONGEST_GAP,
};
use kube::Client;

/// What an election needs.
#[derive(Clone)]
pub struct Election {
    /// A client for the Lease alone, so that no other call is in its way.
    pub client: Client,
    /// How long the lease lasts.
    pub duration: LeaseDuration,
}
