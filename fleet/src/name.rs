//! Names of modules, rollouts and roots of trees, as users write them.
//!
//! Each is parsed by [`FromStr`], and printed by [`Display`](fmt::Display) in kubectl's form: `module/podinfo`.

use std::{fmt, str::FromStr};

use muster_api::{module::ModuleKind, path};
use muster_dashboard::{Kind, ModuleRef};

/// A module by kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleName {
    /// Kind of the module.
    pub kind: Kind,
    /// Name of the module.
    pub name: String,
}

impl ModuleName {
    /// The same as a reference of the views.
    pub fn reference(&self) -> ModuleRef {
        ModuleRef {
            kind: self.kind,
            name: self.name.clone(),
        }
    }

    /// The module of the other kind that has the same name; `None` if this is not a Module or BootstrapModule.
    pub fn twin(&self) -> Option<Self> {
        let kind = match self.kind {
            Kind::Module => Kind::BootstrapModule,
            Kind::BootstrapModule => Kind::Module,
            Kind::ClusterUpgrade | Kind::NodeModule => return None,
        };
        Some(Self {
            kind,
            name: self.name.clone(),
        })
    }

    /// The kind, for verbs about clusters only: see [`over_clusters`].
    pub fn kind_of_modules(&self) -> ModuleKind {
        self.kind.of_modules().unwrap_or_default()
    }

    /// Whether it rolls over the nodes of a cluster.
    pub fn is_of_nodes(&self) -> bool {
        self.kind == Kind::NodeModule
    }
}

impl FromStr for ModuleName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or(("module", text));
        let kind = match (kind_of(kind), kind) {
            (Some(kind), _) => kind,
            (None, "cluster" | "clusters") => {
                return Err(format!(
                    "a module is required here: write module/NAME, or show the cluster with muster tree cluster/{name}"
                ));
            }
            (None, other) => {
                return Err(format!(
                    "{other:?} is not a kind of module: write module/{name}, bootstrapmodule/{name}, nodemodule/{name} or clusterupgrade/{name}"
                ));
            }
        };
        if name.is_empty() {
            return Err("the name is missing: write module/NAME".to_owned());
        }
        path::check(name).map_err(|error| format!("{name:?} cannot be the name of a module: {error}"))?;
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind.address(&self.name))
    }
}

/// Parses a kind by its name, plural or short name, as kubectl does.
fn kind_of(word: &str) -> Option<Kind> {
    Some(match word {
        "module" | "modules" | "mmod" => Kind::Module,
        "bootstrapmodule" | "bootstrapmodules" | "bmod" => Kind::BootstrapModule,
        "clusterupgrade" | "clusterupgrades" | "cup" => Kind::ClusterUpgrade,
        "nodemodule" | "nodemodules" | "nmod" => Kind::NodeModule,
        _ => return None,
    })
}

/// Whether text that may also be a path names a module: it starts with a kind.
pub fn is_module(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(kind, _)| kind_of(kind).is_some())
}

/// Parses a module with content, which can be compared and rolled back.
pub fn with_content(text: &str) -> Result<ModuleName, String> {
    let module: ModuleName = text.parse()?;
    if module.kind == Kind::ClusterUpgrade {
        return Err(format!(
            "{module} has no content: a Kubernetes version is never rolled back; to explain it: muster why {module}"
        ));
    }
    Ok(module)
}

/// Parses a module, for a verb about clusters only.
pub fn over_clusters(text: &str) -> Result<ModuleName, String> {
    let module = with_content(text)?;
    if module.is_of_nodes() {
        return Err(format!(
            "a module is required here, and {module} rolls over nodes: write module/NAME; to explain it: muster why {module}"
        ));
    }
    Ok(module)
}

/// A rollout: a module over clusters, a NodeModule over nodes, a group of zones in one cluster, or a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutName {
    /// A Module, BootstrapModule, NodeModule or ClusterUpgrade.
    Module(ModuleName),
    /// A ZoneRollout, by its name or by its group.
    Zones(String),
    /// A Machine of Cluster API that is updated in place.
    Machine(String),
}

impl FromStr for RolloutName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some(("zonerollout" | "zonerollouts" | "zr", "")) => {
                Err("the name is missing: write zonerollout/NAME".to_owned())
            }
            Some(("zonerollout" | "zonerollouts" | "zr", name)) => Ok(Self::Zones(name.to_owned())),
            Some(("machine" | "machines" | "ma", "")) => {
                Err("the name is missing: write machine/NAME".to_owned())
            }
            Some(("machine" | "machines" | "ma", name)) => Ok(Self::Machine(name.to_owned())),
            _ => text.parse().map(Self::Module),
        }
    }
}

impl fmt::Display for RolloutName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(module) => module.fmt(f),
            Self::Zones(name) => write!(f, "zonerollout/{name}"),
            Self::Machine(name) => write!(f, "machine/{name}"),
        }
    }
}

/// The root of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Top {
    /// All modules.
    Fleet,
    /// One module.
    Module(ModuleName),
    /// One cluster.
    Cluster(String),
}

impl Top {
    /// Whether it is a NodeModule: its nodes are in the current cluster.
    pub fn is_of_nodes(&self) -> bool {
        matches!(self, Self::Module(module) if module.is_of_nodes())
    }
}

impl FromStr for Top {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            None if text == "fleet" => Ok(Self::Fleet),
            Some(("cluster" | "clusters", "")) => Err("the name is missing: write cluster/NAME".to_owned()),
            Some(("cluster" | "clusters", name)) => Ok(Self::Cluster(name.to_owned())),
            _ => text.parse().map(Self::Module),
        }
    }
}

impl fmt::Display for Top {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => f.write_str("fleet"),
            Self::Module(module) => module.fmt(f),
            Self::Cluster(name) => write!(f, "cluster/{name}"),
        }
    }
}
