//! The fleet, a module or a cluster as a tree: problems are shown one by one, equal entries are folded into one branch.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;

use crate::{Cell, Fleet, HeldWithdrawal, Kind, ModuleView, Overview, Shape, group::listed, words::counted};

/// Problems of one kind shown one by one; more are counted.
const SHOWN: usize = 3;

/// A tree, with the schema version.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tree {
    /// Schema version. Fields may be added; an incompatible change makes it `tree/v2`.
    pub schema: &'static str,
    /// Root of the tree.
    pub root: Branch,
}

/// An object of the fleet, or several equal ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Branch {
    /// `Fleet`, `Module`, `BootstrapModule`, `Cluster`, `NodeModule` or `Node`; with an `s` for several equal ones.
    pub kind: String,
    /// Names of the objects.
    pub names: Vec<String>,
    /// State of the objects.
    pub shape: Shape,
    /// Version: the target of a module, the assigned one of a cluster.
    pub version: Option<String>,
    /// Reason, one CamelCase word.
    pub reason: String,
    /// Since when, if known and if the branch is a single object.
    pub since: Option<Timestamp>,
    /// Human-readable message; empty if all is well.
    pub message: String,
    /// Branches below, most urgent first.
    pub branches: Vec<Self>,
}

impl Tree {
    const SCHEMA: &'static str = "tree/v1";

    /// Every module, those with problems in full.
    pub fn fleet(fleet: &Fleet, namespace: &str) -> Self {
        let overview = Overview::of(fleet);
        let reason = match (&overview.attention[..], &overview.moving[..]) {
            _ if fleet.modules.is_empty() => "NoModules",
            ([], []) => "Ready",
            ([], _) => "Progressing",
            _ => "NotReady",
        };
        let size = format!(
            "{}, {}",
            counted(fleet.modules.len(), fleet.kind.word()),
            counted(fleet.clusters.len(), fleet.kind.unit())
        );
        Self::of(Branch {
            kind: "Fleet".to_owned(),
            names: vec![namespace.to_owned()],
            shape: if fleet.modules.is_empty() {
                Shape::Waiting
            } else {
                overview.shape
            },
            version: None,
            reason: reason.to_owned(),
            since: None,
            message: format!("{size}: {}", overview.sentence),
            branches: dedupe_messages(folded(fleet.modules.iter().map(module).collect(), fleet.kind)),
        })
    }

    /// A module and its clusters.
    pub fn module(view: &ModuleView) -> Self {
        Self::of(module(view))
    }

    /// A cluster or node and its modules; `None` if it does not exist.
    pub fn cluster(fleet: &Fleet, name: &str) -> Option<Self> {
        let place = fleet.clusters.iter().position(|cluster| cluster.name == name)?;
        let on_it = fleet.modules.iter().filter_map(|view| {
            let cell = view.cells.get(place)?;
            (cell.shape != Shape::NotSelected).then(|| Branch {
                kind: view.kind.to_string(),
                names: vec![view.name.clone()],
                ..leaf(cell)
            })
        });
        let modules: Vec<Branch> = on_it.collect();
        let waiting = modules
            .iter()
            .filter(|module| module.shape != Shape::Ready)
            .count();
        Some(Self::of(Branch {
            kind: fleet.kind.unit_kind().to_owned(),
            names: vec![name.to_owned()],
            shape: most_urgent(&modules).unwrap_or(Shape::NotSelected),
            version: None,
            reason: match most_urgent(&modules) {
                _ if waiting == 0 => "Ready".to_owned(),
                // If the same reason blocks all modules, the branch shows it.
                Some(Shape::Unreachable | Shape::Held)
                    if modules.iter().all(|module| module.reason == modules[0].reason) =>
                {
                    modules[0].reason.clone()
                }
                _ => "NotReady".to_owned(),
            },
            since: None,
            message: match (modules.len(), waiting) {
                (0, _) => format!("no {} selects it", fleet.kind.word()),
                (all, waiting) => {
                    let of = counted(all, fleet.kind.word());
                    format!("{} of {of} ready", all - waiting)
                }
            },
            branches: folded(modules, fleet.kind),
        }))
    }

    const fn of(root: Branch) -> Self {
        Self {
            schema: Self::SCHEMA,
            root,
        }
    }
}

impl Branch {
    /// `Module/web`, `Clusters eu-{3..40} (38)`.
    pub fn title(&self) -> String {
        self.title_with(SHOWN)
    }

    /// The title with at most this many names or ranges; more are counted.
    pub fn title_with(&self, shown: usize) -> String {
        match &self.names[..] {
            [only] => format!("{}/{only}", self.kind),
            several => format!(
                "{} {}",
                self.kind,
                listed(several.iter().map(String::as_str), shown)
            ),
        }
    }
}

