//! Defaults and validation of built-in kinds.
//!
//! - `defaults`, `validate`: for all of them.
//! - `service`: addresses of Services.
//! - `webhooks`: the configurations of admission webhooks.

pub(crate) mod defaults;
pub(crate) mod service;
pub(crate) mod validate;
mod webhooks;
