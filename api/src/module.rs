//! `Module` and `BootstrapModule`.
