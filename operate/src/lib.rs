//! Installs and uninstalls muster, enrolls and unenrolls clusters, and runs the demo.
//!
//! | module | what it does |
//! |---|---|
//! | [`demo`] | a management plane and a fleet of simulated clusters in this process, and a tour of it that checks itself |
//! | [`dashboard`] | the dashboard of a fleet, served on this machine |
//! | [`install`] | manifests of an installation, from [`install::Options`]; pure |
//! | [`uninstall`] | removes an installation, in an order that leaves downstream clusters untouched |
//! | [`enroll`], [`unenroll`] | adds a cluster that Cluster API does not manage to a fleet, or removes it |
//! | [`undo`] | rolls back to a good version, as a patch or a commit in git; no cluster is touched |
//!
//! Each takes plain options and a client (or a [`Target`](muster_fleet::connect::Target)), reports its [`steps`], and
//! ends with a value or a [`steps::StepRefusal`]: what is wrong, what to do, and whether it failed or could not be
//! found out. Confirmation is asked for by a callback of the caller; flags and exit codes are the caller's.

pub mod dashboard;
pub mod demo;
pub mod enroll;
pub mod install;
pub mod reviews;
pub mod steps;
pub mod undo;
pub mod unenroll;
pub mod uninstall;
