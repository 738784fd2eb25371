//! `muster plan`: what a commit would do to the fleet, before it is merged. Nothing is written.
//!
//! ```text
//!   folder, or both sides of a range ─► read ──► change: modules on both sides ─┐
//!   management cluster ─────────────► live ────────────────────────────────────┼─► module::Prospect (controllers)
//!   tag ─► versions: commit ───────────────────────────────────────────────────┘        │
//!                      plan (the shipped decision) in the simulator ◄── order ◄─────────┘
//!                                                                         └─► assemble ─► Plan ─► text, markdown, JSON
//! ```
//!
//! Invariant: the order is what the shipped decision function does with what is seen now; nothing here decides.
//! Invariant: nothing is written, and no Secret is read but its name.

mod applier;
mod assemble;
mod change;
mod fields;
mod foresee;
mod markdown;
mod model;
pub mod objects;
mod order;
pub mod read;
mod shared;
#[cfg(test)]
mod tests;
mod text;
mod variables;
pub mod versions;
mod words;

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Args, ValueEnum};
use muster_controllers::runtime::Clock;
use muster_fleet::{
    connect::{self, Target},
    lists,
};
use muster_sync::source::Files;

use self::{
    applier::Appliers,
    foresee::Foresight,
    model::Plan,
    read::{Folder, ReadError},
    variables::Known,
    versions::Versions,
};
use crate::{
    exit::{DONE, FAILED},
    flags::Variable,
    output,
};

pub const EXAMPLES: &str = "\
Examples:
  muster plan -f modules                            what applying the folder would do to which clusters, in order
  muster plan -f modules --git origin/main...HEAD -o markdown
                                                    of a pull request, as a comment for it; exit code 1: there are changes
  muster plan --source https://github.com/acme/apps.git=../apps
                                                    tags are looked up in a clone
  muster plan -o json | jq '.modules[].order'";

#[derive(Args, Debug)]
pub struct PlanFlags {
    /// The folder with the manifests of Modules and BootstrapModules; Clusters and ConfigMaps in it count, too
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub filename: PathBuf,
    /// Compare two commits of the repository of the folder, instead of the folder with the cluster; A...B: what B changed since it left A
    #[arg(long, value_name = "A..B")]
    pub git: Option<String>,
    /// Plan the removal of all modules that are live and not in the folder. Without it: of those that the Kustomization of the folder prunes
    #[arg(long, conflicts_with = "git")]
    pub prune: bool,
    /// A variable of the manifests; may be repeated. Others are taken from the Kustomization that applies the folder; without any, nothing is
    /// substituted
    #[arg(long = "substitute", value_name = "NAME=VALUE")]
    pub substitute: Vec<Variable>,
    /// A clone of a repository that modules name: tags are looked up there, and what changes in objects is shown; may be repeated. The
    /// repository of the folder is one under the URLs of its remotes
    #[arg(long, value_name = "URL=DIR")]
    pub source: Vec<versions::Clone>,
    /// Ask repositories by http and file, too, for the commits of tags
    #[arg(long, env = "MUSTER_ALLOW_INSECURE_SOURCES")]
    pub allow_insecure_sources: bool,
    /// A kind that bindings may read besides ConfigMap and Cluster, as the controller was started; may be repeated
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "APIVERSION/KIND",
        env = "MUSTER_BINDING_KINDS"
    )]
    pub binding_kinds: Vec<String>,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub output: Shown,
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shown {
    /// For people
    Text,
    /// For a comment on a pull request
    Markdown,
    /// For programs; schema plan/v1
    Json,
}

/// Prints what would become of the fleet.
pub async fn run(cluster: &Target, flags: &PlanFlags) -> anyhow::Result<u8> {
    let files = match &flags.git {
        Some(range) => {
            let (from, to) = read::in_range(&flags.filename, range)?;
            (Some(from), to)
        }
        None => (None, read::on_disk(&flags.filename)?),
    };
    let (client, namespace) = connect::client(cluster).await?;
    let live = lists::read(&client, &namespace).await?;
    let appliers = Appliers::read(&client, &live).await?;
    let given = flags.substitute.iter().cloned();
    let given: BTreeMap<String, String> = given.map(|variable| (variable.name, variable.value)).collect();
    let path = read::location(&flags.filename);
    let known = Known::of(files.0.iter().chain([&files.1]), &live, &appliers, &path);
    let (base, wanted, note) = folders(&files, &known, &given, &namespace)?;
    if is_empty(&wanted) && base.as_ref().is_none_or(is_empty) {
        let place = flags.filename.display().to_string();
        let skipped = wanted
            .skipped()
            .map_or_else(String::new, |skipped| format!(" ({skipped})"));
        return Err(ReadError::NoModules { place, skipped }.into());
    }
    let foresight = Foresight {
        appliers,
        path,
        live,
        client,
        base,
        wanted,
        prune: flags.prune,
        kinds: foresee::kinds(&flags.binding_kinds)?,
        now: Clock::system().now(),
    };
    let mut versions = Versions::new(&flags.source, &flags.filename, flags.allow_insecure_sources);
    let mut plan = foresight.plan(&mut versions).await?;
    plan.notes.extend(note);
    output::text(&shown(&plan, flags.output)?)?;
    Ok(code(&plan))
}

/// Both sides with their variables, and what is to be said of those.
fn folders(
    (base, wanted): &(Option<Files>, Files),
    known: &Known,
    given: &BTreeMap<String, String>,
    namespace: &str,
) -> Result<(Option<Folder>, Folder, Option<String>), ReadError> {
    let read = |variables: &BTreeMap<String, String>| {
        let folder = |files| read::folder(files, variables, namespace);
        Ok((base.as_ref().map(folder).transpose()?, folder(wanted)?))
    };
    let all = known.with(given);
    match read(&all) {
        Ok((base, wanted)) => Ok((base, wanted, known.note(given))),
        // A folder that holds more than the Kustomization applies may have variables of others.
        Err(error @ ReadError::Build { .. }) if all != *given => match read(given) {
            Ok((base, wanted)) => Ok((base, wanted, Some(Known::unused(&error)))),
            Err(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// 1 if something is different afterwards.
fn code(plan: &Plan) -> u8 {
    if plan.modules.is_empty() { DONE } else { FAILED }
}

fn is_empty(folder: &Folder) -> bool {
    folder.modules.is_empty() && folder.bootstrap_modules.is_empty() && folder.node_modules.is_empty()
}

fn shown(plan: &Plan, how: Shown) -> anyhow::Result<String> {
    Ok(match how {
        Shown::Text => text::draw(plan, output::width()),
        Shown::Markdown => markdown::draw(plan),
        Shown::Json => serde_json::to_string_pretty(plan)? + "\n",
    })
}
