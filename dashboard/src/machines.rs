//! Machines that are updated in place: the progress of each, from its UpdatePlan.

use kube::ResourceExt;
use muster_api::{
    UpdatePlan,
    update_plan::{MachineUpdate, MachineUpdateState, UpdateNodeAction, UpdateStep},
};
use serde::Serialize;

use crate::{Choice, Shape, Step, Why, words::shell_word};

/// An UpdatePlan, as shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateView {
    /// Name of the UpdatePlan.
    pub name: String,
    /// The Machine, or the old MachineSet, that is updated.
    pub source: String,
    /// The new MachineSet.
    pub target: Option<String>,
    /// Most urgent state of its machines.
    pub shape: Shape,
    /// Number of updated machines.
    pub updated: usize,
    /// Steps of the plan, in order.
    pub steps: Vec<String>,
    /// Machines, by name.
    pub machines: Vec<MachineView>,
}

/// A Machine of a plan, as shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineView {
    /// Name of the Machine.
    pub name: String,
    /// State of the Machine, as a shape.
    pub shape: Shape,
    /// Pending, Updating, Updated or Failed.
    pub state: String,
    /// Current step, such as `2 of 3, updater image`.
    pub step: Option<String>,
    /// When the step started or failed.
    pub since: Option<jiff::Timestamp>,
    /// Last message of the updater.
    pub message: Option<String>,
    /// Command that continues the update, if a person must decide.
    pub command: Option<String>,
}

impl UpdateView {
    /// Builds the view of a plan.
    pub fn of(plan: &UpdatePlan) -> Self {
        let entries = plan.status.iter().flat_map(|status| &status.machines);
        let machines: Vec<MachineView> = entries.map(|entry| MachineView::of(plan, entry)).collect();
        let shapes = machines.iter().map(|machine| machine.shape);
        Self {
            name: plan.name_any(),
            source: plan.spec.source.clone(),
            target: plan.spec.target.clone(),
            shape: shapes
                .min_by_key(|shape| shape.urgency())
                .unwrap_or(Shape::Waiting),
            updated: machines
                .iter()
                .filter(|machine| machine.shape == Shape::Ready)
                .count(),
            steps: plan.spec.steps.iter().map(task).collect(),
            machines,
        }
    }
}

impl MachineView {
    fn of(plan: &UpdatePlan, entry: &MachineUpdate) -> Self {
        let number = usize::try_from(entry.step).unwrap_or(usize::MAX);
        let step = plan.spec.steps.get(number).filter(|_| entry.is_open());
        Self {
            name: entry.name.clone(),
            shape: shape(entry.state),
            state: format!("{:?}", entry.state),
            step: step.map(|step| format!("{} of {}, {}", number + 1, plan.spec.steps.len(), task(step))),
            since: entry.since.as_ref().map(|since| since.0),
            message: entry.message.clone(),
            command: (entry.state == MachineUpdateState::Failed).then(|| retry(plan, &entry.name)),
        }
    }
}

/// Explains the update of a Machine; `None` if the plan does not contain it.
pub fn why_machine(plan: &UpdatePlan, machine: &str) -> Option<Why> {
    let mut entries = plan.status.iter().flat_map(|status| &status.machines);
    let entry = entries.find(|entry| entry.name == machine)?;
    let view = MachineView::of(plan, entry);
    let name = plan.name_any();
    let at = view.step.as_deref().unwrap_or_default();
    let headline = match entry.state {
        MachineUpdateState::Pending => {
            format!(
                "Machine {machine} will be updated in place by UpdatePlan {name}: Cluster API has not requested it yet"
            )
        }
        MachineUpdateState::Updating => {
            format!("Machine {machine} is being updated in place by UpdatePlan {name}: step {at}")
        }
        MachineUpdateState::Updated => format!("Machine {machine} was updated in place by UpdatePlan {name}"),
        MachineUpdateState::Failed => {
            let node = if is_cordoned(plan, entry) {
                "; its Node was cordoned for it"
            } else {
                ""
            };
            format!("The update of Machine {machine} by UpdatePlan {name} has failed: step {at}{node}")
        }
    };
    let steps = plan.spec.steps.iter().zip(0_u32..);
    let steps = steps
        .map(|(step, number)| explained(step, number, entry))
        .collect();
    let next = view.command.is_some().then(|| "retry the failed step".to_owned());
    let mut why = Why::of(headline, steps, next, view.command.clone());
    why.otherwise = view.command.is_some().then(|| Choice {
        what: "delete the Machine, and its owner creates a new one".to_owned(),
        command: Some(format!(
            "kubectl delete machine {} -n {}",
            shell_word(machine),
            shell_word(&plan.namespace().unwrap_or_default())
        )),
    });
    Some(why)
}

fn explained(step: &UpdateStep, number: u32, entry: &MachineUpdate) -> Step {
    let is_done = entry.state == MachineUpdateState::Updated || number < entry.step;
    let is_current = number == entry.step && entry.is_open();
    let (shape, reason) = match (is_done, is_current) {
        (true, _) => (Shape::Ready, "Done"),
        (_, true) if entry.state == MachineUpdateState::Failed => (Shape::Failed, "Failed"),
        (_, true) => (Shape::Updating, "Updating"),
        _ => (Shape::Waiting, "Waiting"),
    };
    let words = entry.message.clone().filter(|_| is_current).unwrap_or_default();
    let limit = format!("within {}", step.deadline);
    Step {
        shape,
        who: task(step),
        cluster: None,
        reason: reason.to_owned(),
        message: match (is_current, words.as_str()) {
            (false, _) => String::new(),
            (true, "") => limit,
            (true, _) => format!("{words} ({limit})"),
        },
        since: entry.since.as_ref().map(|since| since.0).filter(|_| is_current),
    }
}

/// Whether a completed step of the plan has cordoned the Node.
fn is_cordoned(plan: &UpdatePlan, entry: &MachineUpdate) -> bool {
    let begun = plan.spec.steps.iter().zip(0..entry.step);
    let mut actions = begun.filter_map(|(step, _)| step.node);
    actions.any(|action| action != UpdateNodeAction::Uncordon)
}

const fn shape(state: MachineUpdateState) -> Shape {
    match state {
        MachineUpdateState::Pending => Shape::Waiting,
        MachineUpdateState::Updating => Shape::Updating,
        MachineUpdateState::Updated => Shape::Ready,
        MachineUpdateState::Failed => Shape::Failed,
    }
}

fn task(step: &UpdateStep) -> String {
    match step.node {
        Some(action) => action.to_string(),
        None => format!("updater {}", step.updater.as_deref().unwrap_or_default()),
    }
}

fn retry(plan: &UpdatePlan, machine: &str) -> String {
    format!(
        "muster machines retry {} -n {} --reason REASON",
        shell_word(machine),
        shell_word(&plan.namespace().unwrap_or_default())
    )
}
