//! The kinds of muster: types, CRDs, conditions and reasons, names, digests, and validation that needs no cluster.

pub mod assemblage;
pub mod cluster;
pub mod conditions;
pub mod crds;
pub mod digest;
pub mod flux;
pub mod labels;
pub mod module;
pub mod names;
pub mod reasons;
pub mod revision;
pub mod rollout;
pub mod sync;
