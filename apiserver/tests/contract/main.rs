//! What a Kubernetes API server promises, one small case per promise.
//!
//! Every case makes its own namespace, and its own API group where it needs custom resources, so the cases run in any
//! order and at once. They run on the embedded server, or, unchanged, on a real control plane:
//! `MUSTER_CONTRACT_KUBECONFIG=FILE cargo test -p muster-apiserver --test contract`.

mod harness;

mod applies;
mod apply_lists;
mod cel;
mod collection;
mod crds;
mod crud;
mod defaults;
mod discovery;
mod lifecycle;
mod lists;
mod namespaces;
mod patches;
mod preconditions;
mod status;
mod table;
mod validation;
mod watches;
