//! From git to a cluster: sources, YAML, substitution, staged apply, inventory, health.

pub mod apply;
pub mod build;
pub mod health;
pub mod inventory;
pub mod source;
pub mod substitute;
pub mod yaml;
