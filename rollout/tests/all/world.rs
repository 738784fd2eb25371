//! A small world of named units: assignments, agents that report, a caller that writes the memory first and then the
//! assignments.
#![allow(dead_code, unreachable_pub)] // each test file uses its own part

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub use muster_simulator::steps::{assignment_steps, word};

use muster_driver::Change;
use muster_rollout::{
    Absence, Assignment, Class, Content, Control, ControlCommand, Decision, Desired, Digest, Domain,
    Eligible, Incarnation, Ineligible, Memory, Millis, Report, Revision, Spec, StagePosition, State, Step,
    Unit, UnitId, Why, plan,
};

/// The revision of a label, which contains its text.
pub fn rev(label: &str) -> Revision {
    Revision::new(padded(label))
}

/// The digest of a revision with some values.
pub fn digest(revision: &str, values: u32) -> Digest {
    Digest::new(padded(&format!("{revision}.{values}")))
}

fn padded(text: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// The label of a revision or a digest.
pub fn label(hash: impl std::fmt::Display) -> String {
    let hex = hash.to_string();
    let bytes = (0..16).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap());
    String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()).unwrap()
}

/// Why an unreachable unit cannot be changed.
pub const UNREACHABLE: Ineligible = ineligible(5, Absence::Skip);

/// A reason of the caller.
pub const fn ineligible(rank: u8, absence: Absence) -> Ineligible {
    Ineligible {
        code: rank,
        rank,
        absence,
    }
}

/// The current state of one unit.
#[derive(Clone)]
pub struct Member {
    pub selected: bool,
    pub resolved: bool,
    pub values: u32,
    pub life: u32,
    pub row: Option<Assignment>,
    pub report: Option<Report>,
    pub eligible: Eligible,
    pub place: StagePosition,
    pub domain: Option<Domain>,
    pub available: bool,
    /// The content that it is pinned to.
    pub pin: Option<String>,
}

/// The current world, and the last written memory.
#[derive(Clone)]
pub struct World {
    pub now: Millis,
    pub spec: Spec,
    pub target: Option<String>,
    pub memory: Memory,
    pub members: BTreeMap<String, Member>,
}

impl World {
    /// A fleet without content, with a first target.
    pub fn new(names: &[&str], target: &str) -> Self {
        let mut world = Self {
            now: Millis::seconds(1000),
            spec: Spec::default(),
            target: None,
            memory: Memory::default(),
            members: BTreeMap::new(),
        };
        names.iter().for_each(|name| world.join(name));
        world.aim(target);
        world
    }

    /// A fleet that is confirmed at a revision.
    pub fn settled(names: &[&str], revision: &str) -> Self {
        let mut world = Self::new(names, revision);
        world.settle();
        assert_eq!(world.memory.last_good, Some(rev(revision)));
        world
    }

    /// Lets every change succeed until nothing changes any more.
    pub fn settle(&mut self) {
        for _ in 0..4 * self.members.len() + 4 {
            self.step();
            self.names().iter().for_each(|name| self.succeed(name));
        }
        assert!(
            assignment_steps(&self.decide()).is_empty(),
            "the world does not settle"
        );
    }

    pub fn names(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    pub fn aim(&mut self, target: &str) {
        self.target = Some(target.into());
        self.spec.target = Some(rev(target));
    }

    pub fn join(&mut self, name: &str) {
        let life = self.members.get(name).map_or(0, |member| member.life + 1);
        let eligible = Eligible::Yes;
        let member = Member {
            selected: true,
            resolved: true,
            values: 0,
            life,
            row: None,
            report: None,
            eligible,
            place: StagePosition::Last,
            domain: None,
            available: true,
            pin: None,
        };
        self.members.insert(name.into(), member);
    }

    pub fn member(&mut self, name: &str) -> &mut Member {
        self.members.get_mut(name).unwrap()
    }

    pub fn deselect(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.member(name).selected = false);
    }

    pub fn reselect(&mut self, name: &str) {
        self.member(name).selected = true;
    }

    pub fn lose(&mut self, name: &str) {
        self.member(name).eligible = Eligible::No(UNREACHABLE);
    }

    pub fn find(&mut self, name: &str) {
        self.member(name).eligible = Eligible::Yes;
    }

    /// Assigns units to a stage, or a domain, by its number.
    pub fn stage(&mut self, names: &[&str], stage: u8) {
        names
            .iter()
            .for_each(|name| self.member(name).place = StagePosition::Stage(stage));
    }

    pub fn domain(&mut self, names: &[&str], domain: usize) {
        names
            .iter()
            .for_each(|name| self.member(name).domain = Domain::nth(domain));
    }

    /// Gives a one-time command; returns whether it had an effect.
    pub fn say(&mut self, command: ControlCommand) -> bool {
        let id = self.spec.controls.len() as u64 + 1;
        self.spec.controls.push(Control { id, says: command });
        let decision = self.step();
        let [(taken, applied)] = decision.taken[..] else {
            panic!("{:?}", decision.taken)
        };
        assert_eq!(taken, id);
        applied
    }

    pub fn pass(&mut self, time: Millis) {
        self.now = self.now.plus(time);
    }

    /// The current view.
    pub fn view(&self) -> Vec<Unit> {
        let unit = |(name, member): (&String, &Member)| Unit {
            id: name.as_str().into(),
            incarnation: Incarnation::of(&member.life.to_string()),
            desired: self.desired(member),
            assigned: member.row,
            observed: member.report.clone(),
            eligible: member.eligible,
            place: member.place,
            domain: member.domain,
            available: member.available,
            pinned: member.pin.is_some() && member.pin != self.target,
        };
        self.members.iter().map(unit).collect()
    }

