//! `cargo xtask model`: all scopes of the rollout model, in a release build.

use std::process::ExitCode;

use anyhow::Context;

use crate::tree;

/// Which scopes are exhausted.
#[derive(Debug, clap::Args)]
pub struct Model {
    /// Scopes (docs/model.md); all if none is named
    scopes: Vec<String>,
    /// Only the scopes of the test command
    #[arg(long)]
    short: bool,
}

impl Model {
    /// Returns 0 if every law holds in every state, and the number of states is that of the table.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mut command = tree::cargo();
        command.args(["run", "--quiet", "--release", "--package", "muster-model", "--"]);
        command.args(&self.scopes).args(self.short.then_some("--short"));
        let status = command.current_dir(tree::root()).status().context("cargo run")?;
        Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
