//! Builds each crate alone, with only the features that it requests: in a workspace build, a crate may depend on
//! features that another one enables.

use std::process::ExitCode;

use anyhow::Context;
use cargo_metadata::MetadataCommand;
use clap::Args;

use crate::tree;

/// Check each crate alone.
#[derive(Debug, Args)]
pub struct Alone {
    /// Only these crates
    crates: Vec<String>,
}

impl Alone {
    /// Runs the check for each crate.
    ///
    /// # Errors
    /// Cargo cannot be run, or a name is not a crate of the workspace.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let metadata = MetadataCommand::new()
            .manifest_path(tree::root().join("Cargo.toml"))
            .no_deps()
            .exec()?;
        let known: Vec<&str> = metadata
            .packages
            .iter()
            .map(|package| package.name.as_str())
            .collect();
        if let Some(unknown) = self.crates.iter().find(|name| !known.contains(&name.as_str())) {
            anyhow::bail!(
                "{unknown}: not a crate of this workspace; the crates are {}",
                known.join(", ")
            );
        }
        let mut broken = Vec::new();
        for name in known {
            if !self.crates.is_empty() && !self.crates.iter().any(|only| only == name) {
                continue;
            }
            let status = tree::cargo()
                .args(["check", "--quiet", "--package", name])
                .current_dir(tree::root())
                .status()
                .context("cargo check")?;
            println!("{name}: {}", if status.success() { "good" } else { "failed" });
            if !status.success() {
                broken.push(name);
            }
        }
        if broken.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        println!("crates that do not build alone: {}", broken.join(", "));
        Ok(ExitCode::FAILURE)
    }
}
