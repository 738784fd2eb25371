//! Admission webhooks: `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration`.
//!
//! ```text
//! write ─► mutate: one webhook after the other, by name of the configuration; each gets the result of the previous one
//!      └─► validate: all at once, on the object as it would be stored
//! hook (`webhooks`, as configured) ─► matching (rules, selectors, conditions) ─► review (AdmissionReview) ─► call (HTTPS)
//! ```
//!
//! - Invariant: without a configuration a write costs one atomic read and one lock here.
//! - Invariant: a configuration applies to every write that begins after it was written.

mod attributes;
mod dispatch;
mod matching;
mod review;

pub(crate) use attributes::{Attributes, Operation, Remake, TypeName};
pub(crate) use dispatch::Warnings;
