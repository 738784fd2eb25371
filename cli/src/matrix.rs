//! `muster matrix`: which cluster runs which version.

use std::{collections::BTreeMap, ops::ControlFlow};

use clap::Args;
use muster_dashboard::{Cell, Filter, Fleet, Matrix};
use muster_fleet as fleet;
use muster_fleet::connect::{self, Target};

use crate::{
    exit::DONE,
    flags::View,
    output::{self, Out},
    show,
};

/// Show which version of each module runs on each cluster
///
/// With -o json: `schema` (`matrix/v1`), columns (each with title and clusters), rows (each with kind, module, target
/// and cells; a cell has cluster, shape (the state), reason, version, since and message) and total.
///
/// Exit codes: 0 printed, 2 could not find out.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct MatrixFlags {
    /// Show each change until interrupted
    #[arg(short, long, conflicts_with = "output")]
    pub watch: bool,
    /// The fleets of all namespaces that have modules
    #[arg(short = 'A', long, conflicts_with_all = ["watch", "output"])]
    pub all_namespaces: bool,
    /// NodeModules and nodes of the current cluster, instead of modules and clusters
    #[arg(long, conflicts_with = "all_namespaces")]
    pub nodes: bool,
    /// Only clusters, or nodes, with these labels: env=prod, env!=prod, env or !env; several separated by commas
    #[arg(short = 'l', long, default_value = "", hide_default_value = true)]
    pub selector: String,
    /// Only modules and clusters with something that is not ready
    #[arg(long)]
    pub only_problems: bool,
    /// Output format: table or json
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster matrix -w                         as it changes
  muster matrix -l region=eu               for some clusters only
  muster matrix --only-problems
  muster matrix --nodes --context eu-1     NodeModules and nodes of that cluster
  muster matrix -o json | jq '.rows[] | {module, target}'";

/// Prints the matrix once, or again at each change.
pub(crate) async fn run(cluster: &Target, flags: &MatrixFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let filter = Filter {
        labels: flags.selector.clone(),
        only_problems: flags.only_problems,
        ..Filter::default()
    };
    // JSON lists each cluster; columns are folded only for the table.
    let fold_from = match flags.output {
        View::Json => Matrix::UNFOLDED,
        View::Table => Matrix::FOLD_FROM,
    };
    let matrix = |fleet: &Fleet| anyhow::Ok(Matrix::of(&filter.apply(fleet)?, fold_from));
    if flags.watch {
        let mut live = out.live();
        if flags.nodes {
            return fleet::nodes::watch_nodes(&client, out, |_, fleet| {
                live.show(matrix_lines(&matrix(fleet)?, out.width()))?;
                Ok(ControlFlow::Continue(()))
            })
            .await;
        }
        return show::watch(&client, &namespace, out, |snapshot| {
            live.show(matrix_lines(&matrix(snapshot.fleet())?, out.width()))?;
            Ok(ControlFlow::Continue(()))
        })
        .await;
    }
    if flags.all_namespaces {
        for namespace in fleet::namespaces(&client).await? {
            say!(out, "namespace {namespace}")?;
            let matrix = matrix(&fleet::read(&client, &namespace).await?)?;
            out.lines(&matrix_lines(&matrix, out.width()))?;
        }
        return Ok(DONE);
    }
    let fleet = if flags.nodes {
        fleet::nodes::read(&client).await?
    } else {
        fleet::read(&client, &namespace).await?
    };
    let matrix = matrix(&fleet)?;
    match flags.output {
        View::Json => out.json(&matrix)?,
        View::Table if flags.nodes && matrix.rows.is_empty() => {
            complain!(out, "There are no NodeModules in this cluster.");
        }
        View::Table if matrix.rows.is_empty() && matrix.columns.is_empty() => {
            complain!(
                out,
                "There are no modules and no clusters in namespace {namespace}."
            );
        }
        View::Table => out.lines(&matrix_lines(&matrix, out.width()))?,
    }
    Ok(DONE)
}

/// How many names are listed if there is no room for a table.
const LISTED: usize = 3;

