//! Simulates the rollout of the next version over a fleet that is at one version, by the shipped decision function.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_api::{
    Duration,
    amount::Amount,
    reasons::Reason,
    rollout::Unmatched,
    rolloutwindow::{ClosedClusters, WhileClosed},
};
use muster_controllers::module::{self, Opening};
use muster_rollout::{
    Assignment, Class, Content, Domain, Incarnation, Memory, Millis, Report, Revision, Run, RunState,
    StagePosition, State, Step, Token, UnitId, plan,
};
use muster_simulator::{
    Closure, Delays, Fault, FleetEvent, Member, Pace, Rest, Simulation, UnitEvent, Witness,
    laws::{Case, Verdict},
    revision,
};
use muster_windows::{self as windows, Answer};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{
    fault::FleetError,
    file::{Cluster, Fleet},
    story::{End, Story, Track},
};

/// The delay from a change to the controller's decision.
const THINK: Millis = Millis::seconds(1);
/// The most events per cluster: a cluster is assigned, picks it up, becomes ready, is decided on, and may be reverted.
const EVENTS: u64 = 500;

/// How long change windows are simulated: a cluster whose window does not open within this time is left waiting.
const DAYS: u64 = 30;

/// Simulates to the end.
pub(crate) fn simulate_fleet(fleet: &Fleet, seed: u64) -> Result<Story, FleetError> {
    let (old, new) = (revision(1), revision(2));
    let mut spec = module::rollout_settings(&fleet.rollout);
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
            member.place = placement(fleet, cluster);
            member.domain = shared.and_then(|value| domains.get(value.as_str())).copied();
            member.closed = closure(fleet, &fleet.windows(cluster, fleet.start));
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
    simulation.surroundings = Delays {
        think: (THINK, THINK),
        approval: Some(millis(fleet.durations.approval)),
        ..Delays::FAIR
    };
    befall(&mut simulation, fleet);
    open_and_close(&mut simulation, fleet);
    let most = EVENTS.saturating_mul(
        u64::try_from(fleet.clusters.len())
            .unwrap_or(u64::MAX)
            .saturating_add(20),
    );
    if simulation.settle(most)? == Rest::Restless {
        return Err(FleetError::Restless { events: most });
    }
    Ok(into_story(simulation, new))
}

const CONDEMNED: Fault = Fault {
    class: Class::Revision,
    terminal: true,
};

