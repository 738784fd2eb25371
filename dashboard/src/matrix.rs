//! The fleet at a glance: modules by clusters. Equal columns are one column.

use muster_api::module::ModuleKind;
use serde::Serialize;

use crate::{Cell, Fleet, Shape, fold_names};

/// Modules by clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Matrix {
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

    /// The matrix of a fleet. With more clusters than `fold_from`, columns that are alike are folded into one.
    pub fn of(fleet: &Fleet, fold_from: usize) -> Self {
        let fold = fleet.clusters.len() > fold_from;
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for index in 0..fleet.clusters.len() {
            match groups
                .iter_mut()
                .find(|group| fold && group.first().is_some_and(|first| alike(fleet, *first, index)))
            {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        Self {
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

/// Two clusters with the same shapes and versions in every row. A problem is never folded away.
fn alike(fleet: &Fleet, a: usize, b: usize) -> bool {
    fleet
        .modules
        .iter()
        .all(|module| match (module.cells.get(a), module.cells.get(b)) {
            (Some(a), Some(b)) => {
                (a.shape, &a.version) == (b.shape, &b.version)
                    && !matches!(a.shape, Shape::Failed | Shape::Unreachable)
            }
            _ => false,
        })
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
