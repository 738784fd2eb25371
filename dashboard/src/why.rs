//! Why a module is where it is: the chain of reasons, down to what fails, and what to do next.

use muster_api::{
    assemblage::SyncState,
    conditions::{PAUSED, TAG_MOVED},
    plan::RunState,
    reasons::Reason,
};
use serde::Serialize;

use crate::{
    Cell, Choice, Fleet, HeldWithdrawal, ModuleRef, ModuleView, Objects, Shape,
    chain::{self, Check},
    listed, nodes, upgrades, withdrawal,
    words::{counted, fault, shell_word, without_next},
};

/// The answer to `why`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The version of this shape, as JSON.
    pub schema: &'static str,
    /// One sentence.
    pub headline: String,
    /// Of one cluster: what it takes to have the target, in order, up to what is in the way. Empty of a module as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Who stands how, most urgent first.
    pub steps: Vec<Step>,
    /// Of one cluster of a module with a plan: where the run stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanView>,
    /// What to do next, if something can be done.
    pub next: Option<String>,
    /// The command that does it, if there is one.
    pub command: Option<String>,
    /// What else can be done, where there is a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Choice>,
}

/// One link of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// How it stands.
    pub shape: Shape,
    /// Who: a cluster, or several that stand alike.
    pub who: String,
    /// The cluster, if it is one.
    pub cluster: Option<String>,
    /// The one word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when, if it is one cluster and known.
    pub since: Option<jiff::Timestamp>,
}

impl Why {
    pub(crate) const SCHEMA: &'static str = "why/v1";

    /// Without checks and without a choice.
    pub(crate) const fn of(
        headline: String,
        steps: Vec<Step>,
        next: Option<String>,
        command: Option<String>,
    ) -> Self {
        Self {
            schema: Self::SCHEMA,
            headline,
            checks: Vec::new(),
            steps,
            plan: None,
            next,
            command,
            otherwise: None,
        }
    }
}

/// Where the run of a plan stands in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    /// Plan, steps, step and its state: `update 2/3 schema/migrate InProgress`.
    pub line: String,
    /// The uid of the run, as `muster plan-run` and the PlanRun name it.
    pub run: Option<String>,
    /// Whose fault a failure is.
    pub class: Option<&'static str>,
}

impl PlanView {
    /// Of what a cluster says; none of a sync without a plan.
    pub(crate) fn of(state: &SyncState) -> Option<Self> {
        Some(Self {
            line: state.plan.clone()?,
            run: state.plan_run.as_ref().map(|run| run.uid.clone()),
            class: state.class.map(|class| fault(class, "this cluster's")),
        })
    }

    /// How the step that failed is tried again.
    fn retry(&self, view: &ModuleView, cluster: &str) -> Option<Choice> {
        let words = self.line.strip_suffix(RunState::FatalError.as_str())?.trim_end();
        let step = words.rsplit(' ').next()?;
        let what = "retry the step once its cause is gone, or skip it, which puts it on record".to_owned();
        let command = format!(
            "muster plan-run retry {} --cluster {} --step {} --reason 'the cause is gone'",
            view.address(),
            shell_word(cluster),
            shell_word(step)
        );
        Some(Choice {
            what,
            command: Some(command),
        })
    }
}

/// Problems shown one by one; more are counted.
const SHOWN: usize = 3;
/// Names, or runs of them, that stand for several clusters; more are counted.
const LISTED: usize = 5;

