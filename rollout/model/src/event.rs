//! The possible events, and their effects on the world.

use muster_rollout::{Assignment, Class, Content, Millis, Report, State as Phase};

use crate::normal::{BEAT, pass};
use crate::observer::Observer;
use crate::pending_write::PendingWrite;
use crate::scope::Feature;
use crate::set::Set;
use crate::state::{Cluster, Fit, RecordedVerdicts, RevisionCommand, State};
use crate::world::{ABORT, APPROVE, RETRY, World, entries, number_of, sheets};
use crate::wrong::Wrong;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A leader's watch of assemblages catches up.
    SeesRows(usize),
    /// A leader's watch of the registry catches up.
    SeesClusters(usize),
    /// A leader decides, writes the memory, and sends its writes.
    Decides(usize),
    /// The same, but it dies after this number of writes.
    Dies(usize, usize),
    /// A write of an assignment arrives.
    Arrives(PendingWrite),
    /// All pending writes are lost: their leader died.
    AllLost,
    /// The assignment is mirrored into its cluster.
    Mirrors(usize),
    /// An agent reports that it has started.
    Begins(usize),
    /// An agent reports its result.
    Ends(usize),
    /// A confirmed cluster fails.
    Relapses(usize),
    /// The target changes.
    Target(u8),
    /// The rollout is paused or resumed.
    Pause(bool),
    /// A cluster is selected or deselected.
    Select(usize, bool),
    /// A cluster becomes eligible or ineligible.
    Fit(usize, Fit),
    /// A cluster is removed.
    Leaves(usize),
    /// Another cluster of the same name is added.
    Joins(usize),
    /// The memory is lost.
    Forgotten,
    /// A one-time command is given.
    Says(usize, u8),
    /// The held withdrawal is acknowledged.
    Acknowledged,
    /// A cluster is abandoned, or no longer abandoned.
    GivenUp(usize, bool),
    /// A tick of the clock.
    Beat,
    /// The module is deleted with its assignments and its memory, and re-created. The clusters keep their content.
    Back,
}

impl World {
    /// All possible events.
    pub(crate) fn possible(&self, state: &State, all: &mut Vec<Event>) {
        if state.broken.is_some() {
            return;
        }
        self.leaders(state, all);
        self.writes_on_their_way(state, all);
        for at in 0..state.clusters.len() {
            self.of_cluster(state, at, all);
            if self.scope.subjects.contains(at) {
                self.to_cluster(state, at, all);
            }
        }
        self.user_events(state, all);
        if self.scope.has(Feature::Loss) && state.left > 0 && state.module.memory.is_some() {
            let known = state.flying.is_empty() || self.wrong == Wrong::LateOverLoss;
            all.extend(known.then_some(Event::Forgotten));
        }
        if self.scope.has(Feature::Back) && state.left > 0 {
            all.push(Event::Back);
        }
        if self.scope.has(Feature::Time) {
            all.push(Event::Beat);
        }
    }

    fn leaders(&self, state: &State, all: &mut Vec<Event>) {
        for (at, leader) in state.leaders.iter().enumerate() {
            // One of two equivalent events is enough.
            if at > 0 && state.leaders.get(at - 1) == Some(leader) {
                continue;
            }
            let rows = *leader.sheets != sheets(state) || !leader.confirmed.is_empty();
            let memory = self.wrong == Wrong::NoCompareAndSwap && leader.memory != state.module.memory;
            all.extend((rows || memory).then_some(Event::SeesRows(at)));
            let clusters = *leader.entries != entries(state) || !leader.returned.is_empty();
            all.extend(clusters.then_some(Event::SeesClusters(at)));
        }
        for at in 0..state.leaders.len().max(1) {
            if at > 0 && state.leaders.get(at - 1) == state.leaders.get(at) {
                continue;
            }
            all.push(Event::Decides(at));
            if self.scope.has(Feature::Crash) && !self.scope.has(Feature::Late) {
                let leader = state.leaders.get(at).map(|_| at);
                all.extend((0..self.writes(state, leader)).map(|sent| Event::Dies(at, sent)));
            }
        }
    }

    fn writes_on_their_way(&self, state: &State, all: &mut Vec<Event>) {
        all.extend(state.flying.iter().cloned().map(Event::Arrives));
        if self.scope.has(Feature::Crash) && !state.flying.is_empty() {
            all.push(Event::AllLost);
        }
    }

