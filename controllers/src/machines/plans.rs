//! The store of plans: stored before a response, found by the uid of a Machine.
//!
//! Invariant: a Machine is in one plan, the one that was stored last for it, and until its update has ended also in the
//! one by which it started.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::Stream;
use jiff::{SignedDuration, Timestamp};
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::watcher,
};
use muster_api::{
    UpdatePlan, digest,
    update_plan::{
        MAX_MACHINES, MAX_OBJECTS, MachineUpdate, MachineUpdateState, UpdateAcknowledgement, UpdateLevel,
        UpdateNodeAction, UpdatePlanSpec, UpdatePlanStatus, UpdateStep,
    },
};
use muster_machines::{Acknowledgement, Level, Malformed, Objects, Step, Task};
use serde_json::json;
use tracing::{info, warn};

use super::{
    config::{PrepareNode, Updater},
    controls::Handled,
    index::{MachineIndex, MachineRow},
};
use crate::runtime::{Api, Guard, Index, Key, call::error_chain, watch};

/// How many times a status is written again after a conflict.
const TRIES: usize = 5;
/// How long a plan is kept at least: Cluster API caches the answer of the plan for a day.
const KEPT: SignedDuration = SignedDuration::from_hours(25);
/// How long cordoning and uncordoning a Node may take: one write each, if its API server is available.
const NODE_DEADLINE: SignedDuration = SignedDuration::from_mins(10);

/// All plans, as last read.
pub type PlanIndex = Index<UpdatePlan, Arc<UpdatePlan>>;

/// An index that [`plan_changes`] fills.
pub fn plan_index() -> PlanIndex {
    Index::new(
        |plan: &UpdatePlan| Some(Arc::new(plan.clone())),
        |key, _| vec![key.clone()],
    )
}

/// The keys of plans that changed, once the index has them.
pub fn plan_changes(client: Client, index: Arc<PlanIndex>) -> impl Stream<Item = Key> + Send + use<> {
    let api: Api<Guard<UpdatePlan>> = Api::all(client);
    watch::watch_rows(
        watch::watch_api(api, watcher::Config::default(), "UpdatePlan".to_owned()),
        index,
    )
}

/// The content of a new plan.
pub struct Decided<'a> {
    /// The current and the desired objects.
    pub sides: (&'a Objects, &'a Objects),
    /// The updaters of the plan, in order.
    pub steps: Vec<&'a Updater>,
    /// The digest of the desired objects.
    pub digest: &'a str,
}

/// The store of UpdatePlans.
pub struct Plans {
    client: Client,
    index: Arc<PlanIndex>,
    machines: Arc<MachineIndex>,
}

impl Plans {
    /// A store on top of the watched indexes.
    pub const fn new(client: Client, index: Arc<PlanIndex>, machines: Arc<MachineIndex>) -> Self {
        Self {
            client,
            index,
            machines,
        }
    }

    /// The plans that name a Machine: the last one, and the one by which an unfinished update started.
    pub fn of(&self, namespace: &str, uid: &str) -> Vec<Arc<UpdatePlan>> {
        let names = |plan: &UpdatePlan| {
            let machines = plan.status.iter().flat_map(|status| &status.machines);
            machines.into_iter().any(|machine| machine.uid == uid)
        };
        self.index.with(|rows| {
            let here = rows.iter().filter(|(key, _)| key.namespace == namespace);
            here.map(|(_, plan)| plan)
                .filter(|plan| names(plan))
                .cloned()
                .collect()
        })
    }

