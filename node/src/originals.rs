//! What stood at each path before muster first wrote there: kept once, until the path is given back.
//!
//! The originals are also the list of what is managed: a path has one exactly while a row has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    content::{Attributes, Filled, Target},
    disk::DiskResult,
    own::Own,
    paths, sealed,
};

/// Largest original that is kept: a larger file is not replaced.
pub const MAX_ORIGINAL: u64 = 4 * 1024 * 1024;

/// What stood at a path.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Head {
    pub path: String,
    /// The row that has the path.
    pub row: String,
    /// Owner and permissions; `None` where nothing stood there.
    pub attributes: Option<Attributes>,
    /// Folders that were made for it, outermost first.
    pub folders: Vec<String>,
}

/// The originals of this node.
pub(crate) struct Originals {
    own: Own,
    heads: BTreeMap<String, Head>,
}

fn file(path: &str) -> String {
    sealed::hash(&[path.as_bytes()])
}

/// Head and content of an original.
fn parse(bytes: &[u8]) -> Option<(Head, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((serde_json::from_slice(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

impl Originals {
    /// Reads the heads of all originals; one that is damaged is none.
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

    /// All, by path.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Head> {
        self.heads.values()
    }

    pub(crate) fn of(&self, path: &str) -> Option<&Head> {
        self.heads.get(path)
    }

    /// Keeps what stands at a path that has no original.
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

    /// What has to stand at the path for it to be as it was; `None` where no original can be read.
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

    /// Gives the path up.
    pub(crate) fn forget(&mut self, path: &str) -> DiskResult<()> {
        if self.heads.contains_key(path) {
            self.own.remove(&file(path))?;
            self.heads.remove(path);
        }
        Ok(())
    }
}
