//! The world of a scope: the shell around the decision function, clusters, and their events.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use muster_rollout::{
    Control, ControlCommand, Deadlines, Desired, Digest, Domain, Domains, Eligible, Incarnation, Ineligible,
    Limit, Memory, Millis, Revision, Spec, Stage, StagePosition, Unit, UnitId, Withdraw,
};

use crate::normal::{BEAT, NEVER, Tokens, normal, number};
use crate::observer::{Measure, Observer};
use crate::scope::{Feature, Scope};
use crate::set::Set;
use crate::state::{Assemblage, Cluster, Entry, Fit, Leader, Module, RecordedVerdicts, State};
use crate::wrong::Wrong;

/// The one-time commands, in the order of [`Module::said`].
pub const APPROVE: usize = 0;
/// See [`APPROVE`].
pub const ABORT: usize = 1;
/// See [`APPROVE`].
pub const RETRY: usize = 2;

/// A revision of fair runs, which never fails.
pub const GOAL: u8 = 5;
/// A revision of fair runs, which always fails.
pub const BAD_GOAL: u8 = 6;

/// The name of the first stage.
const CANARY: &str = "canary";
/// The name of the second stage.
const MOST: &str = "most";

/// The world of a scope.
#[derive(Debug)]
pub struct World {
    /// Its scope.
    pub scope: Scope,
    /// The deliberate error.
    pub wrong: Wrong,
    pub(crate) names: Vec<UnitId>,
    /// Fingerprints of states from which each goal is known to be reached.
    pub(crate) known: Mutex<HashMap<u64, Arc<State>>>,
    /// The same with a slot and failures to spare.
    pub(crate) generous: Option<Box<Self>>,
}

impl World {
    /// The world of a scope without an error.
    pub fn new(scope: Scope) -> Self {
        Self::wrong(scope, Wrong::Nothing)
    }

    /// The world of a scope with this error.
    pub fn wrong(scope: Scope, wrong: Wrong) -> Self {
        let generous = Scope {
            limit: scope.limit + 1,
            max_failed: 9,
            ..scope.clone()
        };
        Self {
            generous: scope.fair.then(|| Box::new(Self::bare(generous, wrong))),
            ..Self::bare(scope, wrong)
        }
    }

    fn bare(scope: Scope, wrong: Wrong) -> Self {
        let names = ["a", "b", "c", "d"].into_iter().take(scope.clusters);
        Self {
            names: names.map(UnitId::from).collect(),
            scope,
            wrong,
            known: Mutex::default(),
            generous: None,
        }
    }

    pub(crate) fn measure(&self) -> Measure {
        Measure {
            limit: self.scope.limit,
            max_failed: self.scope.max_failed,
            absence: self.scope.beats.absence,
        }
    }

    /// The first state: clusters without content, and a target.
    pub(crate) fn begin(&self) -> State {
        let entry = Entry {
            life: 0,
            present: true,
            selected: true,
            fit: Fit::Ready,
        };
        let sheet = Assemblage {
            life: 0,
            assignment: None,
            report: None,
            fence: None,
        };
        let cluster = Cluster {
            entry,
            sheet,
            mirror: None,
        };
        let mut state = State {
            module: Module {
                target: 0,
                paused: false,
                commands: [None; 3],
                acknowledged: None,
                given_up: Set::default(),
                memory: Some(Arc::new(Memory::default())),
                verdicts: RecordedVerdicts::default(),
            },
            clusters: vec![cluster; self.scope.clusters],
            leaders: Vec::new(),
            flying: BTreeSet::new(),
            left: self.scope.events,
            eye: Observer::default(),
            broken: None,
        };
        if self.scope.settled {
            Self::bare(self.scope.clone(), Wrong::Nothing).settle(&mut state);
            state.module.target = 1;
        }
        if self.scope.has(Feature::Stale) {
            let leader = self.leader_with_current_view(&state);
            state.leaders = vec![leader; self.scope.leaders];
        }
        self.put_in_order(&mut state);
        state
    }

