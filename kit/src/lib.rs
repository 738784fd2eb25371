//! Helpers shared by several crates that are not about fleets: a clock, ages in the format of kubectl, HTTP response
//! bodies that are read up to a limit.
//!
//! Limits, trust and errors stay with the caller: gates, notification receivers, and updaters of machines and pods have
//! different trust settings.

pub mod age;
pub mod body;
mod clock;

pub use clock::Clock;
