//! What changed for a NodeModule between two decisions, and for each node: events for `kubectl describe` of either.
//! Pure, and only on change.

use jiff::Timestamp;
use muster_api::{
    control_status::ControlStatus,
    module::{Attention, Summary},
    node::{NodeModule, module::NodeModuleStatus},
    reasons::{EventReason, Reason},
};
use muster_rollout::{Decision, Memory};

use super::observation::Observation;
use crate::{
    module::{
        control_effects,
        events::{self, Scene},
        reasons::{Background, Explained, Vocabulary},
    },
    runtime::Event,
};

/// The `action` of events about nodes.
const ACTION: &str = "Rollout";

/// The events of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEvents {
    /// Events about the NodeModule.
    pub module: Vec<Event>,
    /// Events about nodes, by name.
    pub nodes: Vec<(String, Event)>,
}

/// The events of a NodeModule that nothing can be decided about.
pub fn idle_events(status: &NodeModuleStatus, before: Option<&NodeModuleStatus>) -> NodeEvents {
    let before = before.map_or(&[][..], |before| &before.conditions);
    NodeEvents {
        module: events::condition_events(&status.conditions, before),
        nodes: Vec::new(),
    }
}

/// The input of a decision, and its report.
#[derive(Clone, Copy)]
pub struct Decided<'a> {
    /// The NodeModule as read.
    pub module: &'a NodeModule,
    /// The observation.
    pub observed: &'a Observation,
    /// The decision.
    pub decision: &'a Decision,
    /// The reason for the state of each node.
    pub explained: &'a [Explained<'a>],
    /// The subject of messages.
    pub background: &'a Background<'a>,
    /// The numbers of nodes by state.
    pub summary: &'a Summary,
    /// The nodes that needed attention before.
    pub attention: &'a [Attention],
}

/// The events of a decision.
pub fn decision_events(decided: &Decided<'_>, status: &NodeModuleStatus, now: Timestamp) -> NodeEvents {
    let Decided {
        module,
        observed,
        decision,
        explained,
        background,
        summary,
        attention,
    } = *decided;
    let scene = Scene {
        words: &Vocabulary::NODES,
        version: &background.version,
        summary,
        attention,
        aborted: &background.aborted,
    };
    let memory = &observed.memory.memory;
    let before = module.status.as_ref();
    let conditions = before.map_or(&[][..], |before| &before.conditions);
    let mut of_module = events::between(memory, decision, explained, &scene);
    of_module.extend(events::condition_events(&status.conditions, conditions));
    let conditions = (&status.conditions[..], conditions);
    let applied = events::applied(
        &observed.controls,
        memory,
        decision,
        &Vocabulary::NODES,
        conditions,
        now,
    );
    of_module.extend(applied.into_iter().map(|(_, event)| event));
    let controls = |status: &NodeModuleStatus| -> Vec<ControlStatus> {
        status.controls.iter().cloned().map(Into::into).collect()
    };
    let known = before.map_or_else(Vec::new, controls);
    let news = control_effects::news(&controls(status), &known);
    of_module.extend(news.into_iter().map(|(_, event)| event));
    NodeEvents {
        module: of_module,
        nodes: of_nodes(decided, memory, &scene),
    }
}

/// Each is about one node: a change starts, or ends.
fn of_nodes(decided: &Decided<'_>, memory: &Memory, scene: &Scene<'_>) -> Vec<(String, Event)> {
    let name = decided.module.metadata.name.as_deref().unwrap_or_default();
    let begins = |explanation: &&Explained<'_>| {
        let token = |memory: &Memory| {
            memory
                .in_flight
                .get(explanation.cluster)
                .map(|change| change.token)
        };
        let moves = matches!(
            explanation.reason,
            Reason::Updating | Reason::Reverting | Reason::Withdrawing
        );
        moves && token(&decided.decision.memory) > token(memory)
    };
    let begun = decided.explained.iter().filter(begins).map(|explanation| {
        let what = if explanation.reason == Reason::Withdrawing {
            "it is withdrawn".to_owned()
        } else {
            format!("a change to {} starts", scene.version)
        };
        let note = format!("NodeModule {name}: {what}");
        (
            explanation.cluster.to_owned(),
            Event::normal(EventReason::NodeChanging, ACTION, note),
        )
    });
    let happened = events::unit_events(memory, decided.decision, decided.explained, scene);
    let ended = happened.into_iter().map(|happened| {
        let note = format!("NodeModule {name}: {}", happened.note);
        let event = if happened.is_warning {
            Event::warning(happened.reason, ACTION, note)
        } else {
            Event::normal(happened.reason, ACTION, note)
        };
        (happened.unit.to_owned(), event)
    });
    begun.chain(ended).collect()
}
