//! The result of each revision of a module, newest first, and which of them can be rolled back to.

use std::cmp::Reverse;

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    ModuleRevision,
    module::{ModuleSpec, ModuleStatus, Summary},
    node::NodeRevision,
    revision::Verdict,
    sync::{GitVersion, Sync},
};
use serde::Serialize;
use thiserror::Error;

use crate::{Kind, ModuleRef, Objects, Span};

/// Digits of a hash in the short name of a revision.
const DIGITS: usize = 8;

/// Revisions listed in an error.
const KNOWN: usize = 5;

/// The revisions of a module, with the schema version.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// Schema version. Fields may be added; an incompatible change makes it `history/v2`.
    pub schema: &'static str,
    /// Module, such as `module/web`.
    pub module: String,
    /// Revisions, newest first.
    pub revisions: Vec<Past>,
}

/// A revision of a module and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// Hash of the revision.
    pub revision: String,
    /// Name of the ModuleRevision.
    pub name: String,
    /// Version: the tag, or the first digits of the commit.
    pub version: String,
    /// Version as written in the module's spec.
    pub wanted: GitVersion,
    /// Commit that the version resolved to.
    pub commit: String,
    /// Result of the rollout.
    pub verdict: RevisionOutcome,
    /// Whether it is the current target of the module.
    pub is_target: bool,
    /// The first rollout, if the revision was rolled out several times; the other fields describe the last one.
    pub first: Option<First>,
    /// When the rollout started.
    pub started: Option<Timestamp>,
    /// When the rollout ended.
    pub finished: Option<Timestamp>,
    /// Cluster counts at the end of the rollout, or now while it is running.
    pub counts: Option<Summary>,
    /// Current cluster counts of the module's target.
    pub counts_now: Option<Summary>,
    /// Failures that the verdict is based on.
    pub evidence: Vec<FailureEvidence>,
    /// Whether it differs from the module's target only in its version.
    pub differs_by_version_only: bool,
}

/// The first rollout of a revision that was rolled out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct First {
    /// Result of the rollout.
    pub verdict: Option<RevisionOutcome>,
    /// When the rollout started.
    pub started: Timestamp,
    /// When the rollout ended.
    pub finished: Option<Timestamp>,
    /// Updated clusters out of all selected ones at the end of the rollout.
    pub clusters: Option<String>,
}

/// Result of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RevisionOutcome {
    /// Confirmed on every eligible selected cluster.
    Good,
    /// Condemned: it failed on more clusters than allowed.
    Bad,
    /// Ended by a user, without blame.
    Aborted,
    /// Replaced by another revision before it was done.
    Superseded,
    /// It is being rolled out.
    Running,
    /// Its rollout has not started.
    Pending,
}

/// A cluster on which a revision failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureEvidence {
    /// Name of the cluster.
    pub cluster: String,
    /// When the failure was observed.
    pub at: Option<Timestamp>,
    /// Message of the failure.
    pub message: String,
}

/// Why a revision cannot be selected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoSuchRevision {
    /// No revision has this hash.
    #[error("there is no revision {given} of {module}; next: muster rollout history {module}")]
    Unknown {
        /// The hash prefix that was given.
        given: String,
        /// Module, such as `module/web`.
        module: String,
    },
    /// Several revisions have this hash prefix.
    #[error("{count} revisions of {module} begin with {given}: write more digits")]
    Ambiguous {
        /// The hash prefix that was given.
        given: String,
        /// Module, such as `module/web`.
        module: String,
        /// Number of matching revisions.
        count: usize,
    },
    /// No revision has this version.
    #[error(
        "there is no revision or version {given} of {module}; there are {known}; next: muster rollout history {module}"
    )]
    NoVersion {
        /// The version that was given.
        given: String,
        /// Module, such as `module/web`.
        module: String,
        /// The newest revisions, with their versions.
        known: String,
    },
    /// Several revisions have this version.
    #[error(
        "several revisions of {module} have the version {given}: {known}; next: use the hash of one of them"
    )]
    SameVersion {
        /// The version that was given.
        given: String,
        /// Module, such as `module/web`.
        module: String,
        /// The matching revisions.
        known: String,
    },
    /// The argument is not a revision.
    #[error(
        "{given:?} is not a revision: write {DIGITS} or more digits of its hash; next: muster rollout history {module}"
    )]
    NoHash {
        /// The argument that was given.
        given: String,
        /// Module, such as `module/web`.
        module: String,
    },
}

