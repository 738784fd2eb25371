//! The RemoteAssemblage controller: expands an assemblage into Flux objects here.
