//! The nodes of one NodeModule as engine units, from its observation. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use jiff::Timestamp;
use muster_api::{
    labels::annotation,
    node::{assemblage::NodeRow, module::NodeModuleSpec},
    reasons::Reason,
    rollout::{OnUnreachable, Rollout, Unmatched},
    selector::{Matcher, SelectorError},
};
use muster_rollout as engine;

use super::{
    agents::Missing,
    budget::Room,
    facts::{self, Definition, NodeFacts, Obstacle},
    observation::{Observation, ObservedNode, Pinned},
    rendering::{ByRevision, Made, Rendered, Rendering, Renderings},
    settings,
    unit_controls::UnitControls,
};
use crate::{
    bindings::{Kinds, KnownObjects, ObjectId},
    module::{
        command::{ModuleAddress, command},
        reasons::precedence,
    },
};

/// The input in addition to the observation.
pub struct Surroundings<'a> {
    /// The current time.
    pub now: Timestamp,
    /// Why the agent of a node counts as missing, if it does.
    pub missing: &'a dyn Fn(&str) -> Option<Missing>,
    /// What the NodeBudget allows.
    pub room: &'a Room<'a>,
    /// Which kinds bindings may read.
    pub kinds: &'a Kinds,
    /// The objects that were read for bindings.
    pub objects: &'a KnownObjects,
    /// The cached renderings of earlier passes.
    pub renderings: &'a Renderings,
}

