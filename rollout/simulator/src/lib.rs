//! A simulated fleet around the decision function of muster.
//!
//! ```text
//!   seed ─► Scenario: spec, units, what happens when ─┐
//!   a fleet from a test ──────────────────────────────┼─► Simulation ─► plan (the shipped one) ─► memory, steps
//!                                                     │   events in      ▲                          │ writes: late, lost, twice
//!                                                     │   order of time  └── view ◄── reports ◄── units
//!                                                     └─► Witness: Laws (they hold, or the seed is printed), or a chart
//! ```
//!
//! Time is a number that jumps from one event to the next: a rollout of hours is simulated in milliseconds.
//!
//! Invariant: the same seed and the same fleet give the same history, event by event.
//! Invariant: nothing here knows Kubernetes, I/O or a clock.

mod content;
mod fleet_event;
pub mod laws;
mod member;
mod queue;
pub mod random;
mod simulation;
pub mod steps;
mod witness;

pub use content::{digest, revision};
pub use fleet_event::{FleetEvent, SpecChange, UnitEvent};
pub use member::{Closure, Fault, Member, Pace, Trouble};
pub use simulation::{Delays, Rest, Simulation, Tally};
pub use witness::{Laws, Witness};
