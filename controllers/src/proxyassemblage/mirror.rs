//! The desired `Assemblage` downstream: the proxy's rows, and those that the proxy never had.
//!
//! Pure. Invariant: a token never decreases. Invariant: a row with a token is never removed downstream because it is
//! absent here. Invariant: an `Assemblage` of another origin is not written, unless the proxy names that origin to take
//! it over.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::Patch;
use kube::{ResourceExt, core::ObjectMeta};
use muster_api::{
    Assemblage, Shared,
    assemblage::{AssemblageSpec, Intent, SyncPhase, SyncRow, SyncState},
    labels::{MUSTER, SYSTEM_NAMESPACE, annotation, label},
    schema::MAX_LABEL,
};

use serde_json::json;

use super::copies;
use crate::{expand::unclaimed, runtime::entries};

/// The fields of a proxy that its mirror needs.
#[derive(Clone, Debug)]
pub struct Proxy<'a> {
    /// The name of the proxy and of its mirror.
    pub name: &'a str,
    /// The cluster's name, if it is a Cluster.
    pub cluster: Option<&'a str>,
    /// The identity of the proxy and of its management cluster.
    pub origin: &'a str,
    /// The origin to take over from.
    pub adopt: Option<&'a str>,
    /// The copies of Secrets to record.
    pub copies: &'a BTreeMap<String, String>,
    /// The reconcile request to pass on.
    pub requested_at: Option<&'a str>,
    /// The rows as they should be downstream; rows that cannot be updated there now are named in `kept`.
    pub rows: &'a [Shared<SyncRow>],
    /// Rows of the proxy that cannot be updated downstream now: their live rows stay.
    pub kept: &'a BTreeSet<String>,
    /// The proxy's status as last written: the rows that it had.
    pub states: &'a [Shared<SyncState>],
}

/// What to do downstream.
#[derive(Clone, Debug, PartialEq)]
pub enum Mirror {
    /// Nothing: the live object is up to date.
    Equal,
    /// Create it.
    Create(Box<Assemblage>),
    /// Replace it; has the resourceVersion.
    Replace(Box<Assemblage>),
    /// It is being deleted: it is re-created when it is gone.
    Terminating,
    /// It belongs to another origin, this one: nothing is written.
    Foreign(String),
}

/// Decides what to do downstream.
pub fn mirror(proxy: &Proxy<'_>, live: Option<&Assemblage>) -> Mirror {
    let Some(live) = live else {
        return Mirror::Create(Box::new(made(proxy)));
    };
    // A manually created Assemblage has no origin; a proxy takes it over with an empty `adopt`.
    let origin = live
        .annotations()
        .get(annotation::ORIGIN)
        .map_or("", String::as_str);
    if origin != proxy.origin && proxy.adopt != Some(origin) {
        return Mirror::Foreign(origin.to_owned());
    }
    if live.metadata.deletion_timestamp.is_some() {
        return Mirror::Terminating;
    }
    let mut next = live.clone();
    next.status = None;
    next.spec.syncs = rows(proxy, Some(live));
    next.annotations_mut().remove(annotation::DISTRIBUTED);
    next.annotations_mut().extend(annotations(proxy));
    let same = next.spec == sorted(&live.spec) && next.annotations() == live.annotations();
    if same {
        return Mirror::Equal;
    }
    next.labels_mut().extend(labels(proxy));
    Mirror::Replace(Box::new(next))
}

/// Whether the decision removes a row downstream.
pub fn removes(mirror: &Mirror, live: Option<&Assemblage>) -> bool {
    let (Mirror::Replace(next), Some(live)) = (mirror, live) else {
        return false;
    };
    removes_any(live, next)
}

/// The patch from `live` to `next`, if only rows were added or changed, and perhaps the reconcile request: each row
/// with a test of its previous value, and the whole patch with a test of the origin. `None`: the object must be
/// replaced.
pub fn mirror_patch(live: &Assemblage, next: &Assemblage) -> Option<Patch> {
    let origin = live.annotations().get(annotation::ORIGIN)?;
    let of = |key: &str, object: &Assemblage| object.annotations().get(key).map(|value| json!(value));
    let place = |key| ["metadata", "annotations", key];
    let mut steps = vec![
        entries::test(&["metadata", "uid"], json!(live.uid())),
        entries::test(&place(annotation::ORIGIN), json!(origin)),
    ];
    let request = annotation::RECONCILE_REQUESTED_AT;
    steps.extend(entries::field(
        &place(request),
        of(request, live).as_ref(),
        of(request, next).as_ref(),
    ));
    let mut same = live.metadata.clone();
    same.annotations.clone_from(&next.metadata.annotations);
    let is_request =
        |key: &String| key == request || live.annotations().get(key) == next.annotations().get(key);
    if same != next.metadata
        || !next
            .annotations()
            .keys()
            .chain(live.annotations().keys())
            .all(is_request)
        || removes_any(live, next)
    {
        return None;
    }
    steps.extend(entries::list(
        &["spec", "syncs"],
        &live.spec.syncs,
        &next.spec.syncs,
    )?);
    Some(Patch(steps))
}

