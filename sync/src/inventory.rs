//! The inventory: what a Kustomization has brought, and what is to be pruned.
