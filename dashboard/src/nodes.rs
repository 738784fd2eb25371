//! The nodes of a cluster as a fleet: NodeModules take the place of modules, and nodes that of clusters.

use std::{borrow::Cow, collections::BTreeMap};

use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition},
};
use kube::ResourceExt;
use muster_api::{
    conditions::READY,
    module::{Attention, ModuleStatus, ReasonGroup, Summary},
    node::{
        NodeAssemblage, NodeModule,
        assemblage::{NodePhase, NodeRow, NodeRowState},
        module::{NodeAttention, NodeModuleStatus, NodeReasonGroup, NodeSummary},
    },
    reasons::Reason,
};

use crate::{
    Cell, Fleet, Kind, Member, ModuleView, NodeObjects, Shape,
    group::natural,
    rolling::{Carries, Ground, Rolling},
    words,
};

/// Digits of a hash in the short name of a revision.
const DIGITS: usize = 8;

impl Fleet {
    /// Builds the view of the nodes of a cluster.
    pub fn of_nodes(objects: &NodeObjects) -> Self {
        let mut members: Vec<Member> = objects
            .nodes
            .iter()
            .map(|node| Member {
                name: node.name_any(),
                labels: node.labels().clone(),
            })
            .collect();
        members.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        let by_node: BTreeMap<String, &NodeAssemblage> = objects
            .assemblages
            .iter()
            .map(|assemblage| (assemblage.name_any(), &**assemblage))
            .collect();
        let mut modules: Vec<ModuleView> = objects
            .modules
            .iter()
            .map(|module| view(module, &members, &by_node))
            .collect();
        modules.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        Self {
            kind: Kind::NodeModule,
            clusters: members,
            modules,
        }
    }
}

fn view(module: &NodeModule, members: &[Member], by_node: &BTreeMap<String, &NodeAssemblage>) -> ModuleView {
    let name = module.name_any();
    let rows = members.iter().map(|member| {
        let assemblage = by_node.get(&member.name)?;
        NodeAssignment::of(assemblage, &name)
    });
    Rolling::of_nodes(module).view(members, rows.collect())
}

/// Short name of a revision.
pub(crate) fn short_revision(revision: &str) -> &str {
    revision.get(..DIGITS).unwrap_or(revision)
}

impl<'a> Rolling<'a> {
    /// A NodeModule, with nodes in place of clusters.
    pub fn of_nodes(module: &'a NodeModule) -> Self {
        let status = module.status.clone().map(in_words_of_modules).unwrap_or_default();
        let version = status.revision.as_deref().map_or("?", short_revision);
        Self {
            kind: Kind::NodeModule,
            meta: &module.metadata,
            version: version.to_owned(),
            selector: module.spec.selector.as_ref(),
            rollout: Cow::Owned((&module.spec.rollout).into()),
            spec: None,
            status: Cow::Owned(status),
        }
    }
}

/// The assignment of a NodeModule to a node, and the agent's report about it.
#[derive(Clone, Copy)]
pub(crate) struct NodeAssignment<'a> {
    pub row: &'a NodeRow,
    pub state: Option<&'a NodeRowState>,
}

impl<'a> NodeAssignment<'a> {
    pub(crate) fn of(assemblage: &'a NodeAssemblage, module: &str) -> Option<Self> {
        let row = assemblage.spec.rows.iter().find(|row| row.name == module)?;
        let states = assemblage.status.iter().flat_map(|status| &status.rows);
        let state = states.into_iter().find(|state| state.name == module);
        Some(Self { row, state })
    }

    /// The report, if it is about the current assignment.
    pub(crate) fn report(&self) -> Option<&'a NodeRowState> {
        let row = self.row;
        self.state
            .filter(|state| state.token == row.token && state.digest == row.digest)
    }

    /// State of the node after a failed change.
    fn after(&self) -> String {
        let Some(report) = self.report().filter(|report| report.state == NodePhase::Failed) else {
            return String::new();
        };
        let reason = report.reason.as_deref().unwrap_or("Failed");
        let carries = report.confirmed.as_deref();
        let carries = carries.map_or_else(
            || "it has the state from before this NodeModule".to_owned(),
            |digest| {
                format!(
                    "it has the last confirmed content ({})",
                    short_revision(digest.trim_start_matches("sha256:"))
                )
            },
        );
        if reason == "RestoreFailed" {
            format!(" ({reason}: the previous state could not be restored)")
        } else if report.terminal {
            format!(" ({reason}: {carries})")
        } else {
            format!(" ({reason})")
        }
    }
}

