//! What people say about an update: `fleet.muster.dev/retry` and `fleet.muster.dev/abort` on the UpdatePlan, each carried out once. The value
//! names Machines by comma, or is `true` for all of the plan. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use muster_api::{
    UpdatePlan,
    conditions::bounded,
    control::Control,
    labels::annotation,
    schema::MAX_MESSAGE,
    update_plan::{MachineUpdate, MachineUpdateState},
};
use muster_machines::{Progress, Reply, Step};

/// What is to be carried out on a plan.
#[derive(Debug, Default)]
pub struct Orders {
    namespace: String,
    retry: Option<Order>,
    abort: Option<Order>,
}

#[derive(Debug)]
struct Order {
    /// The annotation, as far as the status keeps it.
    text: String,
    control: Control,
}

impl Orders {
    /// The annotations of a plan that were not carried out yet. An error: one of them cannot be read, and neither is carried out.
    pub fn of(plan: &UpdatePlan, now: Timestamp) -> Result<Self, String> {
        let status = plan.status.as_ref();
        let order = |key: &str, handled: Option<&String>| -> Result<Option<Order>, String> {
            let Some(text) = plan.annotations().get(key) else {
                return Ok(None);
            };
            let control = Control::parse(text).map_err(|error| format!("{key}: {error}"))?;
            let text = bounded(text, MAX_MESSAGE).into_owned();
            let is_new = handled != Some(&text) && control.holds(now);
            Ok(is_new.then_some(Order { text, control }))
        };
        Ok(Self {
            namespace: plan.namespace().unwrap_or_default(),
            retry: order(
                annotation::RETRY,
                status.and_then(|status| status.last_handled_retry.as_ref()),
            )?,
            abort: order(
                annotation::ABORT,
                status.and_then(|status| status.last_handled_abort.as_ref()),
            )?,
        })
    }

    /// There is nothing to carry out.
    pub const fn is_empty(&self) -> bool {
        self.retry.is_none() && self.abort.is_none()
    }

    /// What the status of the plan says once it is carried out: of retry, and of abort.
    pub fn texts(&self) -> (Option<&str>, Option<&str>) {
        let text = Order::text;
        (self.retry.as_ref().map(text), self.abort.as_ref().map(text))
    }

    /// Carries it out on an update that is under way. What is complete stays so.
    pub fn direct(&self, machine: &str, progress: &mut Progress, steps: &[Step], now: Timestamp) {
        if progress.reply(steps, now) == Reply::Done {
            return;
        }
        if let Some(message) = self.aborted(machine) {
            progress.abort(&message, now);
        }
        if self.retries(machine) {
            progress.retry();
        }
    }

    /// Carries it out on an update that is on record and that no process has under way.
    pub fn amend(&self, entry: &mut MachineUpdate, now: Timestamp) {
        if entry.state == MachineUpdateState::Updated {
            return;
        }
        if let Some(message) = self.aborted(&entry.name) {
            entry.state = MachineUpdateState::Failed;
            entry.since = Some(Time(now));
            entry.message = Some(bounded(&message, MAX_MESSAGE).into_owned());
        }
        if self.retries(&entry.name) && entry.state == MachineUpdateState::Failed {
            entry.state = MachineUpdateState::Pending;
            (entry.since, entry.message) = (None, None);
        }
    }

    fn retries(&self, machine: &str) -> bool {
        self.retry.as_ref().is_some_and(|order| order.names(machine))
    }

    /// The message of a Machine whose update is aborted.
    fn aborted(&self, machine: &str) -> Option<String> {
        let order = self.abort.as_ref().filter(|order| order.names(machine))?;
        let namespace = &self.namespace;
        Some(format!(
            "aborted{}; to go on: muster machines retry {machine} -n {namespace}; to replace it: kubectl delete machine {machine} -n {namespace}",
            order.control.told()
        ))
    }
}

impl Order {
    fn text(&self) -> &str {
        &self.text
    }

    fn names(&self, machine: &str) -> bool {
        let mut named = self.control.what.split(',').map(str::trim);
        named.any(|name| name == "true" || name == machine)
    }
}
