//! The rows of assemblages, reduced to what a module's rollout needs, so that those of a whole fleet fit in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    Shared,
    assemblage::{Agent, FailureClass, Intent, SyncPhase, SyncRow, SyncState, Withdraw},
    evidence::Progress,
    labels,
    plan::ControlTaken,
    schema::MAX_TOKEN,
};

use muster_rollout as engine;

use super::kind::Carrier;
use crate::{
    registry,
    runtime::{Index, Key},
};

/// An assemblage as rows. It is immutable and shared by readers; unchanged parts are shared between its versions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AssemblageRow {
    /// The part that every module depends on.
    pub head: Arc<Head>,
    /// Its syncs, sorted by name.
    pub syncs: Vec<Arc<ObservedRow>>,
    /// The source of each sync in `syncs`.
    pub parts: Vec<Parts>,
    /// What the cluster reports of syncs that have no row here, by name: of deleted modules, or from before this
    /// assemblage was created. A row created for one of them gets a greater token.
    pub left: Vec<(String, engine::Report)>,
}

/// The part of an assemblage that every module depends on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    /// Name of the assemblage.
    pub name: String,
    /// Whether this is muster's own assemblage of the cluster with that name; a foreign one is never written to.
    pub ours: bool,
    /// Whether it is being deleted: it is not written to any more.
    pub deleting: bool,
    /// Uid of the Cluster that owns it; `None` if that Cluster was deleted with `--cascade=orphan`.
    pub owner: Option<String>,
    /// What the agent reports of itself.
    pub agent: Option<Arc<Agent>>,
    /// When it was created.
    pub made: Option<Timestamp>,
    /// Number of syncs of a foreign assemblage; 0 for our own, so that a new row does not affect every module.
    pub foreign_syncs: usize,
}

impl AssemblageRow {
    /// The row of a module.
    pub(crate) fn of(&self, module: &str) -> Option<&Arc<ObservedRow>> {
        self.syncs.get(self.index(module)?)
    }

    fn index(&self, module: &str) -> Option<usize> {
        let index = self.syncs.binary_search_by(|row| row.name.as_str().cmp(module));
        index.ok()
    }

    /// The row for these parts in the next version, shared if unchanged.
    fn next(&self, position: usize, parts: &Parts) -> Arc<ObservedRow> {
        let index = self.index(&parts.0.name);
        let before = index.and_then(|index| self.syncs.get(index).zip(self.parts.get(index)));
        match before {
            Some((row, before)) if row.position == position && before == parts => Arc::clone(row),
            Some((row, _)) => Some(observed_row(position, parts))
                .filter(|observed| *observed != **row)
                .map_or_else(|| Arc::clone(row), Arc::new),
            None => Arc::new(observed_row(position, parts)),
        }
    }

    /// What the cluster reports of a module that has no row.
    pub(crate) fn left_of(&self, module: &str) -> Option<&engine::Report> {
        let left = self.left.iter().find(|(name, _)| name == module);
        left.map(|(_, report)| report)
    }

    /// Whether two versions of an assemblage are the same for a module.
    pub(crate) fn is_same_to(&self, module: &str, other: &Self) -> bool {
        Arc::ptr_eq(&self.head, &other.head)
            && is_same(self.of(module), other.of(module))
            && self.left_of(module) == other.left_of(module)
    }

    /// The modules that a change from `before` affects.
    fn concerned<'a>(&'a self, before: &'a Self) -> BTreeSet<&'a str> {
        let rows = self.syncs.iter().chain(&before.syncs);
        let names = rows.map(|row| row.name.as_str());
        names.filter(|module| !self.is_same_to(module, before)).collect()
    }
}

/// Whether both are the same allocation, or both absent.
pub(crate) fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// One sync: what is assigned, and what the cluster reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedRow {
    /// The sync's name.
    pub name: String,
    /// Index in `spec.syncs`, which a JSON patch tests and replaces.
    pub position: usize,
    /// The assigned token; a row of another writer may have none.
    pub token: Option<u64>,
    /// The assigned digest.
    pub digest: Option<String>,
    /// Fingerprint of the row's content: a manual edit that keeps the digest is not what was assigned.
    pub print: Print,
    /// The assigned revision.
    pub revision: Option<String>,
    /// What the row requests.
    pub asks: Asks,
    /// The last report of the cluster about this sync.
    pub report: Option<Report>,
    /// The number of the retry of content that failed there.
    pub attempt: Option<u64>,
    /// Whether it has a plan.
    pub plan: bool,
    /// Id of the plan control that it carries.
    pub control: Option<String>,
    /// The row in the engine's form, without manual edits.
    pub assigned: engine::Assignment,
    /// The report in the engine's form.
    pub reported: Option<engine::Report>,
}

