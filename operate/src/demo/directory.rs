//! The directory of a demo: kubeconfigs, the git work tree, mirrors. Removed at the end, unless it is kept.

use std::{
    fs::{self, Permissions},
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use super::name::Name;

/// The files of `examples/enrol`, with their modes.
const SCRIPTS: [(&str, u32, &str); 4] = [
    (
        "enrol.sh",
        0o755,
        include_str!("../../../examples/enrol/enrol.sh"),
    ),
    (
        "enrol-account.yaml",
        0o644,
        include_str!("../../../examples/enrol/enrol-account.yaml"),
    ),
    (
        "enrol-bootstrap.yaml",
        0o644,
        include_str!("../../../examples/enrol/enrol-bootstrap.yaml"),
    ),
    (
        "unenrol.sh",
        0o755,
        include_str!("../../../examples/enrol/unenrol.sh"),
    ),
];

/// The directory of a demo.
pub(crate) struct Directory {
    path: PathBuf,
    /// Removed on drop.
    temporary: Option<TempDir>,
}

impl Directory {
    /// A temporary directory, or the given one, which must be empty.
    pub(crate) fn make(dir: Option<PathBuf>, keep: bool) -> anyhow::Result<Self> {
        let (path, temporary) = if let Some(dir) = dir {
            fs::create_dir_all(&dir).with_context(|| format!("directory {}", dir.display()))?;
            let empty = fs::read_dir(&dir)?.next().is_none();
            ensure!(
                empty,
                "directory {} is not empty: name another one with --dir",
                dir.display()
            );
            (dir.canonicalize()?, None)
        } else {
            let made = tempfile::Builder::new()
                .prefix("muster-demo-")
                .tempdir()
                .context("a temporary directory cannot be created")?;
            if keep {
                (made.keep(), None)
            } else {
                (made.path().to_owned(), Some(made))
            }
        };
        fs::create_dir_all(path.join("clusters"))?;
        fs::create_dir_all(path.join("data"))?;
        Ok(Self { path, temporary })
    }

    /// Path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the git work tree.
    pub(crate) fn fleet(&self) -> PathBuf {
        self.path.join("fleet")
    }

    /// Path of the git mirrors.
    pub(crate) fn data(&self) -> Arc<Path> {
        self.path.join("data").into()
    }

    /// Writes a kubeconfig, which has a key: only its owner may read it.
    pub(crate) fn write_kubeconfig(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path.join(name);
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("writing {}", path.display()))
    }

    /// The file that disconnects a cluster while it exists.
    pub(crate) fn unplugged(&self, cluster: &Name) -> PathBuf {
        self.path.join(format!("clusters/{cluster}.unplugged"))
    }

    /// The directory with the files of a cluster's simulated nodes.
    pub(crate) fn nodes(&self, cluster: &Name) -> PathBuf {
        self.path.join(format!("nodes/{cluster}"))
    }

    /// Writes the scripts that enroll and unenroll a cluster.
    pub(crate) fn write_scripts(&self) -> anyhow::Result<()> {
        for (name, mode, text) in SCRIPTS {
            let path = self.path.join(name);
            let writing = fs::write(&path, text)
                .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(mode)));
            writing.with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    /// Removes the directory, if it is a temporary one that is not kept.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        match self.temporary {
            Some(temporary) => temporary
                .close()
                .context("the demo's directory cannot be removed"),
            None => Ok(()),
        }
    }
}
