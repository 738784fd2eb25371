//! The start of a history, generated from a seed.

use std::collections::BTreeMap;

use muster_rollout::{
    Batch, Class, Deadlines, Domain, Domains, Gate, Incarnation, Limit, Millis, OnFailure, OnJoin, Revision,
    Spec, Stage, StagePosition, Strategy, UnitId, Withdraw,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::events;
use crate::{Delays, Fault, FleetEvent, Member, Pace, revision};

/// The time at which every history begins.
pub(super) const BEGIN: Millis = Millis(1_800_000_000_000);
/// Maximum number of units of a fleet.
const MOST: usize = 200;

/// A fleet, its spec, and its events.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The initial spec.
    pub spec: Spec,
    /// The initial fleet.
    pub members: BTreeMap<UnitId, Member>,
    /// The properties of a unit that joins.
    pub newcomer: Member,
    /// Delays and losses between the leader and the units.
    pub surroundings: Delays,
    /// The events, with their times since the beginning.
    pub happenings: Vec<(Millis, FleetEvent)>,
    /// From then on everything works.
    pub horizon: Millis,
    /// The spec from then on.
    pub ending: Ending,
}

/// How a history ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// A limit that allows changes.
    pub limit: Limit,
    /// A new revision, which works.
    pub good: Revision,
    /// A new revision that fails, if that is tried too.
    pub bad: Option<Revision>,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn of(seed: u64) -> Self {
        let random = &mut StdRng::seed_from_u64(seed ^ 0x6d75_7374_6572);
        let count = how_many(random);
        let stages = if random.random_bool(0.3) {
            random.random_range(1..=3)
        } else {
            0
        };
        let domains = random.random_range(1..=4);
        let ending = Ending {
            limit: if count > 12 {
                Limit::Percent(random.random_range(15..=60))
            } else {
                Limit::Count(random.random_range(1..=4))
            },
            good: revision(1 << 32),
            bad: random.random_bool(0.25).then(|| revision((1 << 32) + 1)),
        };
        let newcomer = Member {
            domain: Domain::nth(0),
            place: if stages > 0 {
                StagePosition::Stage(0)
            } else {
                StagePosition::Last
            },
            faults: faults(random, &ending),
            ..Member::new(pace(random))
        };
        let names = (0..count).map(|number| UnitId::from(format!("u-{number}")));
        let members: BTreeMap<UnitId, Member> = names
            .map(|id| {
                let member = Member {
                    incarnation: Incarnation::of(id.as_str()),
                    place: random_position(random, stages),
                    domain: Domain::nth(random.random_range(0..domains)).filter(|_| random.random_bool(0.9)),
                    pace: pace(random),
                    ..newcomer.clone()
                };
                (id, member)
            })
            .collect();
        let horizon = Millis::minutes(random.random_range(5..=60));
        let ids: Vec<UnitId> = members.keys().cloned().collect();
        let mut spec = spec(random, stages, count);
        let mut happenings = events::all(random, &ids, horizon);
        let surroundings = random_delays(random);
        // From a sequence of its own: histories without it stay the same.
        let random = &mut StdRng::seed_from_u64(seed ^ 0x7769_6e64_6f77);
        if random.random_bool(0.5) {
            happenings.extend(events::disturbances(random, &ids, horizon));
            constrain(random, &mut spec);
        }
        Self {
            spec,
            members,
            newcomer,
            surroundings,
            happenings,
            horizon,
            ending,
        }
    }
}

/// Mostly few units: errors among many also occur among few, and sooner.
fn how_many(random: &mut StdRng) -> usize {
    match random.random_range(0..1000) {
        0..620 => random.random_range(1..=6),
        620..880 => random.random_range(7..=20),
        880..970 => random.random_range(21..=50),
        970..995 => random.random_range(51..=100),
        _ => random.random_range(101..=MOST),
    }
}

fn pace(random: &mut StdRng) -> Pace {
    let slow = random.random_bool(0.1);
    Pace {
        pickup: Millis(random.random_range(0..if slow { 120_000 } else { 10_000 })),
        work: Millis(random.random_range(0..if slow { 400_000 } else { 60_000 })),
    }
}

/// Some revisions fail everywhere, but not the final one.
fn faults(random: &mut StdRng, ending: &Ending) -> BTreeMap<Revision, Fault> {
    let terminal = Fault {
        class: Class::Revision,
        terminal: true,
    };
    let mut faults: BTreeMap<Revision, Fault> = ending.bad.map(|bad| (bad, terminal)).into_iter().collect();
    for number in [events::BAD, events::WORSE] {
        let fault = Fault {
            class: Class::Revision,
            terminal: random.random_bool(0.8),
        };
        faults.insert(revision(number), fault);
    }
    faults
}

