//! The normal form of states that differ only in the time and in the numbering of tokens.
//!
//! **Time.** A state has no clock: its time is always [`NOW`], and when time passes all stored instants move into the
//! past. Only the distance of an instant from now matters, and only whether that has reached a setting: so a greater
//! distance is replaced by that setting. Instants that are only reported (since when, evidence) are always now.
//!
//! **Tokens.** Tokens are compared with each other, and the successor of a token is formed: so they are renumbered in
//! order, and two that are not consecutive stay so. If no memory is lost every new token is greater than all existing
//! ones, and less matters: whether the token of an in-flight change is the successor of one that the cluster's
//! assignment has or may get, and whether the first token that may be pending is the change's own.
//!
//! **Reports** about a token that no longer exists have no effect (again if no memory is lost).
//!
//! **Writes** whose precondition can no longer be met (a token never decreases, and an assignment is not re-created in
//! the same incarnation) are equivalent to lost ones, and are dropped.

use std::collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use muster_rollout::{InFlight, Memory, Millis, Report, Spec, Stopwatch, Token, UnitId};

use crate::pending_write::PendingWrite;
use crate::state::{Assemblage, State};

/// The time of every state.
pub const NOW: Millis = Millis(1 << 42);
/// One tick of the clock.
pub const BEAT: Millis = Millis(1000);
/// A setting that no time reaches, unless nothing else is waited for.
pub const NEVER: Millis = Millis(1 << 38);

/// The duration of this number of ticks.
pub fn pass(memory: &mut Memory, time: Millis) {
    let earlier = |at: &mut Millis| *at = at.since(time);
    for change in memory.in_flight.values_mut() {
        let instants = [
            &mut change.clock.from,
            &mut change.absent_since,
            &mut change.succeeded_since,
        ];
        instants.into_iter().flatten().for_each(earlier);
    }
    memory.course.clear_since.iter_mut().for_each(earlier);
}

/// The memory, with instants reduced to what matters.
pub fn settled(memory: &mut Memory, spec: &Spec) {
    for change in memory.in_flight.values_mut() {
        let deadlines = &spec.deadlines;
        let allowed = if change.picked_up {
            deadlines.progress
        } else {
            deadlines.pickup
        };
        *change = InFlight {
            since: NOW,
            succeeded_since: change.succeeded_since.map(|at| at_most(at, spec.min_ready)),
            absent_since: change.absent_since.map(|at| at_most(at, deadlines.absence)),
            clock: stopped(change.clock, allowed),
            ..*change
        };
    }
    let soak = spec
        .stages
        .iter()
        .map(|stage| stage.soak)
        .max()
        .unwrap_or_default();
    let course = &mut memory.course;
    course.clear_since = course.clear_since.map(|at| at_most(at, soak));
    for timestamp in memory
        .bad
        .values_mut()
        .chain(&mut course.recorded)
        .map(|evidence| &mut evidence.at)
        .chain(memory.marks.values_mut())
    {
        *timestamp = NOW;
    }
    if let Some(run) = &mut memory.run {
        (run.id, run.started) = (1, NOW);
    }
}

fn at_most(at: Millis, longest: Millis) -> Millis {
    NOW.since(clamp_to_setting(NOW.since(at), longest))
}

/// The part of a duration that matters to a setting. On the way to a limit that is never reached all distances are
/// equal.
fn clamp_to_setting(time: Millis, setting: Millis) -> Millis {
    if setting == NEVER && time < NEVER {
        Millis(0)
    } else {
        time.min(setting)
    }
}

fn stopped(clock: Stopwatch, allowed: Millis) -> Stopwatch {
    let running = clock.from.map_or(Millis(0), |from| NOW.since(from));
    Stopwatch {
        spent: clamp_to_setting(clock.spent.plus(running), allowed),
        from: clock.from.map(|_| NOW),
        // No unit of the model reports steps.
        ..clock
    }
}

/// The tokens for which it matters whether they are consecutive.
#[derive(Clone, Copy, Debug)]
pub enum Tokens<'a> {
    /// All tokens: after a lost memory one may be issued twice.
    All,
    /// Those of a cluster's assignment and of its in-flight change, for these clusters.
    OfClusters(&'a [UnitId]),
}