/// A cluster that is confirmed at this revision.
fn settled(name: &str, old: Revision, pace: Pace) -> Member {
    let mut member = Member::new(pace);
    let (digest, token) = (member.digest(old), Token(1));
    let content = Content::Carries {
        revision: Some(old),
        digest,
    };
    member.incarnation = Incarnation::of(name);
    member.assignment = Some(Assignment { token, content });
    member.report = Some(Report {
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

fn placement(fleet: &Fleet, cluster: &Cluster) -> StagePosition {
    match (fleet.stage(cluster).map(u8::try_from), fleet.rollout.unmatched) {
        (Some(Ok(place)), _) => StagePosition::Stage(place),
        (_, Unmatched::Exclude) if !fleet.stages.is_empty() => StagePosition::Excluded,
        (_, Unmatched::Exclude | Unmatched::Last) => StagePosition::Last,
    }
}

/// The values of the label `rollout.exclusive`, numbered as domains.
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
        // Whole seconds are enough.
        Millis(jittered.div_ceil(1000) * 1000)
    };
    let (pickup, ready) = (about(fleet.durations.pickup), about(fleet.durations.ready));
    Pace {
        pickup,
        work: cluster.ready.map_or(ready, millis),
    }
}

fn befall(simulation: &mut Simulation<'_, Watcher<'_>>, fleet: &Fleet) {
    let absence = module::absence(Reason::Unreachable, fleet.rollout.on_unreachable);
    for (name, cluster) in &fleet.clusters {
        let Some(away) = cluster.away else { continue };
        let id = UnitId::from(name.as_str());
        let from = millis(away.from);
        simulation.plan_for(from, FleetEvent::To(id.clone(), UnitEvent::Disappears(absence)));
        if let Some(lasting) = away.lasting {
            let back = from.plus(millis(lasting));
            simulation.plan_for(back, FleetEvent::To(id, UnitEvent::Returns));
        }
    }
}

/// Schedules the changes of windows in the first [`DAYS`] days.
fn open_and_close(simulation: &mut Simulation<'_, Watcher<'_>>, fleet: &Fleet) {
    let end = instant(fleet, Millis::seconds(DAYS * 24 * 60 * 60));
    for (name, cluster) in &fleet.clusters {
        let mut answer = fleet.windows(cluster, fleet.start);
        while let Some(now) = answer.next_change.filter(|next| *next < end) {
            let before = closure(fleet, &answer);
            answer = fleet.windows(cluster, now);
            let after = closure(fleet, &answer);
            if before != after {
                let since = now.as_millisecond().abs_diff(fleet.start.as_millisecond());
                let what = after.map_or(UnitEvent::Opens, UnitEvent::Closes);
                simulation.plan_for(Millis(since), FleetEvent::To(name.as_str().into(), what));
            }
        }
    }
}

fn closure(fleet: &Fleet, answer: &Answer) -> Option<Closure> {
    match &answer.state {
        windows::State::Open { .. } => None,
        windows::State::Closed(closed) => Some(Closure {
            why: module::ineligible(closed.reason(), &fleet.rollout),
            reverts: closed.reverts == WhileClosed::Allow,
            withdrawals: closed.withdrawals == WhileClosed::Allow,
            skips: closed.while_closed == ClosedClusters::Skip,
        }),
    }
}

/// The time at this offset after the version arrived.
fn instant(fleet: &Fleet, since: Millis) -> Timestamp {
    let since = SignedDuration::from_millis(i64::try_from(since.0).unwrap_or(i64::MAX));
    fleet.start.checked_add(since).unwrap_or(Timestamp::MAX)
}

/// Records the decisions.
struct Watcher<'a> {
    fleet: &'a Fleet,
    target: Revision,
    tracks: BTreeMap<UnitId, Track>,
    began: BTreeSet<UnitId>,
    batches: BTreeSet<Millis>,
    /// When the windows of waiting clusters open, and which window.
    openings: BTreeMap<(Timestamp, String, String), BTreeSet<String>>,
    /// The time of the last decision that changed a reason.
    last: Millis,
}

impl<'a> Watcher<'a> {
    fn new(fleet: &'a Fleet, target: Revision) -> Self {
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
            fleet,
            target,
            tracks: tracks.collect(),
            began: BTreeSet::new(),
            batches: BTreeSet::new(),
            openings: BTreeMap::new(),
            last: Millis(0),
        }
    }
}

impl Watcher<'_> {
    /// Records that a cluster waits for its change window.
    fn waits(&mut self, cluster: &str, now: Millis) {
        let Some(of) = self.fleet.clusters.get(cluster) else {
            return;
        };
        let windows::State::Closed(closed) = self.fleet.windows(of, instant(self.fleet, now)).state else {
            return;
        };
        if let (Some(at), Some(local)) = (closed.until, closed.local_opening(Opening::FORMAT)) {
            let together = self.openings.entry((at, local, closed.window)).or_default();
            together.insert(cluster.to_owned());
        }
    }
}

impl Witness for Watcher<'_> {
    fn decided(&mut self, case: &Case<'_>, _view: usize) -> Verdict {
        for (unit, why) in &case.decision.reasons {
            let (reason, _) = module::word(why);
            if let Some(track) = self.tracks.get_mut(unit)
                && track.record_reason(case.now, reason)
            {
                self.last = case.now;
                if reason == Reason::WindowClosed {
                    self.waits(unit.as_str(), case.now);
                }
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

fn into_story(simulation: Simulation<'_, Watcher<'_>>, new: Revision) -> Story {
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
        openings,
        last,
        ..
    } = simulation.witness;
    let openings = openings
        .into_iter()
        .map(|((at, local, window), clusters)| Opening {
            at,
            local,
            window,
            clusters: clusters.into_iter().collect(),
        });
    let failed = tracks.values().filter(|track| track.has_failed()).count();
    Story {
        clusters: tracks.into_values().collect(),
        took: last,
        batches: batches.len(),
        carrying,
        failed,
        openings: openings.collect(),
        end,
    }
}

fn millis(time: Duration) -> Millis {
    Millis(time.as_millis())
}