    /// Stores a plan with its Machines, and returns its name. After an error the answer to Cluster API must not be yes.
    /// Machines whose update has started (`begun`, or recorded) also stay in the plan by which it started.
    pub async fn store(&self, decided: &Decided<'_>, begun: impl Fn(&str) -> bool) -> Result<String, String> {
        let (namespace, plan) = made(decided)?;
        let machines = self.machines_of(&namespace, &plan.spec);
        if machines.is_empty() {
            return Err(format!(
                "no Machine of {} {namespace}/{} is known here yet",
                own_kind(decided.sides.0),
                plan.spec.source
            ));
        }
        if machines.len() > MAX_MACHINES {
            return Err(format!(
                "{} Machines are more than the {MAX_MACHINES} that a plan can name",
                machines.len()
            ));
        }
        let api: Api<UpdatePlan> = Api::namespaced(self.client.clone(), &namespace);
        let name = plan.name_any();
        let what = format!("storing UpdatePlan {namespace}/{name}");
        let failed = |error: kube::Error| format!("{what}: {}", error_chain(&error));
        match api.create(&PostParams::default(), &plan).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                let there = api.get(&name).await.map_err(failed)?;
                if there.spec != plan.spec {
                    return Err(format!("{what}: another plan has this name"));
                }
            }
            Err(error) => return Err(failed(error)),
        }
        self.add_machines(&namespace, &name, &machines).await?;
        let free = machines
            .iter()
            .map(|(_, row)| row.uid.as_str())
            .filter(|uid| !begun(uid));
        self.release(&namespace, &name, &free.collect(), |entry| !entry.is_open())
            .await?;
        Ok(name)
    }

    /// Adds Machines to a plan, as pending if the plan does not list them yet.
    async fn add_machines(
        &self,
        namespace: &str,
        plan: &str,
        machines: &[(String, MachineRow)],
    ) -> Result<(), String> {
        let written = self.write(namespace, plan, |record| {
            for (name, row) in machines {
                record
                    .machines
                    .entry(row.uid.clone())
                    .or_insert_with(|| pending(name, &row.uid));
            }
        });
        written.await.map(drop)
    }

    /// Removes a Machine from all plans but this one.
    pub async fn release_from_others(&self, plan: &UpdatePlan, uid: &str) -> Result<(), String> {
        let namespace = plan.namespace().unwrap_or_default();
        self.release(&namespace, &plan.name_any(), &BTreeSet::from([uid]), |_| true)
            .await
    }

    /// The Machines of a plan: the requested one, or those of the old MachineSet and those that it gets later.
    fn machines_of(&self, namespace: &str, spec: &UpdatePlanSpec) -> Vec<(String, MachineRow)> {
        let is_of = |key: &Key, row: &MachineRow| match spec.level {
            UpdateLevel::Machine => key.name == spec.source,
            UpdateLevel::MachineSet => row.machine_set() == Some(&spec.source),
        };
        self.machines.with(|rows| {
            let here = rows
                .iter()
                .filter(|(key, row)| key.namespace == namespace && is_of(key, row));
            here.map(|(key, row)| (key.name.clone(), row.clone())).collect()
        })
    }

    /// Removes Machines from all other plans, if their previous decision is obsolete.
    async fn release(
        &self,
        namespace: &str,
        name: &str,
        uids: &BTreeSet<&str>,
        is_over: impl Fn(&MachineUpdate) -> bool,
    ) -> Result<(), String> {
        let goes = |entry: &MachineUpdate| uids.contains(entry.uid.as_str()) && is_over(entry);
        let names_one = |plan: &UpdatePlan| plan.status.iter().flat_map(|status| &status.machines).any(goes);
        let others: Vec<String> = self.index.with(|rows| {
            let here = rows
                .iter()
                .filter(|(key, plan)| key.namespace == namespace && key.name != name && names_one(plan));
            here.map(|(key, _)| key.name.clone()).collect()
        });
        for other in others {
            let released = self.write(namespace, &other, |record| {
                record.machines.retain(|_, entry| !goes(entry));
            });
            released.await?;
        }
        Ok(())
    }

    /// Adds Machines to a plan that its old MachineSet got since.
    pub async fn refresh(&self, plan: &UpdatePlan) -> Result<(), String> {
        let namespace = plan.namespace().unwrap_or_default();
        let known = |uid: &str| !self.of(&namespace, uid).is_empty();
        let mut machines = self.machines_of(&namespace, &plan.spec);
        machines.retain(|(_, row)| !known(&row.uid));
        if machines.is_empty() || plan.spec.level == UpdateLevel::Machine {
            return Ok(());
        }
        self.add_machines(&namespace, &plan.name_any(), &machines).await
    }

    /// Changes the recorded status of a plan, over the version that was read last, or over the current one if that was
    /// changed since. Nothing is sent if nothing changes.
    pub async fn write(
        &self,
        namespace: &str,
        name: &str,
        change: impl Fn(&mut Record),
    ) -> Result<UpdatePlan, String> {
        let api: Api<UpdatePlan> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("writing the status of UpdatePlan {namespace}/{name}");
        let mut known = self.index.get(&Key::new(namespace, name));
        for _ in 0..TRIES {
            let plan = match known.take() {
                Some(plan) => plan,
                None => api
                    .get(name)
                    .await
                    .map(Arc::new)
                    .map_err(|error| format!("{what}: {}", error_chain(&error)))?,
            };
            let before = plan.status.clone().unwrap_or_default();
            let mut record = Record::of(&before);
            change(&mut record);
            let after = record.status();
            if after == before {
                return Ok((*plan).clone());
            }
            // An empty list must be in the patch, too: an absent field would stay.
            let patch = json!({
                "metadata": {"resourceVersion": plan.resource_version()},
                "status": {
                    "updated": after.updated, "machines": after.machines,
                    "lastHandledRetry": after.last_handled_retry, "lastHandledAbort": after.last_handled_abort,
                },
            });
            match api
                .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
                .await
            {
                Ok(written) => {
                    self.index.apply(&written);
                    return Ok(written);
                }
                Err(kube::Error::Api(status)) if status.reason == "Conflict" => {}
                Err(error) => return Err(format!("{what}: {}", error_chain(&error))),
            }
        }
        Err(format!("{what}: other writers changed it {TRIES} times in a row"))
    }

    /// Deletes plans that are over: no live Machine must be updated by them, and Cluster API must query again before it
    /// starts another update.
    pub async fn tidy(&self, now: Timestamp) {
        let living: BTreeSet<String> = self.machines.all().into_iter().map(|row| row.uid).collect();
        let is_over = |plan: &UpdatePlan| {
            let made = plan.creation_timestamp().map_or(now, |made| made.0);
            let mut machines = plan.status.iter().flat_map(|status| &status.machines);
            now.duration_since(made) >= KEPT
                && machines.all(|machine| {
                    machine.state == MachineUpdateState::Updated || !living.contains(&machine.uid)
                })
        };
        for plan in self.index.all().into_iter().filter(|plan| is_over(plan)) {
            let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
            let parameters = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: plan.uid(),
                    resource_version: plan.resource_version(),
                }),
                ..DeleteParams::default()
            };
            let api: Api<UpdatePlan> = Api::namespaced(self.client.clone(), &namespace);
            match api.delete(&name, &parameters).await {
                Ok(()) => info!(
                    plan = name,
                    namespace, "its Machines are updated or gone: the plan is deleted"
                ),
                Err(error) => warn!(
                    plan = name,
                    namespace,
                    error = error_chain(&error),
                    "an obsolete plan is not deleted yet"
                ),
            }
        }
    }

    /// Waits until all stored plans were read.
    pub async fn synced(&self) {
        self.index.synced().await;
    }

    /// Whether all stored plans were read.
    pub fn is_synced(&self) -> bool {
        self.index.is_synced()
    }

    /// All plans.
    pub fn all(&self) -> Vec<Arc<UpdatePlan>> {
        self.index.all()
    }
}

