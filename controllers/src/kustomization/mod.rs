//! The Kustomization controller, for clusters without Flux.
