//! `cargo xtask model`: all scopes of the model of the rollout, in a release build.

use std::process::ExitCode;

use anyhow::Context;

use crate::tree;

/// What is exhausted.
#[derive(Debug, clap::Args)]
pub struct Model {
    /// Scopes (docs/model.md); all if none is named
    scopes: Vec<String>,
    /// Those of the test command
    #[arg(long)]
    short: bool,
}

impl Model {
    /// 0: every law holds in every state, and there are as many states as the table says.
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
