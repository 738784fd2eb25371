//! Optional features of agents: a feature is a field that older agents do not know and would silently ignore, or an
//! address that they cannot parse. A row that uses a feature is sent only to an agent that reports it.

use std::collections::BTreeSet;

use crate::{
    assemblage::{Agent, SyncRow},
    sync::Source,
    validate::git,
};

/// The value of [`Agent::sync`] where Flux applies.
pub const FLUX: &str = "flux";

/// The value of [`Agent::sync`] of a controller that applies from another cluster.
pub const REMOTE: &str = "remote";

/// A field, or a value of a field, that older agents do not know.
struct Feature {
    name: &'static str,
    /// Whether a row uses the feature.
    is_needed: fn(&SyncRow) -> bool,
    /// Whether agents support it with the built-in sync.
    built_in: bool,
    /// Whether agents support it where Flux applies.
    with_flux: bool,
    /// Whether a controller that applies from another cluster supports it.
    remotely: bool,
}

impl Feature {
    const fn is_in(&self, flux: bool) -> bool {
        (self.with_flux && flux) || (self.built_in && !flux)
    }
}

/// Every feature of this version. A row that uses none of these fields needs no feature.
const FEATURES: &[Feature] = &[
    Feature {
        name: "settle",
        is_needed: |row| {
            row.package
                .as_ref()
                .is_some_and(|package| package.settle.is_some())
        },
        built_in: true,
        with_flux: true,
        remotely: true,
    },
    Feature {
        name: "assume",
        is_needed: |row| {
            row.package
                .as_ref()
                .is_some_and(|package| package.assume.is_some())
        },
        built_in: true,
        with_flux: false,
        remotely: true,
    },
    Feature {
        name: "healthExpressions",
        is_needed: |row| {
            row.package
                .as_ref()
                .is_some_and(|package| !package.health_expressions.is_empty())
        },
        built_in: true,
        with_flux: true,
        remotely: true,
    },
    Feature {
        name: "healthTable",
        is_needed: |row| {
            row.package
                .as_ref()
                .is_some_and(|package| package.health_table.is_some())
        },
        built_in: true,
        with_flux: true,
        remotely: true,
    },
    Feature {
        name: "plan",
        is_needed: |row| row.package.as_ref().is_some_and(|package| package.plan.is_some()),
        built_in: true,
        with_flux: false,
        remotely: false,
    },
    Feature {
        name: "proxySecretRef",
        is_needed: |row| {
            row.source
                .as_ref()
                .and_then(Source::git)
                .is_some_and(|git| git.proxy_secret_ref.is_some())
        },
        built_in: true,
        with_flux: true,
        remotely: true,
    },
    Feature {
        name: "ssh",
        is_needed: |row| {
            row.source
                .as_ref()
                .and_then(Source::git)
                .is_some_and(|source| git::needs_secret(&source.url))
        },
        built_in: true,
        with_flux: true,
        remotely: true,
    },
    Feature {
        name: "source.flux",
        is_needed: |row| row.source.as_ref().is_some_and(|source| source.flux().is_some()),
        built_in: false,
        with_flux: true,
        remotely: true,
    },
    Feature {
        name: "package.flux",
        is_needed: |row| row.package.as_ref().is_some_and(|package| package.flux.is_some()),
        built_in: false,
        with_flux: true,
        remotely: true,
    },
];

/// The features that an agent of this version reports, with Flux or with the built-in sync.
pub fn own(flux: bool) -> BTreeSet<String> {
    let own = FEATURES.iter().filter(|feature| feature.is_in(flux));
    own.map(|feature| feature.name.to_owned()).collect()
}

/// The features of a controller of this version that applies from another cluster, with Flux or with the built-in sync.
pub fn remote(flux: bool) -> BTreeSet<String> {
    let own = FEATURES
        .iter()
        .filter(|feature| feature.remotely && feature.is_in(flux));
    own.map(|feature| feature.name.to_owned()).collect()
}

/// The features that a row needs.
pub fn needed(row: &SyncRow) -> BTreeSet<&'static str> {
    let needed = FEATURES.iter().filter(|feature| (feature.is_needed)(row));
    needed.map(|feature| feature.name).collect()
}

/// The features that a row needs and the agent does not report. An agent without a report has no features.
pub fn missing(row: &SyncRow, agent: Option<&Agent>) -> BTreeSet<&'static str> {
    let mut missing = needed(row);
    missing.retain(|feature| !agent.is_some_and(|agent| agent.features.contains(*feature)));
    missing
}

/// Why a row is not sent to an agent, and how to resolve it.
pub fn refusal(missing: &BTreeSet<&'static str>, agent: Option<&Agent>) -> String {
    let names: Vec<&str> = missing.iter().copied().collect();
    let only_flux = FEATURES
        .iter()
        .any(|feature| !feature.built_in && missing.contains(feature.name));
    let never_with_flux = FEATURES
        .iter()
        .any(|feature| !feature.with_flux && missing.contains(feature.name));
    let missing = names.join(", ");
    let upgrade = "upgrade the agent and its definitions: muster install --export --downstream --crds";
    match agent {
        Some(Agent { sync, .. }) if sync == FLUX && never_with_flux => format!(
            "the cluster is managed by Flux, which does not support: {missing}; next: remove it from spec.sync.package, or use the built-in sync (--sync builtin)"
        ),
        Some(Agent { sync, .. }) if sync != FLUX && only_flux => {
            let process = match sync.as_str() {
                REMOTE => "muster controller",
                _ => "muster agent",
            };
            format!(
                "the cluster uses the built-in sync, and only Flux supports: {missing}; next: use Flux ({process} --sync flux, docs/install.md), or remove it from spec.sync"
            )
        }
        Some(Agent { sync, .. }) if sync == REMOTE => format!(
            "a BootstrapModule is applied from the management cluster, which does not support: {missing}; next: remove it from spec.sync.package, or make it a Module"
        ),
        Some(Agent { version, .. }) => {
            format!(
                "its agent (version {version}) does not report support for: {missing}; nothing is assigned until it does; next: {upgrade}"
            )
        }
        None => format!(
            "its agent has not reported support for: {missing}; nothing is assigned until it does; next, if that lasts: {upgrade}"
        ),
    }
}
