//! The `rollout` settings of a module.
