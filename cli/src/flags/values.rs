//! How values of the libraries are written: the libraries know no flags.

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

/// Reads what applies GitRepository and Kustomization objects.
pub(crate) fn sync() -> impl TypedValueParser<Value = Sync> {
    EnumValueParser::<SyncValue>::new().map(|value| match value {
        SyncValue::Builtin => Sync::Builtin,
        SyncValue::Flux => Sync::Flux,
    })
}

/// Values of `--dashboard-auth`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuthValue {
    /// Everybody who can connect
    None,
    /// Whoever brings a bearer token of somebody who may get modules in the namespace
    Token,
}

/// Reads who may look at the dashboard of a controller.
pub(crate) fn auth() -> impl TypedValueParser<Value = Auth> {
    EnumValueParser::<AuthValue>::new().map(|value| match value {
        AuthValue::None => Auth::None,
        AuthValue::Token => Auth::Token,
    })
}
