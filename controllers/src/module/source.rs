//! Resolves versions to commits: a tag is resolved once and pinned. A tag that moves later is reported, never rolled
//! out.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use muster_api::{
    module::{ModuleObject, SourceStatus, VerifiedBy},
    reasons::Reason,
    sync::{GitSource, Source, Verify, VerifyMode},
};
use muster_sync::source::{
    CommitId, InvalidCommitId, SourceErrorClass, Verify as Verification, VerifyMode as VerificationMode, Want,
};
use parking_lot::Mutex;

use super::{
    Modules,
    facts::Target,
    flux_source::{self, Trouble},
    kind::Rolled,
    target::{known, last_version, later},
};
use crate::{
    gitrepository::remote::{self, RepositoryAccess, enter, verification_keys},
    runtime::Key,
};

/// The first wait after a failed read of a repository; it doubles up to the package's `retryInterval`.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// What is known of the tags of modules, in addition to their status. Lost at a restart, and read again then.
#[derive(Debug, Default)]
pub(crate) struct Tags(Mutex<BTreeMap<Key, SourceRead>>);

/// The last read of a module's repository.
#[derive(Clone, Debug)]
struct SourceRead {
    /// The source that was read: another version or repository is read again.
    wanted: GitSource,
    /// Whether the result was verified, if required: a pinned commit is not verified again.
    verifying: bool,
    at: Timestamp,
    found: Result<ResolvedVersion, Failure>,
}

/// The result of resolving a version.
#[derive(Clone, Debug)]
struct ResolvedVersion {
    /// The commit of the version.
    commit: String,
    /// How it was verified.
    verified: Option<VerifiedBy>,
}

/// A failed read.
#[derive(Clone, Debug)]
struct Failure {
    /// `SourceNotReady` if the repository cannot be read, `VerificationFailed` if its content is not trusted.
    reason: Reason,
    message: String,
    since: Timestamp,
    count: u32,
}

