//! What became of each revision of a module, newest first, and to which of them it could go back.

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

/// Digits of a hash by which people name a revision.
const DIGITS: usize = 8;

/// Revisions that an error names.
const KNOWN: usize = 5;

/// The revisions of a module, with the version of this form.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The version of this form. Fields may be added to it; a change of another kind makes it `history/v2`.
    pub schema: &'static str,
    /// The module: `module/web`.
    pub module: String,
    /// Newest first.
    pub revisions: Vec<Past>,
}

/// A revision of a module, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// The hash.
    pub revision: String,
    /// The name of the ModuleRevision.
    pub name: String,
    /// The version: the tag, or the first digits of the commit.
    pub version: String,
    /// The version as a module's spec has it.
    pub wanted: GitVersion,
    /// The commit that it stood for.
    pub commit: String,
    /// What became of it.
    pub verdict: Outcome,
    /// It is what the module asks for now.
    pub is_target: bool,
    /// The first of its rollouts, if it was rolled out several times; the other fields are about the last one.
    pub first: Option<First>,
    /// When its rollout began.
    pub started: Option<Timestamp>,
    /// When that ended.
    pub finished: Option<Timestamp>,
    /// The clusters in numbers: when it ended, or now if it is being rolled out.
    pub counts: Option<Summary>,
    /// The clusters in numbers now, of what the module asks for.
    pub counts_now: Option<Summary>,
    /// What the verdict rests on.
    pub evidence: Vec<Seen>,
    /// But for its version it is what the module asks for now.
    pub differs_by_version_only: bool,
}

/// The first rollout of a revision that was rolled out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct First {
    /// What became of it.
    pub verdict: Option<Outcome>,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// Updated clusters of all selected ones when it ended.
    pub clusters: Option<String>,
}

/// What became of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// Confirmed on every eligible selected cluster.
    Good,
    /// Condemned: it failed on more clusters than allowed.
    Bad,
    /// Ended by a person, without blame.
    Aborted,
    /// Another revision took its place before it was done.
    Superseded,
    /// It is being rolled out.
    Running,
    /// Its rollout has not begun.
    Pending,
}

/// A cluster on which a revision failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// The cluster.
    pub cluster: String,
    /// When that was seen.
    pub at: Option<Timestamp>,
    /// What was seen.
    pub message: String,
}

/// Why no revision is the one that is meant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoSuchRevision {
    /// Nobody knows it.
    #[error("there is no revision {said} of {module}; next: muster rollout history {module}")]
    Unknown {
        /// How its hash begins.
        said: String,
        /// The module.
        module: String,
    },
    /// Several begin so.
    #[error("{count} revisions of {module} begin with {said}: write more digits")]
    Ambiguous {
        /// How their hashes begin.
        said: String,
        /// The module.
        module: String,
        /// How many there are.
        count: usize,
    },
    /// No revision has this version.
    #[error(
        "there is no revision or version {said} of {module}; there are {known}; next: muster rollout history {module}"
    )]
    NoVersion {
        /// What is asked for.
        said: String,
        /// The module.
        module: String,
        /// The newest ones, with their versions.
        known: String,
    },
    /// Several revisions have this version.
    #[error(
        "several revisions of {module} have the version {said}: {known}; next: name one of them by its hash"
    )]
    SameVersion {
        /// The version.
        said: String,
        /// The module.
        module: String,
        /// They.
        known: String,
    },
    /// It is no revision at all.
    #[error(
        "{said:?} is no revision: write {DIGITS} or more digits of its hash; next: muster rollout history {module}"
    )]
    NoHash {
        /// What stands there.
        said: String,
        /// The module.
        module: String,
    },
}

/// Why a module cannot go back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoWayBack {
    /// What is meant is not there.
    #[error(transparent)]
    NoSuchRevision(#[from] NoSuchRevision),
    /// It was good with no other version.
    #[error(
        "no other version of {module} than {version} is on record as good; next: muster rollout history {module}, and choose one with --to-revision"
    )]
    NothingGood {
        /// The module.
        module: String,
        /// What it asks for now.
        version: String,
    },
    /// It would fail again.
    #[error(
        "{version} (revision {revision}) is known to be bad{why}; next: choose another (muster rollout history {module})"
    )]
    KnownBad {
        /// The module.
        module: String,
        /// The version.
        version: String,
        /// The revision.
        revision: String,
        /// Who failed, and how.
        why: String,
    },
    /// It is there already.
    #[error("{module} asks for {version} already")]
    Already {
        /// The module.
        module: String,
        /// The version.
        version: String,
    },
}

impl History {
    const SCHEMA: &'static str = "history/v1";

    /// The revisions of a module that is called so (`module/web`).
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

    /// The revisions of a NodeModule that is called so (`nodemodule/fabric`). Their versions are their hashes.
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

    /// The revisions of a module among what was read; none if there is no such module.
    pub fn of_module(objects: &Objects, module: &ModuleRef) -> Option<Self> {
        let rolling = objects.module(module)?;
        let (said, status) = (module.said(), Some(&*rolling.status));
        if rolling.kind == Kind::ClusterUpgrade {
            // A version is never taken back: no revisions are kept of it.
            return Some(Self::sorted(&said, Vec::new()));
        }
        let Some(spec) = rolling.spec else {
            let all = objects.nodes.revisions.iter().map(|revision| &**revision);
            let of_module = all.filter(|revision| revision.spec.module == module.name);
            return Some(Self::of_nodes(&said, status, of_module));
        };
        let is_of = |revision: &&ModuleRevision| {
            let about = &revision.spec.module_ref;
            Kind::from(about.kind) == module.kind && about.name == module.name
        };
        let all = objects.revisions.iter().map(|revision| &**revision);
        Some(Self::of(&said, spec, status, all.filter(is_of)))
    }

