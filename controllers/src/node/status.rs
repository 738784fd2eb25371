//! A NodeModule's status: the observation and the decision, for people, for tools, and as the engine's memory. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use muster_api::{
    conditions::{self, Conditions, Status, bounded},
    control::Control,
    evidence::Progress,
    labels::annotation,
    module::Attention,
    node::{
        NodeModule,
        module::{NodeAttention, NodeControlStatus, NodeModuleStatus, NodeReasonGroup, NodeSummary},
    },
    reasons::{ObjectReason, Reason},
    rollout::FailureAction,
    schema::MAX_MESSAGE,
};
use muster_rollout as engine;

use super::{
    events::{self, Decided, NodeEvents},
    observation::Observation,
};
use crate::module::{
    command::{ModuleAddress, command},
    control_effects::{self, UnitEffects},
    gates::{Answers, Gates},
    groups::groups,
    memory,
    pins::{self, PinnedUnit},
    reasons::{self, Background, Explained, Pause, Vocabulary},
    status as shared,
};

/// The message of a node that waits for the NodeBudget.
const BUDGET_FULL: &str =
    "as many nodes as the NodeBudget allows are changing or not ready (kubectl get nodebudget nodes -o yaml)";

/// The status while nothing can be decided: suspended, or an invalid spec. Everything else stays as before.
pub fn idle_status(module: &NodeModule, observed: &Observation, now: Timestamp) -> NodeModuleStatus {
    let new_conditions = match &observed.invalid {
        Some(invalid) => Conditions::ready(Status::False, invalid.reason, &*invalid.message)
            .stalled(invalid.reason, &*invalid.message),
        None => Conditions::ready(
            Status::False,
            ObjectReason::Suspended,
            "spec.suspend is true: nothing is assigned or withdrawn, nodes keep what they have",
        ),
    };
    let before = module.status.clone().unwrap_or_default();
    let conditions = merged(module, &new_conditions, &before.conditions, now);
    NodeModuleStatus {
        observed_generation: module.metadata.generation,
        state: shared::state_word(&conditions, &[]),
        conditions,
        ..before
    }
}

/// The status of a NodeModule that is rolling out or at rest, and its events.
pub fn rolling_status(
    module: &NodeModule,
    observed: &Observation,
    decision: &engine::Decision,
    now: Timestamp,
) -> Result<(NodeModuleStatus, NodeEvents), serde_json::Error> {
    let before = module.status.clone().unwrap_or_default();
    let obstacles = obstacles(module, observed);
    let answers = Answers::new();
    let background = background(module, observed, decision, &obstacles, &answers, now);
    let reasons = decision.reasons.iter();
    let explained: Vec<Explained<'_>> = reasons
        .map(|(unit, why)| reasons::explain_reason(unit, why, &background))
        .collect();
    let summary = shared::summary(&observed.units, decision, &explained);
    let attention_before: Vec<Attention> = before.attention.iter().cloned().map(of_cluster).collect();
    let attention = shared::attention(&explained, &attention_before, now);
    let version = &background.version;
    let phase = decision.summary.phase;
    let mut all = shared::ready_conditions(&Vocabulary::NODES, version, phase, &explained, None, &summary);
    if observed.deleting {
        all = leaving(&explained);
    }
    if let Some(halt) = shared::halt(decision, &explained) {
        all = all.with(conditions::HALTED, Status::True, halt.reason, halt.message());
    }
    if selects_all(module) {
        let message = format!(
            "the empty selector selects every node of the cluster; if this is intended, annotate the NodeModule with {}=true",
            annotation::SELECT_ALL
        );
        all = all.with(
            conditions::SELECTS_ALL,
            Status::True,
            ObjectReason::SelectsAll,
            message,
        );
    }
    if let Some(pause) = &background.pause {
        let message = format!("the rollout is paused{pause}; no new updates start, those in progress finish");
        all = all.with(conditions::PAUSED, Status::True, Reason::Paused, message);
    }
    let conditions = merged(module, &all, &before.conditions, now);
    let target = observed.target.as_ref();
    let status = NodeModuleStatus {
        observed_generation: module.metadata.generation,
        state: shared::state_word(&conditions, &explained),
        conditions,
        progress: Some(Progress {
            done: summary.updated,
            total: summary.total,
            waiting: waiting(phase, &explained),
        }),
        revision: target.map(|target| target.revision.clone()).or(before.revision),
        reasons: groups(&explained).into_iter().map(of_nodes).collect(),
        attention: attention.into_iter().map(of_node).collect(),
        controls: controls(observed, now),
        rollout: Some(memory::store(&decision.memory, module.metadata.uid.as_deref())?),
        summary: Some(NodeSummary {
            total: summary.total,
            updated: summary.updated,
            ready: summary.ready,
            updating: summary.updating,
            waiting: summary.waiting,
            failed: summary.failed,
            skipped: summary.skipped,
            held: summary.held,
            withdrawing: summary.withdrawing,
            nodes: summary.clusters.clone(),
        }),
    };
    let decided = Decided {
        module,
        observed,
        decision,
        explained: &explained,
        background: &background,
        summary: &summary,
        attention: &attention_before,
    };
    let events = events::decision_events(&decided, &status, now);
    Ok((status, events))
}

