//! Checks of what is deployed with muster, by the programs that consume it, from the Go module `e2e/tools`.

use std::{ffi::OsStr, process::Command};

use anyhow::{Context, ensure};

use crate::tree;

/// The directory of the alerting rules and their tests.
const RULES: &str = "deploy/prometheus";
/// The Go module that pins the programs.
const TOOLS: &str = "e2e/tools";

/// Checks the Prometheus rules, and runs their tests.
pub fn monitoring() -> anyhow::Result<()> {
    let rules = tree::root().join(RULES);
    for (verb, file) in [("check", "rules.yaml"), ("test", "rules_test.yaml")] {
        let mut promtool = tool("promtool");
        promtool.args([verb, "rules"]).arg(rules.join(file));
        let status = promtool
            .status()
            .context("go: is it installed? It is needed to build promtool")?;
        ensure!(status.success(), "promtool {verb} rules {file}: {status}");
    }
    Ok(())
}

/// Regenerates the charts from the output of `muster install --export`.
pub fn write_charts() -> anyhow::Result<()> {
    test(
        &["--package", "muster-operate", "--lib", "install::charts"],
        ("MUSTER_WRITE_CHARTS", "1".as_ref()),
    )
}

/// Builds Helm, and compares its rendering of the charts with the output of `muster install --export`.
pub fn charts() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let helm = directory.path().join("helm");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&helm)
        .arg("helm.sh/helm/v3/cmd/helm")
        .current_dir(tree::root().join(TOOLS))
        .status()
        .context("go: is it installed? It is needed to build Helm")?;
    ensure!(status.success(), "go build of Helm: {status}");
    // Selecting the package alone would choose other features, and rebuild the controllers.
    test(
        &["--workspace", "--test", "charts", "--", "--ignored"],
        ("MUSTER_HELM", helm.as_os_str()),
    )
}

/// Runs tests of a crate with an environment variable.
fn test(which: &[&str], (variable, value): (&str, &OsStr)) -> anyhow::Result<()> {
    let status = tree::cargo()
        .args(["test", "--quiet"])
        .args(which)
        .env(variable, value)
        .current_dir(tree::root())
        .status()
        .context("cargo test")?;
    ensure!(status.success(), "cargo test {}: {status}", which.join(" "));
    Ok(())
}

/// A program from `e2e/tools/go.mod`.
fn tool(name: &str) -> Command {
    let mut command = Command::new("go");
    command.args(["tool", name]).current_dir(tree::root().join(TOOLS));
    command
}
