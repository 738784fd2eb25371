//! The GitRepository controller, for clusters without Flux.
