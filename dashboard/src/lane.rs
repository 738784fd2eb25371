//! The stages of a rollout: which clusters belong to each, which stage is open, and what blocks it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use muster_api::{
    module::ModuleStatus,
    rollout::{Approval, Gate, Rollout, Stage, Unmatched},
    selector::Matcher,
};
use muster_rollout::{Course, GateCount, GateResult, RunState, StageId};
use serde::Serialize;

use crate::{Member, ModuleView, Shape, recall};

/// The stages of a module.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// The stages, followed by the clusters of no stage; a rollout without stages is one stage.
    pub stages: Vec<StageView>,
    /// Number of clusters whose failure counts against the revision.
    pub failed: usize,
    /// Allowed failures: a number or a percentage.
    pub may_fail: String,
    /// Maximum number of clusters that change at the same time.
    pub limit: String,
    /// The open batch: its size, and how many of its clusters have not started.
    pub batch: Option<(u32, u32)>,
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageView {
    /// Name of the stage; `None` for the clusters that no stage selects.
    pub name: Option<String>,
    /// State of the stage.
    pub state: StageState,
    /// Clusters of the stage, by name.
    pub clusters: Vec<String>,
    /// Number of clusters per state.
    pub counts: BTreeMap<Shape, usize>,
    /// Conditions for the next stage to start.
    pub conditions: Vec<StageCondition>,
}

/// State of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StageState {
    /// The stage is complete.
    Passed,
    /// Its clusters may change now.
    Open,
    /// The rollout is stopped in this stage.
    Stopped,
    /// The stage has not started.
    Ahead,
}

/// A condition for the next stage to start.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageCondition {
    /// Whether the condition is met; unknown if the stage is not open.
    pub holds: bool,
    /// What is required, and the progress.
    pub text: String,
    /// When the condition will be met on its own.
    pub until: Option<Timestamp>,
}

impl StageState {
    /// Name of the state, as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Open => "open",
            Self::Stopped => "stopped",
            Self::Ahead => "ahead",
        }
    }

    /// Shape of the state.
    pub const fn shape(self) -> Shape {
        match self {
            Self::Passed => Shape::Ready,
            Self::Open => Shape::Updating,
            Self::Stopped => Shape::Failed,
            Self::Ahead => Shape::Waiting,
        }
    }
}

impl Lane {
    /// Builds the stages of a module. `members` are the clusters of its cells, in the same order.
    pub fn of(
        view: &ModuleView,
        members: &[Member],
        rollout: &Rollout,
        status: &ModuleStatus,
        now: Timestamp,
    ) -> Self {
        let memory = recall::memory(status).unwrap_or_default();
        let run = memory.run.map(|run| run.state);
        let mut groups = grouped(view, members, rollout);
        let rest = groups.pop().unwrap_or_default();
        let is_good = run == Some(RunState::Good);
        let open = match run {
            Some(RunState::Halted | RunState::KnownBad | RunState::Aborted) => StageState::Stopped,
            Some(RunState::Open | RunState::Good) | None => StageState::Open,
        };
        let mut stages = Vec::new();
        let mut is_first_open = true;
        for (stage, clusters) in rollout.stages.iter().zip(groups) {
            let is_passed = is_good || memory.course.passed.contains(&StageId::of(&stage.name));
            let state = match (is_passed, is_first_open) {
                (true, _) => StageState::Passed,
                (false, true) => open,
                (false, false) => StageState::Ahead,
            };
            is_first_open &= is_passed;
            stages.push(StageView {
                name: Some(stage.name.clone()),
                state,
                conditions: conditions(stage, state, &memory.course, now),
                ..counted(clusters)
            });
        }
        if !rest.is_empty() || stages.is_empty() {
            let rest = counted(rest);
            let is_done = is_good || rest.counts.keys().all(|shape| *shape == Shape::Ready);
            stages.push(StageView {
                state: match (is_first_open, is_done) {
                    (true, true) => StageState::Passed,
                    (true, false) => open,
                    (false, _) => StageState::Ahead,
                },
                ..rest
            });
        }
        Self {
            stages,
            failed: memory.marks.len() + usize::try_from(memory.marks_beyond).unwrap_or(usize::MAX),
            may_fail: rollout.on_failure.max_failed.to_string(),
            limit: rollout.max_unready_clusters.to_string(),
            batch: memory.course.batch.map(|batch| (batch.size, batch.left)),
        }
    }
}

