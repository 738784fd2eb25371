//! `cargo xtask fuzz`: seeds, dictionaries, and a bounded run of every fuzz target.
//!
//! Results are kept under `target/fuzz/`: `corpus/TARGET/` and, if a law was violated, `artifacts/TARGET/`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use cargo_metadata::MetadataCommand;

use crate::tree;

/// The workspace of the fuzz targets.
const TARGETS: &str = "e2e/fuzz/targets";

/// A required tool is not installed.
const MISSING: u8 = 2;

/// Which targets are run, and for how long.
#[derive(Debug, clap::Args)]
pub struct Fuzz {
    /// Fuzz targets; all if none is named
    targets: Vec<String>,
    /// Executions of each target
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    runs: u64,
    /// Only write the seeds and dictionaries
    #[arg(long)]
    corpus: bool,
    /// Use the address sanitizer, which needs a nightly toolchain
    #[arg(long)]
    sanitizer: bool,
}

impl Fuzz {
    /// Returns 0 if nothing was found, 1 if a law or a program is broken, 2 if a tool is missing, after printing how to
    /// install it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let directory = directory()?;
        seed(&directory.join("corpus"))?;
        if self.corpus {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(how) = self.missing() {
            println!("{how}");
            return Ok(ExitCode::from(MISSING));
        }
        let (mut executions, mut good) = (0, true);
        for target in self.selected_targets()? {
            let run = self.one(&directory, &target)?;
            println!(
                "{target}: {} executions{}",
                run.executions,
                if run.good { "" } else { ", broken" }
            );
            executions += run.executions;
            good &= run.good;
        }
        println!("{executions} executions in total");
        Ok(if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Installation instructions for missing tools.
    fn missing(&self) -> Option<&'static str> {
        let works = |mut command: Command| {
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let mut fuzz = tree::cargo();
        fuzz.args(["fuzz", "--version"]);
        let mut nightly = Command::new("rustup");
        nightly.args(["run", "nightly", "rustc", "--version"]);
        if !works(fuzz) {
            Some("cargo-fuzz is not installed: `cargo install cargo-fuzz --locked`")
        } else if self.sanitizer && !works(nightly) {
            Some(
                "the address sanitizer needs a nightly toolchain: `rustup toolchain install nightly`, or omit --sanitizer",
            )
        } else {
            None
        }
    }

    fn selected_targets(&self) -> anyhow::Result<Vec<String>> {
        let known = all()?;
        if let Some(unknown) = self.targets.iter().find(|target| !known.contains(target)) {
            bail!(
                "unknown fuzz target {unknown:?}: the targets are {}",
                known.join(", ")
            );
        }
        Ok(if self.targets.is_empty() {
            known
        } else {
            self.targets.clone()
        })
    }

    fn one(&self, directory: &Path, target: &str) -> anyhow::Result<Run> {
        let artifacts = directory.join("artifacts").join(target);
        std::fs::create_dir_all(&artifacts)?;
        let mut command = tree::cargo();
        command.args(["fuzz", "run", "--fuzz-dir", TARGETS, "--target-dir"]);
        command
            .arg(directory.join("build"))
            .args(["--sanitizer", if self.sanitizer { "address" } else { "none" }]);
        command
            .arg(target)
            .arg(directory.join("corpus").join(target))
            .arg("--");
        command.args([
            "-max_len=4096",
            "-timeout=20",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            "-verbosity=1",
        ]);
        command
            .arg(format!("-runs={}", self.runs))
            .arg(option("-artifact_prefix=", &artifacts.join("")));
        let dictionary = directory.join("corpus").join(format!("{target}.dict"));
        if dictionary.is_file() {
            command.arg(option("-dict=", &dictionary));
        }
        if self.sanitizer {
            command.env("RUSTUP_TOOLCHAIN", "nightly");
        }
        let output = command
            .current_dir(tree::root())
            .output()
            .context("cargo fuzz run")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let lines: Vec<&str> = stderr.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(40)..].join("\n"));
            println!(
                "the input is in {}: fix the bug, and add the input to e2e/fuzz/regressions/{target}/",
                artifacts.display()
            );
        }
        Ok(Run {
            executions: executed(&stderr),
            good: output.status.success(),
        })
    }
}

/// The result of a run of one target.
struct Run {
    executions: u64,
    good: bool,
}

/// From libFuzzer's statistics; 0 if there are none.
fn executed(stderr: &str) -> u64 {
    let count = stderr
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The directory for all output of a run.
fn directory() -> anyhow::Result<PathBuf> {
    let metadata = MetadataCommand::new()
        .manifest_path(tree::root().join("Cargo.toml"))
        .no_deps()
        .exec()?;
    Ok(metadata.target_directory.into_std_path_buf().join("fuzz"))
}

fn seed(corpus: &Path) -> anyhow::Result<()> {
    let mut command = tree::cargo();
    command.args([
        "run",
        "--quiet",
        "--package",
        "muster-fuzz",
        "--example",
        "corpus",
        "--",
    ]);
    let status = command
        .arg(corpus)
        .current_dir(tree::root())
        .status()
        .context("cargo run")?;
    ensure!(status.success(), "the seeds could not be written: {status}");
    Ok(())
}

/// The names of all targets, each a separate program.
fn all() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in tree::root()
        .join(TARGETS)
        .join("src")
        .read_dir()
        .context(TARGETS)?
    {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}
