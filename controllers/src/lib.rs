//! The controllers of muster: watches, rows, writes, cluster registry.

pub mod assemblage;
pub mod bindings;
pub mod gitrepository;
pub mod kustomization;
pub mod module;
pub mod proxyassemblage;
pub mod registry;
pub mod remoteassemblage;
pub mod runtime;
