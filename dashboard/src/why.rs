//! Why a module is in its state: the reasons, down to what fails, and what to do next.

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
    /// Schema version of the JSON form.
    pub schema: &'static str,
    /// Summary in one sentence.
    pub headline: String,
    /// The checks that a cluster must pass to get the target, up to the one that blocks it. Empty for a module as a
    /// whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Clusters and their states, most urgent first.
    pub steps: Vec<Step>,
    /// Progress of the plan on one cluster; `None` without a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanView>,
    /// What to do next, if anything.
    pub next: Option<String>,
    /// The command for it, if there is one.
    pub command: Option<String>,
    /// The alternative, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Choice>,
}

/// One cluster or several equal ones, with the reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// State, as a shape.
    pub shape: Shape,
    /// The cluster, or several with the same state.
    pub who: String,
    /// Name of the cluster, if it is a single one.
    pub cluster: Option<String>,
    /// Reason, one CamelCase word.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Since when, if known and if it is a single cluster.
    pub since: Option<jiff::Timestamp>,
}

impl Why {
    pub(crate) const SCHEMA: &'static str = "why/v1";

    /// Creates an explanation without checks and without an alternative.
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

/// Progress of a plan on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    /// Plan, step number, step and its state: `update 2/3 schema/migrate InProgress`.
    pub line: String,
    /// The uid of the run, as in `muster plan-run` and in the name of the PlanRun.
    pub run: Option<String>,
    /// Failure class: what caused the failure.
    pub class: Option<&'static str>,
}

impl PlanView {
    /// Reads the progress from a cluster's report; `None` for a sync without a plan.
    pub(crate) fn of(state: &SyncState) -> Option<Self> {
        Some(Self {
            line: state.plan.clone()?,
            run: state.plan_run.as_ref().map(|run| run.uid.clone()),
            class: state.class.map(|class| fault(class, "this cluster's")),
        })
    }