/// The source of a row: what is assigned, and what is reported.
pub(crate) type Parts = (Shared<SyncRow>, Option<Shared<SyncState>>);

/// The greatest token of a report that is trusted without a row that has it. A restored fleet may report tokens that
/// the memory does not know, and new ones must be greater; a report that left no room for those would block the module
/// permanently.
const BELIEVED: u64 = MAX_TOKEN / 2;

/// Hash of a row's content, without its token.
pub(crate) type Print = u64;

/// Fingerprint of a row: of the fields that its digest covers.
pub(crate) fn print(row: &SyncRow) -> Print {
    let row = SyncRow {
        token: None,
        attempt: None,
        plan_control: None,
        ..row.clone()
    };
    let mut hasher = DefaultHasher::new();
    // The hash is not stored, so it may differ between processes.
    serde_json::to_vec(&row).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

impl ObservedRow {
    /// Its token in the engine's form: 0 if it has none.
    pub(crate) fn engine_token(&self) -> engine::Token {
        engine::Token(self.token.unwrap_or(0))
    }

    /// Whether nothing of it is left in the cluster: it never requested anything, or its withdrawal was reported.
    pub(crate) fn is_withdrawn(&self) -> bool {
        let reported = |report: &Report| report.phase == SyncPhase::Withdrawn && report.token == self.token;
        match self.asks {
            Asks::Carry => false,
            Asks::Withdraw(_) => self.report.as_ref().is_some_and(reported),
            Asks::Bare => true,
        }
    }
}

/// What a row requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// To apply a sync.
    Carry,
    /// To withdraw a sync.
    Withdraw(Withdraw),
    /// Nothing: the row has only a name and a token.
    Bare,
}

/// The report of a cluster about a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// The digest that the report is about.
    pub digest: Option<String>,
    /// The token that the report is about.
    pub token: Option<u64>,
    /// Phase of the sync.
    pub phase: SyncPhase,
    /// The reason code.
    pub reason: Option<String>,
    /// The message for users.
    pub message: Option<String>,
    /// Progress of the objects.
    pub progress: Option<Progress>,
    /// State of its plan.
    pub plan: Option<String>,
    /// The last plan control that was applied or rejected.
    pub taken: Option<ControlTaken>,
}

/// An index of the rows of all assemblages of a kind. A changed assemblage affects the modules whose rows changed in
/// it.
pub(crate) fn index<A: Carrier>() -> Index<A, Arc<AssemblageRow>> {
    Index::new(
        |assemblage| Some(Arc::new(assemblage_row(assemblage, None))),
        |key: &Key, row: &Arc<AssemblageRow>| {
            row.syncs
                .iter()
                .map(|sync| Key::new(&key.namespace, &sync.name))
                .collect()
        },
    )
    .succeeding(|assemblage, before| Some(Arc::new(assemblage_row(assemblage, Some(before)))))
    .concerning(|key, before, row| {
        let modules = row.concerned(before).into_iter();
        modules.map(|module| Key::new(&key.namespace, module)).collect()
    })
}

