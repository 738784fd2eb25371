//! `cargo xtask conformance`: the test cases of the systems that muster replaces, run against its functions.

use std::{
    path::{self, PathBuf},
    process::ExitCode,
};

use anyhow::Context;

use crate::tree;

/// Which cases are run.
#[derive(Debug, clap::Args)]
pub struct Conformance {
    /// A directory of systems, or of one system; ../shared/conformance if none is given
    directory: Option<PathBuf>,
    /// Only files whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Conformance {
    /// Returns 0 if no case failed, or if there are none and `MUSTER_CONFORMANCE_REQUIRED` is not 1.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mut command = tree::cargo();
        command.args(["test", "--quiet", "--workspace", "--test", "conformance"]);
        command.args(["--", "--exact", "corpus", "--nocapture"]);
        if let Some(directory) = &self.directory {
            command.env("MUSTER_CONFORMANCE", path::absolute(directory)?);
        }
        if let Some(only) = &self.only {
            command.env("MUSTER_CONFORMANCE_ONLY", only);
        }
        let status = command.current_dir(tree::root()).status().context("cargo test")?;
        Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