/// Why a module cannot be rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoWayBack {
    /// The requested revision does not exist.
    #[error(transparent)]
    NoSuchRevision(#[from] NoSuchRevision),
    /// No other version has been good.
    #[error(
        "no other version of {module} than {version} is on record as good; next: muster rollout history {module}, and choose one with --to-revision"
    )]
    NothingGood {
        /// Module, such as `module/web`.
        module: String,
        /// Current target version.
        version: String,
    },
    /// The revision is known to be bad.
    #[error(
        "{version} (revision {revision}) is known to be bad{why}; next: choose another (muster rollout history {module})"
    )]
    KnownBad {
        /// Module, such as `module/web`.
        module: String,
        /// Version of the bad revision.
        version: String,
        /// Hash of the bad revision.
        revision: String,
        /// Clusters that failed, with their messages.
        why: String,
    },
    /// The revision is already the target.
    #[error("{module} asks for {version} already")]
    Already {
        /// Module, such as `module/web`.
        module: String,
        /// Version of the revision.
        version: String,
    },
}

impl History {
    const SCHEMA: &'static str = "history/v1";

    /// The revisions of a module given by kind and name (`module/web`).
    pub fn of<'a>(
        module: &str,
        spec: &ModuleSpec,
        status: Option<&ModuleStatus>,
        all: impl IntoIterator<Item = &'a ModuleRevision>,
    ) -> Self {
        let pasts = all.into_iter().map(|revision| {
            let created = revision.creation_timestamp();
            (created.map(|created| created.0), past(revision, spec, status))
        });
        Self::sorted(module, pasts.collect())
    }

    /// The revisions of a NodeModule given by kind and name (`nodemodule/fabric`). Their versions are their hashes.
    pub fn of_nodes<'a>(
        module: &str,
        status: Option<&ModuleStatus>,
        all: impl IntoIterator<Item = &'a NodeRevision>,
    ) -> Self {
        let pasts = all.into_iter().map(|revision| {
            let created = revision.creation_timestamp();
            (created.map(|created| created.0), past_of_nodes(revision, status))
        });
        Self::sorted(module, pasts.collect())
    }

    fn sorted(module: &str, mut revisions: Vec<(Option<Timestamp>, Past)>) -> Self {
        revisions.sort_by_key(|(created, past)| order(*created, past));
        Self {
            schema: Self::SCHEMA,
            module: module.to_owned(),
            revisions: revisions.into_iter().map(|(_, past)| past).collect(),
        }
    }

    /// The revisions of a module; `None` if there is no such module.
    pub fn of_module(objects: &Objects, module: &ModuleRef) -> Option<Self> {
        let rolling = objects.module(module)?;
        let (argument, status) = (module.command_argument(), Some(&*rolling.status));
        if rolling.kind == Kind::ClusterUpgrade {
            // A version cannot be rolled back: no revisions are kept.
            return Some(Self::sorted(&argument, Vec::new()));
        }
        let Some(spec) = rolling.spec else {
            let all = objects.nodes.revisions.iter().map(|revision| &**revision);
            let of_module = all.filter(|revision| revision.spec.module == module.name);
            return Some(Self::of_nodes(&argument, status, of_module));
        };
        let is_of = |revision: &&ModuleRevision| {
            let about = &revision.spec.module_ref;
            Kind::from(about.kind) == module.kind && about.name == module.name
        };
        let all = objects.revisions.iter().map(|revision| &**revision);
        Some(Self::of(&argument, spec, status, all.filter(is_of)))
    }

    /// The only revision with this hash prefix.
    pub fn find(&self, given: &str) -> Result<&Past, NoSuchRevision> {
        let (module, given) = (self.module.clone(), given.to_ascii_lowercase());
        if given.len() < DIGITS || !given.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoSuchRevision::NoHash { given, module });
        }
        let found: Vec<&Past> = self
            .revisions
            .iter()
            .filter(|past| past.revision.starts_with(&given))
            .collect();
        match found[..] {
            [only] => Ok(only),
            [] => Err(NoSuchRevision::Unknown { given, module }),
            _ => Err(NoSuchRevision::Ambiguous {
                given,
                module,
                count: found.len(),
            }),
        }
    }

    /// The only revision with this version or hash prefix.
    pub fn find_by_version(&self, given: &str) -> Result<&Past, NoSuchRevision> {
        let mut same = self.revisions.iter().filter(|past| past.version == given);
        match (same.next(), same.next()) {
            (Some(only), None) => Ok(only),
            (Some(first), Some(second)) => {
                let all = [first, second].into_iter().chain(same).map(Past::short_hash);
                Err(NoSuchRevision::SameVersion {
                    given: given.to_owned(),
                    module: self.module.clone(),
                    known: all.collect::<Vec<_>>().join(", "),
                })
            }
            (None, _) => self.find(given).map_err(|error| match error {
                ambiguous @ NoSuchRevision::Ambiguous { .. } => ambiguous,
                _ if self.revisions.is_empty() => NoSuchRevision::Unknown {
                    given: given.to_owned(),
                    module: self.module.clone(),
                },
                _ => NoSuchRevision::NoVersion {
                    given: given.to_owned(),
                    module: self.module.clone(),
                    known: self.newest(),
                },
            }),
        }
    }

    /// The newest revisions, with their versions.
    fn newest(&self) -> String {
        let newest = self.revisions.iter().take(KNOWN);
        let newest = newest.map(|past| format!("{} ({})", past.version, past.short_hash()));
        let newest = newest.collect::<Vec<_>>().join(", ");
        match self.revisions.len().saturating_sub(KNOWN) {
            0 => newest,
            more => format!("{newest} and {more} more"),
        }
    }

    /// The revision to roll back to: the given one, or else the last good one whose version differs from the current
    /// target.
    pub fn back(&self, now: &GitVersion, to: Option<&str>) -> Result<&Past, NoWayBack> {
        let module = || self.module.clone();
        let Some(given) = to else {
            let good = |past: &&Past| past.verdict == RevisionOutcome::Good && past.wanted != *now;
            let found = self
                .revisions
                .iter()
                .filter(good)
                .max_by_key(|past| past.finished);
            return found.ok_or_else(|| NoWayBack::NothingGood {
                module: module(),
                version: now.display_version(None),
            });
        };
        let past = self.find(given)?;
        if past.verdict == RevisionOutcome::Bad {
            let why = past.evidence.first();
            return Err(NoWayBack::KnownBad {
                module: module(),
                version: past.version.clone(),
                revision: past.short_hash().to_owned(),
                why: why.map_or_else(String::new, |evidence| {
                    format!(" ({}: {})", evidence.cluster, evidence.message)
                }),
            });
        }
        if past.wanted == *now {
            return Err(NoWayBack::Already {
                module: module(),
                version: past.version.clone(),
            });
        }
        Ok(past)
    }
}

