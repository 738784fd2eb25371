//! A node of this cluster: its NodeModules, its agent, and the agent's reports.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::ResourceExt;
use muster_api::{
    conditions::NODE_CONFIGURED,
    node::{NodeBudget, assemblage::NodeAgent},
    reasons::{ObjectReason, Reason},
};
use serde::Serialize;

use crate::{
    Carried, Fleet, Kind, NodeObjects, ReportView, Shape, Snapshot, Tree,
    assignment::reported,
    cluster::{cluster_modules, controls},
    group::natural,
    nodes::{NodeAssignment, condition, renewed},
};

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Name of the Node.
    pub name: String,
    /// Labels of the Node.
    pub labels: BTreeMap<String, String>,
    /// The node and the NodeModules on it.
    pub tree: Tree,
    /// Whether the Node is Ready, and since when.
    pub ready: String,
    /// The condition on the Node that summarizes its NodeModules: status, reason and message.
    pub configured: Option<String>,
    /// Its agent.
    pub agent: AgentView,
    /// Holds and pins set by annotation: which one, and by whom, why, until when.
    pub controls: Vec<(String, String)>,
    /// The NodeModules that select the node or are on it, most urgent first.
    pub modules: Vec<Carried>,
    /// NodeModules that are not assigned because another one writes the same path, with their messages.
    pub conflicts: Vec<(String, String)>,
    /// Last report of the agent about each NodeModule.
    pub reports: Vec<(String, ReportView)>,
}

/// The agent of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// Whether the agent is alive, according to the statuses of NodeModules; `None` if no status tells.
    pub lives: Option<bool>,
    /// Version that the agent reports.
    pub version: Option<String>,
    /// When its Lease was renewed, if the Lease was read.
    pub renewed: Option<Timestamp>,
    /// Until when, and why, the agent is held on the node.
    pub held: Option<(Timestamp, String)>,
}

/// How many nodes of this cluster may change or be not ready at once, across all NodeModules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetView {
    /// Limit for control plane nodes.
    pub control_plane: String,
    /// Limit for all other nodes; `None` if unlimited.
    pub workers: Option<String>,
    /// The nodes that are being changed, each with its NodeModule; `None` for a NodeModule that was deleted.
    pub claims: Vec<(String, Option<String>)>,
}

impl BudgetView {
    /// Builds the view of a cluster's NodeBudget.
    pub fn of(budget: &NodeBudget, objects: &NodeObjects) -> Self {
        let module = |uid: &str| {
            let mut modules = objects.modules.iter();
            modules
                .find(|module| module.metadata.uid.as_deref() == Some(uid))
                .map(|module| module.name_any())
        };
        let claims = budget.status.iter().flat_map(|status| &status.claims);
        let mut claims: Vec<(String, Option<String>)> = claims
            .map(|claim| (claim.node.clone(), module(&claim.module)))
            .collect();
        claims.sort_by(|(a, _), (b, _)| natural(a).cmp(&natural(b)));
        Self {
            control_plane: budget.spec.control_plane.to_string(),
            workers: budget.spec.workers.as_ref().map(ToString::to_string),
            claims,
        }
    }
}

impl NodeView {
    /// Builds the view of a node; `None` if there is no such Node.
    pub fn of(snapshot: &Snapshot, name: &str) -> Option<Self> {
        let (fleet, objects) = (snapshot.fleet_of(Kind::NodeModule), &snapshot.objects.nodes);
        let node = objects.node(name)?;
        let modules = cluster_modules(fleet, name);
        let status = objects.assemblage(name).and_then(|found| found.status.as_ref());
        let agent = status.and_then(|status| status.agent.as_ref());
        Some(Self {
            name: name.to_owned(),
            labels: node.labels().clone(),
            tree: Tree::cluster(fleet, name)?,
            ready: objects.ready(name),
            configured: configured(node),
            agent: AgentView {
                lives: lives(&modules),
                version: agent.map(|agent| agent.version.clone()),
                renewed: objects.lease(name).and_then(renewed),
                held: agent.and_then(held),
            },
            controls: controls(node.annotations()),
            conflicts: conflicts(fleet, &modules),
            reports: reports(snapshot, name),
            modules,
        })
    }
}

fn configured(node: &Node) -> Option<String> {
    let NodeCondition {
        status,
        reason,
        message,
        ..
    } = condition(node, NODE_CONFIGURED)?;
    let parts = [Some(status), reason.as_ref(), message.as_ref()];
    let parts = parts.into_iter().flatten().filter(|word| !word.is_empty());
    Some(parts.map(String::as_str).collect::<Vec<_>>().join(": "))
}

fn held(agent: &NodeAgent) -> Option<(Timestamp, String)> {
    let held = agent.held.as_ref()?;
    Some((held.until.0, held.reason.clone()))
}

/// Reasons are ordered: a node whose reason comes after `AgentMissing` has a live agent.
fn lives(modules: &[Carried]) -> Option<bool> {
    let selected = modules
        .iter()
        .filter(|carried| carried.cell.shape != Shape::NotSelected);
    let reasons = selected.filter_map(|carried| carried.cell.reason.parse::<Reason>().ok());
    let ranks = reasons
        .map(Reason::rank)
        .filter(|rank| *rank >= Reason::AgentMissing.rank());
    ranks.min().map(|rank| rank > Reason::AgentMissing.rank())
}

fn conflicts(fleet: &Fleet, modules: &[Carried]) -> Vec<(String, String)> {
    let is_there = |name: &str| modules.iter().any(|carried| carried.module == name);
    let in_conflict = fleet
        .modules
        .iter()
        .filter(|module| module.reason == ObjectReason::PathConflict.as_str() && is_there(&module.name));
    in_conflict
        .map(|module| (module.name.clone(), module.message.clone()))
        .collect()
}

fn reports(snapshot: &Snapshot, name: &str) -> Vec<(String, ReportView)> {
    let Some(assemblage) = snapshot.objects.nodes.assemblage(name) else {
        return Vec::new();
    };
    let states = assemblage.status.iter().flat_map(|status| &status.rows);
    let of = |module: &str| NodeAssignment::of(assemblage, module);
    let reports = states.map(|state| {
        let is_current = of(&state.name).is_some_and(|placed| placed.report().is_some());
        (state.name.clone(), reported(state, is_current))
    });
    reports.collect()
}
