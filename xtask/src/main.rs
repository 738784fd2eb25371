//! Chores of this repository: generate, check, real.

fn main() {}