/// The normal form of the state. `wrong`: writes may be applied that must not be. `returns`: clusters may return.
pub fn normal(state: &mut State, spec: &Spec, wrong: bool, returns: bool, tokens: Tokens<'_>) {
    let rows: Vec<Option<Token>> = state
        .clusters
        .iter()
        .map(|cluster| cluster.sheet.assignment.map(|row| row.token))
        .collect();
    for (intent, row) in state.eye.intents.iter_mut().zip(rows) {
        // A write that was applied is not sent again; and if no cluster returns it does not matter which did.
        *intent = intent.filter(|intent| returns && row < Some(intent.token));
    }
    if !returns {
        let flying = std::mem::take(&mut state.flying).into_iter();
        let plain = flying.map(|flying| PendingWrite {
            confirmed: false,
            ..flying
        });
        state.flying = plain.collect();
        for leader in &mut state.leaders {
            leader.confirmed = crate::set::Set::default();
        }
    }
    if let Some(memory) = &mut state.module.memory {
        settled(Arc::make_mut(memory), spec);
    }
    for memory in state
        .leaders
        .iter_mut()
        .filter_map(|leader| leader.memory.as_mut())
    {
        settled(Arc::make_mut(memory), spec);
    }
    controls(state);
    if !wrong {
        let State { flying, clusters, .. } = state;
        flying.retain(|write| {
            let cluster = &clusters[write.cluster];
            let lives = cluster.entry.present && cluster.entry.life == write.life;
            let token = cluster.sheet.assignment.map(|row| row.token);
            lives && write.write.read.is_none_or(|read| token == Some(read))
        });
    }
    renumber(state, tokens);
    state.leaders.sort_by_cached_key(|leader| {
        let mut hasher = DefaultHasher::new();
        leader.hash(&mut hasher);
        hasher.finish()
    });
}

/// A one-time command has one number until it is taken, and another one afterwards.
fn controls(state: &mut State) {
    let Some(memory) = &mut state.module.memory else {
        return;
    };
    let memory = Arc::make_mut(memory);
    let mut taken = BTreeSet::new();
    for (word, command) in state.module.commands.iter_mut().enumerate() {
        let Some(command) = command else { continue };
        command.fresh &= !memory.taken.contains(&number(word, true));
        if !command.fresh
            && (memory.taken.contains(&number(word, true)) || memory.taken.contains(&number(word, false)))
        {
            taken.insert(number(word, false));
        }
    }
    memory.taken = taken;
}

/// The number of a one-time command.
pub fn number(word: usize, fresh: bool) -> u64 {
    word as u64 * 2 + u64::from(fresh)
}

fn renumber(state: &mut State, matter: Tokens<'_>) {
    let mut apart = None;
    if let Tokens::OfClusters(names) = matter {
        let clusters = 0..state.clusters.len();
        let known: Vec<ClusterTokens> = clusters.map(|at| ClusterTokens::of(state, at, names)).collect();
        forget_reports(state, &known);
        raise_firsts(state);
        apart = Some(
            known
                .iter()
                .flat_map(ClusterTokens::pairs)
                .collect::<BTreeSet<_>>(),
        );
    }
    let mut tokens = BTreeSet::new();
    each_token(state, &mut |token| {
        tokens.insert(token.0);
    });
    let mut numbers = BTreeMap::new();
    let (mut last, mut next) = (0, 0);
    for token in tokens {
        let matters = apart.as_ref().is_none_or(|apart| apart.contains(&(last, token)));
        next += u64::min(token - last, if matters { 2 } else { 1 });
        last = token;
        numbers.insert(token, next);
    }
    each_token(state, &mut |token| {
        token.0 = numbers.get(&token.0).copied().unwrap_or(token.0);
    });
    // Sets are ordered by content.
    state.flying = std::mem::take(&mut state.flying);
}

/// For the first token that may be pending for a cluster it only matters whether an assignment has it or a greater one,
/// and whether it is the change's own: so it is replaced by the next existing token.
fn raise_firsts(state: &mut State) {
    let mut others = BTreeSet::new();
    each_but_firsts(state, &mut |token| {
        others.insert(token.0);
    });
    let Some(memory) = &mut state.module.memory else {
        return;
    };
    let memory = Arc::make_mut(memory);
    for change in memory.in_flight.values_mut() {
        let own = change.token;
        if let Some(first) = &mut change.sent {
            let next = others.range(first.0..).next().map(|next| Token(*next));
            *first = next.filter(|next| *next != own).unwrap_or(*first);
        }
    }
}

