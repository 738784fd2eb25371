//! Why a module is where it is: the chain of reasons, down to what fails, and what to do next.

use muster_api::{conditions::TAG_MOVED, reasons::Reason};
use serde::Serialize;

use crate::{Cell, ModuleView, Shape, listed};

/// The answer to `why`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The version of this shape, as JSON.
    pub schema: &'static str,
    /// One sentence.
    pub headline: String,
    /// The steps of the chain, most urgent first.
    pub steps: Vec<Step>,
    /// What to do next, if something can be done.
    pub next: Option<String>,
}

/// One link of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// How it stands.
    pub shape: Shape,
    /// Who: a cluster, or several that stand alike.
    pub who: String,
    /// The cluster, if it is one.
    pub cluster: Option<String>,
    /// The one word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when, if it is one cluster and known.
    pub since: Option<jiff::Timestamp>,
}

impl Why {
    const SCHEMA: &'static str = "why/v1";

    /// The command in what to do next, if there is one.
    pub fn command(&self) -> Option<&str> {
        let next = self.next.as_deref()?;
        let from = ["muster ", "kubectl "]
            .iter()
            .filter_map(|word| next.find(word))
            .min()?;
        let command = next.get(from..)?;
        Some(
            command
                .split_once("   #")
                .map_or(command, |(command, _)| command)
                .trim_end(),
        )
    }
}

/// Problems shown one by one; more are counted.
const SHOWN: usize = 3;
/// Names, or runs of them, that stand for several clusters; more are counted.
const LISTED: usize = 5;

/// Explains a module, or one cluster of it.
pub fn why(module: &ModuleView, cluster: Option<&str>) -> Why {
    match cluster {
        Some(cluster) => about_cluster(module, cluster),
        None => about_module(module),
    }
}

fn about_cluster(module: &ModuleView, cluster: &str) -> Why {
    let Some(cell) = module.cells.iter().find(|cell| cell.cluster == cluster) else {
        return Why {
            schema: Why::SCHEMA,
            headline: format!("there is no Cluster {cluster} in this namespace"),
            steps: Vec::new(),
            next: None,
        };
    };
    let has = cell.version.as_deref().unwrap_or("nothing");
    Why {
        schema: Why::SCHEMA,
        headline: format!(
            "{} on {cluster} has {has}, wants {}: {}",
            module.name, module.version, cell.reason
        ),
        steps: vec![step(cell)],
        next: next(module, cell),
    }
}

fn about_module(module: &ModuleView) -> Why {
    let mut open: Vec<&Cell> = module
        .cells
        .iter()
        .filter(|cell| !matches!(cell.shape, Shape::Ready | Shape::NotSelected))
        .collect();
    open.sort_by_key(|cell| (cell.shape.urgency(), &cell.cluster));
    let mut steps: Vec<Step> = Vec::new();
    for alike in open.chunk_by(|a, b| (a.shape, &a.reason) == (b.shape, &b.reason)) {
        let single = !matches!(alike.first().map(|cell| cell.shape), Some(Shape::Waiting));
        let shown = if single { SHOWN.min(alike.len()) } else { 0 };
        steps.extend(alike.iter().take(shown).map(|cell| step(cell)));
        steps.extend(grouped(&alike[shown..]));
    }
    if steps.is_empty() && module.ready != "True" {
        // Nothing is wrong on any cluster: it is the module itself.
        steps.push(Step {
            shape: Shape::Failed,
            who: module.name.clone(),
            cluster: None,
            reason: module.reason.clone(),
            message: module.message.clone(),
            since: module.since,
        });
    }
    steps.extend(module.tag_moved.as_ref().map(|message| Step {
        shape: Shape::Waiting,
        who: module.name.clone(),
        cluster: None,
        reason: TAG_MOVED.to_owned(),
        message: message.clone(),
        since: None,
    }));
    let ready: Vec<&str> = module
        .cells
        .iter()
        .filter(|cell| cell.shape == Shape::Ready)
        .map(|cell| cell.cluster.as_str())
        .collect();
    if !ready.is_empty() {
        steps.push(Step {
            shape: Shape::Ready,
            who: listed(ready.iter().copied(), LISTED),
            cluster: None,
            reason: "UpToDate".to_owned(),
            message: format!("ready at {}", module.version),
            since: None,
        });
    }
    Why {
        schema: Why::SCHEMA,
        headline: format!(
            "{} {} on {}/{} clusters: {}",
            module.name, module.version, module.summary.updated, module.summary.total, module.reason
        ),
        steps,
        next: open.first().and_then(|cell| next(module, cell)),
    }
}

/// Several clusters that stand alike, in one line, with the words of the first.
fn grouped(alike: &[&Cell]) -> Option<Step> {
    let first = alike.first()?;
    Some(Step {
        who: listed(alike.iter().map(|cell| cell.cluster.as_str()), LISTED),
        cluster: (alike.len() == 1).then(|| first.cluster.clone()),
        since: None,
        ..step(first)
    })
}

fn step(cell: &Cell) -> Step {
    let Cell {
        cluster,
        shape,
        reason,
        version: _,
        since,
        message,
    } = cell.clone();
    Step {
        shape,
        who: cluster.clone(),
        cluster: Some(cluster),
        reason,
        message,
        since,
    }
}

/// One command, or that there is nothing to do.
fn next(module: &ModuleView, cell: &Cell) -> Option<String> {
    let kind = module.kind.as_str().to_lowercase();
    let is = |reason: Reason| cell.reason == reason.as_str();
    match cell.shape {
        Shape::Failed => Some(format!(
            "commit a fixed version of {} under a new tag; the rollout then continues by itself",
            module.name
        )),
        Shape::Unreachable => Some(format!(
            "kubectl describe cluster {}   # it is taken when it is ready again",
            cell.cluster
        )),
        Shape::Waiting if is(Reason::Paused) => Some(format!(
            "muster rollout resume {kind}/{}   # else it goes on when the pause ends, if it has an end",
            module.name
        )),
        Shape::Waiting if is(Reason::WaitingApproval) => Some(format!(
            "muster rollout approve {kind}/{}   # nothing goes on without it",
            module.name
        )),
        Shape::Waiting if is(Reason::WaitingGate) => Some(format!(
            "see what the gate reads; it is read again by itself. To go on without it: muster rollout promote {kind}/{} --stage NAME",
            module.name
        )),
        Shape::Waiting if is(Reason::Halted) || is(Reason::KnownBad) || is(Reason::Aborted) => Some(format!(
            "commit a fixed version of {0} under a new tag, or: muster rollout retry {kind}/{0}",
            module.name
        )),
        // The message ends with the command that tells about the other module.
        Shape::Waiting if is(Reason::DependencyBehind) => cell
            .message
            .rsplit_once("next: ")
            .map(|(_, next)| next.to_owned()),
        Shape::Waiting if is(Reason::SourceNotReady) => Some(format!(
            "see that {} is in the repository, or name another version; it is looked for again by itself",
            module.version
        )),
        Shape::Waiting | Shape::Updating => Some("nothing to do: it goes on by itself".to_owned()),
        Shape::Held | Shape::Ready | Shape::NotSelected => None,
    }
}