/// The matrix as text that fits: modules down and clusters across; else clusters down and modules across; else a list.
/// Below it are the totals, and a legend of the symbols that occur.
pub(crate) fn matrix_lines(matrix: &Matrix, width: usize) -> Vec<String> {
    let mut lines = [across, down]
        .into_iter()
        .map(|layout| layout(matrix))
        .find(|lines| lines.iter().all(|line| line.chars().count() <= width))
        .unwrap_or_else(|| list(matrix, width));
    lines.extend(output::wrapped(&matrix.total, width));
    let legend: Vec<String> = matrix
        .legend()
        .into_iter()
        .map(|(shape, words)| format!("{} {words}", shape.glyph()))
        .collect();
    let legend = legend.join("  ");
    if legend.chars().count() <= width {
        lines.push(legend);
    } else {
        lines.extend(output::wrapped(&legend, width));
    }
    lines
}

fn across(matrix: &Matrix) -> Vec<String> {
    let titles = ["MODULE", "TARGET"]
        .into_iter()
        .chain(matrix.columns.iter().map(|column| column.title.as_str()));
    let mut table = output::table(titles);
    for row in &matrix.rows {
        let begin = [row.module.clone(), row.target.clone()];
        table.add_row(begin.into_iter().chain(row.cells.iter().map(cell)));
    }
    output::lines(&table)
}

fn down(matrix: &Matrix) -> Vec<String> {
    let titles = ["CLUSTER"]
        .into_iter()
        .chain(matrix.rows.iter().map(|row| row.module.as_str()));
    let mut table = output::table(titles);
    let targets = matrix.rows.iter().map(|row| row.target.clone());
    table.add_row(["(target)".to_owned()].into_iter().chain(targets));
    for (place, column) in matrix.columns.iter().enumerate() {
        let cells = matrix
            .rows
            .iter()
            .filter_map(|row| row.cells.get(place))
            .map(cell);
        table.add_row([column.title.clone()].into_iter().chain(cells));
    }
    output::lines(&table)
}

/// Lists for each module the clusters of each state, the most urgent first.
fn list(matrix: &Matrix, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &matrix.rows {
        lines.push(output::cut(&format!("{} {}", row.module, row.target), width));
        let mut alike: BTreeMap<(u8, String), Vec<&str>> = BTreeMap::new();
        for (column, found) in matrix.columns.iter().zip(&row.cells) {
            let names = alike.entry((found.shape.urgency(), cell(found))).or_default();
            names.extend(column.clusters.iter().map(String::as_str));
        }
        lines.extend(alike.into_iter().map(|((_, cell), names)| {
            let names = muster_dashboard::listed(names, LISTED);
            output::cut(&format!("  {cell}  {names}"), width)
        }));
    }
    lines
}

fn cell(cell: &Cell) -> String {
    match &cell.version {
        Some(version) => format!("{} {version}", cell.shape.glyph()),
        None => cell.shape.glyph().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_dashboard::{Column, Row, Shape};

    fn matrix() -> Matrix {
        let cell = |cluster: &str, shape, version: &str| Cell {
            cluster: cluster.to_owned(),
            shape,
            reason: String::new(),
            version: Some(version.to_owned()),
            since: None,
            message: String::new(),
        };
        let column = |name: &str| Column {
            title: name.to_owned(),
            clusters: vec![name.to_owned()],
        };
        let row = |module: &str| Row {
            kind: muster_dashboard::Kind::Module,
            module: module.to_owned(),
            target: "v2".to_owned(),
            cells: vec![
                cell("eu-1", Shape::Failed, "v2"),
                cell("eu-2", Shape::Ready, "v1"),
                cell("us-1", Shape::Ready, "v1"),
            ],
        };
        Matrix {
            schema: "matrix/v1",
            columns: ["eu-1", "eu-2", "us-1"].map(column).into(),
            groups: Vec::new(),
            rows: vec![row("web")],
            total: "1 modules × 3 clusters: 1 failed, 2 ready".to_owned(),
        }
    }

    fn check(width: usize, first: &str) {
        let lines = matrix_lines(&matrix(), width);
        assert_eq!(lines.first().map(String::as_str), Some(first), "{lines:#?}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= width),
            "{lines:#?}"
        );
    }

    #[test]
    fn it_fits_any_width() {
        check(80, "MODULE  TARGET  eu-1  eu-2  us-1");
        check(30, "CLUSTER   web");
        check(12, "web v2");
        assert_eq!(list(&matrix(), 12)[1..], ["  ✗ v2  eu-1", "  ● v1  eu-…"]);
    }
}