/// The steps of a plan in the order in which they run.
pub fn steps(plan: &UpdatePlan) -> Vec<Step> {
    let task = |step: &UpdateStep| match step.node {
        Some(action) => Task::Node(action),
        None => Task::Update {
            updater: step.updater.clone().unwrap_or_default(),
            acknowledgement: match step.acknowledgement {
                Some(UpdateAcknowledgement::Trust) => Acknowledgement::Trust,
                Some(UpdateAcknowledgement::Digest) | None => Acknowledgement::Digest,
            },
        },
    };
    let step = |step: &UpdateStep| Step {
        task: task(step),
        deadline: step
            .deadline
            .to_std()
            .try_into()
            .unwrap_or(jiff::SignedDuration::MAX),
    };
    plan.spec.steps.iter().map(step).collect()
}

/// The desired objects of a plan.
pub fn desired(plan: &UpdatePlan) -> Result<Objects, Malformed> {
    let level = match plan.spec.level {
        UpdateLevel::Machine => Level::Machine,
        UpdateLevel::MachineSet => Level::MachineSet,
    };
    let side =
        serde_json::from_str(&plan.spec.desired).map_err(|error| Malformed::Json(error.to_string()))?;
    Objects::read(level, &side)
}

fn made(decided: &Decided<'_>) -> Result<(String, UpdatePlan), String> {
    let (current, desired) = decided.sides;
    let (namespace, source) = current.name();
    let (level, target) = match current.level() {
        Level::Machine => (UpdateLevel::Machine, None),
        Level::MachineSet => (UpdateLevel::MachineSet, Some(desired.name().1.to_owned())),
    };
    let spec = UpdatePlanSpec {
        level,
        target,
        from: current.digest(),
        to: decided.digest.to_owned(),
        steps: made_steps(&decided.steps)?,
        current: text(current)?,
        desired: text(desired)?,
        source: source.to_owned(),
    };
    let identity = digest::canonical(&json!(spec));
    let beginning: String = spec.source.chars().take(200).collect();
    let mut plan = UpdatePlan::new(&format!("{beginning}-{}", digest::short_hash(&[&identity])), spec);
    plan.metadata.namespace = Some(namespace.to_owned());
    Ok((namespace.to_owned(), plan))
}

