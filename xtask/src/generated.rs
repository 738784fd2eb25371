//! Generated files: committed, and equal to what the code generates.

use std::collections::BTreeMap;

use anyhow::ensure;

use crate::{Problems, health, mutate, tree};

/// Every generated file with its content, by path from the root of the repository.
fn generated_files() -> anyhow::Result<BTreeMap<String, String>> {
    let definitions = muster_api::crds::generated();
    let definitions = definitions
        .into_iter()
        .map(|(file, text)| (format!("api/crds/{file}"), text));
    Ok(definitions
        .chain([mutate::mutations_page()?, health::health_page()])
        .collect())
}

/// Committed files under the generated directories that are no longer generated.
fn stale(wanted: &BTreeMap<String, String>) -> anyhow::Result<Vec<String>> {
    let files = tree::files()?;
    Ok(files
        .into_iter()
        .filter(|file| file.starts_with("api/crds/") && !wanted.contains_key(file))
        .collect())
}

/// Every generated file that differs from what the code would write.
pub fn check() -> anyhow::Result<Problems> {
    let wanted = generated_files()?;
    let mut problems = Problems::new();
    for (file, text) in &wanted {
        if tree::read(file).ok().as_ref() != Some(text) {
            problems.push(format!(
                "{file}: not up to date: run `cargo xtask generate` and commit"
            ));
        }
    }
    problems.extend(
        stale(&wanted)?
            .into_iter()
            .map(|file| format!("{file}: it is no longer generated: delete it")),
    );
    Ok(problems)
}

/// Writes every generated file, and removes those that are no longer generated.
///
/// # Errors
/// A file that cannot be written, or a program that cannot be built.
pub fn write() -> anyhow::Result<()> {
    let wanted = generated_files()?;
    for (file, text) in &wanted {
        std::fs::write(tree::root().join(file), text)?;
    }
    for file in stale(&wanted)? {
        std::fs::remove_file(tree::root().join(file))?;
    }
    reference()
}

/// Writes docs/cli.md. muster prints it from its own flags; its tests compare it: `cli/tests/reference.rs`.
fn reference() -> anyhow::Result<()> {
    let output = tree::cargo()
        .args(["run", "--quiet", "--package", "muster", "--", "man", "--markdown"])
        .current_dir(tree::root())
        .stderr(std::process::Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "muster man --markdown failed");
    Ok(std::fs::write(tree::root().join("docs/cli.md"), output.stdout)?)
}