impl Tags {
    /// Drops the entry of a deleted module.
    pub(crate) fn drop_module(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// When to read the tag of a module again.
    pub(crate) fn next(&self, key: &Key, interval: Duration) -> Option<Timestamp> {
        let reads = self.0.lock();
        let read = reads.get(key)?;
        read.found.is_ok().then(|| later(read.at, interval))
    }
}

/// The target of a module: its version as pinned before, or resolved now.
pub(crate) async fn resolve_target<K: Rolled>(
    module: &K,
    kept: Result<(), Trouble>,
    modules: &Modules<K>,
) -> Target {
    match &module.spec().sync.source {
        Source::Git(git) => of_git(module, git, modules).await,
        Source::Flux(flux) => flux_source::flux_target(module, flux, kept, modules),
    }
}

async fn of_git<K: Rolled>(module: &K, git: &GitSource, modules: &Modules<K>) -> Target {
    let pinned = pinned(git, module.status().and_then(|status| status.source.as_ref()));
    if let (Some(commit), None) = (&git.version.commit, &git.version.tag)
        && (pinned.is_some() || git.verify.is_none())
    {
        modules.tags.drop_module(&Key::of(module));
        let source = pinned.unwrap_or_else(|| SourceStatus {
            url: Some(git.url.clone()),
            tag: None,
            commit: commit.clone(),
            fetched_at: Some(Time(modules.context.clock.now())),
            verified: None,
            request: None,
        });
        return known(module, source, None);
    }
    let verify = git.verify.as_ref().filter(|_| pinned.is_none());
    let read = read_source(module, git, verify, modules).await;
    match (pinned, read.found) {
        (Some(source), found) => {
            let moved_to = found.ok().map(|found| found.commit);
            let moved_to = moved_to.filter(|found| *found != source.commit);
            known(module, source, moved_to)
        }
        (None, Ok(found)) => {
            let source = SourceStatus {
                url: Some(git.url.clone()),
                tag: git.version.tag.clone(),
                commit: found.commit,
                fetched_at: Some(Time(read.at)),
                verified: found.verified,
                request: None,
            };
            known(module, source, None)
        }
        (None, Err(failure)) => Target::Unknown {
            reason: failure.reason,
            message: unknown(module, &failure),
            retry_at: later(
                read.at,
                wait(&failure, module.spec().sync.package.retry_interval.to_std()),
            ),
        },
    }
}

/// The commit that the module's version was resolved to before, if its status is about this version of this repository.
pub fn resolved<K: ModuleObject>(module: &K) -> Option<String> {
    let status = module.status().and_then(|status| status.source.as_ref());
    let pinned = match &module.spec().sync.source {
        Source::Git(git) => pinned(git, status),
        Source::Flux(flux) => flux_source::pinned(flux, status),
    };
    pinned.map(|source| source.commit)
}

/// The source in the status, if it is about this version of this repository, verified as the spec requires.
fn pinned(git: &GitSource, status: Option<&SourceStatus>) -> Option<SourceStatus> {
    let status = status.filter(|status| status.request.is_none() && status.url.as_ref() == Some(&git.url))?;
    let same = match (&git.version.tag, &git.version.commit) {
        (Some(tag), _) => status.tag.as_ref() == Some(tag),
        (None, commit) => status.tag.is_none() && Some(&status.commit) == commit.as_ref(),
    };
    let verified = git.verify.as_ref().is_none_or(|verify| {
        let by = status.verified.as_ref();
        by.is_some_and(|by| by.mode == verify.mode && by.secret == verify.secret_ref.name)
    });
    (same && verified).then(|| status.clone())
}

/// Reads the repository if the last read is too old or was about another source.
async fn read_source<K: Rolled>(
    module: &K,
    git: &GitSource,
    verify: Option<&Verify>,
    modules: &Modules<K>,
) -> SourceRead {
    let key = Key::of(module);
    let now = modules.context.clock.now();
    let package = &module.spec().sync.package;
    let last = modules
        .tags
        .0
        .lock()
        .get(&key)
        .filter(|read| read.wanted == *git && (read.verifying || verify.is_none()))
        .cloned();
    let fresh_for = |read: &SourceRead| match &read.found {
        Ok(_) => package.interval.to_std(),
        Err(failure) => wait(failure, package.retry_interval.to_std()),
    };
    // Content that was verified but is not pinned yet is verified again: the keys may have changed.
    let is_fresh = |read: &SourceRead| now < later(read.at, fresh_for(read));
    let may_serve = |read: &SourceRead| verify.is_none() || read.found.is_err();
    if let Some(last) = last.clone().filter(|read| is_fresh(read) && may_serve(read)) {
        return last;
    }
    let found = resolve(module, git, verify, modules).await.map_err(|error| {
        let before = last.and_then(|read| read.found.err());
        Failure {
            reason: if error.reason == Reason::VerificationFailed.as_str() {
                Reason::VerificationFailed
            } else {
                Reason::SourceNotReady
            },
            message: error.message,
            since: before.as_ref().map_or(now, |before| before.since),
            count: before.map_or(0, |before| before.count.saturating_add(1)),
        }
    });
    let read = SourceRead {
        wanted: git.clone(),
        verifying: verify.is_some(),
        at: modules.context.clock.now(),
        found,
    };
    modules.tags.0.lock().insert(key, read.clone());
    read
}

async fn resolve<K: Rolled>(
    module: &K,
    git: &GitSource,
    verify: Option<&Verify>,
    modules: &Modules<K>,
) -> Result<ResolvedVersion, remote::Failure> {
    // Already validated: exactly one of tag and commit is set.
    let want = match (&git.version.tag, &git.version.commit) {
        (None, Some(commit)) => Want::Commit(commit.parse::<CommitId>().map_err(|error| misnamed(&error))?),
        (tag, _) => Want::Tag(tag.clone().unwrap_or_default()),
    };
    let address = RepositoryAccess::of_module(&module.namespace().unwrap_or_default(), git);
    let mut remote = enter(&address, &modules.context).await?;
    if let Some(verify) = verify {
        remote.verify = Some(Verification {
            mode: match verify.mode {
                VerifyMode::Tag => VerificationMode::Tag,
                VerifyMode::Commit => VerificationMode::Commit,
            },
            keys: Arc::new(verification_keys(&address, &verify.secret_ref.name, &modules.context).await?),
        });
    }
    let resolved = modules.context.source.resolve(&remote, &want).await?;
    if verify.is_some() && resolved.verified.is_none() {
        return Err(remote::Failure {
            reason: Reason::VerificationFailed.as_str(),
            message: format!("{want} of {} was not verified", git.url),
            class: SourceErrorClass::Content,
        });
    }
    let verified = verify.zip(resolved.verified).map(|(verify, signer)| VerifiedBy {
        mode: verify.mode,
        secret: verify.secret_ref.name.clone(),
        signer,
    });
    Ok(ResolvedVersion {
        commit: resolved.commit.to_string(),
        verified,
    })
}

fn misnamed(error: &InvalidCommitId) -> remote::Failure {
    remote::Failure {
        reason: Reason::SourceNotReady.as_str(),
        message: error.to_string(),
        class: SourceErrorClass::Invalid,
    }
}

/// The message: what failed, since when, and that clusters stay unchanged.
fn unknown<K: ModuleObject>(module: &K, failure: &Failure) -> String {
    format!(
        "{} (since {}); {}",
        failure.message,
        failure.since,
        last_version(module)
    )
}

fn wait(failure: &Failure, longest: Duration) -> Duration {
    FIRST_RETRY
        .saturating_mul(1 << failure.count.min(10))
        .min(longest.max(FIRST_RETRY))
}

#[cfg(test)]
mod tests {
    use muster_api::sync::{GitVersion, LocalReference};

