//! Fixtures that other people's tools make: the programs of the Go module `e2e/fixtures`, and the files that they write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::{Problems, tree};

/// A program of the Go module, and the folder that it fills with files; nothing else is in that folder.
const PROGRAMS: &[(&str, &str)] = &[
    ("yaml", "sync/tests/fixtures/yaml"),
    ("envsubst", "sync/tests/fixtures/substitute"),
    ("kstatus", "sync/tests/fixtures/kstatus"),
    ("healthexprs", "health-cel/tests/fixtures/flux"),
];

/// Writes all fixtures anew.
pub fn write() -> anyhow::Result<()> {
    for (program, folder) in PROGRAMS {
        let folder = tree::root().join(folder);
        std::fs::create_dir_all(&folder)?;
        for stale in files(&folder)?.keys() {
            std::fs::remove_file(folder.join(stale))?;
        }
        make(program, &folder)?;
    }
    Ok(())
}

/// Every committed fixture that is not what the tools make.
pub fn check() -> anyhow::Result<Problems> {
    let mut problems = Problems::new();
    for (program, folder) in PROGRAMS {
        let fresh = tempfile::tempdir()?;
        make(program, fresh.path())?;
        let (made, committed) = (files(fresh.path())?, files(&tree::root().join(folder))?);
        println!("{folder}: {} files", made.len());
        let names: BTreeSet<&String> = made.keys().chain(committed.keys()).collect();
        problems.extend(
            names
                .into_iter()
                .filter(|name| made.get(*name) != committed.get(*name))
                .map(|name| {
                    format!("{folder}/{name}: not what the tools make: run `cargo xtask fixtures` and commit")
                }),
        );
    }
    Ok(problems)
}

/// Whether ours reads the manifests of well-known projects as kubectl does; the example of muster-sync says where it does not.
pub fn manifests_are_read_alike() -> anyhow::Result<bool> {
    let lines = tempfile::NamedTempFile::new()?;
    let status = go("manifests")
        .stdout(Stdio::from(lines.reopen()?))
        .status()
        .context("go run ./manifests")?;
    ensure!(status.success(), "go run ./manifests: {status}");
    let built = tree::cargo()
        .args(["test", "--quiet", "--workspace", "--no-run"])
        .current_dir(tree::root())
        .status()
        .context("cargo test --no-run")?;
    ensure!(built.success(), "cargo test --workspace --no-run: {built}");
    let same = std::env::current_exe()?.with_file_name("examples").join("same");
    let status = Command::new(same)
        .arg(lines.path())
        .current_dir(tree::root())
        .status()
        .context("the example `same` of muster-sync")?;
    Ok(status.success())
}

fn make(program: &str, folder: &Path) -> anyhow::Result<()> {
    let folder = std::path::absolute(folder)?;
    let status = go(program)
        .arg(&folder)
        .status()
        .context("go: is it installed? Only the fixtures need it")?;
    ensure!(status.success(), "go run ./{program}: {status}");
    Ok(())
}

fn go(program: &str) -> Command {
    let mut command = Command::new("go");
    command
        .args(["run", &format!("./{program}")])
        .current_dir(tree::root().join("e2e/fixtures"));
    command
}

/// The files of a folder by their names, with their content.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        files.insert(
            entry.file_name().to_string_lossy().into_owned(),
            std::fs::read(entry.path())?,
        );
    }
    Ok(files)
}