fn removes_any(live: &Assemblage, next: &Assemblage) -> bool {
    let stays: BTreeSet<&str> = next.spec.syncs.iter().map(|row| row.name.as_str()).collect();
    live.spec
        .syncs
        .iter()
        .any(|row| !stays.contains(row.name.as_str()))
}

/// The rows downstream that this proxy never had.
pub fn unclaimed_rows(proxy: &Proxy<'_>, live: &Assemblage) -> BTreeSet<String> {
    let ours: BTreeSet<&str> = ours(proxy).collect();
    let foreign = live
        .spec
        .syncs
        .iter()
        .filter(|row| !ours.contains(row.name.as_str()) && stays(proxy, row));
    foreign.map(|row| row.name.clone()).collect()
}

fn made(proxy: &Proxy<'_>) -> Assemblage {
    Assemblage {
        metadata: ObjectMeta {
            name: Some(proxy.name.to_owned()),
            namespace: Some(SYSTEM_NAMESPACE.to_owned()),
            annotations: Some(annotations(proxy)),
            labels: Some(labels(proxy)),
            ..ObjectMeta::default()
        },
        spec: AssemblageSpec {
            syncs: rows(proxy, None),
        },
        status: None,
    }
}

fn annotations(proxy: &Proxy<'_>) -> BTreeMap<String, String> {
    let request = proxy
        .requested_at
        .map(|at| (annotation::RECONCILE_REQUESTED_AT.to_owned(), at.to_owned()));
    request
        .into_iter()
        .chain([(annotation::ORIGIN.to_owned(), proxy.origin.to_owned())])
        .chain(copies::recorded_copies(proxy.copies))
        .collect()
}

fn labels(proxy: &Proxy<'_>) -> BTreeMap<String, String> {
    let cluster = proxy
        .cluster
        .filter(|name| name.len() <= MAX_LABEL)
        .map(|name| (label::CLUSTER.to_owned(), name.to_owned()));
    cluster
        .into_iter()
        .chain([(label::MANAGED_BY.to_owned(), MUSTER.to_owned())])
        .collect()
}

/// Sorts rows by name: their order has no meaning and must not make a difference.
fn sorted(spec: &AssemblageSpec) -> AssemblageSpec {
    let mut spec = spec.clone();
    spec.syncs.sort_by(|a, b| a.name.cmp(&b.name));
    spec
}

fn rows(proxy: &Proxy<'_>, live: Option<&Assemblage>) -> Vec<Shared<SyncRow>> {
    let there: BTreeMap<&str, &Shared<SyncRow>> = live
        .iter()
        .flat_map(|live| &live.spec.syncs)
        .map(|row| (row.name.as_str(), row))
        .collect();
    let states = live
        .and_then(|live| live.status.as_ref())
        .map(|status| status.syncs.as_slice())
        .unwrap_or_default();
    let ours: BTreeSet<&str> = ours(proxy).collect();
    let mine =
        proxy
            .rows
            .iter()
            .filter(|row| may_go(proxy, row))
            .map(|row| match there.get(row.name.as_str()) {
                Some(old) => newer(row, old, states),
                None => row.clone(),
            });
    let kept = there.values().filter(|row| {
        proxy.kept.contains(&row.name) || !ours.contains(row.name.as_str()) && stays(proxy, row)
    });
    let mut rows: Vec<Shared<SyncRow>> = mine.chain(kept.map(|row| (*row).clone())).collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn ours<'a>(proxy: &'a Proxy<'_>) -> impl Iterator<Item = &'a str> {
    proxy
        .rows
        .iter()
        .map(|row| row.name.as_str())
        .chain(proxy.kept.iter().map(String::as_str))
}

/// A row without token is withdrawn when it disappears, if status lists it: so it must be listed before it is removed.
fn may_go(proxy: &Proxy<'_>, row: &SyncRow) -> bool {
    row.token.is_some() || listed(proxy, &row.name)
}

/// Whether a row downstream that the proxy does not have stays there.
fn stays(proxy: &Proxy<'_>, row: &SyncRow) -> bool {
    row.token.is_some() || !listed(proxy, &row.name)
}

fn listed(proxy: &Proxy<'_>, name: &str) -> bool {
    proxy
        .states
        .iter()
        .any(|state| state.name == name && !unclaimed(state))
}

/// Which row to keep downstream: the proxy's or the live one.
fn newer(row: &Shared<SyncRow>, old: &Shared<SyncRow>, states: &[Shared<SyncState>]) -> Shared<SyncRow> {
    if old.token > row.token {
        return old.clone();
    }
    // A fence keeps the live row and raises its token.
    let is_fence = match (row.intent(), old.intent()) {
        (Intent::Bare, Intent::Carry { .. }) => true,
        (Intent::Bare, Intent::Withdraw(_)) => !withdrawn(&row.name, old, states),
        _ => false,
    };
    if !is_fence {
        return row.clone();
    }
    let mut fenced = old.clone();
    fenced.token = row.token;
    fenced
}

fn withdrawn(name: &str, row: &SyncRow, states: &[Shared<SyncState>]) -> bool {
    states
        .iter()
        .any(|state| state.name == name && state.token == row.token && state.state == SyncPhase::Withdrawn)
}
