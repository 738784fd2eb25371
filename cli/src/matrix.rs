//! `muster matrix`: who is at what, at a glance.

use futures::StreamExt as _;
use muster_dashboard::{Fleet, Matrix, Shape};

use crate::{
    DONE,
    args::{ClusterFlags, MatrixFlags, View},
    connect, fleet, output,
};

/// From more clusters than this on, equal columns are folded: what fits a wide terminal.
const FOLD_FROM: usize = 12;

/// Prints the matrix once, or at each change.
pub async fn run(cluster: &ClusterFlags, flags: &MatrixFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    if !flags.watch {
        print(&fleet::read(&client, &namespace).await?, flags.output)?;
        return Ok(DONE);
    }
    let mut live = output::Live::default();
    let mut changes = fleet::changes(&client, &namespace);
    while let Some(()) = changes.next().await {
        let matrix = Matrix::of(&fleet::read(&client, &namespace).await?, FOLD_FROM);
        live.show(lines(&matrix));
    }
    Ok(DONE)
}

fn print(fleet: &Fleet, view: View) -> anyhow::Result<()> {
    let matrix = Matrix::of(fleet, FOLD_FROM);
    match view {
        View::Json => anstream::println!("{}", serde_json::to_string_pretty(&matrix)?),
        View::Table => output::print(&lines(&matrix)),
    }
    Ok(())
}

/// The matrix as text: a legend of the shapes that occur, and the totals.
pub fn lines(matrix: &Matrix) -> Vec<String> {
    let titles = ["MODULE", "TARGET"]
        .into_iter()
        .chain(matrix.columns.iter().map(|column| column.title.as_str()));
    let mut table = output::table(titles);
    for row in &matrix.rows {
        let cells = row.cells.iter().map(|cell| match &cell.version {
            Some(version) => format!("{} {version}", cell.shape.glyph()),
            None => cell.shape.glyph().to_string(),
        });
        table.add_row([row.module.clone(), row.target.clone()].into_iter().chain(cells));
    }
    let mut lines = output::lines(&table);
    lines.push(matrix.total.clone());
    let used = Shape::ALL.into_iter().filter(|shape| {
        matrix
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .any(|cell| cell.shape == *shape)
    });
    let legend: Vec<String> = used
        .map(|shape| format!("{} {}", shape.glyph(), shape.word()))
        .collect();
    lines.push(legend.join("  "));
    lines
}
