//! What rolls: modules over clusters, NodeModules over the nodes of a cluster.

use std::fmt;

use muster_api::module::ModuleKind;
use serde::Serialize;

use crate::words::shell_word;

/// The kind of something that rolls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Kind {
    /// Over clusters, carried out by their own agent.
    Module,
    /// Over clusters, applied from the management cluster.
    BootstrapModule,
    /// A Kubernetes version, over Clusters.
    ClusterUpgrade,
    /// Over the nodes of a cluster.
    NodeModule,
}

impl Kind {
    /// The kind's name as Kubernetes knows it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Module => ModuleKind::Module.as_str(),
            Self::BootstrapModule => ModuleKind::BootstrapModule.as_str(),
            Self::ClusterUpgrade => "ClusterUpgrade",
            Self::NodeModule => "NodeModule",
        }
    }

    /// The kind of modules that it is; none if it is no module.
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

    /// The flag of a command that names a namespace, with a blank before it; empty of a kind that has none.
    pub fn within(self, namespace: &str) -> String {
        match self {
            Self::NodeModule => String::new(),
            _ if namespace.is_empty() => String::new(),
            Self::Module | Self::BootstrapModule | Self::ClusterUpgrade => {
                format!(" -n {}", shell_word(namespace))
            }
        }
    }

    /// The kind of what it rolls over.
    pub const fn unit_kind(self) -> &'static str {
        match self {
            Self::Module | Self::BootstrapModule | Self::ClusterUpgrade => "Cluster",
            Self::NodeModule => "Node",
        }
    }

    /// What it rolls over, in a sentence.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Module | Self::BootstrapModule | Self::ClusterUpgrade => "cluster",
            Self::NodeModule => "node",
        }
    }

    /// What rolls over the same units, as a title.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Module | Self::BootstrapModule => "Modules",
            Self::ClusterUpgrade => "ClusterUpgrades",
            Self::NodeModule => "NodeModules",
        }
    }

    /// One of them, as a title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Module | Self::BootstrapModule => "Module",
            Self::ClusterUpgrade => "ClusterUpgrade",
            Self::NodeModule => "NodeModule",
        }
    }

    /// What it is, in a sentence.
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
