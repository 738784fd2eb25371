//! What built-in kinds with behaviour of their own get and may not be.
//!
//! - `defaults`, `validate`: what all of them get and may not be.
//! - `service`: addresses of Services.
//! - `webhooks`: the configurations of admission webhooks.

pub(crate) mod defaults;
pub(crate) mod service;
pub(crate) mod validate;
mod webhooks;
