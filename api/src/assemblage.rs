//! `ProxyAssemblage`, `RemoteAssemblage` and `Assemblage`: the syncs of one cluster, and their rows.
