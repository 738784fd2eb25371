//! The fleet at a glance: modules by clusters. Equal columns are folded into one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::{Cell, Fleet, Kind, ModuleView, Shape, listed, words};

/// Number of clusters with the same problem that get a column each; more are folded.
const SHOWN: usize = 3;
/// Maximum number of values of a label by which columns are grouped; a label with more identifies clusters instead of
/// grouping them.
const GROUPS: usize = 20;

/// Modules by clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Matrix {
    /// Schema version of the JSON form.
    pub schema: &'static str,
    /// The columns: one cluster or several equal ones.
    pub columns: Vec<Column>,
    /// Adjacent columns grouped by the value of a label; empty without grouping.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// A row for each module, with a cell for each column.
    pub rows: Vec<Row>,
    /// Summary below the table.
    pub total: String,
}

/// One cluster, or several that are equal in every row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    /// Column title.
    pub title: String,
    /// Names of the clusters.
    pub clusters: Vec<String>,
}

/// Columns whose clusters have the same value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The value; `–` for clusters without the label.
    pub value: String,
    /// Number of columns in the group.
    pub columns: usize,
}

/// A module, with its cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Kind of the module.
    pub kind: Kind,
    /// Name of the module.
    pub module: String,
    /// Target version.
    pub target: String,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

impl Matrix {
    /// Number of clusters beyond which equal columns are folded: what fits in a wide terminal.
    pub const FOLD_FROM: usize = 12;

    /// More clusters than any fleet has: disables folding, as for JSON output.
    pub const UNFOLDED: usize = usize::MAX;

    const SCHEMA: &'static str = "matrix/v1";

    /// Builds the matrix of a fleet. With more clusters than `fold_from`, equal columns are folded into one.
    pub fn of(fleet: &Fleet, fold_from: usize) -> Self {
        Self::grouped(fleet, "", fold_from)
    }

    /// Builds the matrix of a fleet with clusters grouped by the value of a label; columns of different values are
    /// never folded.
    pub fn grouped(fleet: &Fleet, label: &str, fold_from: usize) -> Self {
        let is_folded = fleet.clusters.len() > fold_from;
        let mut by_value: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        for (place, cluster) in fleet.clusters.iter().enumerate() {
            let value = cluster.labels.get(label).map(String::as_str);
            by_value.entry(value).or_default().push(place);
        }
        let (mut columns, mut groups) = (Vec::new(), Vec::new());
        for (value, places) in &by_value {
            let alike = if is_folded {
                folded(fleet, places)
            } else {
                places.iter().map(|place| vec![*place]).collect()
            };
            groups.push(Group {
                value: value.unwrap_or("–").to_owned(),
                columns: alike.len(),
            });
            columns.extend(alike);
        }
        if by_value.keys().all(Option::is_none) {
            groups.clear();
        }
        let row = |module: &ModuleView| Row {
            kind: module.kind,
            module: module.name.clone(),
            target: module.version.clone(),
            cells: columns
                .iter()
                .filter_map(|alike| module.cells.get(*alike.first()?).cloned())
                .collect(),
        };
        Self {
            schema: Self::SCHEMA,
            rows: fleet.modules.iter().map(row).collect(),
            columns: columns.iter().map(|alike| column(fleet, alike)).collect(),
            groups,
            total: total(fleet),
        }
    }

    /// The shapes that occur, in the order of the legend, each with its words.
    pub fn legend(&self) -> Vec<(Shape, String)> {
        let cells = || self.rows.iter().flat_map(|row| &row.cells);
        let words = |shape: Shape| -> BTreeSet<&str> {
            let alike = cells().filter(|cell| cell.shape == shape);
            alike.map(Cell::word).collect()
        };
        let legend = Shape::ALL.into_iter().map(|shape| (shape, words(shape)));
        legend
            .filter(|(_, words)| !words.is_empty())
            .map(|(shape, words)| (shape, words.into_iter().collect::<Vec<_>>().join(" or ")))
            .collect()
    }

    /// Labels suited for grouping: those with more than one value, but not too many.
    pub fn keys(fleet: &Fleet) -> Vec<&str> {
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (key, value) in fleet.clusters.iter().flat_map(|cluster| &cluster.labels) {
            values.entry(key).or_default().insert(value);
        }
        values.retain(|_, values| values.len() > 1 && values.len() <= GROUPS);
        values.into_keys().collect()
    }
}

/// Groups of cluster indexes whose columns are equal. Of those with a problem the first few get a column each.
fn folded(fleet: &Fleet, places: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Vec<CellState<'_>>, Alike> = HashMap::new();
    for place in places.iter().copied() {
        let column = fleet.modules.iter().map(|module| module.cells.get(place));
        let standings: Vec<CellState<'_>> = column.map(cell_state).collect();
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

/// State of a cluster with a module; `None` if the module does not know the cluster.
type CellState<'a> = Option<(Shape, Option<&'a str>)>;

/// The clusters with equal columns, as found so far.
#[derive(Default)]
struct Alike {
    /// Number of clusters with their own column.
    alone: usize,
    /// Index of the group of all others.
    group: Option<usize>,
}

fn cell_state(cell: Option<&Cell>) -> CellState<'_> {
    cell.map(|cell| (cell.shape, cell.version.as_deref()))
}

const fn is_problem(standing: &CellState<'_>) -> bool {
    matches!(
        standing,
        Some((Shape::Failed | Shape::Unreachable | Shape::Unknown, _))
    )
}

fn column(fleet: &Fleet, group: &[usize]) -> Column {
    let clusters: Vec<String> = group
        .iter()
        .filter_map(|index| fleet.clusters.get(*index))
        .map(|cluster| cluster.name.clone())
        .collect();
    let title = listed(clusters.iter().map(String::as_str), 1);
    Column { title, clusters }
}

fn total(fleet: &Fleet) -> String {
    let counts: Vec<String> = fleet
        .counts()
        .into_iter()
        .map(|((_, word), count)| format!("{count} {word}"))
        .collect();
    let counts = if counts.is_empty() {
        "nothing is selected".to_owned()
    } else {
        counts.join(", ")
    };
    format!(
        "{} × {}: {counts}",
        words::counted(fleet.modules.len(), fleet.kind.word()),
        words::counted(fleet.clusters.len(), fleet.kind.unit())
    )
}
