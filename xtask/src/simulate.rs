//! `cargo xtask simulate`: random histories around the released decision functions, in a release build: of a simulated
//! fleet, or of zones.

use std::process::ExitCode;

use anyhow::Context;

use crate::tree;

/// Number of histories, and the seed.
#[derive(Debug, clap::Args)]
pub struct Simulate {
    /// Number of histories
    #[arg(long, default_value_t = 10_000)]
    runs: u64,
    /// Seed of the first history; a fresh one by default, which is printed
    #[arg(long)]
    seed: Option<u64>,
    /// Simulate StatefulSets of several zones instead of a fleet
    #[arg(long)]
    zones: bool,
}

impl Simulate {
    /// Returns 0 if the laws hold in all of them.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mut command = tree::cargo();
        if self.zones {
            command.args(["test", "--quiet", "--release", "--package", "muster-zones"]);
            command.args(["--test", "laws", "--", "--nocapture"]);
        } else {
            command.args(["run", "--quiet", "--release", "--package", "muster-simulator"]);
            command.args(["--example", "random"]);
        }
        command.env("MUSTER_RUNS", self.runs.to_string());
        match self.seed {
            Some(seed) => command.env("MUSTER_SEED", seed.to_string()),
            None => command.env_remove("MUSTER_SEED"),
        };
        let status = command
            .current_dir(tree::root())
            .status()
            .context("cargo cannot be started")?;
        Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
