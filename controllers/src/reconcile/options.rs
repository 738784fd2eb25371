//! The flags of a process that its controllers read.

use std::{collections::BTreeSet, fmt, path::PathBuf, time::Duration};

use muster_sync::proxy::Proxies;

use crate::{bindings::BindingKind, hosts::Hosts};

/// Which controller reconciles the Flux kinds in the cluster of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// muster's built-in sync.
    Builtin,
    /// Flux: muster writes the Flux kinds and reads their status.
    Flux,
}

impl SyncMode {
    /// The value of the flag `--sync`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Flux => muster_api::features::FLUX,
        }
    }
}

/// The flags of `controller` and `agent` that controllers read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which controller reconciles the Flux kinds.
    pub sync: SyncMode,
    /// How often a mirrored assemblage is read when it cannot be watched.
    pub proxy_poll_interval: Duration,
    /// The kinds that bindings, and the conditions of gates, may read.
    pub binding_kinds: BTreeSet<BindingKind>,
    /// The directory in which decisions about modules are recorded; `None`: they are not recorded.
    pub record_decisions: Option<PathBuf>,
    /// Set if an agent rolls out NodeModules to the nodes of its cluster: the taints to remove once a node is
    /// configured for the first time.
    pub nodes: Option<Vec<StartupTaint>>,
    /// Whether the controller rolls out the versions of ClusterUpgrades to Clusters.
    pub upgrades: bool,
    /// Proxies for git, gates and notification receivers.
    pub proxies: Proxies,
    /// Proxies that Secrets and kubeconfigs may name.
    pub proxy_hosts: Hosts,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync: SyncMode::Builtin,
            proxy_poll_interval: Duration::from_secs(20),
            binding_kinds: BTreeSet::new(),
            record_decisions: None,
            nodes: None,
            upgrades: false,
            proxies: Proxies::default(),
            proxy_hosts: Hosts::default(),
        }
    }
}

/// A taint that keeps pods from a node until it is configured: `key` or `key=value:effect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupTaint {
    key: String,
    rest: Option<(String, String)>,
}

impl StartupTaint {
    /// Parses a taint; `None` if it has no key.
    pub fn parse(text: &str) -> Option<Self> {
        let (key, rest) = match text.split_once('=') {
            Some((key, rest)) => {
                let (value, effect) = rest.split_once(':').filter(|(_, effect)| !effect.is_empty())?;
                (key, Some((value.to_owned(), effect.to_owned())))
            }
            None => (text, None),
        };
        (!key.is_empty()).then(|| Self {
            key: key.to_owned(),
            rest,
        })
    }

    /// Key of the taint.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether a taint matches this one.
    pub fn is(&self, key: &str, value: &str, effect: &str) -> bool {
        let rest = self.rest.as_ref();
        self.key == key && rest.is_none_or(|(of, what)| of == value && what == effect)
    }
}

impl fmt::Display for StartupTaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rest {
            Some((value, effect)) => write!(f, "{}={value}:{effect}", self.key),
            None => f.write_str(&self.key),
        }
    }
}