/// The tokens of one cluster.
struct ClusterTokens {
    /// Those that its assignment has, had in the view of a leader, or may get.
    assignments: BTreeSet<u64>,
    /// That of its in-flight change.
    in_flight: Option<u64>,
}

impl ClusterTokens {
    fn of(state: &State, at: usize, names: &[UnitId]) -> Self {
        let cluster = &state.clusters[at];
        let views = state
            .leaders
            .iter()
            .filter_map(|leader| leader.sheets.get(at)?.assignment);
        let rows = cluster
            .sheet
            .assignment
            .into_iter()
            .chain(cluster.mirror)
            .chain(views);
        let flying = state.flying.iter().filter(|flying| flying.cluster == at);
        let written = flying.map(|flying| flying.write.change.token);
        let memory = state.module.memory.as_ref();
        let change = memory.and_then(|memory| memory.in_flight.get(names.get(at)?));
        Self {
            assignments: rows
                .map(|row| row.token)
                .chain(written)
                .map(|token| token.0)
                .collect(),
            in_flight: change.map(|change| change.token.0),
        }
    }

    /// Tokens that must not become consecutive if they are not: that of an assignment, and that of the change after it.
    fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.assignments
            .iter()
            .filter_map(|row| Some((*row, self.in_flight?)))
    }
}

/// A report is compared with an assignment and an in-flight change by its token. Without a matching one it has no
/// effect.
fn forget_reports(state: &mut State, known: &[ClusterTokens]) {
    let forget = |at: usize, sheet: &mut Assemblage| {
        let is_known = |report: &Report| {
            known.get(at).is_none_or(|known| {
                known.assignments.contains(&report.token.0) || known.in_flight == Some(report.token.0)
            })
        };
        sheet.report = sheet.report.take().filter(is_known);
    };
    for (at, cluster) in state.clusters.iter_mut().enumerate() {
        forget(at, &mut cluster.sheet);
    }
    for leader in &mut state.leaders {
        for (at, sheet) in Arc::make_mut(&mut leader.sheets).iter_mut().enumerate() {
            forget(at, sheet);
        }
    }
}

fn each_token(state: &mut State, visit: &mut dyn FnMut(&mut Token)) {
    each_but_firsts(state, visit);
    let of_leaders = state
        .leaders
        .iter_mut()
        .filter_map(|leader| leader.memory.as_mut());
    for memory in state.module.memory.iter_mut().chain(of_leaders) {
        let changes = Arc::make_mut(memory).in_flight.values_mut();
        changes.flat_map(|change| &mut change.sent).for_each(&mut *visit);
    }
}

fn each_but_firsts(state: &mut State, visit: &mut dyn FnMut(&mut Token)) {
    let of_memory = |memory: &mut Arc<Memory>, visit: &mut dyn FnMut(&mut Token)| {
        let memory = Arc::make_mut(memory);
        visit(&mut memory.seq);
        for change in memory.in_flight.values_mut() {
            visit(&mut change.token);
        }
    };
    if let Some(memory) = &mut state.module.memory {
        of_memory(memory, visit);
    }
    for cluster in &mut state.clusters {
        of_sheet(&mut cluster.sheet, visit);
        if let Some(row) = &mut cluster.mirror {
            visit(&mut row.token);
        }
    }
    for intent in state.eye.intents.iter_mut().flatten() {
        visit(&mut intent.token);
    }
    for leader in &mut state.leaders {
        for sheet in Arc::make_mut(&mut leader.sheets) {
            of_sheet(sheet, visit);
        }
        if let Some(memory) = &mut leader.memory {
            of_memory(memory, visit);
        }
    }
    let flying = std::mem::take(&mut state.flying);
    let each = |mut write: PendingWrite| {
        write.write.read.iter_mut().for_each(&mut *visit);
        visit(&mut write.write.change.token);
        write
    };
    state.flying = flying.into_iter().map(each).collect();
}

fn of_sheet(sheet: &mut Assemblage, visit: &mut dyn FnMut(&mut Token)) {
    if let Some(row) = &mut sheet.assignment {
        visit(&mut row.token);
    }
    if let Some(report) = &mut sheet.report {
        visit(&mut report.token);
    }
    sheet.fence.iter_mut().for_each(visit);
}
