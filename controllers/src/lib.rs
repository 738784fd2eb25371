//! The controllers of muster: watches, rows, writes, cluster registry.