    use super::*;

    fn git(url: &str, tag: Option<&str>, commit: Option<&str>) -> GitSource {
        let version = GitVersion {
            tag: tag.map(str::to_owned),
            commit: commit.map(str::to_owned),
        };
        GitSource {
            url: url.to_owned(),
            version,
            secret_ref: None,
            proxy_secret_ref: None,
            verify: None,
        }
    }

    fn check(wanted: &GitSource, tag: Option<&str>, pinned_to: Option<&str>) {
        let status = SourceStatus {
            url: Some("https://git.test/a".to_owned()),
            tag: tag.map(str::to_owned),
            commit: "c1".to_owned(),
            fetched_at: None,
            verified: None,
            request: None,
        };
        assert_eq!(
            pinned(wanted, Some(&status))
                .map(|pinned| pinned.commit)
                .as_deref(),
            pinned_to,
            "{wanted:?}"
        );
    }

    #[test]
    fn a_tag_stays_pinned_until_the_spec_names_another_or_another_repository() {
        check(
            &git("https://git.test/a", Some("v1"), None),
            Some("v1"),
            Some("c1"),
        );
        check(&git("https://git.test/a", Some("v2"), None), Some("v1"), None);
        check(&git("https://git.test/b", Some("v1"), None), Some("v1"), None);
        check(&git("https://git.test/a", None, Some("c1")), None, Some("c1"));
        check(&git("https://git.test/a", None, Some("c2")), None, None);
        check(&git("https://git.test/a", None, Some("c1")), Some("v1"), None);
    }

    #[test]
    fn what_was_pinned_without_the_verification_that_is_asked_for_is_not_pinned() {
        let verify = |mode, secret: &str| {
            Some(Verify {
                mode,
                secret_ref: LocalReference {
                    name: secret.to_owned(),
                },
            })
        };
        let mut wanted = git("https://git.test/a", Some("v1"), None);
        let mut status = SourceStatus {
            url: Some("https://git.test/a".to_owned()),
            tag: Some("v1".to_owned()),
            commit: "c1".to_owned(),
            fetched_at: None,
            verified: None,
            request: None,
        };
        wanted.verify = verify(VerifyMode::Tag, "keys");
        assert_eq!(pinned(&wanted, Some(&status)), None, "it was never verified");
        status.verified = Some(VerifiedBy {
            mode: VerifyMode::Tag,
            secret: "keys".to_owned(),
            signer: "ssh key SHA256:x".to_owned(),
        });
        assert!(pinned(&wanted, Some(&status)).is_some());
        wanted.verify = verify(VerifyMode::Commit, "keys");
        assert_eq!(
            pinned(&wanted, Some(&status)),
            None,
            "another object was verified"
        );
        wanted.verify = verify(VerifyMode::Tag, "other");
        assert_eq!(pinned(&wanted, Some(&status)), None, "by other keys");
        wanted.verify = None;
        assert!(pinned(&wanted, Some(&status)).is_some());
    }

    #[test]
    fn a_failure_is_tried_again_later_and_later_up_to_the_retry_interval() {
        let after = |count| {
            wait(
                &Failure {
                    reason: Reason::SourceNotReady,
                    message: String::new(),
                    since: Timestamp::UNIX_EPOCH,
                    count,
                },
                Duration::from_secs(10),
            )
        };
        let waits: Vec<u64> = (0..6).map(|count| after(count).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }
}
