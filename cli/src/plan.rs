//! `muster plan`: previews what a commit would do to the fleet, before it is merged. Nothing is written.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use muster_fleet::connect::{self, Target};
use muster_foresee::plan::{self, Clone as SourceClone, Options, Sides};

use crate::{
    exit::{DONE, FAILED},
    flags::Variable,
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster plan -f modules                            what applying the directory would do to which clusters, in order
  muster plan -f modules --git origin/main...HEAD -o markdown
                                                    the plan of a pull request, as a comment on it; exit code 1: there are changes
  muster plan --source https://github.com/acme/apps.git=../apps
                                                    tags are resolved in a local clone
  muster plan -o json | jq '.modules[].order'";

/// Preview what a commit would do to the fleet: which clusters change, in which order, which are skipped and why
///
/// Reads the modules of a directory, or of both sides of a git range, and the objects of the management cluster; writes
/// nothing, and reads only the names of Secrets. The order is what the controller's own rollout engine would decide for
/// the current state, if every update succeeds. Changes of objects are shown if a local clone of their repository is
/// given (--source), and clusters with the same changes are grouped; for Secrets, only the fact that they change.
///
/// With -o json: `schema` (`plan/v1`), modules (each with module, namespace, place, change, from, to, fields, selected,
/// joins, leaves, loses, moves, order, objects, skipped, warnings, digests, took), unchanged, unmentioned and notes.
///
/// Exit codes: 0 no changes; 1 changes; 2 usage error, something is wrong with the files, or the plan could not be
/// made.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct PlanFlags {
    /// The directory with the manifests of Modules and BootstrapModules; its Clusters and ConfigMaps are used, too
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub filename: PathBuf,
    /// Compare two commits of the repository of the directory, instead of the directory with the cluster; A...B: what B
    /// changed since it diverged from A
    #[arg(long, value_name = "A..B")]
    pub git: Option<String>,
    /// Plan the removal of all live modules that are not in the directory. Without it, plan the removal only of those
    /// that the Kustomization of the directory would prune
    #[arg(long, conflicts_with = "git")]
    pub prune: bool,
    /// A variable of the manifests; may be repeated. Others are taken from the Kustomization that applies the
    /// directory; without any, nothing is substituted
    #[arg(long = "substitute", value_name = "NAME=VALUE")]
    pub substitute: Vec<Variable>,
    /// A local clone of a repository that modules use: tags are resolved in it, and changes of objects are shown; may
    /// be repeated. The repository of the directory is used for the URLs of its remotes
    #[arg(long, value_name = "URL=DIR")]
    pub source: Vec<SourceClone>,
    /// Also resolve tags in repositories over http and file
    #[arg(long, env = "MUSTER_ALLOW_INSECURE_SOURCES")]
    pub allow_insecure_sources: bool,
    /// A kind that controlPlaneBindings may read in addition to ConfigMap and Cluster, as given to the controller; may
    /// be repeated
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "APIVERSION/KIND",
        env = "MUSTER_BINDING_KINDS"
    )]
    pub binding_kinds: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub output: Shown,
}

/// Output format of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    /// Human-readable
    Text,
    /// Markdown for a comment on a pull request
    Markdown,
    /// JSON; schema plan/v1
    Json,
}

/// Prints the plan of the fleet.
pub(crate) async fn run(target: &Target, flags: PlanFlags, out: &Out) -> anyhow::Result<u8> {
    let output = flags.output;
    let options = flags.options();
    let sides = Sides::read(&options)?;
    let (client, namespace) = connect::client(target).await?;
    let plan = Box::pin(plan::plan_fleet(client, &namespace, &sides, &options)).await?;
    out.text(&match output {
        Shown::Text => plan::text(&plan, out.width()),
        Shown::Markdown => plan::markdown(&plan),
        Shown::Json => serde_json::to_string_pretty(&plan)? + "\n",
    })?;
    Ok(if plan.changes_nothing() { DONE } else { FAILED })
}

impl PlanFlags {
    fn options(self) -> Options {
        Options {
            directory: self.filename,
            git: self.git,
            prune: self.prune,
            substitute: Variable::map(self.substitute),
            clones: self.source,
            allow_insecure_sources: self.allow_insecure_sources,
            binding_kinds: self.binding_kinds,
        }
    }
}