/// What it waits for besides the work of its nodes: meanwhile the deadline of a cluster that gets it does not run.
fn waiting(phase: engine::Phase, explained: &[Explained<'_>]) -> Option<String> {
    if phase == engine::Phase::Paused {
        return Some("the end of a pause".to_owned());
    }
    let moves = |explanation: &Explained<'_>| {
        matches!(
            explanation.reason,
            Reason::Updating | Reason::Reverting | Reason::Withdrawing
        )
    };
    if explained.iter().any(moves) {
        return None;
    }
    let of = |reason: Reason| explained.iter().any(|explanation| explanation.reason == reason);
    if of(Reason::WaitingApproval) {
        Some("an approval".to_owned())
    } else if of(Reason::LostInChange) {
        Some("a node that vanished during its change".to_owned())
    } else if of(Reason::Soaking) || of(Reason::WaitingStage) {
        Some("a soak".to_owned())
    } else {
        None
    }
}

fn obstacles(module: &NodeModule, observed: &Observation) -> BTreeMap<String, String> {
    let name = module.metadata.name.as_deref().unwrap_or_default();
    let full = Reason::BudgetFull.code();
    let is_full =
        |unit: &&engine::Unit| matches!(&unit.eligible, engine::Eligible::NotYet(why) if why.code == full);
    let mut all: BTreeMap<String, String> = observed
        .units
        .iter()
        .filter(is_full)
        .map(|unit| (unit.id.to_string(), BUDGET_FULL.to_owned()))
        .collect();
    for node in &observed.nodes {
        let other = node
            .assemblage
            .as_ref()
            .and_then(|assemblage| assemblage.busy_with(name));
        if let Some(other) = other {
            all.insert(
                node.name.clone(),
                format!("waiting for NodeModule {other}, which is changing the node"),
            );
        }
    }
    all.extend(
        observed
            .obstacles
            .iter()
            .map(|(node, message)| (node.clone(), message.clone())),
    );
    all
}

fn background<'a>(
    module: &'a NodeModule,
    observed: &'a Observation,
    decision: &engine::Decision,
    obstacles: &'a BTreeMap<String, String>,
    answers: &'a Answers,
    now: Timestamp,
) -> Background<'a> {
    let revision = observed
        .target
        .as_ref()
        .map_or("", |target| target.revision.as_str());
    let short = revision.get(..8).unwrap_or(revision);
    Background {
        words: &Vocabulary::NODES,
        namespace: String::new(),
        module: address(module),
        pause: pause(module, observed, now),
        obstacles,
        progress: BTreeMap::new(),
        pins: pinned(module, observed, decision),
        source: None,
        version: format!("revision {short}"),
        revision,
        aborted: observed.controls.aborted(revision),
        stuck: module.spec.rollout.on_failure.action == FailureAction::Revert
            && decision.memory.last_good.is_none(),
        gates: Gates { stages: &[], answers },
    }
}

