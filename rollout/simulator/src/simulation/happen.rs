//! Events of units and of users.

use muster_rollout::{
    Absence, Class, Content, Control, Digest, Echo, Eligible, Incarnation, Ineligible, Millis, State, Token,
    UnitId,
};
use rand::RngExt as _;

use super::{Event, Simulation};
use crate::{Happening, Member, What, Wish, Witness};

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
    pub(super) fn befalls(&mut self, happening: Happening) {
        match happening {
            Happening::To(id, what) => self.befalls_unit(&id, what),
            Happening::Wish(wish) => self.wishes(wish),
            Happening::Crash { .. } if self.leaderless => return,
            Happening::Crash { gap, lost } => {
                self.tally.crashes += 1;
                self.leaderless = true;
                (self.decide_at, self.wake_at) = (None, None);
                self.queue.push(self.now.plus(gap), Event::Lead { gap, lost });
            }
        }
        self.change();
    }

    fn befalls_unit(&mut self, id: &UnitId, what: What) {
        let (now, view) = (self.now, self.views);
        match what {
            What::Joins if !self.members.contains_key(id) => return self.join(id),
            What::Leaves => return self.leave(id),
            What::IsReplaced if self.members.contains_key(id) => {
                self.leave(id);
                return self.join(id);
            }
            _ => {}
        }
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        match what {
            What::Breaks(trouble) => member.trouble = Some(trouble),
            What::Recovers => member.trouble = None,
            What::Takes(pace) => member.pace = pace,
            What::Disappears(absence) => {
                member.away = true;
                member.eligible = Eligible::No(because(UNREACHABLE, absence));
                self.witness.went_away(id, now);
            }
            What::IsHeld(absence) => {
                member.eligible = Eligible::No(because(HELD, absence));
                self.witness.went_away(id, now);
            }
            What::IsBehind => {
                member.eligible = Eligible::NotYet(because(BEHIND, Absence::Skip));
                member.away = false;
                self.witness.came_back(id, view, now);
            }
            What::Closes(closure) => member.closed = Some(closure),
            What::Opens => member.closed = None,
            What::IsUnavailable => member.available = false,
            What::IsAvailable => member.available = true,
            What::Returns => {
                (member.away, member.eligible) = (false, Eligible::Yes);
                self.witness.came_back(id, view, now);
            }
            What::IsDeselected => member.selected = false,
            What::IsReselected => member.selected = true,
            What::GetsValues => member.values += 1,
            What::IsUnresolved => member.resolved = false,
            What::IsResolved => member.resolved = true,
            What::IsPinned(revision) => member.pin = Some(revision),
            What::IsUnpinned => member.pin = None,
            What::IsForgotten => member.echo = None,
            What::Lies => {
                let number = self.random.random_range(0..5);
                member.echo = Some(lie(member, number, self.memory.seq));
            }
            What::Joins | What::Leaves | What::IsReplaced => {}
        }
        self.will_look(id, what);
    }

    /// When it next reads its assignment without an event.
    fn will_look(&mut self, id: &UnitId, what: What) {
        let after = match what {
            What::Breaks(_) | What::Recovers | What::Returns | What::IsBehind => Millis(0),
            What::IsForgotten | What::Lies => self.surroundings.resync,
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

    fn wishes(&mut self, wish: Wish) {
        self.version += 1;
        let spec = &mut self.spec;
        match wish {
            Wish::Target(target) => spec.target = target,
            Wish::Limit(limit) => spec.limit = limit,
            Wish::Pause(paused) => spec.paused = paused,
            Wish::Acknowledge => {
                if let Some(held) = self.held.take() {
                    spec.withdraw.acknowledged = Some(held);
                }
            }
            Wish::GiveUp(units) => spec.abandoned = units,
            Wish::Say(says) => {
                self.said += 1;
                // A pending report is kept beside it.
                let taken = &self.memory.taken;
                spec.controls.retain(|control| !taken.contains(&control.id));
                spec.controls.push(Control { id: self.said, says });
            }
        }
    }
}

/// A report that is no evidence of anything.
fn lie(member: &Member, number: u8, seq: Token) -> Echo {
    let (token, digest) = match member.row.map(|row| (row.token, row.content)) {
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
    Echo { digest, token, state }
}
