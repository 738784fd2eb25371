//! The admission server: HTTPS for webhooks, and the server's certificates.
//!
//! ```text
//!   Secret or files ─► keeper ─► shown ──┐
//!                        └─► caBundle    ▼
//!   API server ══ https ══► server ─► what answers
//! ```
//!
//! It knows no particular webhook: the handlers are passed in ([`server::Answers`]).

pub mod bundles;
pub mod certificate;
pub mod keeper;
pub mod server;
