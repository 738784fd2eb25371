//! `cargo xtask bench`: the shell of the rollout beside a controller that only writes (`e2e/bench/`), on a real kube-apiserver.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;

use crate::tree;

/// What is passed on.
#[derive(Debug, clap::Args)]
pub struct Bench {
    /// Clusters of the largest workload
    #[arg(long, value_name = "N")]
    clusters: Option<usize>,
    /// Clusters of a fleet on muster's own API server; 0 leaves it out
    #[arg(long, value_name = "N")]
    many: Option<usize>,
    /// Runs of each workload, of which the median is told
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Write the table into this file too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Bench {
    /// Builds it as it would be released, and runs it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mut cargo = tree::cargo();
        cargo
            .args([
                "run",
                "--release",
                "--quiet",
                "--package",
                "muster-bench",
                "--",
                "run",
            ])
            .current_dir(tree::root());
        for (flag, value) in [
            ("--clusters", self.clusters),
            ("--many", self.many),
            ("--runs", self.runs),
        ] {
            if let Some(value) = value {
                cargo.arg(flag).arg(value.to_string());
            }
        }
        if let Some(out) = &self.out {
            cargo.arg("--out").arg(out);
        }
        let status = cargo.status().context("cargo cannot be started")?;
        Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
