//! The files of the repository: those that git tracks or would track.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A command that runs cargo.
pub fn cargo() -> Command {
    program("cargo")
}

/// A command without the environment that `cargo run` sets for this program: build scripts that read it would run
/// again, and cause rebuilds.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Every file that git tracks, and new ones that are not ignored, relative to [`root`], sorted.
pub fn files() -> anyhow::Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("git ls-files: is git installed?")?;
    ensure!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut files: Vec<String> = String::from_utf8(output.stdout)?
        .lines()
        .map(str::to_owned)
        .collect();
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// The text of a file of the repository.
pub fn read(file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root().join(file)).with_context(|| file.to_owned())
}

/// Whether a file's name has this extension.
pub fn is_of(file: &str, extension: &str) -> bool {
    Path::new(file)
        .extension()
        .is_some_and(|found| found == extension)
}
