//! EL1 to EL5, as safety: from every state a fair time, in which every participant acts, reaches the goal.
//!
//! A fair time is a single path, and most paths meet: the states of a path that reached its goal are stored, so that
//! each is visited once. Time passes only when a decision asked to be woken.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use std::sync::Arc;

use muster_rollout::{Absence, Content, State::Succeeded};
use stateright::Property;

use crate::normal::{NOW, pass};
use crate::observer::{Observer, REVISIONS};
use crate::scope::Feature;
use crate::set::Set;
use crate::shell::recorded_verdicts;
use crate::state::{Cluster, Fit, RevisionCommand, State};
use crate::world::{APPROVE, BAD_GOAL, GOAL, World, revision};

/// Maximum number of rounds of a fair time.
const ROUNDS: usize = 200;

/// The goal of a fair time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// EL1, EL3: all clusters have the target, and it is good.
    Good,
    /// EL2: the target is condemned, and no change is pending.
    Condemned,
    /// EL4: the first cluster does not respond, and all others have the target.
    BesideStuck,
    /// EL4: the first cluster is absent, and all others have the target.
    BesideAway,
    /// EL5: the memory is lost, and all clusters have the target.
    Recovered,
}

pub(crate) fn goals(world: &World) -> Vec<Property<World>> {
    if !world.scope.fair {
        return Vec::new();
    }
    vec![
        Property::always("EL1 EL3 a good target is reached", |world, state| {
            world.reaches(state, Goal::Good)
        }),
        Property::always("EL2 a bad one ends condemned", |world, state| {
            world.reaches(state, Goal::Condemned)
        }),
        Property::always("EL4 a stuck cluster does not block the others", |world, state| {
            world.reaches(state, Goal::BesideStuck)
        }),
        Property::always(
            "EL4 an absent cluster does not block the others",
            |world, state| world.reaches(state, Goal::BesideAway),
        ),
        Property::always("EL5 a lost memory is recovered", |world, state| {
            world.reaches(state, Goal::Recovered)
        }),
    ]
}

impl World {
    /// Whether a fair time leads from this state to the goal.
    pub fn reaches(&self, state: &State, goal: Goal) -> bool {
        state.broken.is_some() || self.way(state, goal).is_ok()
    }

    /// The path to the goal; or why there is none.
    pub fn way(&self, from: &State, goal: Goal) -> Result<(), String> {
        let mut state = from.clone();
        match goal {
            // If no more clusters may change at once than may fail, the run waits for a failure, and no other cluster
            // can fail.
            Goal::Condemned if self.scope.limit <= self.scope.max_failed || self.scope.batch.is_some() => {
                return Ok(());
            }
            // A cluster that is not ready proves nothing: first all become ready.
            Goal::Condemned => self.walk(&mut state, Goal::Good, Goal::Condemned)?,
            Goal::BesideStuck | Goal::BesideAway if !self.others_go_on(goal) => return Ok(()),
            Goal::Good | Goal::BesideStuck | Goal::BesideAway | Goal::Recovered => {}
        }
        let generous = self.generous.as_deref().filter(|_| goal == Goal::BesideStuck);
        generous.unwrap_or(self).walk(&mut state, goal, goal)
    }

    /// By design a cluster holds up others that wait for its stage, its domain, its batch, or for its availability.
    fn others_go_on(&self, goal: Goal) -> bool {
        let scope = &self.scope;
        let apart = [Feature::Stages, Feature::Domains, Feature::Order];
        let alone = !apart.iter().any(|feature| scope.has(*feature)) && scope.batch.is_none();
        scope.absence == Absence::Skip && !scope.has(Feature::Budget) && (goal == Goal::BesideAway || alone)
    }

    /// Continues until nothing changes. The states on a path to `whole` are stored.
    fn walk(&self, state: &mut State, goal: Goal, whole: Goal) -> Result<(), String> {
        Self::prepare(state, goal);
        let stuck = match goal {
            Goal::BesideStuck | Goal::BesideAway => Set::bits(1),
            Goal::Good | Goal::Condemned | Goal::Recovered => Set::default(),
        };
        let mut walked = Vec::new();
        for _ in 0..ROUNDS {
            state.eye = blind(state);
            self.put_in_order(state);
            let print = print(&(goal, whole, &*state));
            let known = self
                .known
                .lock()
                .map_err(|error| error.to_string())?
                .get(&print)
                .cloned();
            if let Some(end) = known {
                *state = State::clone(&end);
                return self.remember(walked, &end);
            }
            walked.push(print);
            let before = state.clone();
            let wake = self.round(state, stuck);
            if let Some(broken) = &state.broken {
                return Err(broken.to_string());
            }
            state.eye = blind(state);
            self.put_in_order(state);
            if *state != before {
                continue;
            }
            let held = self.scope.brake.and_then(|_| self.held(state));
            match wake {
                _ if held.is_some() && held != state.module.acknowledged => state.module.acknowledged = held,
                Some(at) if at > NOW => {
                    if let Some(memory) = &mut state.module.memory {
                        pass(Arc::make_mut(memory), at.since(NOW));
                    }
                }
                Some(_) => return Err("EL3: it wakes without effect".into()),
                None => {
                    Self::is_there(state, goal)?;
                    return self.remember(walked, &Arc::new(state.clone()));
                }
            }
        }
        Err("EL1: it does not settle".into())
    }

