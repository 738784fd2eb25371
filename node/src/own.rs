//! The agent's own folder: sealed files that are old or new as a whole, whatever happens.

use std::rc::Rc;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    content::Attributes,
    disk::{Disk, DiskResult},
    sealed,
};

/// Largest file that is read back: an original and its head.
const MOST: u64 = 16 * 1024 * 1024;

/// A folder of sealed files.
#[derive(Clone)]
pub(crate) struct Own {
    pub disk: Rc<dyn Disk>,
    pub path: String,
}

impl Own {
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Replaces a file as a whole; with `before`, the old one is kept under its name and `.before`.
    pub(crate) fn put(&self, name: &str, content: &[u8], before: bool) -> DiskResult<()> {
        let (path, new) = (self.path(name), self.path(&format!("{name}.new")));
        self.disk
            .write_new(&new, &sealed::seal(content), Attributes::PRIVATE)?;
        self.disk.sync_file(&new)?;
        if before && self.disk.entry(&path)?.is_some() {
            let kept = self.path(&format!("{name}.before"));
            self.disk.unlink(&kept)?;
            self.disk.link(&path, &kept)?;
        }
        self.disk.rename(&new, &path)?;
        self.disk.sync_dir(&self.path)
    }

    /// The content; `None` where it is not there or damaged.
    pub(crate) fn get(&self, name: &str) -> DiskResult<Option<Vec<u8>>> {
        let read = self.disk.read(&self.path(name), MOST)?;
        Ok(read.as_deref().and_then(sealed::open).map(<[u8]>::to_vec))
    }

    pub(crate) fn put_json<T: Serialize>(&self, name: &str, value: &T, before: bool) -> DiskResult<()> {
        // Our own types have no map keys that JSON lacks.
        self.put(name, &serde_json::to_vec(value).unwrap_or_default(), before)
    }

    /// The value; `None` where it is not there, damaged, or of a form that this version does not know.
    pub(crate) fn get_json<T: DeserializeOwned>(&self, name: &str) -> DiskResult<Option<T>> {
        let content = self.get(name)?;
        Ok(content.and_then(|content| serde_json::from_slice(&content).ok()))
    }

    /// Removes a file, and remembers that over a power cut.
    pub(crate) fn remove(&self, name: &str) -> DiskResult<()> {
        self.disk.unlink(&self.path(name))?;
        self.disk.sync_dir(&self.path)
    }
}