    /// A leader with a current view.
    pub(crate) fn leader_with_current_view(&self, state: &State) -> Leader {
        Leader {
            sheets: Arc::new(sheets(state)),
            entries: Arc::new(entries(state)),
            memory: state
                .module
                .memory
                .clone()
                .filter(|_| self.wrong == Wrong::NoCompareAndSwap),
            returned: Set::default(),
            confirmed: Set::default(),
        }
    }

    pub(crate) fn put_in_order(&self, state: &mut State) {
        let spec = self.spec(&state.module);
        let returns = self.scope.has(Feature::Away) || self.scope.has(Feature::Held);
        let lost = self.scope.has(Feature::Loss) || self.scope.has(Feature::Back);
        let all = lost || self.wrong.is_of_tokens();
        let tokens = if all {
            Tokens::All
        } else {
            Tokens::OfClusters(&self.names)
        };
        normal(state, &spec, self.wrong.is_of_writes(), returns, tokens);
    }

    /// The desired state in the form of the engine.
    pub(crate) fn spec(&self, module: &Module) -> Spec {
        let scope = &self.scope;
        let beats = |beats: Option<u8>| beats.map_or(NEVER, |beats| Millis(BEAT.0 * u64::from(beats)));
        let soak = |beats: Option<u8>| beats.map_or(Millis(0), |beats| Millis(BEAT.0 * u64::from(beats)));
        let stage = |name: &str, limit, soak, approval| Stage {
            name: name.into(),
            limit,
            soak,
            approval,
            gates: Vec::new(),
        };
        Spec {
            target: Some(revision(module.target)),
            batch: scope.batch,
            domains: domains(scope),
            stages: if scope.has(Feature::Stages) {
                vec![
                    stage(CANARY, None, soak(scope.beats.soak), true),
                    stage(MOST, Some(Limit::Count(1)), Millis(0), false),
                ]
            } else {
                Vec::new()
            },
            controls: controls(module),
            limit: Limit::Count(scope.limit),
            unavailable: scope.has(Feature::Budget).then_some(Limit::Count(1)),
            min_ready: soak(scope.beats.ready),
            on_failure: scope.on_failure,
            max_failed: Limit::Count(scope.max_failed),
            deadlines: Deadlines {
                total: None,
                pickup: beats(scope.beats.pickup),
                progress: beats(scope.beats.progress),
                absence: beats(scope.beats.absence),
            },
            on_join: scope.on_join,
            withdraw: Withdraw {
                max: Limit::Count(1),
                brake: scope.brake.map(Limit::Count),
                acknowledged: module.acknowledged.clone(),
                ..Withdraw::default()
            },
            paused: module.paused,
            abandoned: module
                .given_up
                .iter()
                .filter_map(|at| self.names.get(at).cloned())
                .collect(),
            ..Spec::default()
        }
    }

    /// The clusters in the form of the engine, from the views of assemblages and of the registry: as the shell builds
    /// them.
    pub(crate) fn units(
        &self,
        module: &Module,
        memory: &Memory,
        sheets: &[Assemblage],
        entries: &[Entry],
    ) -> Vec<Unit> {
        let mut units = Vec::with_capacity(entries.len());
        for (at, (sheet, entry)) in sheets.iter().zip(entries).enumerate() {
            let Some(id) = self.names.get(at) else { continue };
            let own = entry.present && sheet.life == entry.life;
            let row = sheet.assignment.filter(|_| own || !entry.present);
            let in_flight = memory.in_flight.contains_key(id);
            let wanted = entry.present && (entry.selected || in_flight);
            if !wanted && row.is_none() {
                continue;
            }
            units.push(Unit {
                id: id.clone(),
                incarnation: incarnation(*entry),
                desired: Self::desired(module, memory, *entry),
                assigned: row.map(|row| self.observed_assignment(row, sheet)),
                observed: sheet.report.clone().filter(|_| row.is_some() || own),
                eligible: eligible(self.scope.absence, sheet, *entry),
                place: self.stage_position(at),
                domain: self.domain(at),
                available: entry.fit != Fit::Unavailable,
                pinned: false,
            });
            if let (Some(unit), Some(_)) = (units.last_mut(), row) {
                self.mistaken(unit, sheet);
            }
        }
        units
    }