/// Projects an assemblage. Unchanged parts are shared with the previous version and not computed again.
pub(crate) fn assemblage_row<A: Carrier>(
    assemblage: &A,
    before: Option<&Arc<AssemblageRow>>,
) -> AssemblageRow {
    let states = assemblage.status().map_or(&[][..], |status| &status.syncs);
    let rows = &assemblage.spec().syncs;
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let without = states.iter().filter(|state| !names.contains(state.name.as_str()));
    let ours = is_own_assemblage(assemblage);
    let states: BTreeMap<&str, &Shared<SyncState>> =
        states.iter().map(|state| (state.name.as_str(), state)).collect();
    let mut syncs: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(position, sync)| {
            let parts = (sync.clone(), states.get(sync.name.as_str()).copied().cloned());
            let row = before.map_or_else(
                || Arc::new(observed_row(position, &parts)),
                |before| before.next(position, &parts),
            );
            (row, parts)
        })
        .collect();
    syncs.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    let (syncs, parts) = syncs.into_iter().unzip();
    let head = Head {
        name: assemblage.name_any(),
        ours,
        deleting: assemblage.meta().deletion_timestamp.is_some(),
        owner: registry::owner(assemblage.meta()).map(str::to_owned),
        made: assemblage.meta().creation_timestamp.as_ref().map(|made| made.0),
        agent: assemblage
            .status()
            .and_then(|status| status.agent.clone().map(Arc::new)),
        foreign_syncs: if ours { 0 } else { rows.len() },
    };
    let head = match before {
        Some(before) if *before.head == head => Arc::clone(&before.head),
        Some(_) | None => Arc::new(head),
    };
    AssemblageRow {
        head,
        syncs,
        parts,
        left: without
            .map(|state| (state.name.clone(), reported(None, state)))
            .collect(),
    }
}

/// Whether an assemblage is muster's own: named after its cluster and labeled.
pub(crate) fn is_own_assemblage<A: Carrier>(assemblage: &A) -> bool {
    let manager = assemblage.labels().get(labels::label::MANAGED_BY);
    let cluster = assemblage
        .spec()
        .cluster_ref
        .as_ref()
        .map(|cluster| cluster.name.as_str());
    manager.is_some_and(|manager| manager == labels::MUSTER)
        && cluster == Some(assemblage.name_any().as_str())
}

fn observed_row(position: usize, (sync, state): &Parts) -> ObservedRow {
    let state = state.as_ref();
    let asks = match sync.intent() {
        Intent::Carry { .. } => Asks::Carry,
        Intent::Withdraw(how) => Asks::Withdraw(how),
        Intent::Bare => Asks::Bare,
    };
    ObservedRow {
        name: sync.name.clone(),
        position,
        token: sync.token,
        digest: sync.digest.clone(),
        print: print(sync),
        revision: sync.revision.clone(),
        asks,
        report: state.map(|state| report(state)),
        attempt: sync.attempt,
        plan: sync
            .package
            .as_ref()
            .is_some_and(|package| package.plan.is_some()),
        control: sync.plan_control.as_ref().map(|control| control.id.clone()),
        assigned: assigned(sync, asks),
        reported: state.map(|state| reported(sync.token, state)),
    }
}

fn report(state: &SyncState) -> Report {
    Report {
        digest: state.digest.clone(),
        token: state.token,
        phase: state.state,
        reason: state.reason.clone(),
        message: state.message.clone(),
        progress: state.progress.clone(),
        plan: state.plan.clone(),
        taken: state.plan_run.as_ref().and_then(|run| run.control.clone()),
    }
}

fn assigned(sync: &SyncRow, asks: Asks) -> engine::Assignment {
    let digest = sync.digest.as_deref().and_then(engine::Digest::parse);
    engine::Assignment {
        token: engine::Token(sync.token.unwrap_or(0)),
        content: match (asks, digest) {
            (Asks::Carry, Some(digest)) => engine::Content::Carries {
                revision: sync.revision.as_deref().and_then(engine::Revision::parse),
                digest,
            },
            (Asks::Withdraw(Withdraw::Prune | Withdraw::Orphan), _) => engine::Content::Withdraw,
            (Asks::Carry | Asks::Bare, _) => engine::Content::Nothing,
        },
    }
}

/// `assigned`: the token of its row.
fn reported(assigned: Option<u64>, state: &SyncState) -> engine::Report {
    let believed = assigned.unwrap_or(0).max(BELIEVED);
    let message = || {
        let message = state.message.as_deref().or(state.reason.as_deref());
        message.unwrap_or("no message").into()
    };
    engine::Report {
        digest: state.digest.as_deref().and_then(engine::Digest::parse),
        token: engine::Token(state.token.filter(|token| *token <= believed).unwrap_or(0)),
        state: match (state.state, state.class) {
            (SyncPhase::Succeeded, _) => engine::State::Succeeded,
            (SyncPhase::Withdrawn, _) => engine::State::Withdrawn,
            (SyncPhase::Failed, class) => engine::State::Failed {
                class: class.map_or(engine::Class::Revision, self::class),
                terminal: state.terminal,
                message: message(),
            },
            (SyncPhase::Updating, Some(class)) => engine::State::Failed {
                class: self::class(class),
                terminal: false,
                message: message(),
            },
            (SyncPhase::Updating, None) => state.progress.as_ref().map_or(engine::State::Updating, progress),
            (SyncPhase::Withdrawing, _) => engine::State::Updating,
        },
    }
}

