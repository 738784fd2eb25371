//! Scenario tests, fault and crash runs of muster: not a product crate.
