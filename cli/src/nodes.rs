//! Verbs about NodeModules alone: `muster rollout release` and `abandon`, and what `why`, `undo` and `diff` say of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use anyhow::{Context as _, bail};
use clap::Args;
use kube::{Client, ResourceExt, api::ListParams};
use muster_api::{
    labels::annotation::{ABANDON, RELEASE},
    node::{
        NodeModule, NodeRevision,
        assemblage::NodePhase,
        content::{FileState, NodeContent, NodeFile},
        render,
    },
    reasons::Reason,
};
use muster_controllers::runtime::Api;
use muster_dashboard::{
    Cell, Fleet, NodeObjects, Objects, Outcome, Shape, Why, fold_names, shell_word, why_on,
};
use muster_fleet::{
    Address,
    control::{self, Wish},
    history, level,
    name::ModuleName,
    nodes::{self, NodeError},
};
use muster_sync::build::print;
use serde_json::{Value, json};
use similar::TextDiff;

use crate::{
    exit::{DONE, FAILED},
    explain,
    flags::{DiffFlags, WhyFlags, WordFlags},
    output::{self, Terminal},
};

pub(crate) const RELEASE_EXAMPLES: &str = "\
Examples:
  muster rollout release nodemodule/fabric --node n3 --reason 'its hardware is broken'
  muster rollout release nodemodule/fabric --node n3,n4 --context eu-1";

pub(crate) const ABANDON_EXAMPLES: &str = "\
Examples:
  muster rollout abandon nodemodule/fabric --node n3 --reason 'it was scrapped'";

/// Lines around a change.
const CONTEXT: usize = 3;

#[derive(Args, Debug)]
pub(crate) struct NodesFlags {
    /// nodemodule/NAME
    pub module: ModuleName,
    /// The nodes
    #[arg(long = "node", value_delimiter = ',', value_name = "NODES", required = true)]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub word: WordFlags,
}

/// Nodes that vanished in their change are waited for no more.
pub(crate) async fn release(client: &Client, flags: &NodesFlags) -> anyhow::Result<u8> {
    let lost = |cell: &Cell| cell.reason == Reason::LostInChange.as_str();
    let refused = "is not lost in its change";
    if let Some(code) = refused_for(client, flags, lost, refused).await? {
        return Ok(code);
    }
    say(client, flags, RELEASE, "released").await?;
    let Address { name, resource, .. } = Address::of(client, "", &flags.module);
    say!(
        "The rollout goes on without waiting for them. To take it back: kubectl annotate --field-manager=muster-cli {resource}/{name} {RELEASE}-"
    );
    Ok(DONE)
}

/// Nodes of what is withdrawn are given up.
pub(crate) async fn abandon(client: &Client, flags: &NodesFlags) -> anyhow::Result<u8> {
    let fleet = nodes::read(client).await?;
    let is_deleting = nodes::module(&fleet, &flags.module.name).is_ok_and(|view| view.deleting);
    let leaves = |cell: &Cell| {
        let withdrawn = [Reason::Withdrawing, Reason::WithdrawalHeld, Reason::LostInChange];
        is_deleting || withdrawn.iter().any(|reason| reason.as_str() == cell.reason)
    };
    if let Some(code) = refused_for(client, flags, leaves, "is not being withdrawn from").await? {
        return Ok(code);
    }
    say(client, flags, ABANDON, "abandoned").await?;
    Ok(DONE)
}

/// Whether nothing is written, because a node does not stand as it must. What cannot be meant is an error.
async fn refused_for(
    client: &Client,
    flags: &NodesFlags,
    stands: impl Fn(&Cell) -> bool,
    refused: &str,
) -> anyhow::Result<Option<u8>> {
    let NodesFlags {
        module,
        nodes: named,
        word: _,
    } = flags;
    let fleet = of_nodes(client, module).await?;
    for node in named {
        nodes::check_selected(&fleet, &module.name, node)?;
        let view = nodes::module(&fleet, &module.name)?;
        let cell = view.cells.iter().find(|cell| cell.cluster == *node);
        if let Some(cell) = cell.filter(|cell| !stands(cell)) {
            complain!(
                "error: {node} {refused} ({}): nothing was written, it would have no effect; next: muster why {module} --node {}",
                cell.reason,
                shell_word(node)
            );
            return Ok(Some(FAILED));
        }
    }
    Ok(None)
}

