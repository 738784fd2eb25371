//! `muster matrix`: who is at what, at a glance.

use std::sync::Arc;

use muster_dashboard::{Fleet, Matrix, Shape};

use crate::{
    DONE,
    args::{ClusterFlags, MatrixFlags, View},
    connect,
    fleet::{self, Extent},
    output,
};

/// Prints the matrix once, or at each change.
pub async fn run(cluster: &ClusterFlags, flags: &MatrixFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    if !flags.watch {
        print(&fleet::read(&client, &namespace).await?, flags.output)?;
        return Ok(DONE);
    }
    let mut live = output::Live::default();
    // Whatever is wrong for good is said now, and not waited for.
    fleet::read(&client, &namespace).await?;
    let mut snapshots = fleet::follow(&client, &namespace, Extent::Fleet);
    while snapshots.changed().await.is_ok() {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        if snapshot.is_complete {
            live.show(lines(&Matrix::of(snapshot.fleet(), Matrix::FOLD_FROM)));
        }
    }
    Ok(DONE)
}

fn print(fleet: &Fleet, view: View) -> anyhow::Result<()> {
    let matrix = Matrix::of(fleet, Matrix::FOLD_FROM);
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
