//! The command: controllers, agent, demo, and eyes on a fleet.

fn main() {}
