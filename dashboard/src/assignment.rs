//! A module on a cluster: what was assigned, what the cluster says of it, and why it stands as it does.

use muster_api::{
    assemblage::{AssemblageStatus, Intent, SyncPhase, SyncRow, SyncState, TargetedAssemblageSpec},
    node::{
        NodeAssemblage,
        assemblage::{NodePhase, NodeRow, NodeRowState},
        module::NodeOnDelete,
    },
    sync::Source,
};
use serde::Serialize;

use crate::{Cell, ConditionView, Kind, ModuleRef, Snapshot, Why, nodes::Placed, why_on, words::fault};

/// A module on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// How it stands.
    pub cell: Cell,
    /// Why, as `muster why --cluster` tells it.
    pub why: Why,
    /// The kind of the assemblage: ProxyAssemblage, RemoteAssemblage or NodeAssemblage.
    pub assemblage: &'static str,
    /// What was assigned; none if nothing was.
    pub row: Option<RowView>,
    /// What the cluster says of it.
    pub echo: Option<EchoView>,
    /// The object that is not well, where the cluster names one.
    pub failing: Option<ObjectName>,
    /// The conditions of the assemblage.
    pub conditions: Vec<ConditionView>,
}

/// An object in a cluster, and what is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What is told.
    pub says: String,
}

/// What was assigned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowView {
    /// What is asked for: `carry`, `nothing`, or `withdraw` with what becomes of objects or files.
    pub intent: String,
    /// The repository.
    pub url: Option<String>,
    /// The tag or commit that is asked for.
    pub version: Option<String>,
    /// The folder in it.
    pub path: Option<String>,
    /// The commit that the version stands for.
    pub commit: Option<String>,
    /// The revision.
    pub revision: Option<String>,
    /// The hash of what this cluster gets.
    pub digest: Option<String>,
    /// Grows with each assignment.
    pub token: Option<u64>,
    /// The names of the variables that were resolved for it. Their values are left out.
    pub variables: Vec<String>,
}

/// What the cluster says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EchoView {
    /// Where it stands: succeeded, failed, updating, withdrawing, withdrawn.
    pub state: &'static str,
    /// It is about what is assigned now, and not about something before.
    pub is_current: bool,
    /// Whose fault a failure is.
    pub class: Option<&'static str>,
    /// Waiting does not mend it.
    pub terminal: bool,
    /// The one word.
    pub reason: Option<String>,
    /// For people: the failing object first.
    pub message: Option<String>,
    /// Where the run of its plan stands.
    pub plan: Option<String>,
    /// The commit that was last applied and became ready.
    pub commit: Option<String>,
    /// The digest of what a node carries: of the last change that was confirmed there.
    pub carries: Option<String>,
    /// Files of a node that something else changed.
    pub drift: Vec<String>,
}

impl Assignment {
    /// Of a module on a cluster, or a NodeModule on a node; none if one of them is not there.
    pub fn of(snapshot: &Snapshot, module: &ModuleRef, cluster: &str) -> Option<Self> {
        let fleet = snapshot.fleet_of(module.kind);
        let view = fleet.module(module.kind, &module.name)?;
        let cell = view.cells.iter().find(|cell| cell.cluster == cluster)?;
        let objects = &snapshot.objects;
        let assemblage = match module.kind {
            Kind::Module => "ProxyAssemblage",
            Kind::BootstrapModule => "RemoteAssemblage",
            Kind::ClusterUpgrade => "Cluster",
            Kind::NodeModule => "NodeAssemblage",
        };
        let name = &module.name;
        let parts = match module.kind {
            Kind::NodeModule => objects
                .nodes
                .assemblage(cluster)
                .map(|found| of_node(found, name)),
            kind => objects.assemblage(kind, cluster).map(|found| parts(found, name)),
        };
        let (row, echo, conditions) = parts.unwrap_or_default();
        Some(Self {
            cell: cell.clone(),
            why: why_on(objects, fleet, module, cluster)?,
            assemblage,
            failing: echo.as_ref().and_then(failing),
            row,
            echo,
            conditions,
        })
    }
}