    fn desired(&self, member: &Member) -> Desired {
        match member.pin.as_ref().or(self.target.as_ref()) {
            _ if !member.selected => Desired::Nothing,
            Some(target) if member.resolved => Desired::Content {
                revision: rev(target),
                digest: digest(target, member.values),
                last_good: self
                    .memory
                    .last_good
                    .map(|good| digest(&label(good), member.values)),
            },
            _ => Desired::Unresolved,
        }
    }

    /// The decision for the current state.
    pub fn decide(&self) -> Decision {
        plan(&self.spec, &self.memory, &self.view(), self.now)
    }

    /// Decides and writes the memory; the steps are not applied.
    pub fn remember(&mut self) -> Decision {
        let decision = self.decide();
        self.memory = decision.memory.clone();
        decision
    }

    /// Decides and writes the memory on an outdated view of this unit.
    pub fn remember_on(&mut self, name: &str, before: &Member) -> Decision {
        let now = std::mem::replace(self.member(name), before.clone());
        let decision = self.remember();
        *self.member(name) = now;
        decision
    }

    /// Decides, writes the memory, and applies every step.
    pub fn step(&mut self) -> Decision {
        let decision = self.remember();
        decision.steps.iter().for_each(|step| self.carry_out(step));
        decision
    }

    /// Writes an assignment as the caller does: only with a greater token.
    pub fn carry_out(&mut self, step: &Step) {
        let Some((unit, change)) = Change::of(step) else {
            return;
        };
        let Some(member) = self.members.get_mut(unit.as_str()) else {
            return;
        };
        if !change.is_written(member.row.map(|row| row.token)) {
            member.row = Some(change.applied(member.row));
        }
    }

    /// The unit reports about its assignment.
    pub fn report(&mut self, name: &str, state: State) {
        let member = self.member(name);
        let Some(row) = member.row else { return };
        let (digest, state) = match row.content {
            Content::Carries { digest, .. } => (Some(digest), state),
            Content::Withdraw => (None, State::Withdrawn),
            Content::Nothing => return,
        };
        member.report = Some(Report {
            digest,
            token: row.token,
            state,
        });
    }

    pub fn succeed(&mut self, name: &str) {
        self.report(name, State::Succeeded);
    }

    pub fn fail(&mut self, name: &str) {
        self.report(name, failure(Class::Revision, true));
    }

    /// The units whose assignments have this revision.
    pub fn on(&self, revision: &str) -> Vec<&str> {
        let carries = |member: &Member| match member.row.map(|row| row.content) {
            Some(Content::Carries {
                revision: Some(carried),
                ..
            }) => carried == rev(revision),
            _ => false,
        };
        let members = self.members.iter().filter(|(_, member)| carries(member));
        members.map(|(name, _)| name.as_str()).collect()
    }

    /// The units in flight.
    pub fn in_flight(&self) -> Vec<String> {
        let changes = self.memory.in_flight.iter().filter(|(_, change)| !change.skipped);
        changes.map(|(id, _)| id.to_string()).collect()
    }

    pub fn token(&self, name: &str) -> u64 {
        self.members[name].row.map_or(0, |row| row.token.0)
    }

    pub fn why(&self, name: &str) -> Why {
        let id = UnitId::from(name);
        self.decide()
            .reasons
            .into_iter()
            .find(|(unit, _)| *unit == id)
            .unwrap()
            .1
    }

    /// The name of each unit's reason.
    pub fn words(&self) -> String {
        let decision = self.decide();
        let words = decision
            .reasons
            .iter()
            .map(|(unit, why)| format!("{unit}:{}", word(why)));
        words.collect::<Vec<_>>().join(" ")
    }
}

pub fn failure(class: Class, terminal: bool) -> State {
    State::Failed {
        class,
        terminal,
        message: "Deployment app: image not found".into(),
    }
}

/// One step as text.
pub fn show(step: &Step) -> String {
    match step {
        Step::Assign {
            unit, digest, token, ..
        } => format!("assign {unit} {}#{token}", label(digest)),
        Step::Withdraw { unit, token, how } => format!("withdraw {unit} {how:?}#{token}"),
        Step::Fence { unit, token } => format!("fence {unit} #{token}"),
        Step::Abandon { unit, token } => format!("abandon {unit}#{token}"),
        Step::Evaluate { gate } => format!("read gate {} of stage {}", gate.gate, gate.stage),
        Step::Conclude {
            revision,
            verdict,
            evidence,
        } => {
            let who = evidence
                .as_ref()
                .map(|it| format!(": {} said {}", it.unit, it.message));
            format!(
                "conclude {} {verdict:?}{}",
                label(revision),
                who.unwrap_or_default()
            )
        }
    }
}

/// One decision as text.
pub fn log(world: &World, decision: &Decision) -> String {
    let mut text = format!("{:>5}s ", world.now.0 / 1000 - 1000);
    let steps: Vec<String> = decision.steps.iter().map(show).collect();
    let words = decision
        .reasons
        .iter()
        .map(|(unit, why)| format!("{unit}:{}", word(why)));
    let words = words.collect::<Vec<_>>().join(" ");
    let wake = decision
        .wake_at
        .map_or_else(|| "-".into(), |at| format!("{}s", at.0 / 1000 - 1000));
    let summary = decision.summary;
    write!(
        text,
        "{}/{} {:?} | {words} | wake {wake}",
        summary.updated, summary.total, summary.phase
    )
    .unwrap();
    steps
        .iter()
        .for_each(|step| write!(text, "\n         -> {step}").unwrap());
    text
}

/// The names in a text such as "a b c".
pub fn set(names: &str) -> BTreeSet<&str> {
    names.split_whitespace().collect()
}
