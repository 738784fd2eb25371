//! The command line of `muster zones`, with Go's flag syntax: `-name=value` or `-name value`, one dash or two; booleans
//! only with `=`, and without a value they mean true. Error messages are those of Go and rollout-operator.

mod catalogue;
mod help;
mod parse;
mod settings;

pub use self::{
    catalogue::{Effect, FLAGS, Flag, Kind, find_flag},
    help::help,
    parse::{Given, Value, parse_flags},
    settings::{Certificate, Settings},
};

/// Why a command line is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An unknown flag.
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    /// The last flag has no value.
    #[error("flag needs an argument: -{0}")]
    NoValue(String),
    /// More than two dashes, or no name.
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    /// An invalid value.
    #[error("invalid value {value:?} for flag -{name}: {why}")]
    Value {
        /// Name of the flag.
        name: &'static str,
        /// The given value.
        value: String,
        /// What is wrong with the value.
        why: String,
    },
    /// An invalid boolean value.
    #[error("invalid boolean value {value:?} for -{name}: parse error")]
    Bool {
        /// Name of the flag.
        name: &'static str,
        /// The given value.
        value: String,
    },
    /// Help is requested.
    #[error("flag: help requested")]
    Help,
    /// Values that conflict with each other, or are out of range.
    #[error("{0}")]
    Invalid(String),
}