/// Converts the nodes to units. Returns the objects that must be read first.
pub fn read(
    module: &NodeModuleSpec,
    name: &str,
    observation: &mut Observation,
    around: &Surroundings<'_>,
) -> Result<BTreeSet<ObjectId>, SelectorError> {
    let rollout = Rollout::from(&module.rollout);
    let stages = rollout
        .stages
        .iter()
        .map(|stage| Matcher::new(Some(&stage.selector)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut reader = Reader {
        name,
        object: format!("nodemodule/{name}"),
        rollout: &rollout,
        stages,
        observation,
        around,
        renderings: around.renderings.take(name),
        needs: BTreeSet::new(),
    };
    let mut units = Vec::with_capacity(reader.observation.nodes.len());
    let mut contents = super::observation::Contents::default();
    let (mut obstacles, mut pins, mut effects) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut ends = Vec::new();
    for node in &reader.observation.nodes {
        let Read {
            unit,
            rows,
            obstacle,
            pinned,
            controls,
        } = reader.made_of(node)?;
        for (digest, row) in rows {
            contents.add(&node.name, digest, row);
        }
        let named = |message| (node.name.clone(), message);
        obstacles.extend(obstacle.map(named));
        pins.extend(pinned.map(|pinned| (node.name.clone(), pinned)));
        ends.extend(controls.end());
        effects.insert(node.name.clone(), controls.effects);
        units.push(unit);
    }
    let needs = std::mem::take(&mut reader.needs);
    let renderings = std::mem::take(&mut reader.renderings);
    around.renderings.keep(name, renderings, &observation.nodes);
    share(&mut units, observation, module);
    (observation.units, observation.contents, observation.obstacles) = (units, contents, obstacles);
    (observation.pinned, observation.effects) = (pins, effects);
    observation.first_expiry = ends.into_iter().min();
    Ok(needs)
}

/// The conversion of one node.
struct Read {
    unit: engine::Unit,
    rows: Vec<(engine::Digest, Arc<NodeRow>)>,
    obstacle: Option<String>,
    pinned: Option<Pinned>,
    controls: UnitControls,
}

struct Reader<'a> {
    name: &'a str,
    /// The form that kubectl accepts: `nodemodule/fabric`.
    object: String,
    rollout: &'a Rollout,
    stages: Vec<Matcher>,
    observation: &'a Observation,
    around: &'a Surroundings<'a>,
    /// The revisions that nodes may get, by their hashes.
    renderings: ByRevision,
    needs: BTreeSet<ObjectId>,
}

impl Reader<'_> {
    fn made_of(&mut self, node: &ObservedNode) -> Result<Read, SelectorError> {
        let row = node.row(self.name);
        let observation = self.observation;
        let controls = UnitControls::of(node, &self.address(), observation, self.around.now);
        let pinned = controls.pinned(node, observation);
        let target = pinned
            .as_ref()
            .map(|pinned| &pinned.definition)
            .or(observation.target.as_ref());
        let wanted = self.should_have_content(node, target);
        let is_elsewhere = pinned.is_some() && target != observation.target.as_ref();
        let target = self.rendered(target.filter(|_| wanted), node)?;
        // A pinned node is not rolled back.
        let last_good = observation
            .last_good
            .as_ref()
            .filter(|_| wanted && pinned.is_none());
        let last_good = self.rendered(last_good, node)?;
        let last_good = last_good.ok().flatten(); // a node that cannot be rolled back stays
        let unmeant = controls.unmeant(node, pinned.is_some());
        let obstacle = self.obstacle(node, controls.held().or(unmeant), target.as_ref().err());
        let target = target.ok().flatten(); // the obstacle says why
        let desired = match &target {
            _ if !wanted => engine::Desired::Nothing,
            Some((digest, row)) => match row.revision.as_deref().and_then(engine::Revision::parse) {
                Some(revision) => engine::Desired::Content {
                    revision,
                    digest: *digest,
                    last_good: last_good.as_ref().map(|(digest, _)| *digest),
                },
                None => engine::Desired::Unresolved,
            },
            None => engine::Desired::Unresolved,
        };
        let available = node
            .node
            .as_ref()
            .is_some_and(|facts| facts.ready && !facts.deleting);
        let unit = engine::Unit {
            id: node.name.as_str().into(),
            incarnation: engine::Incarnation::of(node.node.as_ref().map_or("", |facts| &facts.uid)),
            desired,
            assigned: row.map(|row| row.assigned()),
            observed: self.observed(node),
            eligible: self.eligible(node, obstacle.as_ref()),
            place: self.unit_place(node, is_elsewhere),
            domain: None,
            available,
            pinned: is_elsewhere,
        };
        Ok(Read {
            unit,
            rows: target.into_iter().chain(last_good).collect(),
            obstacle: obstacle.map(|(_, message)| message),
            pinned,
            controls,
        })
    }

    fn address(&self) -> ModuleAddress<'_> {
        ModuleAddress {
            namespace: "",
            module: &self.object,
        }
    }

    /// A node that should have content: emptied `parts` are a withdrawal, which the brake limits.
    fn should_have_content(&self, node: &ObservedNode, target: Option<&Definition>) -> bool {
        let empty = target.is_some_and(|target| target.content.parts.is_empty());
        node.selected && !self.observation.deleting && !empty
    }

    fn rendered(
        &mut self,
        definition: Option<&Definition>,
        node: &ObservedNode,
    ) -> Result<Made, SelectorError> {
        let (Some(definition), Some(node)) = (definition, &node.node) else {
            return Ok(Ok(None));
        };
        let rendering = match self.renderings.entry(definition.revision.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Rendering::new(definition.clone(), self.name)?),
        };
        Ok(match rendering.of(node, self.around.kinds, self.around.objects) {
            Rendered::Made(made) => made,
            Rendered::Needs(objects) => {
                self.needs.extend(objects);
                Err("an object that a binding reads was not read yet".to_owned())
            }
        })
    }

    /// A node that never had any content is not evidence against a revision while it is not Ready: the missing content
    /// may be the reason.
    fn observed(&self, node: &ObservedNode) -> Option<engine::Report> {
        let mut report = if let Some(row) = node.row(self.name) {
            row.observed()?
        } else {
            let left = &node.assemblage.as_ref()?.left;
            facts::report(0, left.iter().find(|state| state.name == self.name)?)
        };
        let is_ready = node.node.as_ref().is_some_and(|facts| facts.ready);
        if let engine::State::Failed { class, .. } = &mut report.state
            && !is_ready
            && !self.was_confirmed(node)
        {
            *class = engine::Class::Infra;
        }
        Some(report)
    }

    /// Why a node cannot be changed now, for a reason of the node itself.
    fn obstacle(
        &self,
        node: &ObservedNode,
        control_obstacle: Option<Obstacle>,
        unrendered: Option<&String>,
    ) -> Option<Obstacle> {
        let name = &node.name;
        let Some(facts) = &node.node else {
            return Some((Reason::Deleting, format!("Node {name} no longer exists")));
        };
        let away = self.away(node, facts);
        if let Some((_, message)) = &away
            && self.began(node)
        {
            let message = format!(
                "{message}, after its change had started: no other node takes its turn until it is back, its Node is deleted, or it is released: {}",
                command(&self.address(), annotation::RELEASE, Some(name))
            );
            return Some((Reason::LostInChange, message));
        }
        away.or_else(|| held_locally(node)).or(control_obstacle).or_else(|| {
            let assemblage = node.assemblage.as_ref()?;
            let owner = assemblage.owner.as_ref()?;
            (*owner != facts.uid).then(|| {
                let message = format!("NodeAssemblage {name} belongs to a deleted Node with the same name: it is re-created once the old one is garbage-collected");
                (Reason::NameConflict, message)
            })
        }).or_else(|| Some((Reason::BindingFailed, unrendered?.clone())))
    }

    /// Why a node or its agent is unavailable.
    fn away(&self, node: &ObservedNode, facts: &NodeFacts) -> Option<Obstacle> {
        if facts.deleting {
            return Some((
                Reason::NodeNotReady,
                format!("Node {} is being deleted", facts.name),
            ));
        }
        if !facts.runs_linux() {
            let message = format!("Node {} does not run Linux (label kubernetes.io/os)", facts.name);
            return Some((Reason::NodeUnsupported, message));
        }
        match (self.around.missing)(&facts.name) {
            Some(Missing::Never) => {
                let message = format!(
                    "there is no Lease of the agent of node {} in namespace muster-nodes",
                    facts.name
                );
                return Some((Reason::AgentMissing, message));
            }
            Some(Missing::Since(at)) => {
                let message = format!(
                    "the agent of node {} has not renewed its Lease since {}",
                    facts.name,
                    truncate_to_seconds(at)
                );
                return Some((Reason::AgentMissing, message));
            }
            None => {}
        }
        // A node that never had any content may be NotReady because it lacks this content.
        (!facts.ready && self.was_confirmed(node))
            .then(|| (Reason::NodeNotReady, format!("Node {} is not Ready", facts.name)))
    }

    /// Whether the node has had this NodeModule before.
    fn was_confirmed(&self, node: &ObservedNode) -> bool {
        let state = node.row(self.name).and_then(|row| row.state.as_ref());
        state.is_some_and(|state| state.confirmed.is_some())
    }

    /// The agent has acknowledged a change that the engine has not finished.
    fn began(&self, node: &ObservedNode) -> bool {
        let in_flight = self
            .observation
            .memory
            .memory
            .in_flight
            .contains_key(node.name.as_str());
        in_flight && node.row(self.name).is_some_and(|row| row.is_acknowledged())
    }

    fn eligible(&self, node: &ObservedNode, obstacle: Option<&Obstacle>) -> engine::Eligible {
        let because = |reason: Reason| engine::Ineligible {
            code: reason.code(),
            rank: precedence(reason),
            absence: self.absence(node, reason),
        };
        if let Some((reason, _)) = obstacle {
            return engine::Eligible::No(because(*reason));
        }
        match self.not_yet(node) {
            // The change was decided, and another NodeModule was faster: it keeps its turn, and its time does not run.
            Some(Reason::BusyWith) if self.is_unwritten(node) => engine::Eligible::No(engine::Ineligible {
                absence: engine::Absence::Wait,
                // This is what delays the node, although a change of it was decided.
                rank: precedence(Reason::LostInChange),
                ..because(Reason::BusyWith)
            }),
            Some(reason) => engine::Eligible::NotYet(because(reason)),
            None => engine::Eligible::Yes,
        }
    }

    /// Whether a change of the node was decided and its row is not written.
    fn is_unwritten(&self, node: &ObservedNode) -> bool {
        let token = node
            .row(self.name)
            .map_or(engine::Token(0), |row| engine::Token(row.row.token));
        let change = self.observation.memory.memory.in_flight.get(node.name.as_str());
        change.is_some_and(|change| change.token > token)
    }

    /// Why a node is not changed yet because of other nodes.
    fn not_yet(&self, node: &ObservedNode) -> Option<Reason> {
        let busy = node
            .assemblage
            .as_ref()
            .is_some_and(|assemblage| assemblage.busy_with(self.name).is_some());
        if busy {
            return Some(Reason::BusyWith);
        }
        let in_flight = self
            .observation
            .memory
            .memory
            .in_flight
            .contains_key(node.name.as_str());
        (!in_flight && self.around.room.is_full_for(&node.name)).then_some(Reason::BudgetFull)
    }

    /// What an unavailable node means. One that was lost during its change is waited for unless it is released.
    fn absence(&self, node: &ObservedNode, reason: Reason) -> engine::Absence {
        if reason != Reason::LostInChange
            || self.observation.controls.is_released(&node.name, self.around.now)
        {
            return engine::Absence::Skip;
        }
        match self.rollout.on_unreachable {
            OnUnreachable::Skip => engine::Absence::Skip,
            OnUnreachable::Wait => engine::Absence::Wait,
            OnUnreachable::Fail => engine::Absence::Fail,
        }
    }

    /// An excluded node keeps its content, unless a pin gives it another revision.
    fn unit_place(&self, node: &ObservedNode, pinned: bool) -> engine::StagePosition {
        let labels = node.node.as_ref().map(|facts| &facts.labels);
        let stage = labels.and_then(|labels| self.stages.iter().position(|stage| stage.matches(labels)));
        match (stage.map(u8::try_from), self.rollout.unmatched) {
            (Some(Ok(stage)), _) => engine::StagePosition::Stage(stage),
            (_, Unmatched::Exclude) if !self.stages.is_empty() && !pinned => engine::StagePosition::Excluded,
            (_, Unmatched::Exclude | Unmatched::Last) => engine::StagePosition::Last,
        }
    }
}

