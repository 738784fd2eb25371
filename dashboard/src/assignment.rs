//! A module on a cluster: what is assigned, what the cluster reports, and the reason for its state.

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

use crate::{
    Cell, ConditionView, Kind, ModuleRef, Snapshot, Why, nodes::NodeAssignment, why_on, words::fault,
};

/// A module on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// State of the module on the cluster.
    pub cell: Cell,
    /// The explanation, as `muster why --cluster` prints it.
    pub why: Why,
    /// The kind of the assemblage: ProxyAssemblage, RemoteAssemblage or NodeAssemblage.
    pub assemblage: &'static str,
    /// What is assigned; `None` if nothing is.
    pub row: Option<RowView>,
    /// What the cluster reports; `None` if it has not reported. Its name in JSON is older than the term.
    #[serde(rename = "echo")]
    pub report: Option<ReportView>,
    /// The unhealthy object, if the cluster's report names one.
    pub failing: Option<ObjectName>,
    /// The conditions of the assemblage.
    pub conditions: Vec<ConditionView>,
}

/// An object in a cluster, and what the report says about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Namespace; `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// The rest of the report, such as `status: 'Failed': …`.
    pub says: String,
}

/// What is assigned to a cluster or node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowView {
    /// Intent: `carry`, `nothing`, or `withdraw` with what happens to the objects or files.
    pub intent: String,
    /// URL of the Git repository.
    pub url: Option<String>,
    /// Requested tag or commit.
    pub version: Option<String>,
    /// Directory in the repository.
    pub path: Option<String>,
    /// Commit that the version resolves to.
    pub commit: Option<String>,
    /// Revision hash.
    pub revision: Option<String>,
    /// Hash of the content that this cluster gets.
    pub digest: Option<String>,
    /// Number that grows with each assignment.
    pub token: Option<u64>,
    /// Names of the variables resolved for this assignment, without their values.
    pub variables: Vec<String>,
}

/// What the cluster reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportView {
    /// State: succeeded, failed, updating, withdrawing, withdrawn.
    pub state: &'static str,
    /// Whether the report is about the current assignment and not about an earlier one.
    pub is_current: bool,
    /// Failure class: what caused the failure.
    pub class: Option<&'static str>,
    /// Whether the failure is terminal: waiting does not fix it.
    pub terminal: bool,
    /// Reason, one CamelCase word.
    pub reason: Option<String>,
    /// Message, which begins with the failing object.
    pub message: Option<String>,
    /// Progress of the plan run.
    pub plan: Option<String>,
    /// Last commit that was applied and became ready.
    pub commit: Option<String>,
    /// Digest of the content on a node after the last confirmed change.
    pub carries: Option<String>,
    /// Files on the node that something else changed.
    pub drift: Vec<String>,
}

impl Assignment {
    /// Builds the view for a module on a cluster, or a NodeModule on a node; `None` if either does not exist.
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
        let (row, report, conditions) = parts.unwrap_or_default();
        Some(Self {
            cell: cell.clone(),
            why: why_on(objects, fleet, module, cluster)?,
            assemblage,
            failing: report.as_ref().and_then(failing),
            row,
            report,
            conditions,
        })
    }
}

/// The object at the start of a report: `Deployment/web/podinfo status: 'Failed': …`, or `Namespace/web …`.
fn failing(report: &ReportView) -> Option<ObjectName> {
    let message = report.message.as_deref().filter(|_| report.is_current)?;
    let (object, rest) = message.split_once(' ')?;
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
        says: rest.to_owned(),
    })
}

type Parts = (Option<RowView>, Option<ReportView>, Vec<ConditionView>);

fn parts((spec, status): (&TargetedAssemblageSpec, Option<&AssemblageStatus>), module: &str) -> Parts {
    let row = spec.syncs.iter().find(|row| row.name == module);
    let state = status.and_then(|status| status.syncs.iter().find(|state| state.name == module));
    let conditions = status.map_or_else(Vec::new, |status| ConditionView::all(&status.conditions));
    let report = row.zip(state).map(|(row, state)| report(row, state));
    (row.map(|row| view(row)), report, conditions)
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

fn report(row: &SyncRow, state: &SyncState) -> ReportView {
    ReportView {
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
    let Some(placed) = NodeAssignment::of(assemblage, module) else {
        return (None, None, conditions);
    };
    let node_report = placed
        .state
        .map(|state| reported(state, placed.report().is_some()));
    (Some(given(placed.row)), node_report, conditions)
}

fn given(row: &NodeRow) -> RowView {
    let intent = match (row.withdraw, &row.revision) {
        (Some(NodeOnDelete::Orphan), _) => "withdraw (files stay)",
        (Some(NodeOnDelete::Restore), _) => "withdraw (the node's previous files are restored)",
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

/// Converts an agent's report about a NodeModule.
pub(crate) fn reported(state: &NodeRowState, is_current: bool) -> ReportView {
    ReportView {
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
