//! YAML as kubectl reads it, from yaml-rust2's events.
