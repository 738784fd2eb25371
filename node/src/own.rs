//! The agent's own directory: sealed files that are replaced atomically.

use std::rc::Rc;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    content::Attributes,
    disk::{Disk, DiskResult},
    sealed,
};

/// Maximum size of a file that is read: an original with its metadata.
const MOST: u64 = 16 * 1024 * 1024;

/// A directory with sealed files.
#[derive(Clone)]
pub(crate) struct Own {
    pub disk: Rc<dyn Disk>,
    pub path: String,
}

impl Own {
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Replaces a file atomically; with `before`, the old one is kept as `<name>.before`.
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

    /// The content; `None` if the file does not exist or is damaged.
    pub(crate) fn get(&self, name: &str) -> DiskResult<Option<Vec<u8>>> {
        let read = self.disk.read(&self.path(name), MOST)?;
        Ok(read.as_deref().and_then(sealed::open).map(<[u8]>::to_vec))
    }

    pub(crate) fn put_json<T: Serialize>(&self, name: &str, value: &T, before: bool) -> DiskResult<()> {
        // Our own types have no map keys that JSON cannot represent.
        self.put(name, &serde_json::to_vec(value).unwrap_or_default(), before)
    }

    /// The value; `None` if the file does not exist, is damaged, or has a form unknown to this version.
    pub(crate) fn get_json<T: DeserializeOwned>(&self, name: &str) -> DiskResult<Option<T>> {
        let content = self.get(name)?;
        Ok(content.and_then(|content| serde_json::from_slice(&content).ok()))
    }

    /// Removes a file durably.
    pub(crate) fn remove(&self, name: &str) -> DiskResult<()> {
        self.disk.unlink(&self.path(name))?;
        self.disk.sync_dir(&self.path)
    }
}
