//! Laws: what must hold for arbitrary bytes, of everything that reads untrusted input.
//!
//! ```text
//!  libFuzzer ──► targets/ (a workspace of its own) ─┐
//!  proptest ───► tests/laws.rs ─────────────────────┼─► LAWS[name](bytes) ─► the product's own functions
//!  seeds, old findings ► tests/seeds.rs ────────────┘        a broken law is a panic
//! ```
//!
//! A law takes bytes: as text, or as input for [`arbitrary`] where random bytes would seldom have a valid form.
//!
//! - Invariant: fuzz targets and tests call the same functions; neither defines a law itself.
//! - Invariant: a law computes its expectation independently of the function under test.

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
