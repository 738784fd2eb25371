//! Predicts what would happen, and replays what was decided.
//!
//! | module | in | out |
//! |---|---|---|
//! | [`plan`] | a directory of manifests, or two commits of one, and a management cluster | a [`plan::Plan`]: which clusters change, in which order |
//! | [`diff`] | a directory, or a module, and clusters | [`diff::Compared`]: unified differences |
//! | [`simulate`] | a fleet file | a [`simulate::Story`], as text, image or JSON |
//! | [`replay`] | a record of decisions | a [`replay::Replay`]: whether it is reproduced, or the first difference |
//! | [`directory`], [`verdicts`] | a directory, recorded objects | manifests as the built-in sync reads them; results of health expressions |
//!
//! Nothing is written to a cluster, and of Secrets only names are read. All decisions are made by the shipped engine.
//!
//! Errors: [`plan::ReadError`] and [`directory::Wrong`] of files, [`simulate::FleetError`] of a fleet file,
//! [`replay::LogError`] of a record; other errors are of an API server or a repository, with messages that say what,
//! where, and what to do next.

pub mod diff;
pub mod directory;
pub mod plan;
pub mod replay;
pub mod simulate;
pub mod verdicts;
