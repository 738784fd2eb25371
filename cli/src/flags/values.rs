//! Parses the values of library types: the libraries have no flags.

use clap::{
    ValueEnum,
    builder::{EnumValueParser, TypedValueParser},
};
use muster_operate::install::{Auth, Sync};

/// Values of `--sync`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SyncValue {
    /// muster itself
    Builtin,
    /// Flux: muster writes the Flux kinds and reads their status
    Flux,
}

/// Parses what applies GitRepository and Kustomization objects.
pub(crate) fn sync() -> impl TypedValueParser<Value = Sync> {
    EnumValueParser::<SyncValue>::new().map(|value| match value {
        SyncValue::Builtin => Sync::Builtin,
        SyncValue::Flux => Sync::Flux,
    })
}

/// Values of `--dashboard-auth`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuthValue {
    /// Everyone who can connect
    None,
    /// Anyone with the bearer token of a user who may get modules in the namespace
    Token,
}

/// Parses who may view the dashboard of a controller.
pub(crate) fn auth() -> impl TypedValueParser<Value = Auth> {
    EnumValueParser::<AuthValue>::new().map(|value| match value {
        AuthValue::None => Auth::None,
        AuthValue::Token => Auth::Token,
    })
}
