//! The admission server: HTTPS for webhooks, and the server's certificates.
//!
//! ```text
//!   Secret or files ─► keeper ─► served ─┐
//!                        └─► caBundle    ▼
//!   API server ══ https ══► server ─► handlers
//! ```
//!
//! It knows no particular webhook: the handlers are passed in ([`server::Answers`]).

pub mod bundles;
pub mod certificate;
pub mod keeper;
pub mod server;
