//! In-place updates of machines, as requested by Cluster API's hooks: which updaters cover a change, in which order
//! they run, and when a machine is done.
//!
//! ```text
//!   CanUpdateMachine(Set) ─► Coverage ◄── answer of each updater, in order ──► InPlace | NotCovered ─► Verdict (fallback)
//!   UpdateMachine ─────────► pinned (is this what was planned?) ─► Progress ◄── polls of the updaters ──► Reply
//! ```
//!
//! Everything here is pure: the server that handles Cluster API's requests calls the updaters and passes their answers
//! in.
//!
//! Invariant: a machine is done only when each updater of its plan has acknowledged the digest of that plan. Invariant:
//! an answer that is missing, late or unreadable is never a success. Invariant: the updaters are called in a fixed
//! order that does not depend on the order of registration.

mod coverage;
mod objects;
mod patch;
mod pinned;
mod progress;
mod registration;
mod response;
mod verdict;
mod wire;

pub use coverage::{Coverage, Covered, Difference};
pub use objects::{Level, Malformed, Objects, Part};
pub use patch::{Patch, PatchError};
pub use pinned::{Deviation, deviation};
pub use progress::{Acknowledgement, Failed, Progress, Reply, Step, Task, resumed_at};
pub use registration::{
    ClientConfig, DISCOVERY, GROUP_VERSION, Handler, HandlerError, Hook, Service, UrlError, handlers,
    in_order, path, url,
};
pub use response::{failure, reply, verdict_response};
pub use verdict::{Fallback, Unanswered, Verdict, verdict};
pub use wire::{CanAnswer, DIGEST_SETTING, MAX_BODY, Polled, Received, Refused, can_answer, polled};