impl Past {
    /// Duration of the rollout; `None` if it has not started.
    pub fn span(&self) -> Option<Span> {
        let to = self.finished;
        self.started.map(|from| Span { from, to })
    }

    /// Short name of the revision.
    pub fn short_hash(&self) -> &str {
        self.revision.get(..DIGITS).unwrap_or(&self.revision)
    }
}

impl From<Verdict> for RevisionOutcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::Good,
            Verdict::Bad => Self::Bad,
            Verdict::Aborted => Self::Aborted,
            Verdict::Superseded => Self::Superseded,
        }
    }
}

impl RevisionOutcome {
    /// Name of the result, as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "Good",
            Self::Bad => "Bad",
            Self::Aborted => "Aborted",
            Self::Superseded => "Superseded",
            Self::Running => "Running",
            Self::Pending => "Pending",
        }
    }
}

/// Sort order: newest first; revisions whose rollout has not started come before all others.
fn order(created: Option<Timestamp>, past: &Past) -> Reverse<(Timestamp, Option<Timestamp>, String)> {
    Reverse((past.started.unwrap_or(Timestamp::MAX), created, past.name.clone()))
}

fn outcome(verdict: Option<Verdict>, began: bool) -> RevisionOutcome {
    match verdict {
        Some(verdict) => verdict.into(),
        None if began => RevisionOutcome::Running,
        None => RevisionOutcome::Pending,
    }
}