fn progress(progress: &Progress) -> engine::State {
    engine::State::Progressing(engine::Progress {
        done: progress.done,
        waiting: progress.waiting.is_some(),
    })
}

fn class(class: FailureClass) -> engine::Class {
    match class {
        FailureClass::Revision => engine::Class::Revision,
        FailureClass::Unit => engine::Class::Unit,
        FailureClass::Infra => engine::Class::Infra,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use muster_api::{
        ProxyAssemblage,
        assemblage::{AssemblageStatus, TargetedAssemblageSpec},
        sync::LocalReference,
    };

    use super::*;

    fn assemblage(rows: &[(&str, u64)], reported: &[(&str, u64)], deleting: bool) -> ProxyAssemblage {
        let mut made = ProxyAssemblage::new(
            "eu-1",
            TargetedAssemblageSpec {
                cluster_ref: Some(LocalReference {
                    name: "eu-1".to_owned(),
                }),
                syncs: rows
                    .iter()
                    .map(|(name, token)| SyncRow::bare(name, *token).into())
                    .collect(),
                ..TargetedAssemblageSpec::default()
            },
        );
        made.metadata.namespace = Some("fleet".to_owned());
        made.metadata.labels =
            Some([(labels::label::MANAGED_BY.to_owned(), labels::MUSTER.to_owned())].into());
        made.metadata.deletion_timestamp = deleting.then_some(Time(Timestamp::UNIX_EPOCH));
        made.status = Some(AssemblageStatus {
            syncs: reported
                .iter()
                .map(|(name, token)| SyncState {
                    name: (*name).to_owned(),
                    token: Some(*token),
                    ..SyncState::default()
                })
                .map(Shared::from)
                .collect(),
            ..AssemblageStatus::default()
        });
        made
    }

    #[test]
    fn what_changes_of_one_module_concerns_no_other() {
        let index = index::<ProxyAssemblage>();
        let change = |rows: &[(&str, u64)], reported: &[(&str, u64)], deleting: bool| -> Vec<String> {
            let concerned = index.apply(&assemblage(rows, reported, deleting));
            concerned.into_iter().map(|key| key.name).collect()
        };
        let rows = [("web", 1), ("api", 1), ("base", 1)];
        assert_eq!(change(&rows, &[], false), ["api", "base", "web"]);
        assert_eq!(change(&rows, &[("web", 1)], false), ["web"], "a report");
        assert_eq!(
            change(&[("web", 1), ("api", 2), ("base", 1)], &[("web", 1)], false),
            ["api"],
            "a row"
        );
        let moved = [("web", 1), ("base", 1)];
        assert_eq!(
            change(&moved, &[("web", 1)], false),
            ["api", "base"],
            "removed rows, and rows whose index changed by that"
        );
        assert_eq!(
            change(&moved, &[("web", 1), ("new", 4)], false),
            ["new"; 0],
            "of a module that has no row"
        );
        assert_eq!(
            change(&moved, &[("web", 1), ("new", 4)], true),
            ["base", "web"],
            "that it goes, all of them"
        );
    }

    #[test]
    fn what_did_not_change_is_shared_between_versions() {
        let index = index::<ProxyAssemblage>();
        let rows = |web: u64| {
            index.apply(&assemblage(&[("web", web), ("api", 1)], &[], false));
            index.all().remove(0)
        };
        let (before, after) = (rows(1), rows(2));
        assert!(Arc::ptr_eq(&before.head, &after.head));
        assert!(is_same(before.of("api"), after.of("api")));
        assert!(!is_same(before.of("web"), after.of("web")));
        assert!(before.is_same_to("api", &after) && !before.is_same_to("web", &after));
    }
}
