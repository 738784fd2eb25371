//! Previews what a commit would do to the fleet, before it is merged. Nothing is written.
//!
//! ```text
//!   folder, or both sides of a range ─► read ──► change: modules on both sides ─┐
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
    applier::Appliers, foresee::Foresight, read::Folder, variables::KnownVariables, versions::Versions,
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
    /// The folder with the manifests of Modules and BootstrapModules; its Clusters and ConfigMaps are used, too.
    pub folder: PathBuf,
    /// Two commits of the repository of the folder to compare, as `A..B` or `A...B`, instead of the folder with the
    /// cluster.
    pub git: Option<String>,
    /// Whether all live modules that are not in the folder are removed. Without it: those that the Kustomization of the
    /// folder prunes.
    pub prune: bool,
    /// Variables of the manifests. Others are taken from the Kustomization that applies the folder; without any,
    /// nothing is substituted.
    pub substitute: BTreeMap<String, String>,
    /// Local clones of repositories that modules use.
    pub clones: Vec<Clone>,
    /// Whether repositories over http and file are fetched, too.
    pub allow_insecure_sources: bool,
    /// Kinds that bindings may read in addition to ConfigMap and Cluster, as `apiVersion/kind`.
    pub binding_kinds: Vec<String>,
}

/// The files of both sides; the first is `None` if the folder is compared with the cluster.
#[derive(Debug)]
pub struct Sides(Option<Files>, Files);

impl Sides {
    /// Reads the files.
    pub fn read(options: &Options) -> Result<Self, ReadError> {
        Ok(match &options.git {
            Some(range) => {
                let (from, to) = read::in_range(&options.folder, range)?;
                Self(Some(from), to)
            }
            None => Self(None, read::on_disk(&options.folder)?),
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
    let path = read::location(&options.folder);
    let known = KnownVariables::of(files.0.iter().chain([&files.1]), &live, &appliers, &path);
    let (base, wanted, note) = folders(files, &known, given, namespace)?;
    if is_empty(&wanted) && base.as_ref().is_none_or(is_empty) {
        let place = options.folder.display().to_string();
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
    let mut versions = Versions::new(&options.clones, &options.folder, options.allow_insecure_sources);
    let mut plan = foresight.plan(&mut versions).await?;
    plan.notes.extend(note);
    Ok(plan)
}

/// Builds both sides with their variables; returns the notices about those.
fn folders(
    Sides(base, wanted): &Sides,
    known: &KnownVariables,
    given: &BTreeMap<String, String>,
    namespace: &str,
) -> Result<(Option<Folder>, Folder, Option<String>), ReadError> {
    let read = |variables: &BTreeMap<String, String>| {
        let folder = |files| read::read_folder(files, variables, namespace);
        Ok((base.as_ref().map(folder).transpose()?, folder(wanted)?))
    };
    let all = known.with(given);
    match read(&all) {
        Ok((base, wanted)) => Ok((base, wanted, known.inferred_notice(given))),
        // A folder with more than the Kustomization applies may have variables of others.
        Err(error @ ReadError::Build { .. }) if all != *given => match read(given) {
            Ok((base, wanted)) => Ok((base, wanted, Some(KnownVariables::unused(&error)))),
            Err(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

fn is_empty(folder: &Folder) -> bool {
    folder.modules.is_empty() && folder.bootstrap_modules.is_empty() && folder.node_modules.is_empty()
}
