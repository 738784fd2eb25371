//! The git repository: one folder for each module, with one ConfigMap.

use std::{fs, path::Path, process::Command};

use anyhow::ensure;

/// The namespace of the ConfigMaps.
pub(super) const APPS: &str = "apps";

/// The name of a module, from its number.
pub(super) fn module(number: usize) -> String {
    format!("m-{number:03}")
}

/// Creates an empty repository.
pub(super) fn init(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    git(folder, &["init", "--quiet", "--initial-branch", "main"])?;
    Ok(())
}

/// Commits a version of this number of modules and returns the commit.
pub(super) fn commit(folder: &Path, modules: usize, version: usize) -> anyhow::Result<String> {
    for number in 0..modules {
        let name = module(number);
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {APPS}}}\ndata: {{version: \"{version}\"}}\n"
        );
        fs::create_dir_all(folder.join(&name))?;
        fs::write(folder.join(&name).join("objects.yaml"), text)?;
    }
    git(folder, &["add", "."])?;
    let message = format!("version {version}");
    git(
        folder,
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
    Ok(git(folder, &["rev-parse", "HEAD"])?.trim().to_owned())
}

fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()?;
    ensure!(
        output.status.success(),
        "git: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
