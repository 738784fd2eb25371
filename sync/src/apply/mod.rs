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
//! Invariant: the ids of all objects of a plan are in the inventory before the first of them is created.
//! Invariant: an object is deleted only with its uid and resource version as preconditions, only if its ownership
//! labels are the owner's, and only if no other inventory of the cluster has it ([`shared`]).
//! Invariant: every write is a server-side apply of what the manifest declares, or carries the uid or resource version
//! it is for.
//! Invariant: an up-to-date object costs a read and a dry run, and no write.
//! Invariant: a Job that completed and was deleted for it is not created again ([`jobs`]).

pub mod drift;
pub mod error;
mod establish;
pub mod handover;
pub mod immutable;
mod managed;
mod masked;
mod normalize;
mod one;
pub mod outcome;
pub mod plan;
pub mod prepare;
pub mod preview;
pub mod prune;
pub mod run;
pub mod shared;
mod takeover;

pub use self::{
    error::{ApplyError, LedgerError, ObjectFailure, PlanError},
    handover::{HandedOver, Heir, hand_over},
    outcome::{Applied, ApplyOutcome},
    plan::{Plan, plan},
    prepare::{Options, Owner},
    prune::{Pruned, prune},
    run::{Ledger, run},
    shared::{Alone, Declarers, Successor},
};
pub use crate::{
    cluster::{
        self, CONCURRENCY, CallError, Cluster, FIELD_MANAGER, Kind, Kinds, RESPONSE_LIMIT, RETRY_AFTER_MAX,
        kinds,
    },
    inventory::stage,
    jobs::{self, Jobs},
    prepared::Prepared,
};

/// How often the deletion of an object is tried when the object changes between the read and the deletion.
const DELETE_TRIES: usize = 5;

/// How often an object is read again because another client wrote to it between our read and our write.
const LOOKS: usize = 3;
