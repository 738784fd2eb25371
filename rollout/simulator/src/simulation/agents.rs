//! The agents of units: they read an assignment, start, finish, and report.

use muster_rollout::{Assignment, Content, Digest, Incarnation, Report, State, Token, UnitId};

use super::{Event, Simulation};
use crate::{Member, Trouble, Witness};

impl<W: Witness> Simulation<'_, W> {
    /// It reads its assignment, and starts.
    pub(super) fn picks(&mut self, id: &UnitId, life: Incarnation, token: Token) {
        let Some(member) = self.alive(id, life) else {
            return;
        };
        let Some(row) = member.task().filter(|row| row.token == token) else {
            return;
        };
        if member.trouble == Some(Trouble::Deaf) {
            return;
        }
        let known = std::mem::replace(&mut member.acknowledged, token) == token;
        let work = member.pace.work;
        if known {
            return;
        }
        self.say(id, life, row, State::Updating);
        self.queue
            .push(self.now.plus(work), Event::Finishes(id.clone(), life, token));
    }

    /// It is done, or has failed.
    pub(super) fn finishes(&mut self, id: &UnitId, life: Incarnation, token: Token) {
        let Some(member) = self.alive(id, life) else {
            return;
        };
        let row = member
            .task()
            .filter(|row| row.token == token && member.acknowledged == token);
        let Some((row, state)) = row.and_then(|row| Some((row, member.outcome(row.content)?))) else {
            return;
        };
        self.say(id, life, row, state);
    }

    /// It reads its assignment again, and repeats its report.
    pub(super) fn read_assignment(&mut self, id: &UnitId, life: Incarnation) {
        let Some(member) = self.alive(id, life) else {
            return;
        };
        let Some(Assignment { token, .. }) = member.task() else {
            return;
        };
        // A unit that had started before the simulation reports from the start again.
        let reported = member.report.as_ref().is_some_and(|report| report.token == token);
        if member.acknowledged == token || reported && member.acknowledged == Token(0) {
            member.acknowledged = token;
            self.finishes(id, life, token);
        } else {
            self.picks(id, life, token);
        }
    }

    fn say(&mut self, id: &UnitId, life: Incarnation, row: Assignment, state: State) {
        let loss = self.surroundings.lost;
        if self.chance(loss) {
            self.tally.lost += 1;
            let again = self.now.plus(self.surroundings.resync);
            self.queue.push(again, Event::Looks(id.clone(), life));
            return;
        }
        let at = self.now.plus(self.carry());
        let Some(member) = self.alive(id, life) else {
            return;
        };
        let at = at.max(member.mail);
        member.mail = at;
        let report = Report {
            digest: digest(row),
            token: row.token,
            state,
        };
        self.queue.push(at, Event::Report(id.clone(), life, report));
    }

    /// The report becomes visible.
    pub(super) fn reports(&mut self, id: &UnitId, life: Incarnation, report: &Report) {
        let view = self.views;
        let Some(member) = self.alive(id, life).filter(|member| !member.away) else {
            return;
        };
        if member.report.as_ref() == Some(report) {
            return;
        }
        member.report = Some(report.clone());
        let row = member
            .assignment
            .filter(|row| row.token == report.token && digest(*row) == report.digest);
        if let Some(row) = row {
            let revision = match row.content {
                Content::Carries { revision, .. } => revision,
                Content::Withdraw | Content::Nothing => None,
            };
            self.witness.reported(id, revision, &report.state, view);
        }
        self.change();
    }

    pub(super) fn alive(&mut self, id: &UnitId, life: Incarnation) -> Option<&mut Member> {
        self.members
            .get_mut(id)
            .filter(|member| member.incarnation == life)
    }
}

fn digest(row: Assignment) -> Option<Digest> {
    match row.content {
        Content::Carries { digest, .. } => Some(digest),
        Content::Withdraw | Content::Nothing => None,
    }
}
