//! Flags that several verbs share, and the types of their values. This module knows no verb.

mod control;
mod door;
mod manner;
mod name;
mod values;
mod variable;

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use muster_fleet::connect::Target;

pub(crate) use self::{
    control::{DryRunFlag, TermFlags, WordFlags},
    door::{DoorAddress, door_address},
    manner::Manner,
    name::{ClusterName, ContextName, ListedName, NodeName, WindowName, strings},
    values::{auth, sync},
    variable::Variable,
};

/// The management cluster and its namespace: kubectl's own flags.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Management cluster")]
pub(crate) struct ClusterFlags {
    /// Path of the kubeconfig [default: $KUBECONFIG, else ~/.kube/config, else in-cluster]
    #[arg(long, global = true, value_name = "FILE", env = "MUSTER_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true)]
    pub context: Option<ContextName>,
    /// Namespace of modules and clusters [default: the context's]
    #[arg(short, long, global = true, env = "MUSTER_NAMESPACE")]
    pub namespace: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        requires = "impersonate"
    )]
    pub impersonate_groups: Vec<String>,
    /// Time limit of a single request to the API server, such as 10s [default: 30s]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    pub request_timeout: Option<Duration>,
}

/// Output format of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Human-readable
    Table,
    /// As JSON
    Json,
}

/// Parses a duration.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration: muster_api::Duration = text
        .parse()
        .map_err(|error: muster_api::duration::DurationError| error.to_string())?;
    Ok(duration.to_std())
}

/// Output format of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// As a table
    Table,
    /// As a table with more columns
    Wide,
    /// As JSON
    Json,
    /// As YAML
    Yaml,
    /// kind/name, one per line
    Name,
}

impl ClusterFlags {
    /// The same without the derives of clap.
    pub(crate) fn target(self) -> Target {
        Target {
            kubeconfig: self.kubeconfig,
            context: self.context.map(Into::into),
            namespace: self.namespace,
            impersonate: self.impersonate,
            impersonate_groups: self.impersonate_groups,
            request_timeout: self.request_timeout,
        }
    }
}
