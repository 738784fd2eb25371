//! Assemblages for one cluster, proxies and remotes alike: which of them a change affects.

use kube::runtime::reflector::Store;
use muster_api::assemblage::TargetedAssemblageSpec;

use crate::{module::Carrier, runtime::Key};

/// Those that a change of an object in a binding may affect.
pub(crate) fn with_bindings<A: Carrier>(store: &Store<A>) -> Vec<Key> {
    keys(store, |spec| {
        spec.syncs
            .iter()
            .any(|row| !row.control_plane_bindings.is_empty())
    })
}

/// The assemblages of a cluster.
pub(crate) fn of_cluster<A: Carrier>(store: &Store<A>, cluster: &str) -> Vec<Key> {
    keys(store, |spec| {
        spec.cluster_ref
            .as_ref()
            .is_some_and(|reference| reference.name == cluster)
    })
}

fn keys<A: Carrier>(store: &Store<A>, which: impl Fn(&TargetedAssemblageSpec) -> bool) -> Vec<Key> {
    store
        .state()
        .iter()
        .filter(|assemblage| which(assemblage.spec()))
        .map(|assemblage| Key::of(&**assemblage))
        .collect()
}