    fn remember(&self, walked: Vec<u64>, end: &Arc<State>) -> Result<(), String> {
        let mut known = self.known.lock().map_err(|error| error.to_string())?;
        known.extend(walked.into_iter().map(|print| (print, Arc::clone(end))));
        Ok(())
    }

    /// All clusters are as healthy as possible, and the goal is the desired state.
    fn prepare(state: &mut State, goal: Goal) {
        state.leaders.clear();
        state.left = 0;
        let module = &mut state.module;
        (module.paused, module.given_up, module.commands) = (false, Set::default(), [None; 3]);
        module.target = if goal == Goal::Condemned { BAD_GOAL } else { GOAL };
        module.commands[APPROVE] = Some(RevisionCommand {
            revision: module.target,
            fresh: true,
        });
        if let Some(memory) = &mut module.memory {
            Arc::make_mut(memory).taken.clear();
        }
        for cluster in state.clusters.iter_mut().filter(|cluster| cluster.entry.present) {
            cluster.entry.fit = Fit::Ready;
        }
        match goal {
            Goal::BesideAway => state.clusters[0].entry.fit = Fit::Away,
            Goal::Recovered => {
                state.flying.clear();
                state.module.memory = None;
            }
            Goal::Good | Goal::Condemned | Goal::BesideStuck => {}
        }
    }

    fn is_there(state: &State, goal: Goal) -> Result<(), String> {
        let Some(memory) = &state.module.memory else {
            return Err("EL5: the memory was not rebuilt".into());
        };
        let beside = matches!(goal, Goal::BesideStuck | Goal::BesideAway);
        let mut selected =
            state.clusters.iter().enumerate().filter(|(at, cluster)| {
                cluster.entry.present && cluster.entry.selected && !(beside && *at == 0)
            });
        let has = |cluster: &Cluster| {
            let row = cluster.sheet.assignment;
            let report = cluster.sheet.report.as_ref();
            let carries = matches!(row.map(|row| row.content), Some(Content::Carries { revision: Some(of), .. }) if of == revision(GOAL));
            carries
                && report.is_some_and(|report| {
                    Some(report.token) == row.map(|row| row.token) && report.state == Succeeded
                })
        };
        match goal {
            Goal::Condemned => {
                let selects_any = selected.next().is_some();
                let bad = revision(BAD_GOAL);
                let condemned = memory.is_bad(bad) || memory.course.recorded.is_some();
                if selects_any && !condemned {
                    return Err(format!("EL2: {:?}", memory.run));
                }
                Ok(())
            }
            Goal::Good | Goal::Recovered | Goal::BesideStuck | Goal::BesideAway => {
                if let Some((at, _)) = selected.clone().find(|(_, cluster)| !has(cluster)) {
                    return Err(format!("EL1: {at} does not have it: {:?}", memory.in_flight));
                }
                let whole = !beside && selected.next().is_some();
                if whole && (!memory.in_flight.is_empty() || memory.last_good != Some(revision(GOAL))) {
                    return Err(format!("EL1: it is not good: {:?}", memory.in_flight));
                }
                let left =
                    state
                        .clusters
                        .iter()
                        .enumerate()
                        .skip(usize::from(beside))
                        .find(|(_, cluster)| {
                            let carries = matches!(
                                cluster.sheet.assignment.map(|row| row.content),
                                Some(Content::Carries { .. })
                            );
                            cluster.entry.present && !cluster.entry.selected && carries
                        });
                match left {
                    Some((at, _)) if !beside => Err(format!("EL1: {at} is not withdrawn from")),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// The observer stops here: the events of a fair time are checked elsewhere.
fn blind(state: &State) -> Observer {
    let mut eye = Observer {
        bad: state
            .module
            .memory
            .as_deref()
            .map_or(state.module.verdicts, recorded_verdicts)
            .bad,
        returned: Set::bits(0b1111),
        good: Set::bits(0b1111_1111),
        ..Observer::default()
    };
    eye.failed = [Set::bits(0b1111); REVISIONS];
    eye
}

fn print(of: &impl std::hash::Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
}