fn random_position(random: &mut StdRng, stages: u8) -> StagePosition {
    match random.random_range(0..=stages) {
        _ if stages == 0 => StagePosition::Last,
        stage if stage < stages => StagePosition::Stage(stage),
        _ if random.random_bool(0.15) => StagePosition::Excluded,
        _ => StagePosition::Last,
    }
}

fn spec(random: &mut StdRng, stages: u8, count: usize) -> Spec {
    let ready = [0, 0, 20, 90];
    Spec {
        target: Some(revision(1)),
        strategy: if random.random_bool(0.05) {
            Strategy::Replace
        } else {
            Strategy::Incremental
        },
        batch: random.random_bool(0.2).then(|| Batch {
            start: random.random_range(1..=3),
            factor: random.random_range(1..=3),
            max: random.random_range(2..=40),
        }),
        domains: if random.random_bool(0.2) {
            Domains::EXCLUSIVE
        } else {
            Domains::ANY
        },
        stages: (0..stages).map(|number| stage(random, number)).collect(),
        limit: events::random_limit(random, count),
        min_ready: Millis::seconds(
            ready
                .get(random.random_range(0..ready.len()))
                .copied()
                .unwrap_or(0),
        ),
        on_failure: match random.random_range(0..7) {
            0..3 => OnFailure::Halt,
            3..6 => OnFailure::Revert,
            _ => OnFailure::Continue,
        },
        max_failed: if random.random_bool(0.8) {
            Limit::Count(random.random_range(0..=2))
        } else {
            Limit::Percent(random.random_range(0..=40))
        },
        deadlines: Deadlines::default(),
        on_join: if random.random_bool(0.7) {
            OnJoin::LastGood
        } else {
            OnJoin::Target
        },
        withdraw: Withdraw {
            max: Limit::Percent(random.random_range(1..=50)),
            brake: random
                .random_bool(0.9)
                .then(|| Limit::Percent(random.random_range(0..=40))),
            ..Withdraw::default()
        },
        ..Spec::default()
    }
}

/// Additional settings for nodes: few domains at a time, in order, and a budget of unavailable units.
fn constrain(random: &mut StdRng, spec: &mut Spec) {
    let mut some = |limit: Limit| random.random_bool(0.5).then_some(limit);
    let (unavailable, of_domain) = (some(Limit::Percent(30)), some(Limit::Count(2)));
    spec.unavailable = unavailable;
    if random.random_bool(0.5) {
        spec.domains = Domains {
            ordered: random.random_bool(0.5),
            at_once: random.random_bool(0.8).then(|| random.random_range(1..=2)),
            limit: of_domain,
        };
    }
}

fn stage(random: &mut StdRng, number: u8) -> Stage {
    let gate = Gate {
        definition: 1,
        interval: Millis::seconds(random.random_range(5..=60)),
        passes: random.random_range(1..=3),
        no_data_fails: random.random_bool(0.5),
    };
    Stage {
        name: format!("stage-{number}").into(),
        limit: random
            .random_bool(0.3)
            .then(|| Limit::Count(random.random_range(1..=3))),
        soak: Millis::seconds(if random.random_bool(0.5) {
            0
        } else {
            random.random_range(1..=120)
        }),
        approval: random.random_bool(0.3),
        gates: if random.random_bool(0.3) {
            vec![gate]
        } else {
            Vec::new()
        },
    }
}

fn random_delays(random: &mut StdRng) -> Delays {
    let calm = random.random_bool(0.2);
    let mut of_a_hundred = |most: u8| if calm { 0 } else { random.random_range(0..=most) };
    let (lost, twice, stale, slow) = (
        of_a_hundred(15),
        of_a_hundred(15),
        of_a_hundred(20),
        of_a_hundred(20),
    );
    Delays {
        think: (Millis(50), Millis(random.random_range(100..3_000))),
        carry: (Millis(5), Millis(random.random_range(10..5_000))),
        lost,
        twice,
        stale,
        slow,
        resync: Millis::seconds(random.random_range(5..=90)),
        approval: random
            .random_bool(0.6)
            .then(|| Millis::seconds(random.random_range(0..300))),
        holds: random.random_range(40..=100),
    }
}