/// The pin of each pinned node.
fn pinned(
    module: &NodeModule,
    observed: &Observation,
    decision: &engine::Decision,
) -> BTreeMap<String, String> {
    let name = module.metadata.name.as_deref().unwrap_or_default();
    let placed = observed.pinned.iter().map(|(node, pinned)| {
        let row = observed
            .node(node)
            .and_then(|observed_node| observed_node.row(name));
        let carried = row.and_then(|row| row.row.revision.as_ref());
        PinnedUnit {
            unit: node,
            message: &pinned.message,
            carries: carried == Some(&pinned.definition.revision),
        }
    });
    pins::pin_messages(&Vocabulary::NODES, decision, placed)
}

/// The manual controls of the NodeModule and its nodes, and their status.
fn controls(observed: &Observation, now: Timestamp) -> Vec<NodeControlStatus> {
    let units = observed.nodes.iter().map(|node| UnitEffects {
        name: &node.name,
        selected: node.selected,
        effects: observed.effects.get(&node.name).map_or(&[][..], Vec::as_slice),
    });
    let all = control_effects::all(&Vocabulary::NODES, &observed.controls, units, now).into_iter();
    all.map(NodeControlStatus::from).collect()
}

/// The kind and name, in the form that kubectl accepts: `nodemodule/fabric`.
fn address(module: &NodeModule) -> String {
    format!(
        "nodemodule/{}",
        module.metadata.name.as_deref().unwrap_or_default()
    )
}

fn pause(module: &NodeModule, observed: &Observation, now: Timestamp) -> Option<Pause> {
    if observed.deleting {
        return None;
    }
    let control = observed.controls.paused(now);
    let lift = control.map(|_| {
        let address = ModuleAddress {
            namespace: "",
            module: &address(module),
        };
        command(&address, annotation::PAUSED, None)
    });
    let paused = module.spec.rollout.paused;
    let in_spec = paused.then(|| "set spec.rollout.paused to false".to_owned());
    let ways: Vec<String> = in_spec.into_iter().chain(lift).collect();
    (!ways.is_empty()).then(|| Pause {
        provenance: control.map_or_else(String::new, Control::provenance),
        resume: format!("; to resume: {}", ways.join(" and ")),
    })
}

fn selects_all(module: &NodeModule) -> bool {
    let empty = module.spec.selector.as_ref() == Some(&LabelSelector::default());
    let meant = module.metadata.annotations.as_ref();
    empty && !meant.is_some_and(|annotations| annotations.contains_key(annotation::SELECT_ALL))
}

/// What a deletion waits for.
fn leaving(explained: &[Explained<'_>]) -> Conditions {
    let mut left = explained
        .iter()
        .filter(|explanation| explanation.reason != Reason::Excluded);
    let message = match left.next() {
        Some(first) => format!(
            "being deleted: {} nodes still to be withdrawn, first {}: {}",
            left.count() + 1,
            first.cluster,
            first.message()
        ),
        None => "being deleted: nothing is left on any node".to_owned(),
    };
    Conditions::ready(Status::False, ObjectReason::Terminating, &*message)
        .reconciling(ObjectReason::Terminating, message)
}

fn merged(module: &NodeModule, all: &Conditions, before: &[Condition], now: Timestamp) -> Vec<Condition> {
    all.merge(before, module.metadata.generation.unwrap_or_default(), now)
}

fn of_nodes(group: muster_api::module::ReasonGroup) -> NodeReasonGroup {
    NodeReasonGroup {
        reason: group.reason,
        count: group.count,
        nodes: group.clusters,
        truncated: group.truncated,
        message: group.message,
    }
}

fn of_node(entry: Attention) -> NodeAttention {
    NodeAttention {
        node: entry.cluster,
        reason: entry.reason,
        since: entry.since,
        message: bounded(&entry.message, MAX_MESSAGE).into_owned(),
    }
}

fn of_cluster(entry: NodeAttention) -> Attention {
    Attention {
        cluster: entry.node,
        reason: entry.reason,
        since: entry.since,
        message: entry.message,
    }
}