/// The domains, as numbers in the order in which they are changed.
fn share(units: &mut [engine::Unit], observation: &Observation, module: &NodeModuleSpec) {
    let Some(domains) = &module.rollout.domains else {
        return;
    };
    let value =
        |node: &'_ ObservedNode| -> Option<String> { node.node.as_ref()?.labels.get(&domains.key).cloned() };
    let values: Vec<Option<String>> = observation.nodes.iter().map(value).collect();
    let present: BTreeSet<&str> = values.iter().flatten().map(String::as_str).collect();
    let order = settings::order(domains, &present);
    let numbers: BTreeMap<&str, usize> = order.into_iter().zip(0..).collect();
    for (unit, value) in units.iter_mut().zip(&values) {
        let number = value.as_deref().and_then(|value| numbers.get(value));
        unit.domain = number.and_then(|number| engine::Domain::nth(*number));
    }
}

/// A hold set on the node itself.
fn held_locally(node: &ObservedNode) -> Option<Obstacle> {
    let agent = node.assemblage.as_ref()?.agent.as_ref()?;
    let held = agent.held.as_ref()?;
    let message = format!(
        "held on the node until {}: {}; it ends then, or is released on the node: muster node-agent release",
        truncate_to_seconds(held.until.0),
        held.reason
    );
    Some((Reason::HeldLocally, message))
}

/// In whole seconds, as shown to people.
fn truncate_to_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
