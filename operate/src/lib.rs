//! What sets muster up, and takes it away again.
//!
//! [`install`] makes the manifests of an installation, and [`enroll`] the objects by which a cluster joins a fleet: options go in, objects of
//! the Kubernetes API come out. Nothing is written to a cluster, and the same options give the same bytes.
//!
//! Errors are of files that are named and cannot be read; their words name the file.

pub mod enroll;
pub mod install;
