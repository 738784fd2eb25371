//! Leader election by a Lease: of several processes one acts, and a process that has lost its lease does not.
//!
//! ```text
//!   Candidate ──stand()──► reads the Lease each 2/15 of its duration ──free──► acquires it (compare-and-swap) ──► Term
//!   Term ──keep()──► renews each third ──not for two thirds, or taken──► Lost: the process ends
//!    │└─ Leadership: until when this process may act, by its own monotonic clock; checked before every write
//!    └──release()──► no holder: the next candidate acquires it at its next try
//! ```
//!
//! Modeled on client-go's leader election, with the same proportions of times, and stricter where that is weak: the
//! holder name is unique to a process, and a similar name is never taken for the process's own; the right to act ends
//! by the local clock before each write, not only when the renewing task wakes; a lease deleted while it is held stays
//! the holder's until its time is over; an invalid duration locks no process out.
//!
//! Invariant: times that another process wrote only affect the length of [`Term::gap`]. Invariant: once lost, the right
//! to act is not restored in the same process. Invariant: each call has a deadline of a sixth of the lease, on a client
//! of its own.

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

/// The settings of an election.
#[derive(Clone)]
pub struct Election {
    /// A client for the Lease alone, so that no other call delays it.
    pub client: Client,
    /// How long the lease lasts.
    pub duration: LeaseDuration,
}
