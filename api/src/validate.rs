//! Validation that needs no cluster.