impl Carries for NodeAssignment<'_> {
    fn version(&self) -> Option<String> {
        Some(short_revision(self.row.revision.as_deref()?).to_owned())
    }

    fn is_concerned(&self) -> bool {
        self.row.revision.is_some()
    }

    fn revision(&self) -> Option<&str> {
        self.row.revision.as_deref()
    }

    fn succeeded(&self) -> Option<bool> {
        Some(self.report()?.state == NodePhase::Confirmed)
    }

    fn note(&self) -> Option<String> {
        let drift = &self.report()?.drift;
        (!drift.is_empty()).then(|| format!("something else changed {}", drift.join(", ")))
    }
}

/// A status with nodes in place of clusters.
fn in_words_of_modules(status: NodeModuleStatus) -> ModuleStatus {
    let group = |group: NodeReasonGroup| ReasonGroup {
        reason: group.reason,
        count: group.count,
        clusters: group.nodes,
        truncated: group.truncated,
        message: group.message,
    };
    let attention = |entry: NodeAttention| Attention {
        cluster: entry.node,
        reason: entry.reason,
        since: entry.since,
        message: entry.message,
    };
    let summary = |summary: NodeSummary| Summary {
        total: summary.total,
        updated: summary.updated,
        ready: summary.ready,
        updating: summary.updating,
        waiting: summary.waiting,
        failed: summary.failed,
        skipped: summary.skipped,
        held: summary.held,
        withdrawing: summary.withdrawing,
        clusters: summary.nodes,
    };
    ModuleStatus {
        observed_generation: status.observed_generation,
        conditions: status.conditions,
        state: status.state,
        revision: status.revision,
        summary: status.summary.map(summary),
        reasons: status.reasons.into_iter().map(group).collect(),
        attention: status.attention.into_iter().map(attention).collect(),
        controls: status.controls.into_iter().map(Into::into).collect(),
        rollout: status.rollout,
        ..ModuleStatus::default()
    }
}

impl NodeObjects {
    /// What is known of a node in addition to the status of a NodeModule.
    pub(crate) fn ground(&self, module: &str, node: &str) -> Ground<NodeAssignment<'_>> {
        let row = self
            .assemblage(node)
            .and_then(|found| NodeAssignment::of(found, module));
        Ground {
            after: row.as_ref().map_or_else(String::new, NodeAssignment::after),
            row,
            unit: self.ready(node),
            agent: Some(self.agent(node)),
        }
    }

    /// Whether the Node is Ready, and since when.
    pub(crate) fn ready(&self, node: &str) -> String {
        let Some(node) = self.node(node) else {
            return "there is no such Node".to_owned();
        };
        condition(node, READY).map_or_else(|| "the Node has no Ready condition".to_owned(), condition_text)
    }

    /// The version of the agent, and when its Lease was renewed.
    fn agent(&self, node: &str) -> String {
        let assemblage = self.assemblage(node);
        let agent = assemblage.and_then(|assemblage| assemblage.status.as_ref()?.agent.as_ref());
        let version = agent.map_or_else(
            || "it has not reported yet".to_owned(),
            |agent| format!("version {}", agent.version),
        );
        match self.lease(node).map(renewed) {
            None => format!("{version}, no Lease"),
            Some(None) => format!("{version}, its Lease has no renew time"),
            Some(Some(at)) => format!("{version}, its Lease was renewed at {at}"),
        }
    }

    /// The Lease of the agent of a node.
    pub(crate) fn lease(&self, node: &str) -> Option<&Lease> {
        let mut leases = self.leases.iter();
        leases
            .find(|lease| lease.name_any() == node)
            .map(|lease| &**lease)
    }
}