    /// How to retry the failed step.
    fn retry(&self, view: &ModuleView, cluster: &str) -> Option<Choice> {
        let words = self.line.strip_suffix(RunState::FatalError.as_str())?.trim_end();
        let step = words.rsplit(' ').next()?;
        let what = "retry the step once its cause is fixed, or skip it; both are recorded".to_owned();
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
/// Names or ranges listed for several clusters; more are counted.
const LISTED: usize = 5;

/// Explains one cluster of a module, or one node of a NodeModule; `None` if either does not exist.
pub fn why_on(objects: &Objects, fleet: &Fleet, module: &ModuleRef, cluster: &str) -> Option<Why> {
    let view = fleet.module(module.kind, &module.name)?;
    let cell = view.cells.iter().find(|cell| cell.cluster == cluster)?;
    let has = cell.version.as_deref().unwrap_or("nothing");
    let (next, command) = next_action(view, cell).unzip();
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

/// Progress of a module's plan on a cluster.
fn plan_on(objects: &Objects, module: &ModuleRef, cluster: &str) -> Option<PlanView> {
    let (_, status) = objects.assemblage(module.kind, cluster)?;
    let state = status?.syncs.iter().find(|state| state.name == module.name)?;
    PlanView::of(state)
}

/// Explains a module: the states of its clusters, and what a person can do.
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
        // No cluster has a problem: the module itself is stuck.
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
    // If several things block it, choose the one that a person can fix.
    open.sort_by_key(|cell| remedy_rank(cell));
    let next = match paused {
        Some(_) if !open.is_empty() => Some(resume(module)),
        _ => open.iter().find_map(|cell| next_action(module, cell)),
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

/// The state of a module in one sentence.
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

/// The alternative, if the command is about a held withdrawal.
fn otherwise(held: Option<HeldWithdrawal>, command: Option<&str>) -> Option<Choice> {
    let held = held.filter(|held| command == Some(&held.remove))?;
    Some(held.keep)
}

/// Several clusters with the same state, in one line, with the message of the first.
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

/// Converts a cell to a step. The advice is left out: it appears once, at the end.
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

/// Sort key: the cells that a person can do most about come first.
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

/// The advice in a message.
fn next_of(cell: &Cell) -> Option<&str> {
    cell.message.rsplit_once("next: ").map(|(_, next)| next)
}

/// A paused rollout must be resumed first, whatever else blocks it.
fn resume(module: &ModuleView) -> (String, Option<String>) {
    let command = format!("muster rollout resume {}{}", module.address(), module.within());
    ("the rollout is paused; to resume it".to_owned(), Some(command))
}

/// The first window that a message names in parentheses: `until 2026-12-01T02:00 Europe/Berlin (freeze-december)`.
fn window(message: &str) -> &str {
    let (_, after) = message.split_once('(').unwrap_or_default();
    after.split_once(')').map_or("NAME", |(name, _)| name)
}

/// What to do about it, and the command; `None` if there is nothing to do.
pub(crate) fn next_action(module: &ModuleView, cell: &Cell) -> Option<(String, Option<String>)> {
    if let Some(of_upgrades) = upgrades::next_upgrade_action(module, cell) {
        return Some(of_upgrades);
    }
    if let Some(of_nodes) = nodes::next_node_action(module, cell) {
        return Some(of_nodes);
    }
    let address = module.address();
    let (name, within, cluster) = (&module.name, module.within(), &cell.cluster);
    let with = |what: &str, command: String| Some((what.to_owned(), Some(format!("{command}{within}"))));
    let without = |what: String| Some((what, None));
    let stage = module
        .waits_at
        .as_ref()
        .map_or_else(String::new, |stage| format!(" --stage {}", shell_word(stage)));
    let reason: Option<Reason> = cell.reason.parse().ok(); // a reason of a newer controller: no advice
    match (cell.shape, reason) {
        // If the revision did not cause the failure, the status has the advice.
        (Shape::Failed, _) if cell.message.contains("; next: fix the cluster") => without(format!(
            "fix {cluster}, or commit a version of {name} that needs fewer resources"
        )),
        (Shape::Failed, _) | (_, Some(Reason::Halted | Reason::KnownBad)) => with(
            &format!(
                "commit a fixed version of {name} under a new tag and the rollout continues; or go back, in git"
            ),
            format!("muster rollout undo {address}"),
        ),
        (Shape::Unreachable, Some(Reason::SyncUnsupported)) => without(next_of(cell).map_or_else(
            || "the cluster's agent does not support what the module requires".to_owned(),
            str::to_owned,
        )),
        (Shape::Unreachable, _) => with(
            "it is skipped until it is ready again; to check it",
            format!("muster check --cluster {cluster}"),
        ),
        (Shape::Unknown, _) => with("check that the controller is running", "muster check".to_owned()),
        (Shape::Held, Some(Reason::Pinned)) => with(
            "to give it the same version as all others",
            format!("muster unpin {cluster} --module {address}"),
        ),
        // The hold applies either to the cluster, for all modules, or only to this module.
        (Shape::Held, _) if cell.message.starts_with("held for this module") => with(
            "to release it",
            format!("muster release {address} --clusters {cluster}"),
        ),
        (Shape::Held, _) => with("to release it", format!("muster release {cluster}")),
        (_, Some(Reason::Paused)) => Some(resume(module)),
        (_, Some(Reason::WaitingApproval)) => with(
            "approve the stage; the rollout waits for that",
            format!("muster rollout approve {address}{stage}"),
        ),
        (_, Some(Reason::WaitingGate)) => with(
            "nothing to do: the gate is checked again. To continue without it",
            format!("muster rollout promote {address}{stage}"),
        ),
        (_, Some(Reason::Aborted)) => with(
            &format!("commit another version of {name}; or retry this one"),
            format!("muster rollout retry {address}"),
        ),
        (_, Some(Reason::DependencyBehind)) => with(
            if cell.message.starts_with("moves to ") {
                "check what blocks the module that takes over"
            } else {
                "check what blocks the module that it depends on"
            },
            next_of(cell).map_or_else(|| format!("muster why {address}"), str::to_owned),
        ),
        (_, Some(Reason::WindowClosed)) => with(
            "nothing to do: it starts when the window opens. To bypass the window for this module",
            format!(
                "muster window bypass {} --module {address} --reason TEXT --for 1h",
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
            "check what Flux reports about the source; it retries automatically".to_owned(),
            next_of(cell).map(str::to_owned),
        )),
        (_, Some(Reason::SourceNotReady)) => without(format!(
            "make sure that {} exists in the repository, or set another version; it is retried automatically",
            module.version
        )),
        (_, Some(Reason::VerificationFailed)) => without(format!(
            "have {} signed by a trusted key, or set another version; it is verified again automatically",
            module.version
        )),
        (Shape::WaitsForYou, _) => Some((
            "nothing is withdrawn until you acknowledge it; to remove it from these clusters".to_owned(),
            Some(withdrawal::acknowledgement(module)),
        )),
        (Shape::Waiting | Shape::Updating, _) => {
            without("nothing to do: it continues automatically".to_owned())
        }
        (Shape::Ready | Shape::NotSelected, _) => None,
    }
}
