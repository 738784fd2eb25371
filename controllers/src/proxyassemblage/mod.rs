//! The ProxyAssemblage controller: mirrors an assemblage into its cluster.
