//! Previews what a commit would do to the fleet, before it is merged. Nothing is written.
//!
//! ```text
//!   manifests, or both sides of range ─► read ──► change: modules on both sides ─┐
//!   management cluster ─────────────► live ────────────────────────────────────┼─► module::Prospect (controllers)
//!   tag ─► versions: commit ───────────────────────────────────────────────────┘        │
//!                      plan (the shipped decision) in the simulator ◄── order ◄─────────┘
//!                                                                         └─► assemble ─► Plan ─► text, markdown, JSON
//! ```
//!
//! Invariant: the order is what the shipped decision function decides for the current state; nothing here decides.
//! Invariant: nothing is written, and of Secrets only names are read.

mod applier;
mod assemble;
mod change;
mod fields;
mod foresee;
mod markdown;
mod model;
pub(crate) mod objects;
mod order;
pub(crate) mod read;
mod shared;
#[cfg(test)]
mod tests;
mod text;
mod variables;
mod versions;
mod words;

use std::{collections::BTreeMap, path::PathBuf};

use kube::Client;
use muster_controllers::runtime::Clock;
use muster_fleet::lists;
use muster_sync::source::Files;

use self::{
    applier::Appliers, foresee::Foresight, read::Directory, variables::KnownVariables, versions::Versions,
};
pub use self::{
    markdown::render_markdown as markdown,
    model::{Change, Fate, Field, Gives, ModulePlan, Move, ObjectChange, Plan, Skipped, Step, Target, Took},
    read::ReadError,
    text::render_text as text,
    versions::Clone,
};

/// What to plan, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory with the manifests of Modules and BootstrapModules; its Clusters and ConfigMaps are used, too.
    pub directory: PathBuf,
    /// Two commits of the repository of the directory to compare, as `A..B` or `A...B`, instead of the directory with
    /// the cluster.
    pub git: Option<String>,
    /// Whether all live modules that are not in the directory are removed. Without it: those that the Kustomization of
    /// the directory prunes.
    pub prune: bool,
    /// Variables of the manifests. Others are taken from the Kustomization that applies the directory; without any,
    /// nothing is substituted.
    pub substitute: BTreeMap<String, String>,
    /// Local clones of repositories that modules use.
    pub clones: Vec<Clone>,
    /// Whether repositories over http and file are fetched, too.
    pub allow_insecure_sources: bool,
    /// Kinds that bindings may read in addition to ConfigMap and Cluster, as `apiVersion/kind`.
    pub binding_kinds: Vec<String>,
}

/// The files of both sides; the first is `None` if the directory is compared with the cluster.
#[derive(Debug)]
pub struct Sides(Option<Files>, Files);

impl Sides {
    /// Reads the files.
    pub fn read(options: &Options) -> Result<Self, ReadError> {
        Ok(match &options.git {
            Some(range) => {
                let (from, to) = read::in_range(&options.directory, range)?;
                Self(Some(from), to)
            }
            None => Self(None, read::on_disk(&options.directory)?),
        })
    }
}

/// Plans the fleet of a namespace.
pub async fn plan_fleet(
    client: Client,
    namespace: &str,
    files: &Sides,
    options: &Options,
) -> anyhow::Result<Plan> {
    let live = lists::read(&client, namespace).await?;
    let appliers = Appliers::read(&client, &live).await?;
    let given = &options.substitute;
    let path = read::location(&options.directory);
    let known = KnownVariables::of(files.0.iter().chain([&files.1]), &live, &appliers, &path);
    let (base, wanted, note) = directories(files, &known, given, namespace)?;
    if is_empty(&wanted) && base.as_ref().is_none_or(is_empty) {
        let place = options.directory.display().to_string();
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
        prune: options.prune,
        kinds: foresee::kinds(&options.binding_kinds)?,
        now: Clock::system().now(),
    };
    let mut versions = Versions::new(
        &options.clones,
        &options.directory,
        options.allow_insecure_sources,
    );
    let mut plan = foresight.plan(&mut versions).await?;
    plan.notes.extend(note);
    Ok(plan)
}

/// Builds both sides with their variables; returns the notices about those.
fn directories(
    Sides(base, wanted): &Sides,
    known: &KnownVariables,
    given: &BTreeMap<String, String>,
    namespace: &str,
) -> Result<(Option<Directory>, Directory, Option<String>), ReadError> {
    let read = |variables: &BTreeMap<String, String>| {
        let directory = |files| read::read_directory(files, variables, namespace);
        Ok((base.as_ref().map(directory).transpose()?, directory(wanted)?))
    };
    let all = known.with(given);
    match read(&all) {
        Ok((base, wanted)) => Ok((base, wanted, known.inferred_notice(given))),
        // A directory with more than the Kustomization applies may have variables of others.
        Err(error @ ReadError::Build { .. }) if all != *given => match read(given) {
            Ok((base, wanted)) => Ok((base, wanted, Some(KnownVariables::unused(&error)))),
            Err(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

fn is_empty(directory: &Directory) -> bool {
    directory.modules.is_empty()
        && directory.bootstrap_modules.is_empty()
        && directory.node_modules.is_empty()
}
