//! What built-in kinds with behaviour of their own get and may not be.
//!
//! - `defaults`, `validate`: what all of them get and may not be.
//! - `service`: addresses of Services.
//! - `webhooks`: the configurations of admission webhooks.

pub mod defaults;
pub mod service;
pub mod validate;
mod webhooks;