/// The view of the nodes, for what rolls over them.
async fn of_nodes(client: &Client, module: &ModuleName) -> anyhow::Result<Fleet> {
    if !module.is_of_nodes() {
        let module = module.clone();
        bail!(NodeError::NotANodeModule { module });
    }
    nodes::read(client).await
}

/// Names these nodes in an annotation, with those that it names already.
async fn say(client: &Client, flags: &NodesFlags, key: &str, verb: &str) -> anyhow::Result<()> {
    let NodesFlags {
        module,
        nodes: named,
        word,
    } = flags;
    let address = Address::of(client, "", module);
    let object = address.get().await?;
    let wanted = word.word().control(client, &named.join(",")).await;
    let before = object.annotations().get(key).map(String::as_str);
    let verb = match level::joined(before, wanted, module)? {
        Wish::Stands(control) => format!("has {} {verb} already{}", control.what, control.told()),
        Wish::Write(control) => {
            let text = json!(control.to_text());
            control::replace(&address, &object, key, &text, word.dry_run.by).await?;
            format!("{} {verb}{}", named.join(","), control.told())
        }
    };
    say!("{}", control::done(&address, &verb, word.dry_run.by));
    Ok(())
}

/// Explains a NodeModule, or one node of it; once, or at each change.
pub(crate) async fn why(client: &Client, module: &ModuleName, flags: &WhyFlags) -> anyhow::Result<u8> {
    if flags.cluster.is_some() {
        let module = module.clone();
        bail!(NodeError::NotClusters { module });
    }
    let leases = nodes::leases(client).await;
    let answer = |nodes: &NodeObjects, fleet: &Fleet| {
        let nodes = NodeObjects {
            leases: leases.clone(),
            ..nodes.clone()
        };
        let objects = Objects {
            nodes,
            ..Objects::default()
        };
        answer(&objects, fleet, module, flags.node.as_deref())
    };
    if flags.watch {
        let mut live = output::Live::default();
        return nodes::watch(client, &Terminal, |objects, fleet| {
            live.show_blocks(&explain::blocks(&answer(objects, fleet)?, output::width()));
            Ok(ControlFlow::Continue(()))
        })
        .await;
    }
    let objects = nodes::objects(client).await?;
    explain::print(&answer(&objects, &Fleet::of_nodes(&objects))?, flags.output)
}

fn answer(
    objects: &Objects,
    fleet: &Fleet,
    module: &ModuleName,
    node: Option<&str>,
) -> Result<Why, NodeError> {
    let view = nodes::module(fleet, &module.name)?;
    let Some(node) = node else {
        return Ok(muster_dashboard::why(view));
    };
    nodes::check_node(fleet, node)?;
    let no_node = || NodeError::NoNode {
        name: node.to_owned(),
        near: String::new(),
    };
    why_on(objects, fleet, &module.reference(), node).ok_or_else(no_node)
}

/// Prints the NodeModule with the content of a revision: it is written where it comes from, and `into_git` is refused.
pub(crate) async fn undo(
    client: &Client,
    module: &ModuleName,
    to_revision: Option<&str>,
    into_git: bool,
) -> anyhow::Result<u8> {
    if into_git {
        bail!(
            "--repo and --commit are for modules: the content of {module} is printed; next: muster rollout undo {module}, and write it where it comes from"
        );
    }
    let history = history::of(client, "", module).await?;
    let mut good = history.revisions.iter();
    let past = match to_revision {
        Some(said) => history.find(said)?,
        None => good
            .find(|past| past.verdict == Outcome::Good && !past.is_target)
            .with_context(|| {
                format!(
                    "no other revision of {module} is on record as good; next: muster rollout history {module}, and choose one with --to-revision"
                )
            })?,
    };
    if past.is_target || past.verdict == Outcome::Bad {
        let is = if past.is_target {
            "is what it asks for already"
        } else {
            "is known to be bad"
        };
        complain!(
            "error: revision {} of {module} {is}; next: choose another (muster rollout history {module})",
            past.short()
        );
        return Ok(if past.is_target { DONE } else { FAILED });
    }
    let revisions: Api<NodeRevision> = Api::all(client.clone());
    let what = || format!("reading NodeRevision {}", past.name);
    let revision = revisions.get(&past.name).await.with_context(what)?;
    let live: NodeModule = Api::<NodeModule>::all(client.clone())
        .get(&module.name)
        .await
        .with_context(|| format!("reading {module}"))?;
    output::text(&print::yaml(&with_content(&live, &revision.spec.content)?))?;
    complain!(
        "This is {module} with the content of revision {} ({}); next: write it where the NodeModule comes from: in git, as a rule.",
        past.short(),
        past.verdict.as_str()
    );
    Ok(DONE)
}

