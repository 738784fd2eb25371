//! The git repository: one directory for each module, with one ConfigMap.

use std::{fs, path::Path, process::Command};

use anyhow::ensure;

/// The namespace of the ConfigMaps.
pub(super) const APPS: &str = "apps";

/// The name of a module, from its number.
pub(super) fn module(number: usize) -> String {
    format!("m-{number:03}")
}

/// Creates an empty repository.
pub(super) fn init(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory)?;
    git(directory, &["init", "--quiet", "--initial-branch", "main"])?;
    Ok(())
}

/// Commits a version of this number of modules and returns the commit.
pub(super) fn commit(directory: &Path, modules: usize, version: usize) -> anyhow::Result<String> {
    for number in 0..modules {
        let name = module(number);
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {APPS}}}\ndata: {{version: \"{version}\"}}\n"
        );
        fs::create_dir_all(directory.join(&name))?;
        fs::write(directory.join(&name).join("objects.yaml"), text)?;
    }
    git(directory, &["add", "."])?;
    let message = format!("version {version}");
    git(
        directory,
        &[
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@example.com",
            "commit",
            "--quiet",
            "-m",
            &message,
        ],
    )?;
    Ok(git(directory, &["rev-parse", "HEAD"])?.trim().to_owned())
}

fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .output()?;
    ensure!(
        output.status.success(),
        "git: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
