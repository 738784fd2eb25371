//! Staged server-side apply and prune.
//!
//! ```text
//!   manifests ─► plan ─► Plan{objects in stages, inventory} ─► run ─► Applied ─► prune(old − new) ─► Pruned
//!                  │ scope and names from discovery             │ ledger first, then 8 objects at a time
//!                  └─ pure: stage, prepare, normalize,          └─ one: observe, decide, act ─► Cluster ─► call
//!                     drift, managed, takeover,                    (deadline, limit, wait)
//!                     handover, immutable
//! ```
//!
//! Invariant: the ids of all objects of a plan are in the ledger before the first of them is created.
//! Invariant: nothing is deleted but with its uid and resource version as preconditions, only if its ownership labels are the owner's, and
//! only if no other inventory of the cluster has it ([`shared`]).
//! Invariant: every write is server-side apply of what the manifest declares, or carries the uid or resource version it is for.
//! Invariant: an object that is as it should be costs a read and a dry run, and no write.
//! Invariant: a Job that completed and was deleted for it is not created again ([`jobs`]).

mod call;
pub mod cluster;
pub mod drift;
pub mod error;
mod establish;
pub mod handover;
pub mod immutable;
pub mod jobs;
pub mod kinds;
mod managed;
mod masked;
mod normalize;
mod one;
pub mod plan;
pub mod prepare;
pub mod preview;
pub mod prune;
pub mod run;
pub mod shared;
pub mod stage;
mod takeover;

pub use self::{
    call::{CallError, RESPONSE_LIMIT, RETRY_AFTER_MAX},
    cluster::Cluster,
    error::{ApplyError, ObjectFailure, PlanError},
    handover::{HandedOver, Heir, hand_over},
    jobs::Jobs,
    kinds::{Kind, Kinds},
    plan::{Plan, plan},
    prepare::{Options, Owner, Prepared},
    prune::{Pruned, prune},
    run::{Applied, Ledger, LedgerError, Outcome, run},
    shared::{Alone, Declarers, Successor},
};

/// The field manager of everything that is applied. A constant for ever: another name would orphan every field.
pub const FIELD_MANAGER: &str = muster_api::labels::manager::SYNC;

/// How many objects are in the works at once in one cluster. An API server takes eight writers well; more only queue.
pub const CONCURRENCY: usize = 8;

/// How often an object that is to be deleted is read, because it was changed between the read and the deletion.
const DELETE_TRIES: usize = 5;

/// How often an object is looked at anew because somebody wrote to it between our look and our write.
const LOOKS: usize = 3;
