//! Checks that there are no import cycles between modules and files: none imports, directly or indirectly, what imports
//! it.

use std::{collections::BTreeSet, path::Path};

use crate::{
    Problems,
    imports::{Circle, Imports},
    tree,
};

/// Cycles that are allowed because the files form one concept: directory, files, and the reason. Modules directly in a
/// crate's `src` are never exempt.
const ONE_CONCEPT: &[(&str, &[&str], &str)] = &[(
    "sync/src/source/transport",
    &["context", "ssh"],
    "an operation keeps the connection that it opened, and the connection counts its bytes and its time on that operation",
)];

/// Every cycle of every crate that [`ONE_CONCEPT`] does not exempt, and every exemption that is no longer needed.
///
/// # Errors
/// A file that cannot be read, or that is not Rust.
pub fn check() -> anyhow::Result<Problems> {
    let mut problems = Problems::new();
    let mut excused = BTreeSet::new();
    for room in crates()? {
        let source = Path::new(&room).join("src");
        for circle in Imports::read(&tree::root().join(&source))?.circles() {
            let directory = source.join(&circle.directory).display().to_string();
            let directory = directory.trim_end_matches('/').to_owned();
            if is_excused(&circle, &directory) {
                excused.insert(directory);
            } else {
                problems.push(described(&circle, &directory));
            }
        }
    }
    for (directory, members, _) in ONE_CONCEPT {
        if !excused.contains(*directory) {
            problems.push(format!(
                "xtask/src/circles.rs: {directory}: {} no longer form a cycle; remove the line",
                members.join(", ")
            ));
        }
    }
    Ok(problems)
}

/// The directories of the workspace's crates: those with a manifest and a library or a program.
fn crates() -> anyhow::Result<Vec<String>> {
    Ok(tree::files()?
        .iter()
        .filter_map(|file| {
            let directory = file
                .strip_suffix("/src/lib.rs")
                .or_else(|| file.strip_suffix("/src/main.rs"))?;
            tree::root()
                .join(directory)
                .join("Cargo.toml")
                .is_file()
                .then(|| directory.to_owned())
        })
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect())
}

fn is_excused(circle: &Circle, directory: &str) -> bool {
    !circle.directory.is_empty()
        && ONE_CONCEPT
            .iter()
            .any(|(at, members, _)| *at == directory && circle.members.iter().eq(members.iter().copied()))
}

fn described(circle: &Circle, directory: &str) -> String {
    let members: Vec<&str> = circle.members.iter().map(String::as_str).collect();
    format!(
        "{directory}: these import each other in a cycle: {}. Move what both need to a lower module.\n    {}",
        members.join(", "),
        circle.imports.join("\n    ")
    )
}
