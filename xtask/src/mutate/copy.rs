//! A copy of the repository, in which the bugs are introduced.
//!
//! Files are written only when they differ, so that cargo rebuilds only what changed: a file that is restored is newer
//! than what was built from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::MetadataCommand;

use super::table::Mutation;
use crate::tree;

/// The copied repository.
pub(crate) struct Copy {
    /// The root of the copy.
    pub root: PathBuf,
    /// The target directory of the copy. It is never that of the repository: cargo names its output by paths within a
    /// workspace, and would confuse both.
    pub target: PathBuf,
}

impl Copy {
    /// Copies the current state of the repository.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(tree::root().join("Cargo.toml"))
            .no_deps()
            .exec()?;
        let directory = metadata.target_directory.into_std_path_buf().join("mutate");
        let copy = Self {
            root: directory.join("tree"),
            target: directory.join("target"),
        };
        fs::create_dir_all(&copy.root)?;
        copy.refresh()?;
        Ok(copy)
    }

    /// Syncs the copy with the repository. Later runs use this state, even if the repository changes meanwhile.
    pub(crate) fn refresh(&self) -> anyhow::Result<()> {
        let files: BTreeSet<String> = tree::files()?.into_iter().collect();
        for file in &files {
            let bytes = fs::read(tree::root().join(file)).with_context(|| file.clone())?;
            written(&self.root.join(file), &bytes)?;
        }
        remove_others(&self.root, Path::new(""), &files)
    }

    /// Applies a patch of the repository to the copy. Returns git's message if it does not apply.
    pub(crate) fn apply(&self, patch: &str, how: Apply) -> anyhow::Result<Result<(), String>> {
        apply(&self.root, patch, how)
    }

    /// Introduces a mutation. Returns the original content of the changed files.
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

    /// Restores the files: they are then newer than what was built from the mutation.
    pub(crate) fn put_back(originals: &Originals) -> anyhow::Result<()> {
        for (path, text) in originals {
            fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// How a patch is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apply {
    /// Apply the patch.
    Write,
    /// Only check whether it applies.
    Check,
}

/// Applies a patch of the repository to a directory. Returns git's message if it does not apply.
pub(crate) fn apply(directory: &Path, patch: &str, how: Apply) -> anyhow::Result<Result<(), String>> {
    let directory = directory.canonicalize()?;
    let mut command = tree::program("git");
    command.arg("apply");
    if how == Apply::Check {
        command.arg("--check");
    }
    let output = command
        .arg(tree::root().canonicalize()?.join(patch))
        // The directory of the copy is ignored by git, which would then skip its contents.
        .env("GIT_DIR", directory.join("no-repository"))
        .current_dir(&directory)
        .output()
        .context("git apply: is git installed?")?;
    Ok(if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    })
}

/// The content of files before a mutation.
pub(super) type Originals = BTreeMap<PathBuf, String>;

fn written(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // A file that cannot be read does not exist yet.
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// Removes files that the repository does not have: leftovers of tests, and files that were removed since the last
/// sync.
fn remove_others(root: &Path, directory: &Path, files: &BTreeSet<String>) -> anyhow::Result<()> {
    for entry in root.join(directory).read_dir()? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_others(root, &path, files)?;
        } else if !files.contains(&*path.to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