    /// The events of a cluster itself.
    fn of_cluster(&self, state: &State, at: usize, all: &mut Vec<Event>) {
        let cluster = &state.clusters[at];
        let reachable = cluster.entry.present && cluster.entry.fit != Fit::Away;
        if !reachable {
            return;
        }
        if self.scope.has(Feature::Mirror) && cluster.mirror != self.mirrored(cluster) {
            all.push(Event::Mirrors(at));
        }
        let Some(ended) = self.ended(state, at) else {
            return;
        };
        let known = cluster
            .sheet
            .report
            .as_ref()
            .map(|report| (report.token, &report.digest));
        let picked_up = known == Some((ended.token, &ended.digest));
        if self.scope.slow && !picked_up {
            all.push(Event::Begins(at));
        } else if cluster.sheet.report.as_ref() != Some(&ended) {
            all.push(Event::Ends(at));
        } else if self.scope.has(Feature::Relapse) && ended.state == Phase::Succeeded && state.left > 0 {
            all.push(Event::Relapses(at));
        }
    }

    /// The assignment in the cluster after it is mirrored. Only a re-created module finds a greater token there, or
    /// content that it never wrote.
    fn mirrored(&self, cluster: &Cluster) -> Option<Assignment> {
        let (row, there) = (cluster.sheet.assignment, cluster.mirror);
        if !self.scope.has(Feature::Back) {
            return row;
        }
        let Some((row, there)) = row.zip(there) else {
            return row.or(there);
        };
        let withdrawn = |report: &Report| report.token == there.token && report.state == Phase::Withdrawn;
        Some(match (row.content, there.content) {
            _ if there.token > row.token => there,
            (Content::Nothing, Content::Withdraw) if cluster.sheet.report.as_ref().is_some_and(withdrawn) => {
                row
            }
            (Content::Nothing, content) => Assignment { content, ..row },
            _ => row,
        })
    }

    /// The final report of the agent about its content.
    pub(crate) fn ended(&self, state: &State, at: usize) -> Option<Report> {
        let cluster = &state.clusters[at];
        let row = if self.scope.has(Feature::Mirror) {
            cluster.mirror
        } else {
            cluster.sheet.assignment
        };
        let Assignment { token, content } = row?;
        let (digest, phase) = match content {
            Content::Nothing => return None,
            Content::Withdraw => (None, Phase::Withdrawn),
            Content::Carries { digest, revision } => {
                let number = revision.map_or(7, number_of);
                let fails =
                    self.scope.failing.contains(usize::from(number)) || number == crate::world::BAD_GOAL;
                let phase = if fails { failed() } else { Phase::Succeeded };
                (Some(digest), phase)
            }
        };
        Some(Report {
            digest,
            token,
            state: phase,
        })
    }

    /// The events that affect a cluster.
    fn to_cluster(&self, state: &State, at: usize, all: &mut Vec<Event>) {
        let entry = state.clusters[at].entry;
        let more = state.left > 0;
        if !entry.present {
            all.push(Event::Joins(at));
            return;
        }
        match entry.fit {
            Fit::Ready if more => {
                let fits = [
                    (Feature::Away, Fit::Away),
                    (Feature::Held, Fit::Held),
                    (Feature::Budget, Fit::Unavailable),
                    (Feature::Windows, Fit::Closed),
                ];
                let possible = fits.into_iter().filter(|(feature, _)| self.scope.has(*feature));
                all.extend(possible.map(|(_, fit)| Event::Fit(at, fit)));
            }
            Fit::Ready => {}
            Fit::Away | Fit::Held | Fit::Unavailable | Fit::Closed => all.push(Event::Fit(at, Fit::Ready)),
        }
        if self.scope.has(Feature::Withdraw) && !entry.selected {
            all.push(Event::Select(at, true));
        } else if self.scope.has(Feature::Withdraw) && more {
            all.push(Event::Select(at, false));
        }
        if self.scope.has(Feature::Joins) && more {
            all.push(Event::Leaves(at));
        }
        if state.module.given_up.contains(at) {
            all.push(Event::GivenUp(at, false));
        } else if self.scope.has(Feature::GivenUp) && more && !entry.selected {
            all.push(Event::GivenUp(at, true));
        }
    }

    /// The events of users.
    fn user_events(&self, state: &State, all: &mut Vec<Event>) {
        let module = &state.module;
        let more = state.left > 0;
        if self.scope.has(Feature::Targets) && more {
            let others = (0..self.scope.revisions).filter(|number| *number != module.target);
            all.extend(others.map(Event::Target));
        }
        if module.paused {
            all.push(Event::Pause(false));
        } else if self.scope.has(Feature::Pause) && more {
            all.push(Event::Pause(true));
        }
        if self.scope.has(Feature::Stages) && Self::waits_for_approval(state) {
            all.push(Event::Says(APPROVE, module.target));
        }
        if self.scope.has(Feature::Words) && more {
            for word in [ABORT, RETRY] {
                all.push(Event::Says(word, module.target));
            }
        }
        if self.scope.brake.is_some()
            && self
                .held(state)
                .is_some_and(|held| module.acknowledged.as_ref() != Some(&held))
        {
            all.push(Event::Acknowledged);
        }
    }

