//! A copy of the tree, in which bugs are made.
//!
//! Files are written only when they differ, so that cargo builds what changed and nothing else: a file that changes back is newer than
//! what was built of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::MetadataCommand;

use super::table::Mutation;
use crate::tree;

/// The copy.
pub(crate) struct Copy {
    /// Its top.
    pub root: PathBuf,
    /// What is built of it. Never in the folder of the tree itself: cargo names what it builds by places within a workspace, and would
    /// take the copy's for the tree's.
    pub target: PathBuf,
}

impl Copy {
    /// Copies the tree as it is now.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(tree::root().join("Cargo.toml"))
            .no_deps()
            .exec()?;
        let folder = metadata.target_directory.into_std_path_buf().join("mutate");
        let copy = Self {
            root: folder.join("tree"),
            target: folder.join("target"),
        };
        fs::create_dir_all(&copy.root)?;
        copy.refresh()?;
        Ok(copy)
    }

    /// Makes it equal to the tree. What is tried afterwards is what was there then, whatever people do meanwhile.
    pub(crate) fn refresh(&self) -> anyhow::Result<()> {
        let files: BTreeSet<String> = tree::files()?.into_iter().collect();
        for file in &files {
            let bytes = fs::read(tree::root().join(file)).with_context(|| file.clone())?;
            written(&self.root.join(file), &bytes)?;
        }
        remove_others(&self.root, Path::new(""), &files)
    }

    /// Applies a patch of the tree to it; what git says if it does not apply.
    pub(crate) fn apply(&self, patch: &str, how: Apply) -> anyhow::Result<Result<(), String>> {
        apply(&self.root, patch, how)
    }

    /// Makes a mutation in it. The files that it changed, as they were.
    pub(crate) fn mutate(&self, mutation: &Mutation) -> anyhow::Result<Originals> {
        let mut originals = Originals::new();
        for edit in &mutation.edit {
            let path = self.root.join(&edit.file);
            let text = fs::read_to_string(&path).with_context(|| edit.file.clone())?;
            fs::write(&path, edit.made(&text)?)?;
            originals.entry(path).or_insert(text);
        }
        Ok(originals)
    }

    /// Puts them back: they are newer then than what was built of the mutation.
    pub(crate) fn put_back(originals: &Originals) -> anyhow::Result<()> {
        for (path, text) in originals {
            fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// What is done with a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apply {
    /// It is applied.
    Write,
    /// It is found out whether it applies.
    Check,
}

/// Applies a patch of the tree to a folder; what git says if it does not apply.
pub(crate) fn apply(folder: &Path, patch: &str, how: Apply) -> anyhow::Result<Result<(), String>> {
    let folder = folder.canonicalize()?;
    let mut command = tree::program("git");
    command.arg("apply");
    if how == Apply::Check {
        command.arg("--check");
    }
    let output = command
        .arg(tree::root().canonicalize()?.join(patch))
        // The folder of the copy is one that git ignores, and git would leave out what is in it.
        .env("GIT_DIR", folder.join("no-repository"))
        .current_dir(&folder)
        .output()
        .context("git apply: is git installed?")?;
    Ok(if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    })
}

/// Files as they were before a mutation.
pub(super) type Originals = BTreeMap<PathBuf, String>;

fn written(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // A file that cannot be read is not there yet.
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// Removes what the tree does not have: what a test left behind, what was removed since the last time.
fn remove_others(root: &Path, folder: &Path, files: &BTreeSet<String>) -> anyhow::Result<()> {
    for entry in root.join(folder).read_dir()? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_others(root, &path, files)?;
        } else if !files.contains(&*path.to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
