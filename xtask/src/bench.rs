//! `cargo xtask bench`: the rollout controller compared with a controller that only writes (`e2e/bench/`), on a real
//! kube-apiserver. `cargo xtask bench many`: many modules on each cluster, with API servers, controller and agents as
//! separate processes.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::Context;

use crate::tree;

/// Arguments for the benchmark.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    which: Option<Which>,
    /// Clusters of the largest workload
    #[arg(long, value_name = "N")]
    clusters: Option<usize>,
    /// Clusters of a fleet on muster's own API server; 0 skips it
    #[arg(long, value_name = "N")]
    many: Option<usize>,
    /// Runs of each workload; the median is reported
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Also write the table to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// Roll out many modules over clusters with agents: CPU time, bytes and writes of an assignment
    Many {
        /// Flags of `muster-bench many`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
}

/// muster and the benchmark, as release builds; the benchmark starts muster.
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
    // In the directory of this program, wherever cargo builds to.
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("no target directory")?;
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
    /// Builds a release build of the benchmark, and runs it.
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
