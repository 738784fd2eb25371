//! `cargo xtask bench`: the shell of the rollout beside a controller that only writes (`e2e/bench/`), on a real kube-apiserver.
//! `cargo xtask bench many`: many modules on each cluster, with API servers, controller and agents as processes of their own.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::Context;

use crate::tree;

/// What is passed on.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    which: Option<Which>,
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

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// Rolls many modules over clusters with agents: processor time, bytes and writes of an assignment
    Many {
        /// Flags of `muster-bench many`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
}

/// The command and the benchmark, as they would be released; the second starts the first.
fn many(flags: &[String]) -> anyhow::Result<ExitCode> {
    let binaries = ["muster", "muster-bench"].map(|name| ["--bin", name]);
    let mut build = tree::cargo();
    build
        .args(["build", "--release", "--quiet", "--workspace"])
        .args(binaries.as_flattened())
        .current_dir(tree::root());
    if !build.status().context("cargo cannot be started")?.success() {
        return Ok(ExitCode::FAILURE);
    }
    // Beside this program, wherever cargo builds to.
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("no target folder")?;
    let status = Command::new(target.join("release/muster-bench"))
        .arg("many")
        .args(flags)
        .status()
        .context("muster-bench cannot be started")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Bench {
    /// Builds it as it would be released, and runs it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(Which::Many { flags }) = &self.which {
            return many(flags);
        }
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
