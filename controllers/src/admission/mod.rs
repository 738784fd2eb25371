//! The admission door: HTTPS for webhooks, and the certificates that it shows.
//!
//! ```text
//!   Secret or files ─► keeper ─► shown ──┐
//!                        └─► caBundle    ▼
//!   API server ══ https ══► server ─► what answers
//! ```
//!
//! It knows no webhook: what answers is given ([`server::Answers`]).

pub mod bundles;
pub mod certificate;
pub mod keeper;
pub mod server;