fn module(view: &ModuleView) -> Branch {
    let mut cells: Vec<&Cell> = view
        .cells
        .iter()
        .filter(|cell| cell.shape != Shape::NotSelected)
        .collect();
    cells.sort_by_key(|cell| {
        (
            cell.shape.urgency(),
            &cell.reason,
            version(cell),
            note(cell),
            &cell.cluster,
        )
    });
    let alike = |a: &&Cell, b: &&Cell| {
        (a.shape, &a.reason, version(a), note(a)) == (b.shape, &b.reason, version(b), note(b))
    };
    let branches = cells
        .chunk_by(alike)
        .flat_map(|alike| clusters(view, alike))
        .collect();
    // The messages of clusters with the same reason are shown below.
    let is_shown_below = cells.iter().any(|cell| cell.reason == view.reason);
    let held = HeldWithdrawal::of(view).filter(|_| view.shape() == Shape::WaitsForYou);
    Branch {
        kind: view.kind.to_string(),
        names: vec![view.name.clone()],
        shape: view.shape(),
        version: Some(view.version.clone()),
        reason: view.reason.clone(),
        since: view.since,
        message: if let Some(held) = held {
            held.sentence
        } else if view.ready == "True" || is_shown_below {
            format!("{} {}s", view.summary.clusters, view.kind.unit())
        } else {
            view.message.clone()
        },
        branches,
    }
}

/// The version by which equal clusters are split: a held withdrawal is one entry, whatever version its clusters have.
fn version(cell: &Cell) -> Option<&str> {
    cell.version
        .as_deref()
        .filter(|_| cell.shape != Shape::WaitsForYou)
}

/// The note on a cluster that is up to date.
fn note(cell: &Cell) -> &str {
    if cell.shape == Shape::Ready {
        &cell.message
    } else {
        ""
    }
}

/// Clusters in the same state: problems and changes one by one up to a limit, all others as one branch.
fn clusters(view: &ModuleView, alike: &[&Cell]) -> Vec<Branch> {
    let is_quiet = alike
        .first()
        .is_some_and(|cell| matches!(cell.shape, Shape::Ready | Shape::Waiting | Shape::WaitsForYou));
    // One more is shown instead of a count of `1`.
    let shown = match alike.len() {
        1 => 1,
        _ if is_quiet => 0,
        several if several <= SHOWN + 1 => several,
        _ => SHOWN,
    };
    let (single, rest) = alike.split_at(shown);
    let of = |cell: &Cell| Branch {
        kind: view.kind.unit_kind().to_owned(),
        message: view.message_of(cell).to_owned(),
        ..leaf(cell)
    };
    let mut branches: Vec<Branch> = single.iter().map(|cell| of(cell)).collect();
    if let Some(first) = rest.first() {
        branches.push(Branch {
            kind: format!("{}s", view.kind.unit_kind()),
            names: rest.iter().map(|cell| cell.cluster.clone()).collect(),
            version: first
                .version
                .clone()
                .filter(|version| rest.iter().all(|cell| cell.version.as_ref() == Some(version))),
            since: None,
            ..of(first)
        });
    }
    branches
}

fn leaf(cell: &Cell) -> Branch {
    let Cell {
        cluster,
        shape,
        reason,
        version,
        since,
        message,
    } = cell.clone();
    Branch {
        kind: "Cluster".to_owned(),
        names: vec![cluster],
        shape,
        version,
        reason,
        since,
        message,
        branches: Vec::new(),
    }
}

fn most_urgent<'a>(branches: impl IntoIterator<Item = &'a Branch>) -> Option<Shape> {
    let shapes = branches.into_iter().map(|branch| branch.shape);
    shapes.min_by_key(|shape| shape.urgency())
}

fn is_troubled(module: &Branch) -> bool {
    module.shape != Shape::Ready || module.branches.iter().any(|branch| branch.shape != Shape::Ready)
}

/// Modules, most urgent first; those without problems are folded into one branch.
fn folded(modules: Vec<Branch>, kind: Kind) -> Vec<Branch> {
    let (mut shown, well): (Vec<Branch>, Vec<Branch>) = modules.into_iter().partition(is_troubled);
    shown.sort_by_key(|module| module.shape.urgency());
    match &well[..] {
        [] | [_] => shown.extend(well.into_iter().map(|module| Branch {
            branches: Vec::new(),
            ..module
        })),
        [first, ..] => shown.push(Branch {
            kind: kind.group_title().to_owned(),
            names: well.iter().flat_map(|module| module.names.clone()).collect(),
            shape: Shape::Ready,
            version: None,
            reason: if well.iter().all(|module| module.reason == first.reason) {
                first.reason.clone()
            } else {
                "Ready".to_owned()
            },
            since: None,
            message: String::new(),
            branches: Vec::new(),
        }),
    }
    shown
}

/// Shows a message once: a cluster that appears below an earlier module with the same reason and message gets only its
/// name.
fn dedupe_messages(mut modules: Vec<Branch>) -> Vec<Branch> {
    let mut shown: BTreeSet<(String, String, String)> = BTreeSet::new();
    for module in &mut modules {
        let mut branches: Vec<Branch> = Vec::new();
        for mut branch in std::mem::take(&mut module.branches) {
            if let ([cluster], false) = (&branch.names[..], branch.message.is_empty()) {
                let words = (cluster.clone(), branch.reason.clone(), branch.message.clone());
                if !shown.insert(words) {
                    branch.message.clear();
                    branch.since = None;
                }
            }
            let is_alike = |last: &&mut Branch| {
                last.message.is_empty()
                    && (last.shape, &last.reason, &last.version)
                        == (branch.shape, &branch.reason, &branch.version)
            };
            match branches.last_mut().filter(is_alike) {
                Some(last) => {
                    last.kind = format!("{}s", last.kind.trim_end_matches('s'));
                    last.names.append(&mut branch.names);
                }
                None => branches.push(branch),
            }
        }
        module.branches = branches;
    }
    modules
}
