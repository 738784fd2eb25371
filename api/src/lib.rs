//! The kinds of muster: types, CRDs, conditions and reasons, names, digests, and validation that needs no cluster.
