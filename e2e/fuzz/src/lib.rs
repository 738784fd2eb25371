//! Laws: what must hold whatever the bytes, of everything that reads what strangers wrote.
//!
//! ```text
//!  libFuzzer ──► targets/ (a workspace of its own) ─┐
//!  proptest ───► tests/laws.rs ─────────────────────┼─► LAWS[name](bytes) ─► the product's own functions
//!  seeds, old findings ► tests/seeds.rs ────────────┘        a broken law is a panic
//! ```
//!
//! A law takes bytes: texts as they are, or what [`arbitrary`] makes of them where random bytes would seldom have the right form.
//!
//! - Invariant: fuzz targets and tests call the same functions; neither has a law of its own.
//! - Invariant: what a law expects is worked out here, never by the function that it judges.

#![allow(
    clippy::missing_panics_doc,
    reason = "a law that does not hold panics, and says why"
)]

pub mod client;
pub mod corpus;
pub mod credentials;
pub mod door;
pub mod journal;
mod json;
pub mod kubeconfig;
pub mod node;
pub mod patch;
pub mod sandbox;
pub mod substitute;
pub mod tree;
pub mod yaml;

/// A law: panics if it does not hold for these bytes.
pub type Law = fn(&[u8]);

/// Every law by the name of its fuzz target.
pub const LAWS: [(&str, Law); 10] = [
    ("client", client::check),
    ("credentials", credentials::check),
    ("door", door::check),
    ("journal", journal::check),
    ("kubeconfig", kubeconfig::check),
    ("node", node::check),
    ("patch", patch::check),
    ("substitute", substitute::check),
    ("tree", tree::check),
    ("yaml", yaml::check),
];
