//! `cargo xtask browser`: the dashboard in a real browser, driven by the tests in `e2e/browser`.
//!
//! Needs Node 20; a missing Chromium is installed from the distribution's packages, which needs root.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, bail, ensure};

use crate::tree;

/// Names of the Chromium binary.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// The dashboard's example with a large fleet.
const LARGE: &str = "large";

/// Which tests are run.
#[derive(Debug, clap::Args)]
pub struct Browser {
    /// Write a picture of each page into docs/screenshots
    #[arg(long)]
    shots: bool,
    /// Only the tests whose names contain this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

impl Browser {
    /// Returns 0 if every test passed.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let directory = tree::root().join("e2e/browser");
        let chromium = chromium()?;
        done(
            Command::new("npm")
                .args(["ci", "--no-audit", "--no-fund"])
                .current_dir(&directory),
        )?;
        // muster and the examples, built like in the test command: other features would cause a rebuild of everything.
        done(
            tree::cargo()
                .args(["test", "--quiet", "--workspace", "--no-run"])
                .current_dir(tree::root()),
        )?;
        let mut tests = Command::new("node");
        tests
            .args(["--test", "--test-concurrency=1", "--test-timeout=600000"])
            .args(self.filter.iter().flat_map(|text| ["--test-name-pattern", text]))
            .args([
                "dashboard.test.mjs",
                "nodes.test.mjs",
                "machines.test.mjs",
                "large.test.mjs",
            ])
            .env("CHROMIUM", chromium)
            .env("MUSTER", built("muster")?)
            .env("LARGE", built("examples")?.join(LARGE))
            .current_dir(&directory);
        if self.shots {
            let shots = tree::root().join("docs/screenshots");
            std::fs::create_dir_all(&shots)?;
            tests.env("SHOTS", shots);
        }
        done(&mut tests)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A program that `cargo build` has put in the directory of this one.
fn built(name: &str) -> anyhow::Result<PathBuf> {
    let mine = env::current_exe().context("where this runs from")?;
    Ok(mine.with_file_name(name))
}

fn chromium() -> anyhow::Result<PathBuf> {
    if let Some(named) = env::var_os("CHROMIUM") {
        return Ok(named.into());
    }
    if let Some(found) = found() {
        return Ok(found);
    }
    let install = "apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium fonts-dejavu-core";
    println!("Chromium is missing: {install}");
    done(
        Command::new("sh")
            .args(["-ec", install])
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
    .context("install Chromium, or set CHROMIUM=/path/to/chromium")?;
    found().context("Chromium was installed, but is not found in PATH")
}

fn found() -> Option<PathBuf> {
    let directories = env::var_os("PATH")?;
    env::split_paths(&directories)
        .flat_map(|directory| NAMES.iter().map(move |name| directory.join(name)))
        .find(|program| Path::is_file(program))
}

fn done(command: &mut Command) -> anyhow::Result<()> {
    let what = format!("{command:?}");
    let Ok(status) = command.status() else {
        bail!("{what}: cannot be started: is it installed?");
    };
    ensure!(status.success(), "{what}: {status}");
    Ok(())
}
