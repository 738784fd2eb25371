//! The original of each path before muster first wrote it: kept until the path is released.
//!
//! The originals also list what is managed: a path has one exactly as long as a row has the path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    content::{Attributes, Filled, Target},
    disk::DiskResult,
    own::Own,
    paths, sealed,
};

/// Maximum size of an original: a larger file is not replaced.
pub const MAX_ORIGINAL: u64 = 4 * 1024 * 1024;

/// What was at a path.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Head {
    pub path: String,
    /// The row that has the path.
    pub row: String,
    /// Owner and permissions; `None` if the path did not exist.
    pub attributes: Option<Attributes>,
    /// Directories that were created for it, outermost first.
    pub directories: Vec<String>,
}

/// The originals of this node.
pub(crate) struct Originals {
    own: Own,
    heads: BTreeMap<String, Head>,
}

fn file(path: &str) -> String {
    sealed::hash(&[path.as_bytes()])
}

/// Metadata and content of an original.
fn parse(bytes: &[u8]) -> Option<(Head, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((serde_json::from_slice(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

impl Originals {
    /// Reads the metadata of all originals; a damaged one is skipped.
    pub(crate) fn open(own: &Own) -> DiskResult<Self> {
        let own = Own {
            path: own.path("originals"),
            disk: own.disk.clone(),
        };
        let mut heads = BTreeMap::new();
        let there = own.disk.entry(&own.path)?.is_some();
        let names = if there {
            own.disk.list(&own.path)?
        } else {
            Vec::new()
        };
        for name in names {
            if let Some((head, _)) = own.get(&name)?.as_deref().and_then(parse)
                && name == file(&head.path)
            {
                heads.insert(head.path.clone(), head);
            }
        }
        Ok(Self { own, heads })
    }

    /// All originals, ordered by path.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Head> {
        self.heads.values()
    }

    pub(crate) fn of(&self, path: &str) -> Option<&Head> {
        self.heads.get(path)
    }

    /// Stores the file at a path that has no original.
    pub(crate) fn keep(&mut self, head: Head, content: &[u8]) -> DiskResult<()> {
        if self.heads.is_empty() {
            self.own.disk.make_dir(&self.own.path)?;
            self.own.disk.sync_dir(paths::split(&self.own.path).0)?;
        }
        let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(content);
        self.own.put(&file(&head.path), &bytes, false)?;
        self.heads.insert(head.path.clone(), head);
        Ok(())
    }

    /// The state of the path that restores the original; `None` if no original can be read.
    pub(crate) fn target(&self, path: &str) -> DiskResult<Option<Target>> {
        let bytes = self.own.get(&file(path))?;
        let original = bytes.as_deref().and_then(parse);
        Ok(original.map(|(head, content)| match head.attributes {
            None => Target::Absent,
            Some(attributes) => Target::Present {
                content: Filled(content.to_vec()),
                attributes,
            },
        }))
    }

    /// Releases the path.
    pub(crate) fn release(&mut self, path: &str) -> DiskResult<()> {
        if self.heads.contains_key(path) {
            self.own.remove(&file(path))?;
            self.heads.remove(path);
        }
        Ok(())
    }
}
