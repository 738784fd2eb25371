//! The fleet at a glance: modules by clusters. Equal columns are one column.

use std::collections::HashMap;

use muster_api::module::ModuleKind;
use serde::Serialize;

use crate::{Cell, Fleet, Shape, fold_names};

/// Clusters that have the same problem and stand alone; more are folded.
const SHOWN: usize = 3;

/// Modules by clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Matrix {
    /// The version of this shape, as JSON.
    pub schema: &'static str,
    /// The columns: a cluster, or several that are alike.
    pub columns: Vec<Column>,
    /// A row for each module, with a cell for each column.
    pub rows: Vec<Row>,
    /// The last line: how much of what.
    pub total: String,
}

/// A cluster, or several that are alike in every row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    /// What stands above it.
    pub title: String,
    /// The clusters.
    pub clusters: Vec<String>,
}

/// A module.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Module or BootstrapModule.
    pub kind: ModuleKind,
    /// Its name.
    pub module: String,
    /// The version that is wanted.
    pub target: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

impl Matrix {
    /// From more clusters than this on, equal columns are folded: what fits a wide terminal.
    pub const FOLD_FROM: usize = 12;

    const SCHEMA: &'static str = "matrix/v1";

    /// The matrix of a fleet. With more clusters than `fold_from`, columns that are alike are folded into one.
    pub fn of(fleet: &Fleet, fold_from: usize) -> Self {
        let groups = if fleet.clusters.len() > fold_from {
            folded(fleet)
        } else {
            (0..fleet.clusters.len()).map(|place| vec![place]).collect()
        };
        Self {
            schema: Self::SCHEMA,
            columns: groups.iter().map(|group| column(fleet, group)).collect(),
            rows: fleet
                .modules
                .iter()
                .map(|module| Row {
                    kind: module.kind,
                    module: module.name.clone(),
                    target: module.version.clone(),
                    cells: groups
                        .iter()
                        .filter_map(|group| module.cells.get(*group.first()?).cloned())
                        .collect(),
                })
                .collect(),
            total: total(fleet),
        }
    }
}

/// Places of clusters: those that stand alike with every module together. Of those with a problem the first few stand alone.
fn folded(fleet: &Fleet) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Vec<Standing<'_>>, Alike> = HashMap::new();
    for place in 0..fleet.clusters.len() {
        let column = fleet.modules.iter().map(|module| module.cells.get(place));
        let standings: Vec<Standing<'_>> = column.map(standing).collect();
        let shown = if standings.iter().any(is_problem) {
            SHOWN
        } else {
            0
        };
        let alike = known.entry(standings).or_default();
        if let Some(group) = alike.group.and_then(|group| groups.get_mut(group)) {
            group.push(place);
        } else {
            alike.group = (alike.alone >= shown).then_some(groups.len());
            alike.alone += 1;
            groups.push(vec![place]);
        }
    }
    groups
}

/// How a cluster stands with a module; none where the module does not know it.
type Standing<'a> = Option<(Shape, Option<&'a str>)>;

/// The clusters that stand alike, as far as they were met.
#[derive(Default)]
struct Alike {
    /// How many stand alone.
    alone: usize,
    /// The group of all others.
    group: Option<usize>,
}

fn standing(cell: Option<&Cell>) -> Standing<'_> {
    cell.map(|cell| (cell.shape, cell.version.as_deref()))
}

const fn is_problem(standing: &Standing<'_>) -> bool {
    matches!(standing, Some((Shape::Failed | Shape::Unreachable, _)))
}

fn column(fleet: &Fleet, group: &[usize]) -> Column {
    let clusters: Vec<String> = group
        .iter()
        .filter_map(|index| fleet.clusters.get(*index))
        .map(|cluster| cluster.name.clone())
        .collect();
    let folded = fold_names(clusters.iter().map(String::as_str));
    let title = match &folded[..] {
        [first, _, ..] => format!("{first} +{}", clusters.len().saturating_sub(1)),
        _ => folded.concat(),
    };
    Column { title, clusters }
}

fn total(fleet: &Fleet) -> String {
    let counts: Vec<String> = fleet
        .counts()
        .into_iter()
        .map(|(shape, count)| format!("{count} {}", shape.word()))
        .collect();
    let counts = if counts.is_empty() {
        "nothing is selected".to_owned()
    } else {
        counts.join(", ")
    };
    format!(
        "{} modules × {} clusters: {counts}",
        fleet.modules.len(),
        fleet.clusters.len()
    )
}
