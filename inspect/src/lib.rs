//! Finds problems of an installation, or of manifests before they are applied, and collects diagnostics.
//!
//! [`check`] reads a management cluster (a [`kube::Client`] and a namespace) and returns a [`check::Report`]; [`lint`]
//! reads files and returns a [`lint::Report`]; [`bundle`] writes diagnostics for others into one file, without secrets.
//! Nothing is written to a cluster, and no report has a value of a Secret: output from objects that may have one goes
//! through [`bundle::redact`].
//!
//! Errors are about what could not be read at all, with messages that say what and where; problems are findings, with a
//! stable code (docs/checks.md, docs/lint.md).

pub mod bundle;
pub mod check;
pub mod lint;
