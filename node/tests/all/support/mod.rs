//! A played host: disk, clock, programs, and a node agent on it.

pub mod disk;
pub mod world;
