//! The Assemblage controller: expands an assemblage into Flux objects, downstream.
