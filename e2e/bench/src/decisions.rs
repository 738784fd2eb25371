//! How long decisions over ten thousand units take, at the most expensive moments of a rollout: before the first step,
//! halfway with a full window, when all is done, and when a new target changes every unit.

use std::time::{Duration, Instant};

use muster_rollout::{
    Assignment, Content, Desired, Digest, Domain, Domains, Eligible, Incarnation, Limit, Memory, Millis,
    Report, Revision, Spec, Stage, StagePosition, State, Step, Unit, plan,
};

/// Units of each decision.
pub(crate) const UNITS: usize = 10_000;
/// Decisions per measurement; the median is reported.
pub(crate) const RUNS: usize = 101;
/// Bytes of a unit, without its name.
pub(crate) const UNIT_BYTES: usize = size_of::<Unit>();
const NOW: Millis = Millis(1_800_000_000_000);

/// How long one decision takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// The moment of the rollout.
    pub moment: &'static str,
    pub median: Duration,
    pub slowest: Duration,
}

/// All moments of a plain rollout, and of one in eight stages, each with its own limit, and domains.
pub(crate) fn all() -> [(&'static str, [Taken; 4]); 2] {
    let plain = Spec {
        target: Some(Revision::new([1; 16])),
        limit: Limit::Percent(2),
        ..Spec::default()
    };
    let stages = Spec {
        stages: (0..8).map(stage).collect(),
        domains: Domains::EXCLUSIVE,
        ..plain.clone()
    };
    let in_stages = |at| Unit {
        place: StagePosition::Stage(u8::try_from(at % 8).unwrap_or_default()),
        domain: Domain::nth(at % 3),
        ..unit(at)
    };
    [
        ("one stage", roll(plain, unit)),
        ("eight stages and domains", roll(stages, in_stages)),
    ]
}

fn roll(mut spec: Spec, unit: impl Fn(usize) -> Unit) -> [Taken; 4] {
    let mut units: Vec<Unit> = (0..UNITS).map(unit).collect();
    let mut memory = Memory::default();
    let first = measure("before the first step", &spec, &memory, &units);
    let mut middle = first;
    for round in 0..200 {
        let decision = plan(&spec, &memory, &units, NOW);
        apply_steps(&mut units, &decision.steps);
        memory = decision.memory;
        if round == 20 {
            middle = measure("midway, with 200 in flight", &spec, &memory, &units);
        }
        units.iter_mut().for_each(succeed);
    }
    let done = measure("when all is done", &spec, &memory, &units);
    spec.target = Some(Revision::new([2; 16]));
    for unit in &mut units {
        unit.desired = desired(2);
    }
    let new = measure("a new target", &spec, &memory, &units);
    [first, middle, done, new]
}

fn measure(moment: &'static str, spec: &Spec, memory: &Memory, units: &[Unit]) -> Taken {
    let run = || {
        let started = Instant::now();
        let decision = plan(spec, memory, units, NOW);
        let taken = started.elapsed();
        drop(decision);
        taken
    };
    let mut taken: Vec<Duration> = (0..RUNS).map(|_| run()).collect();
    taken.sort_unstable();
    let at = |place: usize| taken.get(place).copied().unwrap_or_default();
    Taken {
        moment,
        median: at(RUNS / 2),
        slowest: at(RUNS - 1),
    }
}

fn stage(number: usize) -> Stage {
    Stage {
        name: format!("stage-{number}").into(),
        limit: Some(Limit::Percent(10)),
        soak: Millis(0),
        approval: false,
        gates: Vec::new(),
    }
}

fn unit(at: usize) -> Unit {
    Unit {
        id: format!("cluster-{at:05}").into(),
        incarnation: Incarnation::of(&at.to_string()),
        desired: desired(1),
        assigned: None,
        observed: None,
        eligible: Eligible::Yes,
        place: StagePosition::Last,
        domain: None,
        available: true,
        pinned: false,
    }
}

fn desired(number: u8) -> Desired {
    Desired::Content {
        revision: Revision::new([number; 16]),
        digest: Digest::new([number; 16]),
        last_good: None,
    }
}

fn apply_steps(units: &mut [Unit], steps: &[Step]) {
    for step in steps {
        let Step::Assign {
            unit,
            revision,
            digest,
            token,
        } = step
        else {
            continue;
        };
        let Ok(at) = units.binary_search_by(|one| one.id.cmp(unit)) else {
            continue;
        };
        let content = Content::Carries {
            revision: Some(*revision),
            digest: *digest,
        };
        if let Some(unit) = units.get_mut(at) {
            unit.assigned = Some(Assignment {
                token: *token,
                content,
            });
        }
    }
}

fn succeed(unit: &mut Unit) {
    let Some(Assignment {
        token,
        content: Content::Carries { digest, .. },
    }) = unit.assigned
    else {
        return;
    };
    unit.observed = Some(Report {
        digest: Some(digest),
        token,
        state: State::Succeeded,
    });
}