    fn desired(module: &Module, memory: &Memory, entry: Entry) -> Desired {
        if !entry.present || !entry.selected {
            return Desired::Nothing;
        }
        Desired::Content {
            revision: revision(module.target),
            digest: digest(module.target),
            last_good: memory.last_good.map(|good| digest(number_of(good))),
        }
    }

    /// With stages the first cluster is the canary, two are most, and the others come last.
    fn stage_position(&self, at: usize) -> StagePosition {
        match at {
            _ if !self.scope.has(Feature::Stages) => StagePosition::Last,
            0 => StagePosition::Stage(0),
            1 | 2 => StagePosition::Stage(1),
            _ => StagePosition::Last,
        }
    }

    /// With domains the first two share one, the third has another, and the fourth has none.
    pub(crate) fn domain(&self, at: usize) -> Option<Domain> {
        match at {
            _ if !self.scope.has(Feature::Domains) && !self.scope.has(Feature::Order) => None,
            0 => Domain::nth(0),
            1 if self.scope.clusters > 2 => Domain::nth(0),
            1 | 2 => Domain::nth(1),
            _ => None,
        }
    }
}

fn domains(scope: &Scope) -> Domains {
    if scope.has(Feature::Order) {
        return Domains {
            ordered: true,
            at_once: Some(1),
            limit: Some(Limit::Count(1)),
        };
    }
    if scope.has(Feature::Domains) {
        Domains::EXCLUSIVE
    } else {
        Domains::ANY
    }
}

fn controls(module: &Module) -> Vec<Control> {
    let mut controls = Vec::new();
    for (word, command) in module.commands.iter().enumerate() {
        let Some(command) = command else { continue };
        let of = revision(command.revision);
        controls.push(Control {
            id: number(word, command.fresh),
            says: match word {
                APPROVE => ControlCommand::Approve(of, CANARY.into()),
                ABORT => ControlCommand::Abort(of),
                _ => ControlCommand::Retry(of),
            },
        });
    }
    controls
}

pub(crate) fn incarnation(entry: Entry) -> Incarnation {
    if entry.present {
        life(entry.life)
    } else {
        Incarnation::of("")
    }
}

/// An incarnation of a cluster by its number.
pub(crate) fn life(number: u8) -> Incarnation {
    Incarnation::of(["0", "1", "2", "3"].get(usize::from(number)).unwrap_or(&"n"))
}

fn eligible(absence: muster_rollout::Absence, sheet: &Assemblage, entry: Entry) -> Eligible {
    let no = |rank: u8, absence| {
        Eligible::No(Ineligible {
            code: rank,
            rank,
            absence,
        })
    };
    let skip = muster_rollout::Absence::Skip;
    match entry.fit {
        _ if !entry.present => no(0, skip),
        Fit::Away => no(5, absence),
        Fit::Held => no(8, skip),
        _ if sheet.assignment.is_some() && sheet.life != entry.life => no(10, skip),
        Fit::Closed => Eligible::Closed {
            why: Ineligible {
                code: 26,
                rank: 26,
                absence: skip,
            },
            reverts: false,
            withdrawals: false,
        },
        Fit::Ready | Fit::Unavailable => Eligible::Yes,
    }
}

/// The content of the assemblages.
pub(crate) fn sheets(state: &State) -> Vec<Assemblage> {
    state
        .clusters
        .iter()
        .map(|cluster| cluster.sheet.clone())
        .collect()
}

/// The content of the registry.
pub(crate) fn entries(state: &State) -> Vec<Entry> {
    state.clusters.iter().map(|cluster| cluster.entry).collect()
}

/// A revision by its number.
pub(crate) fn revision(number: u8) -> Revision {
    Revision::new([number + 1; 16])
}

/// The digest of a revision.
pub(crate) fn digest(number: u8) -> Digest {
    Digest::new([number + 1; 16])
}

/// The number of a revision.
pub(crate) fn number_of(known: Revision) -> u8 {
    (0..8).find(|number| revision(*number) == known).unwrap_or(7)
}