/// The selected clusters of each stage, then those of no stage, each with its state.
fn grouped<'a>(view: &'a ModuleView, members: &[Member], rollout: &Rollout) -> Vec<Vec<(&'a str, Shape)>> {
    // An invalid selector selects nothing; the module's own condition reports what is wrong with it.
    let matchers: Vec<Option<Matcher>> = rollout
        .stages
        .iter()
        .map(|stage| Matcher::new(Some(&stage.selector)).ok())
        .collect();
    let mut groups: Vec<Vec<(&str, Shape)>> = vec![Vec::new(); matchers.len() + 1];
    for (member, cell) in members.iter().zip(&view.cells) {
        if cell.shape == Shape::NotSelected {
            continue;
        }
        let of_stage = matchers.iter().position(|matcher| {
            matcher
                .as_ref()
                .is_some_and(|matcher| matcher.matches(&member.labels))
        });
        let place = match (of_stage, rollout.unmatched) {
            (Some(place), _) => place,
            (None, Unmatched::Last) => matchers.len(),
            (None, Unmatched::Exclude) => continue,
        };
        if let Some(group) = groups.get_mut(place) {
            group.push((&cell.cluster, cell.shape));
        }
    }
    groups
}

fn counted(clusters: Vec<(&str, Shape)>) -> StageView {
    let mut counts = BTreeMap::new();
    for (_, shape) in &clusters {
        *counts.entry(*shape).or_default() += 1;
    }
    StageView {
        name: None,
        state: StageState::Ahead,
        clusters: clusters.into_iter().map(|(name, _)| name.to_owned()).collect(),
        counts,
        conditions: Vec::new(),
    }
}

fn conditions(stage: &Stage, reached: StageState, course: &Course, now: Timestamp) -> Vec<StageCondition> {
    let id = StageId::of(&stage.name);
    let has_passed = reached == StageState::Passed;
    let is_promoted = course.promoted.contains(&id);
    let mut conditions = Vec::new();
    let mut add = |holds: bool, text: String, until: Option<Timestamp>| {
        let holds = holds || has_passed;
        conditions.push(StageCondition {
            holds,
            text,
            until: until.filter(|_| !holds),
        });
    };
    if is_promoted {
        add(true, "promoted: soak and gates are skipped".to_owned(), None);
    }
    if stage.approval == Approval::Required {
        let is_approved = course.approved.contains(&id);
        let word = if is_approved || has_passed {
            "approved"
        } else {
            "needs an approval"
        };
        add(is_approved, word.to_owned(), None);
    }
    let clear = course.clear_since.filter(|_| reached == StageState::Open);
    let soak = stage.soak.to_std();
    if !soak.is_zero() {
        let until = clear
            .and_then(recall::instant)
            .and_then(|since| since.checked_add(SignedDuration::try_from(soak).ok()?).ok()); // invalid: not shown
        let is_over = until.is_some_and(|until| until <= now);
        add(is_promoted || is_over, format!("soak of {}", stage.soak), until);
    }
    for (place, gate) in stage.gates.iter().enumerate() {
        let known = course
            .gates
            .get(place)
            .copied()
            .filter(|_| reached == StageState::Open);
        let known = known.unwrap_or_default();
        add(
            is_promoted || known.passes >= gate.passes,
            gate_text(gate, &known, has_passed),
            None,
        );
    }
    conditions
}

fn gate_text(gate: &Gate, known: &GateCount, is_passed: bool) -> String {
    let what = match (&gate.http, &gate.condition) {
        (Some(http), _) => format!("gate: {} {} {}", http.json_path, http.op, http.value),
        (None, Some(about)) => {
            format!("gate: {} of {} {}", about.type_, about.kind, about.name)
        }
        (None, None) => "gate".to_owned(),
    };
    if is_passed {
        return what;
    }
    let last = match known.last.map(|(_, outcome)| outcome) {
        Some(GateResult::Pass) => ", it was met when last read",
        Some(GateResult::Fail) => ", it was not met when last read",
        Some(GateResult::NoData) => ", there was no data when last read",
        None => "",
    };
    format!("{what}: {} of {} times{last}", known.passes, gate.passes)
}
