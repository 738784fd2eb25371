//! Conditions: construction, merging, and equality apart from times.
