//! Manual controls of the runs of a plan: a control is handled once, and its result is stored.

use jiff::Timestamp;
use muster_api::{
    conditions::bounded,
    plan::{ControlTaken, PlanAction, PlanControl, PlanRunStatus, Run},
    schema::MAX_PLAN_LINE,
};
use muster_sync::plan::{Control, Planned, StepId, began, by_hand, control};

/// Which run in a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The run that leads to the content, or cleans it up.
    Content,
    /// The run that was started by hand.
    Hand,
}

impl Of {
    pub(super) const fn run_mut(self, status: &mut PlanRunStatus) -> Option<&mut Run> {
        match self {
            Self::Content => status.run.as_mut(),
            Self::Hand => status.by_hand.as_mut(),
        }
    }
}

/// What to do for a control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Nothing: there is none, it was handled before, or it must wait for the current run.
    No,
    /// A run was changed, or the control was refused: the status must be stored.
    Changed,
    /// A run of this plan starts.
    Start(String),
}

/// The state of the content's run when a control is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// It is running, or about to start.
    Open,
    /// It is complete.
    Complete,
    /// It failed for good.
    Failed,
}

/// Handles a control, unless it was handled before.
pub(super) fn take(
    status: &mut PlanRunStatus,
    wanted: Option<&PlanControl>,
    planned: &Planned,
    content: Content,
) -> Taken {
    let is_new = |wanted: &&PlanControl| status.control.as_ref().is_none_or(|taken| taken.id != wanted.id);
    let Some(wanted) = wanted.filter(is_new) else {
        return Taken::No;
    };
    let (taken, refused) = match begun(status, wanted, planned, content) {
        Begun::Later => return Taken::No,
        Begun::Now(plan) => (Taken::Start(plan), None),
        Begun::Never(why) => (Taken::Changed, Some(why)),
        Begun::No => (Taken::Changed, changed(status, wanted).err()),
    };
    status.control = Some(ControlTaken {
        id: wanted.id.clone(),
        refused: refused.map(|why| bounded(&why, MAX_PLAN_LINE).into_owned()),
    });
    taken
}

/// Whether a control starts a plan.
enum Begun {
    /// The control does not start a plan.
    No,
    Now(String),
    /// Another run is in progress.
    Later,
    Never(String),
}

fn begun(status: &PlanRunStatus, wanted: &PlanControl, planned: &Planned, content: Content) -> Begun {
    let name = match (wanted.action, &wanted.plan) {
        (PlanAction::Start, Some(name)) => name,
        (PlanAction::Start, None) => return Begun::Never("the control names no plan".to_owned()),
        _ => return Begun::No,
    };
    let known: Vec<&str> = by_hand(planned.plans()).collect();
    if !known.contains(&name.as_str()) {
        let known = match known.as_slice() {
            [] => "none".to_owned(),
            known => known.join(", "),
        };
        return Begun::Never(format!(
            "the plan file has these plans that can be started: {known}"
        ));
    }
    let under_way = |run: &&Run| !run.progress.status.is_terminal();
    if status.by_hand.as_ref().is_some_and(|run| under_way(&run)) {
        return Begun::Later;
    }
    match (content, &status.run) {
        (Content::Complete, _) => Begun::Now(name.clone()),
        (Content::Failed, Some(run)) => Begun::Never(format!(
            "plan {} failed here (run {}): retry or skip its step first",
            run.progress.plan, run.progress.uid
        )),
        _ => Begun::Later,
    }
}

/// Changes the run that a control names.
fn changed(status: &mut PlanRunStatus, wanted: &PlanControl) -> Result<(), String> {
    let uid = wanted.run.as_deref().unwrap_or_default();
    let step = || {
        let text = wanted.step.as_deref().unwrap_or_default();
        let (phase, step) = text
            .split_once('/')
            .ok_or("the control names no step as PHASE/STEP")?;
        Ok::<_, String>(StepId::new(phase, step))
    };
    let what = match wanted.action {
        PlanAction::Retry => Control::Retry(step()?),
        PlanAction::Skip => Control::Skip(step()?),
        PlanAction::Abort => Control::Abort,
        PlanAction::Start => return Err("the control starts a plan, and changes no run".to_owned()),
    };
    let is_of = |run: &Run| run.progress.uid == uid;
    let of = if status.by_hand.as_ref().is_some_and(is_of) {
        Of::Hand
    } else {
        Of::Content
    };
    let run = of.run_mut(status).ok_or("no run of a plan has started here")?;
    let reason = wanted.reason.as_deref().unwrap_or_default().trim();
    let after = control(run.progress.clone(), uid, &what, reason).map_err(|error| error.to_string())?;
    run.progress = after;
    Ok(())
}

/// A run that starts now.
pub(super) fn run(
    planned: &Planned,
    name: &str,
    uid: String,
    revision: &str,
    attempt: u64,
    now: Timestamp,
) -> Run {
    Run {
        documents_digest: planned.digest().to_owned(),
        plans_digest: planned.plans_digest().to_owned(),
        revision: revision.to_owned(),
        attempt,
        progress: began(&planned.plan(name).unwrap_or_default(), uid, now),
    }
}
