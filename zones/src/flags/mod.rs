//! The command line of `muster zones`, in Go's way of writing flags: `-name=value` or `-name value`, one dash or two; booleans only
//! with `=`, and alone they mean true. What is refused is refused in the words of Go and of rollout-operator.

mod catalogue;
mod help;
mod parse;
mod settings;

pub use self::{
    catalogue::{Effect, FLAGS, Flag, Kind, find},
    help::help,
    parse::{Given, Value, parse},
    settings::{Certificate, Settings},
};

/// Why a command line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such flag.
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    /// A flag at the end that takes a value.
    #[error("flag needs an argument: -{0}")]
    NoValue(String),
    /// More dashes than two, or no name.
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    /// A value of another kind.
    #[error("invalid value {value:?} for flag -{name}: {why}")]
    Value {
        /// The flag.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// A boolean of another kind.
    #[error("invalid boolean value {value:?} for -{name}: parse error")]
    Bool {
        /// The flag.
        name: &'static str,
        /// What was given.
        value: String,
    },
    /// Help is asked for.
    #[error("flag: help requested")]
    Help,
    /// Values that do not go together, or are out of range.
    #[error("{0}")]
    Invalid(String),
}