    fn waits_for_approval(state: &State) -> bool {
        let approval = state.module.commands[APPROVE];
        approval.is_none_or(|approval| approval.revision != state.module.target)
    }

    /// The name that an acknowledgement must contain.
    pub(crate) fn held(&self, state: &State) -> Option<String> {
        let view = self.see(state, None);
        let decided = self.decided(&view);
        let decision = decided.decision();
        decision.reasons.iter().find_map(|(_, why)| match why {
            muster_rollout::Why::WithdrawalHeld { acknowledge, .. } => Some(acknowledge.to_string()),
            _ => None,
        })
    }

    /// Applies the event.
    pub(crate) fn apply(&self, state: &mut State, what: &Event) {
        match what {
            Event::SeesRows(at) => self.refresh_assemblages(state, *at),
            Event::SeesClusters(at) => {
                let current = entries(state);
                let leader = &mut state.leaders[*at];
                (leader.entries, leader.returned) = (current.into(), Set::default());
            }
            Event::Decides(at) => self.leads(state, *at, usize::MAX),
            Event::Dies(at, sent) => self.leads(state, *at, *sent),
            Event::Arrives(flying) => self.deliver(state, flying),
            Event::AllLost => state.flying.clear(),
            Event::Mirrors(at) => state.clusters[*at].mirror = self.mirrored(&state.clusters[*at]),
            Event::Begins(at) => self.report(state, *at, Phase::Updating),
            Event::Ends(at) => {
                if let Some(ended) = self.ended(state, *at) {
                    self.report(state, *at, ended.state);
                }
            }
            Event::Beat => self.beat(state),
            Event::Back => self.back(state),
            event => self.event(state, event),
        }
    }

    fn refresh_assemblages(&self, state: &mut State, at: usize) {
        let current = sheets(state);
        let memory = state.module.memory.clone();
        let leader = &mut state.leaders[at];
        (leader.sheets, leader.confirmed) = (current.into(), Set::default());
        if self.wrong == Wrong::NoCompareAndSwap {
            leader.memory = memory;
        }
    }

    fn leads(&self, state: &mut State, at: usize, sent: usize) {
        let leader = state.leaders.get(at).map(|_| at);
        self.decide(state, leader, sent);
        if !self.scope.has(Feature::Late) {
            while let Some(flying) = state.flying.first().cloned() {
                self.deliver(state, &flying);
            }
        }
    }

    /// An agent reports about its content.
    pub(crate) fn report(&self, state: &mut State, at: usize, phase: Phase) {
        let Some(ended) = self.ended(state, at) else {
            return;
        };
        let cluster = &mut state.clusters[at];
        let row = cluster.sheet.assignment;
        let digest = match row.map(|row| row.content) {
            Some(Content::Carries { digest, .. }) => Some(digest),
            Some(Content::Withdraw | Content::Nothing) | None => None,
        };
        let current = row.is_some_and(|row| row.token == ended.token) && digest == ended.digest;
        let done = matches!(phase, Phase::Succeeded | Phase::Withdrawn);
        if done && current && state.eye.succeeded(at) {
            for leader in &mut state.leaders {
                leader.confirmed.insert(at);
            }
            if let Some(intent) = &mut state.eye.intents[at] {
                intent.confirmed = true;
            }
            let flying = std::mem::take(&mut state.flying).into_iter();
            let confirmed = flying.map(|flying| PendingWrite {
                confirmed: flying.confirmed || flying.cluster == at,
                ..flying
            });
            state.flying = confirmed.collect();
        }
        cluster.sheet.report = Some(Report {
            state: phase,
            ..ended
        });
    }

    /// Earlier views and writes refer to objects that are gone: the views are dropped, and the writes never arrive.
    fn back(&self, state: &mut State) {
        state.left -= 1;
        let module = &mut state.module;
        (module.memory, module.verdicts) = (None, RecordedVerdicts::default());
        (module.commands, module.acknowledged, module.given_up) = ([None; 3], None, Set::default());
        for cluster in &mut state.clusters {
            let sheet = &mut cluster.sheet;
            (sheet.assignment, sheet.report, sheet.fence) = (None, None, None);
        }
        state.flying.clear();
        state.eye = Observer {
            away: state.eye.away,
            unobserved: state.eye.unobserved,
            ..Observer::default()
        };
        let current = self.leader_with_current_view(state);
        for leader in &mut state.leaders {
            *leader = current.clone();
        }
    }

