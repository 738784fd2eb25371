//! Reads git objects in memory: the same code as for mirrors, without a disk, for fuzzing.

use git2::{ObjectType, Oid, Repository};

use super::super::transport;
use super::super::{CommitId, Files, Limits, Remote, SourceError};
use super::tree::{self, Problem};

/// An object database in memory, filled with arbitrary bytes. Nothing is checked before it is read.
#[doc(hidden)]
pub struct Objects(Repository);

impl Objects {
    /// Creates an empty database.
    pub fn new() -> Result<Self, SourceError> {
        transport::ready()?;
        let made = git2::Odb::new().and_then(|odb| {
            odb.add_new_mempack_backend(1)?;
            Repository::from_odb(odb)
        });
        made.map(Self).map_err(|error| broken(&error))
    }

    /// Adds the content of a file; returns its raw id, as written in a tree.
    pub fn blob(&self, content: &[u8]) -> Result<[u8; 20], SourceError> {
        self.write(ObjectType::Blob, content)
    }

    /// Adds a tree in git's format, `<mode> <name>NUL<20 bytes>` for each entry; returns its raw id.
    pub fn tree(&self, raw: &[u8]) -> Result<[u8; 20], SourceError> {
        self.write(ObjectType::Tree, raw)
    }

    /// The manifests below `path` of the tree `root`, or why they are refused.
    pub fn read(
        &self,
        root: [u8; 20],
        path: &str,
        ignore: Option<&str>,
        limits: &Limits,
    ) -> Result<Files, SourceError> {
        let remote = Remote {
            ignore: ignore.map(str::to_owned),
            ..Remote::default()
        };
        // A placeholder commit id, used only in messages.
        let commit = CommitId::from_digest(&super::super::commit::hex(&root));
        let read = || {
            let root = self.0.find_tree(Oid::from_bytes(&root)?)?;
            tree::read(&self.0, &root, &remote, &commit, path, limits, &|| Ok(()))
        };
        read().map_err(|problem| match problem {
            Problem::Source(error) => error,
            Problem::Git(error) => broken(&error),
        })
    }

    fn write(&self, kind: ObjectType, bytes: &[u8]) -> Result<[u8; 20], SourceError> {
        let written = self.0.odb().and_then(|odb| odb.write(kind, bytes));
        let id = written.map_err(|error| broken(&error))?;
        id.as_bytes()
            .try_into()
            .map_err(|_| broken(&git2::Error::from_str("its object ids do not have 20 bytes")))
    }
}

fn broken(error: &git2::Error) -> SourceError {
    SourceError::Protocol {
        url: "memory".to_owned(),
        why: error.message().to_owned(),
    }
}