/// Explains one cluster of a module, or one node of a NodeModule; none if one of them is not there.
pub fn why_on(objects: &Objects, fleet: &Fleet, module: &ModuleRef, cluster: &str) -> Option<Why> {
    let view = fleet.module(module.kind, &module.name)?;
    let cell = view.cells.iter().find(|cell| cell.cluster == cluster)?;
    let has = cell.version.as_deref().unwrap_or("nothing");
    let (next, command) = next(view, cell).unzip();
    let command = command.flatten();
    let wants = if cell.shape == Shape::WaitsForYou {
        "and would lose it".to_owned()
    } else {
        format!("wants {}", view.version)
    };
    let plan = plan_on(objects, module, cluster);
    let otherwise = otherwise(HeldWithdrawal::of(view), command.as_deref());
    let retry = || plan.as_ref().and_then(|plan| plan.retry(view, cluster));
    Some(Why {
        schema: Why::SCHEMA,
        headline: format!("{} on {cluster} has {has}, {wants}: {}", view.name, cell.reason),
        checks: chain::of(objects, fleet, view, cell),
        steps: vec![step(cell)],
        otherwise: otherwise.or_else(retry),
        plan,
        next,
        command,
    })
}

/// Where the plan of a module stands on a cluster.
fn plan_on(objects: &Objects, module: &ModuleRef, cluster: &str) -> Option<PlanView> {
    let (_, status) = objects.assemblage(module.kind, cluster)?;
    let state = status?.syncs.iter().find(|state| state.name == module.name)?;
    PlanView::of(state)
}

/// Explains a module: who stands how, and what a person can do about it.
pub fn why(module: &ModuleView) -> Why {
    let mut open: Vec<&Cell> = module.cells.iter().filter(|cell| cell.shape.is_open()).collect();
    open.sort_by_key(|cell| (cell.shape.urgency(), &cell.reason, &cell.cluster));
    let mut steps: Vec<Step> = Vec::new();
    for alike in open.chunk_by(|a, b| (a.shape, &a.reason) == (b.shape, &b.reason)) {
        let together = [Shape::Waiting, Shape::WaitsForYou];
        let single = alike.first().is_some_and(|cell| !together.contains(&cell.shape));
        let shown = if single { SHOWN.min(alike.len()) } else { 0 };
        steps.extend(alike.iter().take(shown).map(|cell| step(cell)));
        steps.extend(grouped(module, &alike[shown..]));
    }
    if steps.is_empty() && module.ready != "True" {
        // Nothing is wrong on any of them: it is the module itself.
        steps.push(Step {
            shape: module.shape(),
            who: module.name.clone(),
            cluster: None,
            reason: module.reason.clone(),
            message: module.message.clone(),
            since: module.since,
        });
    }
    let own = |reason: &str, shape: Shape, message: &String| Step {
        shape,
        who: module.name.clone(),
        cluster: None,
        reason: reason.to_owned(),
        message: message.clone(),
        since: None,
    };
    let paused = module.paused.as_ref();
    if let Some(message) = paused.filter(|_| steps.iter().all(|step| step.reason != PAUSED)) {
        steps.insert(0, own(PAUSED, Shape::Held, message));
    }
    steps.extend(
        module
            .tag_moved
            .as_ref()
            .map(|message| own(TAG_MOVED, Shape::Waiting, message)),
    );
    let ready: Vec<&str> = module
        .cells
        .iter()
        .filter(|cell| cell.shape == Shape::Ready)
        .map(|cell| cell.cluster.as_str())
        .collect();
    if !ready.is_empty() {
        steps.push(Step {
            shape: Shape::Ready,
            who: listed(ready.iter().copied(), LISTED),
            cluster: None,
            reason: Reason::UpToDate.into(),
            message: format!("ready at {}", module.version),
            since: None,
        });
    }
    // Of several things in the way the one that a person can do something about.
    open.sort_by_key(|cell| remedy_rank(cell));
    let next = match paused {
        Some(_) if !open.is_empty() => Some(resume(module)),
        _ => open.iter().find_map(|cell| next(module, cell)),
    };
    let (next, command) = next.unzip();
    let command = command.flatten();
    let held = HeldWithdrawal::of(module);
    Why {
        schema: Why::SCHEMA,
        headline: headline(module, held.as_ref()),
        checks: Vec::new(),
        steps,
        plan: None,
        otherwise: otherwise(held, command.as_deref()),
        next,
        command,
    }
}

