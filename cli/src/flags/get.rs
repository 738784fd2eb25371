//! Flags of `muster get`, and what can be listed.

use std::{ffi::OsStr, str::FromStr};

use clap::{
    Args, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
};

use super::Output;

#[derive(Args, Debug)]
pub(crate) struct GetFlags {
    /// What to list, or TYPE/NAME; without it: the types that there are
    #[arg(value_parser = ListedParser)]
    pub what: Option<Listed>,
    /// Only this one
    pub name: Option<String>,
    /// Only those with these labels
    #[arg(short = 'l', long, conflicts_with = "name")]
    pub selector: Option<String>,
    /// Only those with a condition of this status, such as ready=false; a condition that is not there is unknown
    #[arg(long, value_name = "CONDITION=STATUS")]
    pub status_selector: Option<StatusSelector>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Print a line for each change until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// Objects by one of their conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusSelector {
    /// The type of the condition, in lower case.
    pub condition: String,
    /// Its status: `True`, `False` or `Unknown`.
    pub status: &'static str,
}

impl FromStr for StatusSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (condition, status) = text
            .split_once('=')
            .filter(|(condition, _)| !condition.is_empty())
            .ok_or("write CONDITION=STATUS, such as ready=false")?;
        let known = ["True", "False", "Unknown"];
        let status = known
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(status))
            .ok_or_else(|| format!("{status:?} is no status of a condition: write true, false or unknown"))?;
        Ok(Self {
            condition: condition.to_ascii_lowercase(),
            status,
        })
    }
}

impl GetFlags {
    /// What is listed is in all namespaces, or in none.
    pub(crate) fn is_everywhere(&self) -> bool {
        let of_nodes = self.what.as_ref().is_some_and(|what| what.what.is_of_nodes());
        self.all_namespaces || of_nodes
    }

    /// The one that is meant, if it is one.
    pub(crate) fn name(&self) -> Option<&str> {
        let listed = self.what.as_ref().and_then(|what| what.name.as_deref());
        self.name.as_deref().or(listed)
    }
}

/// What `get` lists, as kubectl takes it: TYPE or TYPE/NAME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Of which kinds.
    pub what: What,
    /// Which one.
    pub name: Option<String>,
}

/// Reads it: the type is one of the values that it may have.
#[derive(Clone)]
struct ListedParser;

impl TypedValueParser for ListedParser {
    type Value = Listed;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Listed, clap::Error> {
        let text = value.to_string_lossy();
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) if !name.is_empty() => (kind, Some(name.to_owned())),
            _ => (&*text, None),
        };
        let what = EnumValueParser::<What>::new().parse_ref(command, arg, OsStr::new(kind))?;
        Ok(Listed { what, name })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            What::value_variants().iter().filter_map(What::to_possible_value),
        ))
    }
}

/// What `get` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Modules and BootstrapModules
    #[value(alias = "module", alias = "mmod")]
    Modules,
    /// BootstrapModules alone
    #[value(name = "bootstrapmodules", alias = "bootstrapmodule", alias = "bmod")]
    BootstrapModules,
    /// Clusters
    #[value(alias = "cluster")]
    Clusters,
    /// ProxyAssemblages and RemoteAssemblages
    #[value(alias = "assemblage")]
    Assemblages,
    /// ModuleRevisions
    #[value(
        alias = "revision",
        alias = "modulerevision",
        alias = "modulerevisions",
        alias = "mrev"
    )]
    Revisions,
    /// ZoneRollouts
    #[value(name = "zonerollouts", alias = "zonerollout", alias = "zr")]
    ZoneRollouts,
    /// ClusterUpgrades
    #[value(name = "clusterupgrades", alias = "clusterupgrade", alias = "cup")]
    ClusterUpgrades,
    /// NodeModules of this cluster
    #[value(name = "nodemodules", alias = "nodemodule", alias = "nmod")]
    NodeModules,
    /// What each node of this cluster gets
    #[value(name = "nodeassemblages", alias = "nodeassemblage", alias = "nasm")]
    NodeAssemblages,
    /// Revisions of NodeModules
    #[value(name = "noderevisions", alias = "noderevision", alias = "nrev")]
    NodeRevisions,
    /// All but ClusterUpgrades, ZoneRollouts and what is of nodes
    All,
}

impl What {
    /// It is of the nodes of a cluster: its kinds have no namespace.
    pub(crate) const fn is_of_nodes(self) -> bool {
        matches!(
            self,
            Self::NodeModules | Self::NodeAssemblages | Self::NodeRevisions
        )
    }
}