    fn beat(&self, state: &mut State) {
        let beats = self.scope.beats;
        if let Some(memory) = &mut state.module.memory {
            pass(std::sync::Arc::make_mut(memory), BEAT);
        }
        let late = beats.pickup.into_iter().chain(beats.progress).min();
        state.eye.beat(late.unwrap_or(0), beats.absence);
        let Some(late) = late else { return };
        for at in 0..state.clusters.len() {
            let row = state.clusters[at].sheet.assignment;
            if let Some(Assignment {
                content: Content::Carries {
                    revision: Some(of), ..
                },
                ..
            }) = row
                && state.eye.since[at] >= late
            {
                state.eye.failed_on(at, usize::from(number_of(of)));
            }
        }
    }

    /// An event from outside of the world.
    fn event(&self, state: &mut State, event: &Event) {
        let costs = !matches!(
            event,
            Event::Pause(false)
                | Event::Select(_, true)
                | Event::Fit(_, Fit::Ready)
                | Event::Joins(_)
                | Event::GivenUp(_, false)
                | Event::Says(APPROVE, _)
                | Event::Acknowledged
        );
        state.left -= u8::from(costs && state.left > 0);
        match event {
            Event::Relapses(at) => self.report(state, *at, failed()),
            Event::Target(number) => state.module.target = *number,
            Event::Pause(paused) => state.module.paused = *paused,
            Event::Select(at, selected) => state.clusters[*at].entry.selected = *selected,
            Event::Fit(at, fit) => Self::fits(state, *at, *fit),
            Event::Leaves(at) => {
                let cluster = &mut state.clusters[*at];
                cluster.entry.present = false;
                (
                    cluster.sheet.assignment,
                    cluster.sheet.report,
                    cluster.sheet.fence,
                    cluster.mirror,
                ) = (None, None, None, None);
                state.eye.is_gone(*at);
            }
            Event::Joins(at) => {
                let entry = &mut state.clusters[*at].entry;
                (entry.life, entry.present, entry.selected, entry.fit) =
                    (entry.life + 1, true, true, Fit::Ready);
                state.clusters[*at].sheet.life = state.clusters[*at].entry.life;
            }
            Event::Forgotten => state.module.memory = None,
            Event::Says(word, number) => {
                state.module.commands[*word] = Some(RevisionCommand {
                    revision: *number,
                    fresh: true,
                });
            }
            Event::Acknowledged => state.module.acknowledged = self.held(state),
            Event::GivenUp(at, given_up) => {
                let set = &mut state.module.given_up;
                if *given_up {
                    set.insert(*at);
                } else {
                    set.remove(*at);
                }
            }
            _ => {}
        }
    }

    fn fits(state: &mut State, at: usize, fit: Fit) {
        let was = std::mem::replace(&mut state.clusters[at].entry.fit, fit);
        if !fit.is_eligible() {
            state.eye.went_away(at);
        }
        if !fit.is_eligible() || was.is_eligible() {
            return;
        }
        state.eye.came_back(at);
        for leader in &mut state.leaders {
            leader.returned.insert(at);
        }
        for intent in state.eye.intents.iter_mut().flatten() {
            intent.returned.insert(at);
        }
        let flying = std::mem::take(&mut state.flying).into_iter();
        let returned = flying.map(|mut flying| {
            flying.returned.insert(at);
            flying
        });
        state.flying = returned.collect();
    }

    /// All clusters are confirmed at the target.
    pub(crate) fn settle(&self, state: &mut State) {
        for _ in 0..40 {
            if self.scope.has(Feature::Stages) && Self::waits_for_approval(state) {
                self.event(state, &Event::Says(APPROVE, state.module.target));
            }
            self.round(state, Set::default());
            if let Some(memory) = &mut state.module.memory {
                pass(std::sync::Arc::make_mut(memory), Millis(BEAT.0 * 10));
            }
        }
    }

    /// A leader with a current view decides, all writes arrive, and all agents except these work. Returns when time
    /// alone changes something.
    pub(crate) fn round(&self, state: &mut State, stuck: Set) -> Option<Millis> {
        let decision = self.decide(state, None, usize::MAX);
        while let Some(flying) = state.flying.first().cloned() {
            self.deliver(state, &flying);
        }
        for at in (0..state.clusters.len()).filter(|at| !stuck.contains(*at)) {
            let reachable = state.clusters[at].entry.present && state.clusters[at].entry.fit != Fit::Away;
            if reachable {
                let row = self.mirrored(&state.clusters[at]);
                state.clusters[at].mirror = row.filter(|_| self.scope.has(Feature::Mirror));
                self.apply(state, &Event::Ends(at));
            }
        }
        decision.and_then(|decision| decision.wake_at)
    }
}

/// The reports of clusters about a broken revision.
pub(crate) fn failed() -> Phase {
    Phase::Failed {
        class: Class::Revision,
        terminal: true,
        message: "broken".into(),
    }
}