fn past_of_nodes(revision: &NodeRevision, status: Option<&ModuleStatus>) -> Past {
    let story = revision.status.clone().unwrap_or_default();
    let hash = &revision.spec.revision;
    let is_target = status.and_then(|status| status.revision.as_ref()) == Some(hash);
    let verdict = outcome(story.verdict, story.started.is_some());
    let now = status
        .filter(|_| is_target)
        .and_then(|status| status.summary.clone());
    Past {
        revision: hash.clone(),
        name: revision.name_any(),
        version: hash.get(..DIGITS).unwrap_or(hash).to_owned(),
        wanted: GitVersion::default(),
        commit: String::new(),
        verdict,
        is_target,
        first: None,
        started: story.started.map(|time| time.0),
        finished: story.finished.map(|time| time.0),
        counts: now.clone().filter(|_| verdict == RevisionOutcome::Running),
        counts_now: now,
        evidence: story
            .evidence
            .into_iter()
            .map(|evidence| FailureEvidence {
                cluster: evidence.node,
                at: evidence.at.map(|time| time.0),
                message: evidence.message,
            })
            .collect(),
        differs_by_version_only: false,
    }
}

fn past(revision: &ModuleRevision, spec: &ModuleSpec, status: Option<&ModuleStatus>) -> Past {
    let story = revision.status.clone().unwrap_or_default();
    let content = &revision.spec;
    let is_target = status.and_then(|status| status.revision.as_ref()) == Some(&content.revision);
    let verdict = outcome(story.verdict, story.started.is_some());
    let now = status
        .filter(|_| is_target)
        .and_then(|status| status.summary.clone());
    let wanted = content.sync.source.version();
    Past {
        revision: content.revision.clone(),
        name: revision.name_any(),
        version: wanted.display_version(Some(&content.commit)),
        differs_by_version_only: same_but_version(&content.sync, &spec.sync)
            && content.control_plane_bindings == spec.control_plane_bindings,
        wanted,
        commit: content.commit.clone(),
        verdict,
        is_target,
        first: story.first.map(|first| First {
            verdict: first.verdict.map(RevisionOutcome::from),
            started: first.started.0,
            finished: first.finished.map(|time| time.0),
            clusters: first.clusters,
        }),
        started: story.started.map(|time| time.0),
        finished: story.finished.map(|time| time.0),
        counts: story
            .counts
            .or_else(|| now.clone().filter(|_| verdict == RevisionOutcome::Running)),
        counts_now: now,
        evidence: story
            .evidence
            .into_iter()
            .map(|evidence| FailureEvidence {
                cluster: evidence.cluster,
                at: evidence.at.map(|time| time.0),
                message: evidence.message,
            })
            .collect(),
    }
}

fn same_but_version(one: &Sync, other: &Sync) -> bool {
    let mut one = one.clone();
    let mut other = other.clone();
    one.source = one.source.without_version();
    other.source = other.source.without_version();
    one == other
}