/// The object with which a report begins: `Deployment/web/podinfo status: 'Failed': …`, or `Namespace/web …`.
fn failing(echo: &EchoView) -> Option<ObjectName> {
    let said = echo.message.as_deref().filter(|_| echo.is_current)?;
    let (object, says) = said.split_once(' ')?;
    let mut parts = object.split('/');
    let (kind, second, third) = (parts.next()?, parts.next()?, parts.next());
    let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.chars().all(|char| char.is_ascii_alphanumeric());
    let (namespace, name) = match third {
        Some(name) => (Some(second), name),
        None => (None, second),
    };
    (is_kind && !name.is_empty() && parts.next().is_none()).then(|| ObjectName {
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        says: says.to_owned(),
    })
}

type Parts = (Option<RowView>, Option<EchoView>, Vec<ConditionView>);

fn parts((spec, status): (&TargetedAssemblageSpec, Option<&AssemblageStatus>), module: &str) -> Parts {
    let row = spec.syncs.iter().find(|row| row.name == module);
    let state = status.and_then(|status| status.syncs.iter().find(|state| state.name == module));
    let conditions = status.map_or_else(Vec::new, |status| ConditionView::all(&status.conditions));
    let echo = row.zip(state).map(|(row, state)| echo(row, state));
    (row.map(|row| view(row)), echo, conditions)
}

fn view(row: &SyncRow) -> RowView {
    let source = row.source.as_ref();
    RowView {
        intent: match row.intent() {
            Intent::Carry { .. } => "carry".to_owned(),
            Intent::Withdraw(how) => format!("withdraw ({})", how.as_str()),
            Intent::Bare => "nothing".to_owned(),
        },
        url: source.map(|source| source.url().to_owned()),
        version: source
            .map(Source::version)
            .and_then(|version| version.tag.or(version.commit)),
        path: row.package.as_ref().map(|package| package.path.clone()),
        commit: row.commit.clone(),
        revision: row.revision.clone(),
        digest: row.digest.clone(),
        token: row.token,
        variables: row.values.keys().cloned().collect(),
    }
}

fn echo(row: &SyncRow, state: &SyncState) -> EchoView {
    EchoView {
        state: match state.state {
            SyncPhase::Succeeded => "succeeded",
            SyncPhase::Failed => "failed",
            SyncPhase::Updating => "updating",
            SyncPhase::Withdrawing => "withdrawing",
            SyncPhase::Withdrawn => "withdrawn",
        },
        is_current: state.token == row.token && state.digest == row.digest,
        class: state.class.map(|class| fault(class, "this cluster's")),
        terminal: state.terminal,
        reason: state.reason.clone(),
        message: state.message.clone(),
        plan: state.plan.clone(),
        commit: state.commit.clone(),
        carries: None,
        drift: Vec::new(),
    }
}

fn of_node(assemblage: &NodeAssemblage, module: &str) -> Parts {
    let status = assemblage.status.as_ref();
    let conditions = status.map_or_else(Vec::new, |status| ConditionView::all(&status.conditions));
    let Some(placed) = Placed::of(assemblage, module) else {
        return (None, None, conditions);
    };
    let said = placed
        .state
        .map(|state| reported(state, placed.report().is_some()));
    (Some(given(placed.row)), said, conditions)
}

fn given(row: &NodeRow) -> RowView {
    let intent = match (row.withdraw, &row.revision) {
        (Some(NodeOnDelete::Orphan), _) => "withdraw (files stay)",
        (Some(NodeOnDelete::Restore), _) => "withdraw (the node gets back what it had)",
        (None, Some(_)) => "carry",
        (None, None) => "nothing",
    };
    RowView {
        intent: intent.to_owned(),
        url: None,
        version: None,
        path: None,
        commit: None,
        revision: row.revision.clone(),
        digest: row.digest.clone(),
        token: Some(row.token),
        variables: row.values.keys().cloned().collect(),
    }
}

/// What an agent of a node reports of a row.
pub(crate) fn reported(state: &NodeRowState, is_current: bool) -> EchoView {
    EchoView {
        state: match state.state {
            NodePhase::Confirmed => "confirmed",
            NodePhase::Failed => "failed",
            NodePhase::Updating => "updating",
            NodePhase::Withdrawing => "withdrawing",
            NodePhase::Withdrawn => "withdrawn",
        },
        is_current,
        class: state.class.map(|class| fault(class, "this node's")),
        terminal: state.terminal,
        reason: state.reason.clone(),
        message: state.message.clone(),
        plan: None,
        commit: None,
        carries: state.confirmed.clone(),
        drift: state.drift.clone(),
    }
}
