//! Rollout kinds: modules over clusters, NodeModules over the nodes of a cluster.

use std::fmt;

use muster_api::module::ModuleKind;
use serde::Serialize;

use crate::words::shell_word;

/// Kind of an object that is rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Kind {
    /// Over clusters, applied by the agent in each cluster.
    Module,
    /// Over clusters, applied from the management cluster.
    BootstrapModule,
    /// A Kubernetes version, over Clusters.
    ClusterUpgrade,
    /// Over the nodes of a cluster.
    NodeModule,
}

impl Kind {
    /// Kubernetes kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Module => ModuleKind::Module.as_str(),
            Self::BootstrapModule => ModuleKind::BootstrapModule.as_str(),
            Self::ClusterUpgrade => "ClusterUpgrade",
            Self::NodeModule => "NodeModule",
        }
    }

    /// The kind of module; `None` for kinds that are not modules.
    pub const fn of_modules(self) -> Option<ModuleKind> {
        match self {
            Self::Module => Some(ModuleKind::Module),
            Self::BootstrapModule => Some(ModuleKind::BootstrapModule),
            Self::ClusterUpgrade | Self::NodeModule => None,
        }
    }

    /// Kind and name, as commands take them: `module/web`.
    pub fn address(self, name: &str) -> String {
        format!("{}/{name}", self.as_str().to_lowercase())
    }

    /// The namespace flag of a command, with a leading space; empty for cluster-scoped kinds.
    pub fn within(self, namespace: &str) -> String {
        match self {
            Self::NodeModule => String::new(),
            _ if namespace.is_empty() => String::new(),
            Self::Module | Self::BootstrapModule | Self::ClusterUpgrade => {
                format!(" -n {}", shell_word(namespace))
            }
        }
    }

    /// Kind of the units it is rolled out to.
    pub const fn unit_kind(self) -> &'static str {
        match self {
            Self::Module | Self::BootstrapModule | Self::ClusterUpgrade => "Cluster",
            Self::NodeModule => "Node",
        }
    }

    /// The units it is rolled out to, as used in a sentence.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Module | Self::BootstrapModule | Self::ClusterUpgrade => "cluster",
            Self::NodeModule => "node",
        }
    }

    /// Title for all kinds that are rolled out to the same units.
    pub const fn group_title(self) -> &'static str {
        match self {
            Self::Module | Self::BootstrapModule => "Modules",
            Self::ClusterUpgrade => "ClusterUpgrades",
            Self::NodeModule => "NodeModules",
        }
    }

    /// Title for one object of this kind.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Module | Self::BootstrapModule => "Module",
            Self::ClusterUpgrade => "ClusterUpgrade",
            Self::NodeModule => "NodeModule",
        }
    }

    /// The object, as used in a sentence.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Module | Self::BootstrapModule => "module",
            Self::ClusterUpgrade => "ClusterUpgrade",
            Self::NodeModule => "NodeModule",
        }
    }
}

impl From<ModuleKind> for Kind {
    fn from(kind: ModuleKind) -> Self {
        match kind {
            ModuleKind::Module => Self::Module,
            ModuleKind::BootstrapModule => Self::BootstrapModule,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
