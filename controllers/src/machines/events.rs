//! Events of updates: about a Machine when its update starts, completes or fails; about a MachineDeployment or control
//! plane when its change was decided. The same decision with the same message is not a new event.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Client, ResourceExt as _,
    core::{ApiResource, DynamicObject},
};
use muster_api::{
    UpdatePlan,
    update_plan::{MachineUpdate, MachineUpdateState},
};
use muster_machines::{Level, Objects, Verdict};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::warn;

use super::index::{MachineIndex, machine_resource};
use crate::runtime::{Api, Event, Events, Key, call, call::error_chain};

/// The label with the name of the MachineDeployment, which Cluster API sets on a MachineSet.
const DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
/// The `action` of all events.
const ACTION: &str = "UpdateInPlace";
/// Events waiting to be written, at most.
const QUEUE: usize = 1024;
/// Objects whose last decision is kept, at most.
const KEPT: usize = 4096;

/// The object of an event.
enum About {
    Object(ObjectReference),
    /// A MachineDeployment by namespace and name: its uid, which `kubectl describe` needs to find events, is read.
    Deployment(String, String),
}

/// Accepts events: neither a response nor a step waits until one is written.
pub struct Reports {
    queue: mpsc::Sender<(About, Event)>,
    /// The last decision about each object, by namespace, kind and name.
    decided: Mutex<BTreeMap<(String, &'static str, String), Event>>,
}

/// The sender of events, and the task that writes them.
pub fn reports(client: Client, events: Events) -> (Reports, impl Future<Output = ()> + Send) {
    let (queue, mut given) = mpsc::channel(QUEUE);
    let reports = Reports {
        queue,
        decided: Mutex::new(BTreeMap::new()),
    };
    let writing = async move {
        while let Some((about, event)) = given.recv().await {
            let regarding = match about {
                About::Object(regarding) => Some(regarding),
                About::Deployment(namespace, name) => deployment(&client, &namespace, &name).await,
            };
            if let Some(regarding) = regarding {
                events.publish_about(regarding, event).await;
            }
        }
    };
    (reports, writing)
}

impl Reports {
    /// The recorded progress of a Machine changed.
    pub fn changed(
        &self,
        plan: &UpdatePlan,
        machine: &Key,
        before: Option<&MachineUpdate>,
        after: &MachineUpdate,
    ) {
        if let Some(event) = change(plan, before, after) {
            let kind = machine_resource();
            let regarding = reference(
                &machine.namespace,
                &OwnerReference {
                    api_version: kind.api_version,
                    kind: kind.kind,
                    name: machine.name.clone(),
                    uid: after.uid.clone(),
                    ..OwnerReference::default()
                },
            );
            self.give(About::Object(regarding), event);
        }
    }

    /// A change was decided; `plan` was stored for it, if it is made in place.
    pub fn decided(&self, desired: &Objects, verdict: &Verdict, plan: Option<&str>, index: &MachineIndex) {
        let (namespace, name) = desired.name();
        let (kind, name, about) = match desired.level() {
            Level::MachineSet => {
                let Some(name) = desired.label(DEPLOYMENT) else {
                    return;
                };
                let about = About::Deployment(namespace.to_owned(), name.to_owned());
                ("MachineDeployment", name, about)
            }
            Level::Machine => {
                let owner = index.get(&Key::new(namespace, name)).and_then(|row| row.owner);
                let Some(owner) = owner else { return };
                ("Machine", name, About::Object(reference(namespace, &owner)))
            }
        };
        let object = (namespace.to_owned(), kind, name.to_owned());
        let event = decision(verdict, plan);
        let mut decided = self.decided.lock();
        if decided.get(&object) != Some(&event) && self.give(about, event.clone()) {
            decided.insert(object, event);
            if decided.len() > KEPT {
                decided.pop_first();
            }
        }
    }

    /// False if too many are waiting: an event is not worth a delay.
    fn give(&self, about: About, event: Event) -> bool {
        let given = self.queue.try_send((about, event));
        if given.is_err() {
            warn!("an event is dropped: {QUEUE} others are waiting to be written");
        }
        given.is_ok()
    }
}

fn reference(namespace: &str, object: &OwnerReference) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.api_version.clone()),
        kind: Some(object.kind.clone()),
        namespace: Some(namespace.to_owned()),
        name: Some(object.name.clone()),
        uid: Some(object.uid.clone()),
        ..ObjectReference::default()
    }
}

/// A MachineDeployment with its uid. A deleted one gets no event.
async fn deployment(client: &Client, namespace: &str, name: &str) -> Option<ObjectReference> {
    let resource = ApiResource {
        kind: "MachineDeployment".to_owned(),
        plural: "machinedeployments".to_owned(),
        ..machine_resource()
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let what = format!("reading MachineDeployment {namespace}/{name}");
    let found = match call(what, api.get_metadata_opt(name)).await {
        Ok(found) => found?,
        Err(error) => {
            warn!(error = error_chain(&error), "an event is dropped");
            return None;
        }
    };
    Some(reference(
        namespace,
        &OwnerReference {
            api_version: resource.api_version,
            kind: resource.kind,
            name: name.to_owned(),
            uid: found.uid()?,
            ..OwnerReference::default()
        },
    ))
}

fn decision(verdict: &Verdict, plan: Option<&str>) -> Event {
    match verdict {
        Verdict::InPlace { steps, .. } => Event::normal(
            "UpdatePlanned",
            ACTION,
            format!(
                "UpdatePlan {}: in place, by {}",
                plan.unwrap_or_default(),
                steps.join(", ")
            ),
        ),
        Verdict::Replace(words) => Event::normal(
            "UpdateNotCovered",
            ACTION,
            format!("Machines will be replaced: {words}"),
        ),
        Verdict::Hold(words) => Event::warning("UpdateHeld", ACTION, words.clone()),
        Verdict::Again(words) => Event::warning(
            "UpdateUndecided",
            ACTION,
            format!("Cluster API will retry: {words}"),
        ),
    }
}

/// The event of a recorded change, if there is one: intermediate steps are only in the plan's status.
fn change(plan: &UpdatePlan, before: Option<&MachineUpdate>, after: &MachineUpdate) -> Option<Event> {
    if before.map(|entry| entry.state) == Some(after.state) {
        return None;
    }
    let name = plan.name_any();
    let began = match before.map(|entry| entry.state) {
        Some(MachineUpdateState::Failed) => "UpdateRetried",
        _ => "UpdateStarted",
    };
    Some(match after.state {
        MachineUpdateState::Pending => return None,
        MachineUpdateState::Updating => Event::normal(
            began,
            ACTION,
            format!(
                "by UpdatePlan {name}, step {} of {}",
                after.step + 1,
                plan.spec.steps.len()
            ),
        ),
        MachineUpdateState::Updated => {
            Event::normal("MachineUpdated", ACTION, format!("by UpdatePlan {name}"))
        }
        MachineUpdateState::Failed => Event::warning(
            "UpdateFailed",
            ACTION,
            format!(
                "UpdatePlan {name}, step {} of {}: {}; next: muster machines retry {} -n {} --reason REASON",
                after.step + 1,
                plan.spec.steps.len(),
                after.message.as_deref().unwrap_or_default(),
                after.name,
                plan.namespace().unwrap_or_default(),
            ),
        ),
    })
}