/// When a Lease was renewed, in whole seconds.
pub(crate) fn renewed(lease: &Lease) -> Option<Timestamp> {
    let at = lease.spec.as_ref()?.renew_time.as_ref()?.0;
    Some(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// A condition of a Node.
pub(crate) fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    let mut conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == type_)
}

fn condition_text(condition: &NodeCondition) -> String {
    let is = if condition.status == "True" {
        "Ready"
    } else {
        "not Ready"
    };
    let since = condition
        .last_transition_time
        .as_ref()
        .map_or_else(String::new, |at| format!(" since {}", at.0));
    let why = condition
        .message
        .as_deref()
        .filter(|_| condition.status != "True");
    let why = why.map_or_else(String::new, |why| format!(" ({})", words::one_line(why)));
    format!("{is}{since}{why}")
}

/// What to do about a node, and the command, where it differs from a cluster.
pub(crate) fn next_node_action(module: &ModuleView, cell: &Cell) -> Option<(String, Option<String>)> {
    if module.kind != Kind::NodeModule {
        return None;
    }
    let (address, node) = (module.address(), words::shell_word(&cell.cluster));
    let with = |what: &str, command: String| Some((what.to_owned(), Some(command)));
    let reason: Option<Reason> = cell.reason.parse().ok(); // a reason of a newer controller: no advice
    match (cell.shape, reason) {
        (_, Some(Reason::LostInChange)) => with(
            "no other node is changed until it is back; if it is gone permanently",
            format!("muster rollout release {address} --node {node}"),
        ),
        (_, Some(Reason::AgentMissing | Reason::AgentTooOld)) => with(
            "it is skipped until its agent is back; to see the pod that installs it",
            format!("kubectl get pods -n muster-nodes -o wide --field-selector spec.nodeName={node}"),
        ),
        (_, Some(Reason::NodeNotReady | Reason::NodeUnsupported | Reason::Deleting)) => with(
            "it is skipped until it is Ready again",
            format!("kubectl describe node {node}"),
        ),
        (_, Some(Reason::HeldLocally)) => with(
            "to release it, on the node",
            "muster node-agent release".to_owned(),
        ),
        (_, Some(Reason::BudgetFull)) => with(
            "nothing to do: it continues when other nodes are done; to see which",
            "kubectl get nodebudget nodes -o yaml".to_owned(),
        ),
        (_, Some(Reason::BusyWith)) => {
            let other = cell.message.split_once("NodeModule ").map(|(_, rest)| rest);
            let other = other
                .and_then(|rest| rest.split([',', ' ']).next())
                .unwrap_or("NAME");
            with(
                "nothing to do: it continues when that change is done; to see its progress",
                format!("muster why nodemodule/{} --node {node}", words::shell_word(other)),
            )
        }
        (_, Some(Reason::BindingFailed)) => with(
            "correct the binding, or the labels of the Node",
            format!("kubectl get node {node} --show-labels"),
        ),
        (Shape::Held, Some(Reason::Pinned)) => with(
            "to give it the same version as all others",
            format!("muster unpin --node {node} --module {address}"),
        ),
        // The hold applies either to the Node, for all NodeModules, or only to this NodeModule.
        (Shape::Held, _) if cell.message.starts_with("held for this NodeModule") => {
            with("to release it", format!("muster release {address} --node {node}"))
        }
        (Shape::Held, _) => with("to release it", format!("muster release --node {node}")),
        (Shape::Failed, _) | (_, Some(Reason::Halted | Reason::KnownBad)) => with(
            "apply a fixed NodeModule and the rollout continues; or, if the revision was not the cause, retry it",
            format!("muster rollout retry {address}"),
        ),
        (_, Some(Reason::Aborted)) => with(
            "apply another revision; or retry this one",
            format!("muster rollout retry {address}"),
        ),
        (Shape::Unreachable, _) => with(
            "it is skipped until it is ready again",
            format!("kubectl describe node {node}"),
        ),
        (Shape::Unknown, _) => with(
            "check that the controller is running",
            "kubectl get pods -n muster-system".to_owned(),
        ),
        _ => None,
    }
}
