//! Flux's `GitRepository` and `Kustomization`, as far as muster writes and reads them.