/// How a module stands, in one sentence.
fn headline(module: &ModuleView, held: Option<&HeldWithdrawal>) -> String {
    match held.filter(|_| module.shape() == Shape::WaitsForYou) {
        Some(held) => held.sentence.clone(),
        None if module.deleting => {
            let left = module.cells.iter().filter(|cell| cell.shape.is_open()).count();
            let have = if left == 1 { "has" } else { "have" };
            format!(
                "{} is being deleted; {} still {have} it: {}",
                module.address(),
                counted(left, module.kind.unit()),
                module.reason
            )
        }
        None => format!(
            "{} {} on {}/{} {}s: {}",
            module.name,
            module.version,
            module.summary.updated,
            module.summary.total,
            module.kind.unit(),
            module.reason
        ),
    }
}

/// The other way, if it is a held withdrawal that the command is about.
fn otherwise(held: Option<HeldWithdrawal>, command: Option<&str>) -> Option<Choice> {
    let held = held.filter(|held| command == Some(&held.remove))?;
    Some(held.keep)
}

/// Several clusters that stand alike, in one line, with the words of the first.
fn grouped(module: &ModuleView, alike: &[&Cell]) -> Option<Step> {
    let first = alike.first()?;
    Some(Step {
        who: listed(alike.iter().map(|cell| cell.cluster.as_str()), LISTED),
        cluster: (alike.len() == 1).then(|| first.cluster.clone()),
        since: None,
        message: without_next(module.message_of(first)).to_owned(),
        ..step(first)
    })
}

/// What to do next is told once, at the end, and not in each step.
pub(crate) fn step(cell: &Cell) -> Step {
    Step {
        shape: cell.shape,
        who: cell.cluster.clone(),
        cluster: Some(cell.cluster.clone()),
        reason: cell.reason.clone(),
        message: without_next(&cell.message).to_owned(),
        since: cell.since,
    }
}

/// The smaller, the more a person can do about it.
fn remedy_rank(cell: &Cell) -> u8 {
    match (cell.shape, cell.reason.parse()) {
        (Shape::Failed, _) => 0,
        (
            _,
            Ok(
                Reason::WaitingApproval
                | Reason::Paused
                | Reason::Halted
                | Reason::KnownBad
                | Reason::Aborted
                | Reason::SourceNotReady
                | Reason::VerificationFailed
                | Reason::WithdrawalHeld
                | Reason::DependencyBehind
                | Reason::WindowInvalid
                | Reason::WindowClosed,
            ),
        ) => 1,
        (Shape::Held, _) => 2,
        (Shape::Unreachable | Shape::Unknown, _) => 3,
        (_, Ok(Reason::WaitingGate)) => 4,
        _ => 5,
    }
}

/// What a message says is to be done next.
fn next_of(cell: &Cell) -> Option<&str> {
    cell.message.rsplit_once("next: ").map(|(_, next)| next)
}

/// Nothing begins while a rollout is paused, whatever else is in the way.
fn resume(module: &ModuleView) -> (String, Option<String>) {
    let command = format!("muster rollout resume {}{}", module.address(), module.within());
    ("the rollout is paused; to go on".to_owned(), Some(command))
}

/// The window that a message names first in parentheses: `until 2026-12-01T02:00 Europe/Berlin (freeze-december)`.
fn window(message: &str) -> &str {
    let (_, after) = message.split_once('(').unwrap_or_default();
    after.split_once(')').map_or("NAME", |(name, _)| name)
}

