//! Rooms and files stand in layers: none imports, by whatever way round, what imports it.

use std::{collections::BTreeSet, path::Path};

use crate::{
    Problems,
    imports::{Circle, Imports},
    tree,
};

/// One concept in two files: where, which files, and why they cannot stand in layers. Rooms, that is what stands directly in a crate's `src`,
/// are not excused.
const ONE_CONCEPT: &[(&str, &[&str], &str)] = &[(
    "sync/src/source/transport",
    &["context", "ssh"],
    "an operation keeps the connection that it opened, and the connection counts its bytes and its time on that operation",
)];

/// Every circle of every crate that [`ONE_CONCEPT`] does not excuse, and every excuse for a circle that is no more.
///
/// # Errors
/// A file that cannot be read, or that is no Rust.
pub fn check() -> anyhow::Result<Problems> {
    let mut problems = Problems::new();
    let mut excused = BTreeSet::new();
    for room in crates()? {
        let source = Path::new(&room).join("src");
        for circle in Imports::read(&tree::root().join(&source))?.circles() {
            let folder = source.join(&circle.folder).display().to_string();
            let folder = folder.trim_end_matches('/').to_owned();
            if is_excused(&circle, &folder) {
                excused.insert(folder);
            } else {
                problems.push(described(&circle, &folder));
            }
        }
    }
    for (folder, members, _) in ONE_CONCEPT {
        if !excused.contains(*folder) {
            problems.push(format!(
                "xtask/src/circles.rs: {folder}: {} are no circle anymore; remove the line",
                members.join(", ")
            ));
        }
    }
    Ok(problems)
}

/// The folders of our crates: those that have a manifest and a library or a program.
fn crates() -> anyhow::Result<Vec<String>> {
    Ok(tree::files()?
        .iter()
        .filter_map(|file| {
            let folder = file
                .strip_suffix("/src/lib.rs")
                .or_else(|| file.strip_suffix("/src/main.rs"))?;
            tree::root()
                .join(folder)
                .join("Cargo.toml")
                .is_file()
                .then(|| folder.to_owned())
        })
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect())
}

fn is_excused(circle: &Circle, folder: &str) -> bool {
    !circle.folder.is_empty()
        && ONE_CONCEPT
            .iter()
            .any(|(at, members, _)| *at == folder && circle.members.iter().eq(members.iter().copied()))
}

fn described(circle: &Circle, folder: &str) -> String {
    let members: Vec<&str> = circle.members.iter().map(String::as_str).collect();
    format!(
        "{folder}: these import each other in a circle: {}. Move what both need below them.\n    {}",
        members.join(", "),
        circle.imports.join("\n    ")
    )
}