/// The updaters in order. The Node is prepared before the first updater that requires it, and uncordoned at the end.
fn made_steps(updaters: &[&Updater]) -> Result<Vec<UpdateStep>, String> {
    let within = |deadline: SignedDuration| {
        let milliseconds = u64::try_from(deadline.as_millis()).map_err(|error| error.to_string())?;
        Ok::<_, String>(muster_api::Duration::from_millis(milliseconds))
    };
    let of_node = |action: UpdateNodeAction, deadline: SignedDuration| {
        Ok::<_, String>(UpdateStep {
            updater: None,
            acknowledgement: None,
            node: Some(action),
            deadline: within(deadline)?,
        })
    };
    let mut steps = Vec::new();
    let mut prepared = None;
    for updater in updaters {
        // A drain also cordons the Node.
        if let Some(wanted) = updater.prepare_node.filter(|wanted| Some(*wanted) > prepared) {
            prepared = Some(wanted);
            steps.push(match wanted {
                PrepareNode::Cordon => of_node(UpdateNodeAction::Cordon, NODE_DEADLINE)?,
                PrepareNode::Drain => of_node(UpdateNodeAction::Drain, updater.drain_deadline)?,
            });
        }
        steps.push(UpdateStep {
            updater: Some(updater.name.clone()),
            acknowledgement: Some(match updater.acknowledgement {
                Acknowledgement::Digest => UpdateAcknowledgement::Digest,
                Acknowledgement::Trust => UpdateAcknowledgement::Trust,
            }),
            node: None,
            deadline: within(updater.deadline)?,
        });
    }
    if prepared.is_some() {
        steps.push(of_node(UpdateNodeAction::Uncordon, NODE_DEADLINE)?);
    }
    Ok(steps)
}

fn text(side: &Objects) -> Result<String, String> {
    let text = digest::canonical(&side.side());
    match text.len() {
        ..=MAX_OBJECTS => Ok(text),
        length => Err(format!(
            "the objects are {length} bytes long: a plan can keep {MAX_OBJECTS}"
        )),
    }
}

fn own_kind(objects: &Objects) -> &'static str {
    match objects.level() {
        Level::Machine => "Machine",
        Level::MachineSet => "MachineSet",
    }
}

fn pending(name: &str, uid: &str) -> MachineUpdate {
    MachineUpdate {
        name: name.to_owned(),
        uid: uid.to_owned(),
        state: MachineUpdateState::Pending,
        step: 0,
        since: None,
        message: None,
    }
}

/// The recorded state of a plan.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The progress of the machines, by uid.
    pub machines: BTreeMap<String, MachineUpdate>,
    /// The annotations that were handled.
    pub handled: Handled,
}

impl Record {
    fn of(status: &UpdatePlanStatus) -> Self {
        let machines = status.machines.iter();
        Self {
            machines: machines
                .map(|machine| (machine.uid.clone(), machine.clone()))
                .collect(),
            handled: Handled::of(status),
        }
    }

    fn status(self) -> UpdatePlanStatus {
        let mut machines: Vec<MachineUpdate> = self.machines.into_values().collect();
        machines.sort_by(|one, other| (&one.name, &one.uid).cmp(&(&other.name, &other.uid)));
        machines.truncate(MAX_MACHINES);
        let updated = machines
            .iter()
            .filter(|machine| machine.state == MachineUpdateState::Updated);
        UpdatePlanStatus {
            updated: Some(format!("{}/{}", updated.count(), machines.len())),
            machines,
            last_handled_retry: self.handled.retry,
            last_handled_abort: self.handled.abort,
        }
    }
}
