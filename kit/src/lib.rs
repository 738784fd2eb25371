//! What several crates stand on, and that has nothing to do with fleets: a clock, ages as kubectl writes them, answers over HTTP that are
//! read up to a limit.
//!
//! Limits, trust and errors stay with the user of an answer: gates, receivers of notifications, updaters of machines and pods trust
//! differently.

pub mod age;
pub mod body;
mod clock;

pub use clock::Clock;
