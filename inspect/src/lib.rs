//! What is wrong: with an installation, with manifests before anybody applies them, and what is needed to find out more.
//!
//! [`check`] reads a management cluster (a [`kube::Client`] and a namespace) and gives a [`check::Report`]; [`lint`] reads files and gives a
//! [`lint::Report`]; [`bundle`] writes what helps somebody else to look into one file, without secrets. Nothing is written to a cluster, and
//! no report has a value of a Secret: what is shown of objects went through [`bundle::redact`] where it may have one.
//!
//! Errors are of what could not be read at all, with words that say what and where; what is found wrong is a finding, with a stable code
//! (docs/checks.md, docs/lint.md).

pub mod bundle;
pub mod check;
pub mod lint;
