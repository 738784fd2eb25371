//! Manual controls of an update: `fleet.muster.dev/retry` and `fleet.muster.dev/abort` on the UpdatePlan, each handled
//! once. The value is a comma-separated list of Machines, or `true` for all of the plan. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use muster_api::{
    UpdatePlan,
    conditions::bounded,
    control::Control,
    digest,
    labels::annotation,
    schema::MAX_MESSAGE,
    update_plan::{MachineUpdate, MachineUpdateState, UpdatePlanStatus},
};
use muster_machines::{Progress, Reply, Step, resumed_at};

/// The controls to apply to a plan.
#[derive(Debug, Default)]
pub struct Orders {
    namespace: String,
    retry: Option<Control>,
    abort: Option<Control>,
    /// The annotations that the status reports as handled once they are applied; one that was removed can be set again.
    pub handled: Handled,
    is_news: bool,
}

/// The handled annotations, as the status keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// The value of `fleet.muster.dev/retry`.
    pub retry: Option<String>,
    /// The value of `fleet.muster.dev/abort`.
    pub abort: Option<String>,
}

impl Handled {
    /// The handled annotations of a status.
    pub fn of(status: &UpdatePlanStatus) -> Self {
        Self {
            retry: status.last_handled_retry.clone(),
            abort: status.last_handled_abort.clone(),
        }
    }
}

impl Orders {
    /// The annotations of a plan that were not handled yet. An error: one of them is invalid, and neither is applied.
    pub fn of(plan: &UpdatePlan, now: Timestamp) -> Result<Self, String> {
        let before = plan.status.as_ref().map(Handled::of).unwrap_or_default();
        let read = |key: &str| -> Result<Option<(String, Control)>, String> {
            let Some(text) = plan.annotations().get(key) else {
                return Ok(None);
            };
            let control = Control::parse(text).map_err(|error| format!("{key}: {error}"))?;
            Ok(control.holds(now).then(|| (kept(text), control)))
        };
        let new = |parsed: Option<(String, Control)>, handled: &Option<String>| {
            let parsed = parsed.filter(|(text, _)| handled.as_ref() != Some(text));
            parsed.map(|(_, control)| control)
        };
        let (retry, abort) = (read(annotation::RETRY)?, read(annotation::ABORT)?);
        let text = |parsed: &Option<(String, Control)>| parsed.as_ref().map(|(text, _)| text.clone());
        let handled = Handled {
            retry: text(&retry),
            abort: text(&abort),
        };
        Ok(Self {
            namespace: plan.namespace().unwrap_or_default(),
            retry: new(retry, &before.retry),
            abort: new(abort, &before.abort),
            is_news: handled != before,
            handled,
        })
    }

    /// Whether there is a control to apply, or a handled annotation was removed.
    pub const fn is_news(&self) -> bool {
        self.is_news
    }

    /// Applies the control to an update in progress. A complete one stays complete.
    pub fn direct(&self, machine: &str, progress: &mut Progress, steps: &[Step], now: Timestamp) {
        if progress.reply(steps, now) == Reply::Done {
            return;
        }
        if let Some(message) = self.aborted(machine) {
            progress.abort(&message, now);
        }
        if self.retries(machine) {
            progress.retry(steps);
        }
    }

    /// Applies the control to an update that is recorded and not in progress in any process.
    pub fn apply_to_record(&self, entry: &mut MachineUpdate, steps: &[Step], now: Timestamp) {
        if entry.state == MachineUpdateState::Updated {
            return;
        }
        if let Some(message) = self.aborted(&entry.name) {
            entry.state = MachineUpdateState::Failed;
            entry.since = Some(Time(now));
            entry.message = Some(bounded(&message, MAX_MESSAGE).into_owned());
        }
        if self.retries(&entry.name) && entry.state == MachineUpdateState::Failed {
            let failed = usize::try_from(entry.step).unwrap_or(usize::MAX);
            entry.step = u32::try_from(resumed_at(steps, failed)).unwrap_or(u32::MAX);
            entry.state = MachineUpdateState::Updating;
            (entry.since, entry.message) = (None, None);
        }
    }

    fn retries(&self, machine: &str) -> bool {
        self.retry.as_ref().is_some_and(|control| names(control, machine))
    }

    /// The message of a Machine whose update is aborted.
    fn aborted(&self, machine: &str) -> Option<String> {
        let control = self.abort.as_ref().filter(|control| names(control, machine))?;
        let namespace = &self.namespace;
        Some(format!(
            "aborted{}; to go on: muster machines retry {machine} -n {namespace}; to replace it: kubectl delete machine {machine} -n {namespace}",
            control.provenance()
        ))
    }
}

fn names(control: &Control, machine: &str) -> bool {
    let mut named = control.what.split(',').map(str::trim);
    named.any(|name| name == "true" || name == machine)
}

/// The text of an annotation, or a digest if it is too long for the status.
fn kept(text: &str) -> String {
    if text.len() <= MAX_MESSAGE {
        text.to_owned()
    } else {
        digest::short_hash(&[text])
    }
}
