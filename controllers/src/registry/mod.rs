//! The cluster registry: which clusters there are, whether they can be reached, and a client for each.
