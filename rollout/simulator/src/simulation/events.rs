//! Events of units and of users.

use muster_rollout::{
    Absence, Class, Content, Control, Digest, Eligible, Incarnation, Ineligible, Millis, Report, State,
    Token, UnitId,
};
use rand::RngExt as _;

use super::{Event, Simulation};
use crate::{FleetEvent, Member, SpecChange, UnitEvent, Witness};

/// The caller's codes of the reasons used here.
const UNREACHABLE: u8 = 5;
const HELD: u8 = 8;
const BEHIND: u8 = 26;

const fn because(code: u8, absence: Absence) -> Ineligible {
    Ineligible {
        code,
        rank: code,
        absence,
    }
}

impl<W: Witness> Simulation<'_, W> {
    pub(super) fn befalls(&mut self, happening: FleetEvent) {
        match happening {
            FleetEvent::To(id, what) => self.befalls_unit(&id, what),
            FleetEvent::Wish(change) => self.change_spec(change),
            FleetEvent::Crash { .. } if self.leaderless => return,
            FleetEvent::Crash { gap, lost } => {
                self.tally.crashes += 1;
                self.leaderless = true;
                (self.decide_at, self.wake_at) = (None, None);
                self.queue.push(self.now.plus(gap), Event::Lead { gap, lost });
            }
        }
        self.change();
    }

    fn befalls_unit(&mut self, id: &UnitId, what: UnitEvent) {
        let (now, view) = (self.now, self.views);
        match what {
            UnitEvent::Joins if !self.members.contains_key(id) => return self.join(id),
            UnitEvent::Leaves => return self.leave(id),
            UnitEvent::IsReplaced if self.members.contains_key(id) => {
                self.leave(id);
                return self.join(id);
            }
            _ => {}
        }
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        match what {
            UnitEvent::Breaks(trouble) => member.trouble = Some(trouble),
            UnitEvent::Recovers => member.trouble = None,
            UnitEvent::Takes(pace) => member.pace = pace,
            UnitEvent::Disappears(absence) => {
                member.away = true;
                member.eligible = Eligible::No(because(UNREACHABLE, absence));
                self.witness.went_away(id, now);
            }
            UnitEvent::IsHeld(absence) => {
                member.eligible = Eligible::No(because(HELD, absence));
                self.witness.went_away(id, now);
            }
            UnitEvent::IsBehind => {
                member.eligible = Eligible::NotYet(because(BEHIND, Absence::Skip));
                member.away = false;
                self.witness.came_back(id, view, now);
            }
            UnitEvent::Closes(closure) => member.closed = Some(closure),
            UnitEvent::Opens => member.closed = None,
            UnitEvent::IsUnavailable => member.available = false,
            UnitEvent::IsAvailable => member.available = true,
            UnitEvent::Returns => {
                (member.away, member.eligible) = (false, Eligible::Yes);
                self.witness.came_back(id, view, now);
            }
            UnitEvent::IsDeselected => member.selected = false,
            UnitEvent::IsReselected => member.selected = true,
            UnitEvent::GetsValues => member.values += 1,
            UnitEvent::IsUnresolved => member.resolved = false,
            UnitEvent::IsResolved => member.resolved = true,
            UnitEvent::IsPinned(revision) => member.pin = Some(revision),
            UnitEvent::IsUnpinned => member.pin = None,
            UnitEvent::IsForgotten => member.report = None,
            UnitEvent::Lies => {
                let number = self.random.random_range(0..5);
                member.report = Some(lie(member, number, self.memory.seq));
            }
            UnitEvent::Joins | UnitEvent::Leaves | UnitEvent::IsReplaced => {}
        }
        self.schedule_read(id, what);
    }

    /// When it next reads its assignment without an event.
    fn schedule_read(&mut self, id: &UnitId, what: UnitEvent) {
        let after = match what {
            UnitEvent::Breaks(_) | UnitEvent::Recovers | UnitEvent::Returns | UnitEvent::IsBehind => {
                Millis(0)
            }
            UnitEvent::IsForgotten | UnitEvent::Lies => self.surroundings.resync,
            _ => return,
        };
        if let Some(life) = self.members.get(id).map(|member| member.incarnation) {
            let at = self.now.plus(after).plus(self.carry());
            self.queue.push(at, Event::Looks(id.clone(), life));
        }
    }

    fn join(&mut self, id: &UnitId) {
        self.lives += 1;
        let member = Member {
            incarnation: Incarnation::of(&format!("{id} {}", self.lives)),
            ..self.newcomer.clone()
        };
        self.members.insert(id.clone(), member);
    }

    fn leave(&mut self, id: &UnitId) {
        if self.members.remove(id).is_some() {
            self.witness.is_gone(id, self.now);
        }
    }

    fn change_spec(&mut self, change: SpecChange) {
        self.version += 1;
        let spec = &mut self.spec;
        match change {
            SpecChange::Target(target) => spec.target = target,
            SpecChange::Limit(limit) => spec.limit = limit,
            SpecChange::Pause(paused) => spec.paused = paused,
            SpecChange::Acknowledge => {
                if let Some(held) = self.held.take() {
                    spec.withdraw.acknowledged = Some(held);
                }
            }
            SpecChange::GiveUp(units) => spec.abandoned = units,
            SpecChange::Say(command) => {
                self.last_control += 1;
                // A pending report is kept beside it.
                let taken = &self.memory.taken;
                spec.controls.retain(|control| !taken.contains(&control.id));
                spec.controls.push(Control {
                    id: self.last_control,
                    says: command,
                });
            }
        }
    }
}

/// A report that is no evidence of anything.
fn lie(member: &Member, number: u8, seq: Token) -> Report {
    let (token, digest) = match member.assignment.map(|row| (row.token, row.content)) {
        Some((token, Content::Carries { digest, .. })) => (token, Some(digest)),
        Some((token, Content::Withdraw | Content::Nothing)) => (token, None),
        None => (Token(0), None),
    };
    let other = Some(Digest::new([0xee; 16]));
    let failed = State::Failed {
        class: Class::Revision,
        terminal: true,
        message: "from another time".into(),
    };
    let (token, digest, state) = match number {
        // An older assignment with the same content, and a failed one.
        0 => (Token(token.0.saturating_sub(1)), digest, State::Succeeded),
        1 => (Token(token.0.saturating_sub(1)), digest, failed),
        // This assignment, and other content.
        2 => (token, other, State::Succeeded),
        3 => (token, other, failed),
        // An assignment that was not written here.
        _ => (Token(seq.0.saturating_add(70_000)), other, State::Succeeded),
    };
    Report { digest, token, state }
}
