//! A fleet that is at one version gets the next, by the shipped decision function.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::{Duration, amount::Amount, reasons::Reason, rollout::Unmatched};
use muster_controllers::module;
use muster_rollout::{
    Class, Content, Domain, Echo, Incarnation, Memory, Millis, Place, Revision, Row, Run, RunState, State,
    Step, Token, UnitId, plan,
};
use muster_simulator::{
    Fault, Happening, Member, Pace, Rest, Simulation, Surroundings, What, Witness,
    laws::{Case, Verdict},
    revision,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{
    fault::FleetError,
    file::{Cluster, Fleet},
    story::{End, Story, Track},
};

/// From a change until the controller has decided on it.
const THINK: Millis = Millis::seconds(1);
/// So many events are enough for a cluster: it is written, picks up, is ready, is decided on, and may go back.
const EVENTS: u64 = 500;

/// Plays it to the end.
pub fn play(fleet: &Fleet, seed: u64) -> Result<Story, FleetError> {
    let (old, new) = (revision(1), revision(2));
    let mut spec = module::wishes(&fleet.rollout);
    spec.target = Some(new);
    let random = &mut StdRng::seed_from_u64(seed);
    let domains = domains(fleet);
    let members: BTreeMap<UnitId, Member> = fleet
        .clusters
        .iter()
        .map(|(name, cluster)| {
            let shared = fleet.rollout.exclusive.as_ref();
            let shared = shared.and_then(|key| cluster.labels.get(key));
            let mut member = settled(name, old, pace(fleet, cluster, random));
            member.place = place(fleet, cluster);
            member.domain = shared.and_then(|value| domains.get(value.as_str())).copied();
            member.faults = cluster.fails.then_some((new, CONDEMNED)).into_iter().collect();
            (name.as_str().into(), member)
        })
        .collect();
    let newcomer = Member::new(Pace {
        pickup: THINK,
        work: THINK,
    });
    let mut simulation = Simulation::new(
        &plan,
        spec,
        remembered(old),
        members,
        newcomer,
        seed,
        Watcher::new(fleet, new),
    );
    simulation.surroundings = Surroundings {
        think: (THINK, THINK),
        approval: Some(millis(fleet.durations.approval)),
        ..Surroundings::FAIR
    };
    befall(&mut simulation, fleet);
    let most = EVENTS.saturating_mul(
        u64::try_from(fleet.clusters.len())
            .unwrap_or(u64::MAX)
            .saturating_add(20),
    );
    if simulation.settle(most)? == Rest::Restless {
        return Err(FleetError::Restless { events: most });
    }
    Ok(told(simulation, new))
}

const CONDEMNED: Fault = Fault {
    class: Class::Revision,
    terminal: true,
};

/// One that is confirmed at this revision.
fn settled(name: &str, old: Revision, pace: Pace) -> Member {
    let mut member = Member::new(pace);
    let (digest, token) = (member.digest(old), Token(1));
    let content = Content::Carries {
        revision: Some(old),
        digest,
    };
    member.incarnation = Incarnation::of(name);
    member.row = Some(Row { token, content });
    member.echo = Some(Echo {
        digest: Some(digest),
        token,
        state: State::Succeeded,
    });
    member
}

/// The memory of a fleet that is at this revision.
fn remembered(old: Revision) -> Memory {
    Memory {
        seq: Token(1),
        run: Some(Run {
            id: 1,
            target: old,
            from: None,
            started: Millis(0),
            state: RunState::Good,
        }),
        last_good: Some(old),
        ..Memory::default()
    }
}

fn place(fleet: &Fleet, cluster: &Cluster) -> Place {
    match (fleet.stage(cluster).map(u8::try_from), fleet.rollout.unmatched) {
        (Some(Ok(place)), _) => Place::Stage(place),
        (_, Unmatched::Exclude) if !fleet.stages.is_empty() => Place::Excluded,
        (_, Unmatched::Exclude | Unmatched::Last) => Place::Last,
    }
}

/// The values of the label that changing clusters share, by their order.
fn domains(fleet: &Fleet) -> BTreeMap<&str, Domain> {
    let Some(key) = &fleet.rollout.exclusive else {
        return BTreeMap::new();
    };
    let labels = fleet
        .clusters
        .values()
        .filter_map(|cluster| cluster.labels.get(key));
    let values: BTreeSet<&str> = labels.map(String::as_str).collect();
    let numbered = values.into_iter().enumerate();
    numbered
        .filter_map(|(number, value)| Some((value, Domain::nth(number)?)))
        .collect()
}

fn pace(fleet: &Fleet, cluster: &Cluster, random: &mut StdRng) -> Pace {
    let mut about = |time: Duration| {
        let time = time.as_millis();
        let share = match fleet.durations.jitter {
            Amount::Percent(percent) => time * u64::from(percent) / 100,
            Amount::Count(_) => 0,
        };
        let jittered = if share == 0 {
            time
        } else {
            random.random_range(time - share..=time + share)
        };
        // Whole seconds: nobody reads more.
        Millis(jittered.div_ceil(1000) * 1000)
    };
    let (pickup, ready) = (about(fleet.durations.pickup), about(fleet.durations.ready));
    Pace {
        pickup,
        work: cluster.ready.map_or(ready, millis),
    }
}

fn befall(simulation: &mut Simulation<'_, Watcher>, fleet: &Fleet) {
    let absence = module::absence(Reason::Unreachable, fleet.rollout.on_unreachable);
    for (name, cluster) in &fleet.clusters {
        let Some(away) = cluster.away else { continue };
        let id = UnitId::from(name.as_str());
        let from = millis(away.from);
        simulation.plan_for(from, Happening::To(id.clone(), What::Disappears(absence)));
        if let Some(lasting) = away.lasting {
            let back = from.plus(millis(lasting));
            simulation.plan_for(back, Happening::To(id, What::Returns));
        }
    }
}

/// Writes down what is decided.
struct Watcher {
    target: Revision,
    tracks: BTreeMap<UnitId, Track>,
    began: BTreeSet<UnitId>,
    batches: BTreeSet<Millis>,
    /// When it was last decided, and something was told that was not told before.
    last: Millis,
}

impl Watcher {
    fn new(fleet: &Fleet, target: Revision) -> Self {
        let tracks = fleet.clusters.iter().map(|(name, cluster)| {
            let place = fleet.stage(cluster);
            let stage = place.and_then(|place| fleet.rollout.stages.get(place));
            let track = Track {
                name: name.clone(),
                place: place.unwrap_or(usize::MAX),
                stage: stage.map(|stage| stage.name.clone()),
                changes: Vec::new(),
            };
            (name.as_str().into(), track)
        });
        Self {
            target,
            tracks: tracks.collect(),
            began: BTreeSet::new(),
            batches: BTreeSet::new(),
            last: Millis(0),
        }
    }
}

impl Witness for Watcher {
    fn decided(&mut self, case: &Case<'_>, _view: usize) -> Verdict {
        for (unit, why) in &case.decision.reasons {
            let (reason, _) = module::word(why);
            if let Some(track) = self.tracks.get_mut(unit)
                && track.tell(case.now, reason)
            {
                self.last = case.now;
            }
        }
        for step in &case.decision.steps {
            if let Step::Assign { unit, revision, .. } = step
                && *revision == self.target
                && self.began.insert(unit.clone())
            {
                self.batches.insert(case.now);
            }
        }
        Ok(())
    }
}

fn told(simulation: Simulation<'_, Watcher>, new: Revision) -> Story {
    let carrying = simulation.carrying(new);
    let memory = &simulation.memory;
    let evidence = memory
        .bad
        .get(&new)
        .cloned()
        .or_else(|| memory.course.recorded.clone());
    let evidence = evidence.map(|evidence| format!("{}: {}", evidence.unit, evidence.message));
    let reverts = simulation.spec.on_failure == muster_rollout::OnFailure::Revert;
    let end = match (memory.run.map(|run| run.state), evidence) {
        (Some(RunState::Good), _) => End::Done,
        (Some(RunState::Halted), Some(evidence)) if reverts && carrying == 0 => End::Reverted(evidence),
        (Some(RunState::Halted), Some(evidence)) => End::Halted(evidence),
        _ => End::Waiting,
    };
    let Watcher {
        tracks,
        batches,
        last,
        ..
    } = simulation.witness;
    let failed = tracks.values().filter(|track| track.has_failed()).count();
    Story {
        clusters: tracks.into_values().collect(),
        took: last,
        batches: batches.len(),
        carrying,
        failed,
        end,
    }
}

fn millis(time: Duration) -> Millis {
    Millis(time.as_millis())
}
