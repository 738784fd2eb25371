//! How long decisions over ten thousand units take: `cargo run --release -p muster-rollout --example speed`.
//!
//! The moments of a rollout that cost most: before its first step, in the middle of it with a full window, when all is
//! done, and when a new target changes everybody. The median of many runs is printed; nothing is asserted.

use std::time::{Duration, Instant};

use muster_rollout::{
    Content, Desired, Digest, Domain, Echo, Eligible, Incarnation, Limit, Memory, Millis, Place, Revision,
    Row, Spec, Stage, State, Step, Unit, plan,
};

const UNITS: usize = 10_000;
const RUNS: usize = 101;
const NOW: Millis = Millis(1_800_000_000_000);

fn main() {
    println!("a unit is {} bytes", size_of::<Unit>());
    let plain = Spec {
        target: Some(Revision::new([1; 16])),
        limit: Limit::Percent(2),
        ..Spec::default()
    };
    roll(plain.clone(), unit);
    println!("in eight stages, each with a limit of its own, and domains:");
    let stages = Spec {
        stages: (0..8).map(stage).collect(),
        exclusive: true,
        ..plain
    };
    roll(stages, |at| Unit {
        place: Place::Stage(u8::try_from(at % 8).unwrap_or_default()),
        domain: Domain::nth(at % 3),
        ..unit(at)
    });
}

fn roll(mut spec: Spec, unit: impl Fn(usize) -> Unit) {
    let mut units: Vec<Unit> = (0..UNITS).map(unit).collect();
    let mut memory = Memory::default();
    measure("before the first step", &spec, &memory, &units);
    let mut middle = None;
    for round in 0..200 {
        let decision = plan(&spec, &memory, &units, NOW);
        carry_out(&mut units, &decision.steps);
        memory = decision.memory;
        if round == 20 {
            middle = Some((memory.clone(), units.clone()));
        }
        units.iter_mut().for_each(succeed);
    }
    if let Some((memory, units)) = middle {
        measure("in the middle, 200 charged", &spec, &memory, &units);
    }
    measure("when all is done", &spec, &memory, &units);
    spec.target = Some(Revision::new([2; 16]));
    for unit in &mut units {
        unit.desired = desired(2);
    }
    measure("a new target", &spec, &memory, &units);
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

fn measure(what: &str, spec: &Spec, memory: &Memory, units: &[Unit]) {
    let run = || {
        let started = Instant::now();
        let decision = plan(spec, memory, units, NOW);
        let taken = started.elapsed();
        drop(decision);
        taken
    };
    let mut taken: Vec<Duration> = (0..RUNS).map(|_| run()).collect();
    taken.sort_unstable();
    let (median, worst) = (taken.get(RUNS / 2), taken.last());
    println!("{what}: median {median:?}, worst {worst:?} of {RUNS}");
}

fn unit(at: usize) -> Unit {
    Unit {
        id: format!("cluster-{at:05}").into(),
        incarnation: Incarnation::of(&at.to_string()),
        desired: desired(1),
        assigned: None,
        observed: None,
        eligible: Eligible::Yes,
        place: Place::Last,
        domain: None,
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

fn carry_out(units: &mut [Unit], steps: &[Step]) {
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
            unit.assigned = Some(Row {
                token: *token,
                content,
            });
        }
    }
}

fn succeed(unit: &mut Unit) {
    let Some(Row {
        token,
        content: Content::Carries { digest, .. },
    }) = unit.assigned
    else {
        return;
    };
    unit.observed = Some(Echo {
        digest: Some(digest),
        token,
        state: State::Succeeded,
    });
}
