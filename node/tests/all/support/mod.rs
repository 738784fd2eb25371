//! A simulated host: disk, clock, programs, and a node agent on it.

pub(crate) mod disk;
pub(crate) mod world;
