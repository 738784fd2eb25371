//! Reads signed tags and commits as bytes, for verification.

use std::sync::Arc;

use git2::{ObjectType, Oid, Repository};

use super::super::{SourceError, Unverified, Want, verify_commit, verify_tag};
use super::fetch::{options, to_commit_id, workshop};
use super::job::{Job, Session};

/// The maximum number of cached objects; beyond it all are dropped, which costs one download for each.
const MAX_OBJECTS: usize = 1_000;

/// The largest object that is cached, in bytes.
const MAX_BYTES: usize = 64 << 10;

impl Job {
    /// Verifies what must be signed; returns the keys that signed it. `session` is `None` if the commit is stored
    /// already.
    pub(super) fn verified(
        &self,
        commit: Oid,
        session: Option<&Session>,
    ) -> Result<Option<String>, SourceError> {
        let Some(verify) = &self.verify else {
            return Ok(None);
        };
        let (keys, now) = (&verify.keys, self.now);
        let mut signers = Vec::new();
        if verify.mode.tag() {
            let what = self.want.to_string();
            let Want::Tag(name) = &self.want else {
                return Err(self.unverified(what, Unverified::NoTag));
            };
            let tag = session.and_then(|session| session.found.tag);
            let tag = tag.ok_or_else(|| self.unverified(what.clone(), Unverified::Lightweight))?;
            let bytes = self.object(tag, ObjectType::Tag, commit, session)?;
            let signer = verify_tag(&bytes, name, &to_commit_id(commit)?, keys, now);
            signers.push(signer.map_err(|why| self.unverified(what, why))?.to_string());
        }
        if verify.mode.commit() {
            let bytes = self.object(commit, ObjectType::Commit, commit, session)?;
            let signer = verify_commit(&bytes, keys, now);
            let signer = signer.map_err(|why| self.unverified(format!("commit {commit}"), why))?;
            signers.push(signer.to_string());
        }
        signers.dedup();
        Ok(Some(signers.join(" and ")))
    }

    fn unverified(&self, what: String, why: Unverified) -> SourceError {
        SourceError::VerificationFailed {
            url: self.url.text.clone(),
            what,
            why,
        }
    }

    /// The bytes of an object: from the cache, the mirror, or the server.
    fn object(
        &self,
        id: Oid,
        kind: ObjectType,
        commit: Oid,
        session: Option<&Session>,
    ) -> Result<Arc<[u8]>, SourceError> {
        let key = |id, kind: ObjectType| (format!("{} {kind}", self.url.directory()), id);
        if let Some(known) = self.remembered.lock().get(&key(id, kind)) {
            return Ok(Arc::clone(known));
        }
        if let Some(bytes) = self.mirror.open().and_then(|mirror| read(&mirror, id, kind)) {
            return Ok(bytes);
        }
        let mut refusal = self.unknown(commit);
        let session = session.ok_or_else(|| refusal.clone())?;
        let name = session.found.name.clone();
        let gives_hashes = session.context.gives_hashes();
        for plan in self.plans(name, commit, &session.heads, gives_hashes) {
            let scratch = self.mirror.scratch()?;
            let repository =
                workshop(scratch.path(), &[], &[], false).map_err(|error| self.failed(&error))?;
            let downloaded = session.context.enter(|| {
                let mut remote = repository.remote_anonymous(&self.url.text)?;
                remote.download(&plan.refspecs, Some(&mut options(&session.context, plan.depth())))
            })?;
            if let Err(error) = downloaded {
                refusal = self.failed(&error);
                continue;
            }
            self.deadline.check(&self.url.text, "reading a signed object")?;
            let wanted = [(id, kind), (commit, ObjectType::Commit)];
            for (key, bytes) in wanted
                .into_iter()
                .filter_map(|(id, kind)| Some((key(id, kind), read(&repository, id, kind)?)))
            {
                self.remember(key, &bytes);
            }
            if let Some(bytes) = read(&repository, id, kind) {
                return Ok(bytes);
            }
            if let Some(kind) = repository
                .find_object(id, None)
                .ok()
                .and_then(|object| object.kind())
            {
                return Err(SourceError::NotACommit {
                    url: self.url.text.clone(),
                    what: self.want.to_string(),
                    kind: kind.str().to_owned(),
                });
            }
        }
        Err(refusal)
    }

    fn remember(&self, key: (String, Oid), bytes: &Arc<[u8]>) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= MAX_OBJECTS {
            remembered.clear();
        }
        if bytes.len() <= MAX_BYTES {
            remembered.insert(key, Arc::clone(bytes));
        }
    }
}

/// An object of a repository, if it exists and has this type.
fn read(repository: &Repository, id: Oid, kind: ObjectType) -> Option<Arc<[u8]>> {
    let object = repository.odb().and_then(|odb| {
        let object = odb.read(id)?;
        Ok((object.kind() == kind).then(|| object.data().into()))
    });
    // An unreadable object is requested from the server.
    object.ok().flatten()
}
