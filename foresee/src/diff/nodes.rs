//! Differences of a NodeModule on its nodes: files that drifted, and what its revision changes on nodes that do not
//! have it yet.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use kube::{Client, ResourceExt as _, api::ListParams};
use muster_api::node::{
    NodeRevision,
    assemblage::NodePhase,
    content::{FileState, NodeContent, NodeFile},
    render,
};
use muster_controllers::runtime::Api;
use muster_dashboard::{Fleet, NodeObjects, Shape, fold_names};
use muster_fleet::{name::ModuleName, nodes as read, text::counted};
use similar::TextDiff;

/// Context lines of a diff.
const CONTEXT: usize = 3;

/// The differences on nodes.
#[derive(Debug)]
pub struct NodesCompared {
    /// The differences, each with its nodes.
    pub texts: Vec<String>,
    /// How many nodes were compared, as text: `3 nodes`.
    pub nodes: String,
}

/// Compares the nodes of a NodeModule, or only the given ones, with their desired state. Contents are shown
/// unsubstituted, so no secrets are printed.
pub async fn nodes(client: &Client, module: &ModuleName, named: &[String]) -> anyhow::Result<NodesCompared> {
    let objects = read::read_node_objects(client).await?;
    let fleet = Fleet::of_nodes(&objects);
    read::find_node_module(&fleet, &module.name)?;
    for node in named {
        read::check_selected(&fleet, &module.name, node)?;
    }
    let revisions: Api<NodeRevision> = Api::all(client.clone());
    let list = revisions.list(&ListParams::default()).await;
    let known: BTreeMap<String, NodeContent> = list
        .context("listing noderevisions")?
        .items
        .into_iter()
        .filter(|revision| revision.spec.module == module.name)
        .map(|revision| (revision.spec.revision, revision.spec.content))
        .collect();
    let mut blocks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut compared = 0;
    let is_requested = |node: &str| named.is_empty() || named.iter().any(|named| named == node);
    let view = read::find_node_module(&fleet, &module.name)?;
    let cells = view.cells.iter().filter(|cell| cell.shape != Shape::NotSelected);
    for cell in cells.filter(|cell| is_requested(&cell.cluster)) {
        compared += 1;
        for block in differences(&objects, module, &cell.cluster, &known)? {
            blocks.entry(block).or_default().push(cell.cluster.clone());
        }
    }
    let text = |(block, named): (&String, &Vec<String>)| {
        let named = fold_names(named.iter().map(String::as_str)).join(", ");
        format!("{named}: {block}\n")
    };
    Ok(NodesCompared {
        texts: blocks.iter().map(text).collect(),
        nodes: counted(compared, "node", "nodes"),
    })
}

/// The differences of one node: its drift, then pending changes.
fn differences(
    objects: &NodeObjects,
    module: &ModuleName,
    node: &str,
    known: &BTreeMap<String, NodeContent>,
) -> anyhow::Result<Vec<String>> {
    let mut modules = objects.modules.iter();
    let wanted = modules.find(|known| known.name_any() == module.name);
    let mut assemblages = objects.assemblages.iter();
    let assemblage = assemblages.find(|assemblage| assemblage.name_any() == node);
    let row = assemblage.and_then(|of| of.spec.rows.iter().find(|row| row.name == module.name));
    let states = assemblage
        .iter()
        .flat_map(|of| of.status.iter().flat_map(|status| &status.rows));
    let state = states.into_iter().find(|state| state.name == module.name);
    let mut found = Vec::new();
    if let Some(state) = state.filter(|state| !state.drift.is_empty()) {
        let paths = state.drift.join("\n  ");
        found.push(format!("drift: something else changed these files\n  {paths}"));
    }
    let mut nodes = objects.nodes.iter();
    let labels = nodes
        .find(|known| known.name_any() == node)
        .map(|node| node.labels());
    let (Some(wanted), Some(labels)) = (wanted, labels) else {
        return Ok(found);
    };
    let revision = wanted
        .status
        .as_ref()
        .and_then(|status| status.revision.as_deref());
    let has = row.and_then(|row| row.revision.as_deref());
    let is_there = state.is_some_and(|state| state.state == NodePhase::Confirmed) && has == revision;
    if is_there || revision.is_none() {
        return Ok(found);
    }
    let content = &wanted.spec.content;
    let to = files(content, &render::matching_parts(content, labels)?)?;
    let from = match has {
        None => BTreeMap::new(),
        Some(has) if Some(has) == revision => return Ok(found),
        Some(has) => {
            let (Some(content), Some(row)) = (known.get(has), row) else {
                found.push(format!("revision {} is no longer on record", short_hash(has)));
                return Ok(found);
            };
            files(content, &row.parts)?
        }
    };
    let title = format!(
        "{} -> {}",
        has.map_or("nothing", short_hash),
        revision.map_or("?", short_hash)
    );
    let changes = changes(&from, &to);
    if !changes.is_empty() {
        found.push(format!("{title}\n{changes}"));
    }
    Ok(found)
}

fn short_hash(revision: &str) -> &str {
    revision.get(..8).unwrap_or(revision)
}

fn files<'a>(
    content: &'a NodeContent,
    parts: &BTreeSet<u32>,
) -> anyhow::Result<BTreeMap<&'a str, &'a NodeFile>> {
    let files = render::merged(content, parts)?;
    Ok(files.into_iter().map(|file| (file.path.as_str(), file)).collect())
}

/// The files that differ, as unified diffs. A path that is no longer listed goes back to what the node had before.
fn changes(from: &BTreeMap<&str, &NodeFile>, to: &BTreeMap<&str, &NodeFile>) -> String {
    let paths: BTreeSet<&str> = from.keys().chain(to.keys()).copied().collect();
    let change = |path: &str| match (from.get(path), to.get(path)) {
        (Some(_), None) => format!("--- {path}\n+++ {path} is restored to what the node had before\n"),
        (before, Some(after)) if before != Some(after) => {
            let (old, new) = (
                before.map_or_else(String::new, |file| written(file)),
                written(after),
            );
            let diff = TextDiff::from_lines(&old, &new);
            let mut diff = diff.unified_diff();
            diff.context_radius(CONTEXT).header(path, path).to_string()
        }
        _ => String::new(),
    };
    paths.into_iter().map(change).collect()
}

/// A file, and its properties other than the content.
fn written(file: &NodeFile) -> String {
    let NodeFile {
        mode,
        owner,
        group,
        state,
        content,
        ..
    } = file;
    let content = content.as_deref().unwrap_or_default();
    match state {
        FileState::Absent => "(absent)\n".to_owned(),
        FileState::Present => format!(
            "(mode {mode}, owner {owner}, group {group})\n{}\n",
            content.trim_end_matches('\n')
        ),
    }
}
