//! `cargo xtask long`: tests that are too long for the test command.
//!
//! These are the tests of `muster-e2e` that are `#[ignore = "long: cargo xtask long"]`; each has a short variant in the
//! test command. They run one at a time, because other load would distort their measurements.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use cargo_metadata::MetadataCommand;

use crate::tree;

/// The package with the long tests.
const PACKAGE: &str = "muster-e2e";
/// Test binaries that need programs to be built first: `cargo xtask real`.
const ELSEWHERE: &str = "real";

/// Which tests are run.
#[derive(Debug, clap::Args)]
pub struct Long {
    /// Test binaries of muster-e2e (`e2e/tests/NAME.rs`); all if none is named
    binaries: Vec<String>,
    /// Only the tests whose names contain this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// List the tests without running them
    #[arg(long)]
    list: bool,
}

/// A test binary and its long tests.
struct Binary {
    name: String,
    tests: Vec<String>,
}

impl Long {
    /// Returns 0 if tests ran and all of them passed.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        // The whole workspace, built like in the test command: including muster, and dependencies with the same
        // features.
        build(&["test", "--workspace", "--no-run"])?;
        let mut wanted = Vec::new();
        for name in self.selected_binaries()? {
            let tests = self.long_tests(&name)?;
            wanted.push(Binary { name, tests });
        }
        wanted.retain(|binary| !binary.tests.is_empty());
        ensure!(!wanted.is_empty(), "no ignored test of {PACKAGE} matches");
        if self.list {
            for binary in &wanted {
                println!("{}: {}", binary.name, binary.tests.join(", "));
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows = Vec::new();
        for binary in wanted {
            println!("=== {}: {}", binary.name, binary.tests.join(", "));
            let began = Instant::now();
            let good = self.run_tests(&binary.name)?;
            rows.push((binary, good, began.elapsed()));
        }
        Ok(print_summary(&rows))
    }

    fn selected_binaries(&self) -> anyhow::Result<Vec<String>> {
        let known = binaries()?;
        if let Some(unknown) = self.binaries.iter().find(|name| !known.contains(name)) {
            bail!(
                "{PACKAGE} has no test binary {unknown:?}: the binaries are {}",
                known.join(", ")
            );
        }
        Ok(if self.binaries.is_empty() {
            known
        } else {
            self.binaries.clone()
        })
    }

    fn long_tests(&self, binary: &str) -> anyhow::Result<Vec<String>> {
        let output = self
            .test(binary, &["--list"])
            .output()
            .context("cargo test --list")?;
        ensure!(
            output.status.success(),
            "{binary}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let listed = String::from_utf8_lossy(&output.stdout);
        Ok(listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect())
    }

    fn run_tests(&self, binary: &str) -> anyhow::Result<bool> {
        let status = self
            .test(binary, &["--nocapture", "--test-threads=1"])
            .status()
            .context("cargo test")?;
        Ok(status.success())
    }

    fn test(&self, binary: &str, arguments: &[&str]) -> Command {
        let mut command = tree::cargo();
        command.args(["test", "--quiet", "--workspace", "--test", binary, "--"]);
        command.args(&self.filter).arg("--ignored").args(arguments);
        command.current_dir(tree::root());
        command
    }
}

fn print_summary(rows: &[(Binary, bool, Duration)]) -> ExitCode {
    let all: Duration = rows.iter().map(|(_, _, took)| *took).sum();
    println!("=== long runs, {:.0} s in all", all.as_secs_f64());
    for (binary, good, took) in rows {
        println!(
            "{:<6} {:>5.0} s  {} ({} tests)",
            if *good { "good" } else { "BROKEN" },
            took.as_secs_f64(),
            binary.name,
            binary.tests.len()
        );
    }
    if rows.iter().all(|(_, good, _)| *good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn build(arguments: &[&str]) -> anyhow::Result<()> {
    let line = format!("cargo {}", arguments.join(" "));
    println!("=== {line}");
    let status = tree::cargo()
        .args(arguments)
        .current_dir(tree::root())
        .status()
        .with_context(|| line.clone())?;
    ensure!(status.success(), "{line}: {status}");
    Ok(())
}

/// The names of the test binaries, sorted.
fn binaries() -> anyhow::Result<Vec<String>> {
    let metadata = MetadataCommand::new()
        .manifest_path(tree::root().join("Cargo.toml"))
        .no_deps()
        .exec()?;
    let package = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == PACKAGE)
        .with_context(|| format!("{PACKAGE} is not a package of the workspace"))?;
    let mut names: Vec<String> = package
        .targets
        .iter()
        .filter(|target| target.is_test() && target.name != ELSEWHERE)
        .map(|target| target.name.clone())
        .collect();
    names.sort();
    Ok(names)
}