/// What to do about it, and the command for that; none if there is nothing to be done.
pub(crate) fn next(module: &ModuleView, cell: &Cell) -> Option<(String, Option<String>)> {
    if let Some(of_upgrades) = upgrades::next(module, cell) {
        return Some(of_upgrades);
    }
    if let Some(of_nodes) = nodes::next(module, cell) {
        return Some(of_nodes);
    }
    let said = module.address();
    let (name, within, cluster) = (&module.name, module.within(), &cell.cluster);
    let with = |what: &str, command: String| Some((what.to_owned(), Some(format!("{command}{within}"))));
    let without = |what: String| Some((what, None));
    let stage = module
        .waits_at
        .as_ref()
        .map_or_else(String::new, |stage| format!(" --stage {}", shell_word(stage)));
    let reason: Option<Reason> = cell.reason.parse().ok(); // a word of a newer controller: nothing is known to be done
    match (cell.shape, reason) {
        // Where it is not the revision's fault the status says what to do instead.
        (Shape::Failed, _) if cell.message.contains("; next: fix the cluster") => without(format!(
            "fix {cluster}, or commit a version of {name} that needs less of it"
        )),
        (Shape::Failed, _) | (_, Some(Reason::Halted | Reason::KnownBad)) => with(
            &format!(
                "commit a fixed version of {name} under a new tag and the rollout continues; or go back, in git"
            ),
            format!("muster rollout undo {said}"),
        ),
        (Shape::Unreachable, Some(Reason::SyncUnsupported)) => without(next_of(cell).map_or_else(
            || "what applies there cannot do what the module asks for".to_owned(),
            str::to_owned,
        )),
        (Shape::Unreachable, _) => with(
            "it is skipped, and taken when it is ready again; to look at it",
            format!("muster check --cluster {cluster}"),
        ),
        (Shape::Unknown, _) => with(
            "see whether the controller runs and answers",
            "muster check".to_owned(),
        ),
        (Shape::Held, Some(Reason::Pinned)) => with(
            "to give it again what all others have",
            format!("muster unpin {cluster} --module {said}"),
        ),
        // The hold is either the cluster's, for all modules, or this module's.
        (Shape::Held, _) if cell.message.starts_with("held for this module") => with(
            "to let it go on",
            format!("muster release {said} --clusters {cluster}"),
        ),
        (Shape::Held, _) => with("to let it go on", format!("muster release {cluster}")),
        (_, Some(Reason::Paused)) => Some(resume(module)),
        (_, Some(Reason::WaitingApproval)) => with(
            "approve the stage; nothing goes on without that",
            format!("muster rollout approve {said}{stage}"),
        ),
        (_, Some(Reason::WaitingGate)) => with(
            "nothing to do: the gate is read again. To go on without it",
            format!("muster rollout promote {said}{stage}"),
        ),
        (_, Some(Reason::Aborted)) => with(
            &format!("commit another version of {name}; or try this one again"),
            format!("muster rollout retry {said}"),
        ),
        (_, Some(Reason::DependencyBehind)) => with(
            if cell.message.starts_with("moves to ") {
                "see what keeps the module that takes over"
            } else {
                "see what keeps the module that it depends on"
            },
            next_of(cell).map_or_else(|| format!("muster why {said}"), str::to_owned),
        ),
        (_, Some(Reason::WindowClosed)) => with(
            "nothing to do: it begins when the window opens. To let this module through before",
            format!(
                "muster window bypass {} --module {said} --reason TEXT --for 1h",
                shell_word(window(&cell.message))
            ),
        ),
        (_, Some(Reason::WindowInvalid)) => with(
            "correct the window, or the time zone of the cluster; to see its errors",
            format!(
                "kubectl describe rolloutwindow {}",
                shell_word(window(&cell.message))
            ),
        ),
        (_, Some(Reason::SourceNotReady)) if module.read_by_flux => Some((
            "see what Flux says of the source; it tries again by itself".to_owned(),
            next_of(cell).map(str::to_owned),
        )),
        (_, Some(Reason::SourceNotReady)) => without(format!(
            "see that {} is in the repository, or name another version; it is looked for again by itself",
            module.version
        )),
        (_, Some(Reason::VerificationFailed)) => without(format!(
            "have {} signed by a key that is trusted, or name another version; it is verified again by itself",
            module.version
        )),
        (Shape::WaitsForYou, _) => Some((
            "nothing is withdrawn until you say so; to remove it from these clusters".to_owned(),
            Some(withdrawal::acknowledgement(module)),
        )),
        (Shape::Waiting | Shape::Updating, _) => without("nothing to do: it goes on by itself".to_owned()),
        (Shape::Ready | Shape::NotSelected, _) => None,
    }
}
