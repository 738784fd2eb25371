//! A path belongs to one row, and so do its parents and the paths below it.

use std::collections::BTreeMap;

use crate::{
    content::Assignment,
    originals::{Head, Originals},
    paths,
    report::Waiting,
};

/// The rows that cannot be changed because another row has their paths, each with the first conflict.
pub(crate) fn find(rows: &[Assignment], originals: &Originals) -> BTreeMap<String, Waiting> {
    let mut found = BTreeMap::new();
    let live: Vec<&Assignment> = rows.iter().filter(|row| !row.deleting).collect();
    for row in &live {
        let paths = row.content.files.iter().map(|file| file.path.as_str());
        let reason = paths
            .clone()
            .find_map(|path| listed(row, path, &live))
            .or_else(|| paths.clone().find_map(|path| kept(row, path, rows, originals)));
        if let Some(reason) = reason {
            found.insert(row.name.clone(), reason);
        }
    }
    found
}

/// Another row lists the path.
fn listed(row: &Assignment, path: &str, rows: &[&Assignment]) -> Option<Waiting> {
    let others = rows.iter().filter(|other| other.name != row.name);
    let other = others
        .filter(|other| {
            other
                .content
                .files
                .iter()
                .any(|file| paths::conflict(&file.path, path))
        })
        .min_by_key(|other| &other.name)?;
    Some(Waiting::PathConflict {
        row: other.name.clone(),
        path: path.to_owned(),
    })
}

/// Another row had the path, and has not released it yet.
fn kept(row: &Assignment, path: &str, rows: &[Assignment], originals: &Originals) -> Option<Waiting> {
    let others = |head: &&Head| head.row != row.name && paths::conflict(&head.path, path);
    let head = originals.all().find(others)?;
    let leaving = rows.iter().any(|other| other.name == head.row);
    Some(if leaving {
        Waiting::BusyWith(head.row.clone())
    } else {
        Waiting::PathConflict {
            row: head.row.clone(),
            path: path.to_owned(),
        }
    })
}