/// A NodeModule as a manifest, with another content.
fn with_content(live: &NodeModule, content: &NodeContent) -> anyhow::Result<Value> {
    let spec = muster_api::node::module::NodeModuleSpec {
        content: content.clone(),
        ..live.spec.clone()
    };
    Ok(json!({
        "apiVersion": "fleet.muster.dev/v1alpha1",
        "kind": "NodeModule",
        "metadata": {"name": live.name_any()},
        "spec": serde_json::to_value(spec)?,
    }))
}

/// What drifted on the nodes of a NodeModule, and what its revision changes on those that do not have it yet. Contents are shown as they are
/// written: variables, and with them secrets, are not filled in.
pub(crate) async fn diff(client: &Client, module: &ModuleName, flags: &DiffFlags) -> anyhow::Result<u8> {
    let objects = nodes::objects(client).await?;
    let fleet = Fleet::of_nodes(&objects);
    nodes::module(&fleet, &module.name)?;
    for node in &flags.node {
        nodes::check_selected(&fleet, &module.name, node)?;
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
    let is_asked = |node: &str| flags.node.is_empty() || flags.node.iter().any(|named| named == node);
    let view = nodes::module(&fleet, &module.name)?;
    let cells = view.cells.iter().filter(|cell| cell.shape != Shape::NotSelected);
    for cell in cells.filter(|cell| is_asked(&cell.cluster)) {
        compared += 1;
        for block in differences(&objects, module, &cell.cluster, &known)? {
            blocks.entry(block).or_default().push(cell.cluster.clone());
        }
    }
    for (block, named) in &blocks {
        let named = fold_names(named.iter().map(String::as_str)).join(", ");
        output::text(&format!("{named}: {block}\n"))?;
    }
    if blocks.is_empty() {
        let nodes = output::counted(compared, "node", "nodes");
        say!("{nodes} of {module}: no difference");
        return Ok(DONE);
    }
    Ok(FAILED)
}

/// How one node differs: its drift, then what is to come.
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
    let to = files(content, &render::parts(content, labels)?)?;
    let from = match has {
        None => BTreeMap::new(),
        Some(has) if Some(has) == revision => return Ok(found),
        Some(has) => {
            let (Some(content), Some(row)) = (known.get(has), row) else {
                found.push(format!("revision {} is not on record any more", short(has)));
                return Ok(found);
            };
            files(content, &row.parts)?
        }
    };
    let title = format!(
        "{} -> {}",
        has.map_or("nothing", short),
        revision.map_or("?", short)
    );
    let changes = changes(&from, &to);
    if !changes.is_empty() {
        found.push(format!("{title}\n{changes}"));
    }
    Ok(found)
}

fn short(revision: &str) -> &str {
    revision.get(..8).unwrap_or(revision)
}

fn files<'a>(
    content: &'a NodeContent,
    parts: &BTreeSet<u32>,
) -> anyhow::Result<BTreeMap<&'a str, &'a NodeFile>> {
    let files = render::merged(content, parts)?;
    Ok(files.into_iter().map(|file| (file.path.as_str(), file)).collect())
}

/// The files that differ, as unified diffs. A path that is listed no longer gets back what the node had before.
fn changes(from: &BTreeMap<&str, &NodeFile>, to: &BTreeMap<&str, &NodeFile>) -> String {
    let paths: BTreeSet<&str> = from.keys().chain(to.keys()).copied().collect();
    let change = |path: &str| match (from.get(path), to.get(path)) {
        (Some(_), None) => format!("--- {path}\n+++ {path} gets back what the node had before\n"),
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

/// A file with what is told of it besides its content.
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