    /// The one revision whose hash begins so.
    pub fn find(&self, said: &str) -> Result<&Past, NoSuchRevision> {
        let (module, said) = (self.module.clone(), said.to_ascii_lowercase());
        if said.len() < DIGITS || !said.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoSuchRevision::NoHash { said, module });
        }
        let found: Vec<&Past> = self
            .revisions
            .iter()
            .filter(|past| past.revision.starts_with(&said))
            .collect();
        match found[..] {
            [only] => Ok(only),
            [] => Err(NoSuchRevision::Unknown { said, module }),
            _ => Err(NoSuchRevision::Ambiguous {
                said,
                module,
                count: found.len(),
            }),
        }
    }

    /// The one revision of this version, or whose hash begins so.
    pub fn named(&self, said: &str) -> Result<&Past, NoSuchRevision> {
        let mut same = self.revisions.iter().filter(|past| past.version == said);
        match (same.next(), same.next()) {
            (Some(only), None) => Ok(only),
            (Some(first), Some(second)) => {
                let all = [first, second].into_iter().chain(same).map(Past::short);
                Err(NoSuchRevision::SameVersion {
                    said: said.to_owned(),
                    module: self.module.clone(),
                    known: all.collect::<Vec<_>>().join(", "),
                })
            }
            (None, _) => self.find(said).map_err(|error| match error {
                ambiguous @ NoSuchRevision::Ambiguous { .. } => ambiguous,
                _ if self.revisions.is_empty() => NoSuchRevision::Unknown {
                    said: said.to_owned(),
                    module: self.module.clone(),
                },
                _ => NoSuchRevision::NoVersion {
                    said: said.to_owned(),
                    module: self.module.clone(),
                    known: self.newest(),
                },
            }),
        }
    }

    /// The newest revisions, with their versions.
    fn newest(&self) -> String {
        let newest = self.revisions.iter().take(KNOWN);
        let newest = newest.map(|past| format!("{} ({})", past.version, past.short()));
        let newest = newest.collect::<Vec<_>>().join(", ");
        match self.revisions.len().saturating_sub(KNOWN) {
            0 => newest,
            more => format!("{newest} and {more} more"),
        }
    }

    /// The revision that a module goes back to: the one that is said, else the last one that was good with another version than
    /// that which it asks for now.
    pub fn back(&self, now: &GitVersion, to: Option<&str>) -> Result<&Past, NoWayBack> {
        let module = || self.module.clone();
        let Some(said) = to else {
            let good = |past: &&Past| past.verdict == Outcome::Good && past.wanted != *now;
            let found = self
                .revisions
                .iter()
                .filter(good)
                .max_by_key(|past| past.finished);
            return found.ok_or_else(|| NoWayBack::NothingGood {
                module: module(),
                version: now.short(None),
            });
        };
        let past = self.find(said)?;
        if past.verdict == Outcome::Bad {
            let why = past.evidence.first();
            return Err(NoWayBack::KnownBad {
                module: module(),
                version: past.version.clone(),
                revision: past.short().to_owned(),
                why: why.map_or_else(String::new, |seen| {
                    format!(" ({}: {})", seen.cluster, seen.message)
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
    /// When it was rolled out; none if that has not begun.
    pub fn span(&self) -> Option<Span> {
        let to = self.finished;
        self.started.map(|from| Span { from, to })
    }

    /// The revision as people name it.
    pub fn short(&self) -> &str {
        self.revision.get(..DIGITS).unwrap_or(&self.revision)
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::Good,
            Verdict::Bad => Self::Bad,
            Verdict::Aborted => Self::Aborted,
            Verdict::Superseded => Self::Superseded,
        }
    }
}

impl Outcome {
    /// The word.
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

/// Newest first; what has not begun is what comes next.
fn order(created: Option<Timestamp>, past: &Past) -> Reverse<(Timestamp, Option<Timestamp>, String)> {
    Reverse((past.started.unwrap_or(Timestamp::MAX), created, past.name.clone()))
}

fn outcome(verdict: Option<Verdict>, began: bool) -> Outcome {
    match verdict {
        Some(verdict) => verdict.into(),
        None if began => Outcome::Running,
        None => Outcome::Pending,
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
        counts: now.clone().filter(|_| verdict == Outcome::Running),
        counts_now: now,
        evidence: story
            .evidence
            .into_iter()
            .map(|seen| Seen {
                cluster: seen.node,
                at: seen.at.map(|time| time.0),
                message: seen.message,
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
        version: wanted.short(Some(&content.commit)),
        differs_by_version_only: same_but_version(&content.sync, &spec.sync)
            && content.control_plane_bindings == spec.control_plane_bindings,
        wanted,
        commit: content.commit.clone(),
        verdict,
        is_target,
        first: story.first.map(|first| First {
            verdict: first.verdict.map(Outcome::from),
            started: first.started.0,
            finished: first.finished.map(|time| time.0),
            clusters: first.clusters,
        }),
        started: story.started.map(|time| time.0),
        finished: story.finished.map(|time| time.0),
        counts: story
            .counts
            .or_else(|| now.clone().filter(|_| verdict == Outcome::Running)),
        counts_now: now,
        evidence: story
            .evidence
            .into_iter()
            .map(|seen| Seen {
                cluster: seen.cluster,
                at: seen.at.map(|time| time.0),
                message: seen.message,
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
