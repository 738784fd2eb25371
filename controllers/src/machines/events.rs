//! Events of updates: about a Machine when its update begins, ends or fails; about a MachineDeployment or control plane when its change was
//! decided. What is decided again with the same words is not an event.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Client, ResourceExt as _,
    core::{ApiResource, DynamicObject},
};
use muster_api::{
    UpdatePlan,
    cluster::GROUP,
    update_plan::{MachineUpdate, MachineUpdateState},
};
use muster_machines::{Level, Objects, Verdict};
use parking_lot::Mutex;

use super::index::{MachineIndex, machines};
use crate::runtime::{Api, Event, Events, Key};

/// Cluster API labels a MachineSet by the name of its MachineDeployment.
const DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
/// What is done, in all events.
const ACTION: &str = "UpdateInPlace";
/// Objects whose last decision is kept. Beyond it all are forgotten, and said once more.
const KEPT: usize = 4096;

/// Writes them.
pub struct Reports {
    client: Client,
    events: Events,
    /// The last decision about each object, by namespace, kind and name.
    decided: Mutex<BTreeMap<(String, String, String), Event>>,
}

impl Reports {
    /// Nothing is reported yet.
    pub const fn new(client: Client, events: Events) -> Self {
        Self {
            client,
            events,
            decided: Mutex::new(BTreeMap::new()),
        }
    }

    /// How far a Machine is has changed on record.
    pub async fn changed(
        &self,
        plan: &UpdatePlan,
        machine: &Key,
        before: Option<&MachineUpdate>,
        after: &MachineUpdate,
    ) {
        if let Some(event) = change(plan, before, after) {
            let kind = machines();
            let regarding = ObjectReference {
                api_version: Some(kind.api_version),
                kind: Some(kind.kind),
                namespace: Some(machine.namespace.clone()),
                name: Some(machine.name.clone()),
                uid: Some(after.uid.clone()),
                ..ObjectReference::default()
            };
            self.events.publish_about(regarding, event).await;
        }
    }

    /// A change was decided; `plan` was stored for it, if it is made in place.
    pub async fn decided(
        &self,
        desired: &Objects,
        verdict: &Verdict,
        plan: Option<&str>,
        index: &MachineIndex,
    ) {
        let event = decision(verdict, plan);
        let (namespace, name) = desired.name();
        let (kind, name) = match desired.level() {
            Level::MachineSet => (
                "MachineDeployment",
                desired.label(DEPLOYMENT).unwrap_or_default().to_owned(),
            ),
            Level::Machine => ("Machine", name.to_owned()),
        };
        let object = (namespace.to_owned(), kind.to_owned(), name.clone());
        {
            let mut decided = self.decided.lock();
            if name.is_empty() || decided.get(&object) == Some(&event) {
                return;
            }
            if decided.len() >= KEPT {
                decided.clear();
            }
            decided.insert(object, event.clone());
        }
        let owner = match desired.level() {
            Level::MachineSet => self.deployment(namespace, &name).await,
            Level::Machine => index.get(&Key::new(namespace, &name)).and_then(|row| row.owner),
        };
        if let Some(owner) = owner {
            let regarding = ObjectReference {
                api_version: Some(owner.api_version),
                kind: Some(owner.kind),
                namespace: Some(namespace.to_owned()),
                name: Some(owner.name),
                uid: Some(owner.uid),
                ..ObjectReference::default()
            };
            self.events.publish_about(regarding, event).await;
        }
    }

    /// A MachineDeployment with its uid, by which `kubectl describe` finds events. One that is gone gets none.
    async fn deployment(&self, namespace: &str, name: &str) -> Option<OwnerReference> {
        let resource = ApiResource {
            kind: "MachineDeployment".to_owned(),
            plural: "machinedeployments".to_owned(),
            ..machines()
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let found = api.get_metadata(name).await.ok()?;
        Some(OwnerReference {
            api_version: format!("{GROUP}/v1beta2"),
            kind: resource.kind,
            name: name.to_owned(),
            uid: found.uid()?,
            ..OwnerReference::default()
        })
    }
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
            format!("Machines are replaced: {words}"),
        ),
        Verdict::Hold(words) => Event::warning("UpdateHeld", ACTION, words.clone()),
        Verdict::Again(words) => Event::warning(
            "UpdateUndecided",
            ACTION,
            format!("Cluster API asks again: {words}"),
        ),
    }
}

/// The event of a change on record, if it is one: steps between are in the plan's status alone.
fn change(plan: &UpdatePlan, before: Option<&MachineUpdate>, after: &MachineUpdate) -> Option<Event> {
    if before.map(|entry| entry.state) == Some(after.state) {
        return None;
    }
    let name = plan.name_any();
    Some(match after.state {
        MachineUpdateState::Pending => return None,
        MachineUpdateState::Updating => Event::normal(
            "UpdateStarted",
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
