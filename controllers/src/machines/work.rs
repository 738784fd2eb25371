//! The updates in progress: updaters are called in the background, and Cluster API is answered from memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use muster_api::{
    UpdatePlan,
    schema::MAX_MESSAGE,
    update_plan::{MachineUpdate, MachineUpdateState, UpdateLevel},
};
use muster_machines::{DIGEST_SETTING, Failed, Hook, Polled, Progress, Reply, Step, Task, polled};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::Notify, task::JoinSet};
use tracing::warn;

use super::{
    config::Updater,
    controls::Orders,
    events::Reports,
    nodes::{Nodes, Subject},
    plans::{self, Plans},
    updaters::{self, Call},
};
use crate::runtime::{Clock, Key, Shutdown};

/// Concurrent calls: machines are updated a few at a time, so more are waiting only if a fleet starts all at once.
const CALLS: usize = 64;
/// How often due steps are run while an update is in progress: Cluster API queries every few seconds.
const TURN: Duration = Duration::from_secs(1);

/// A machine whose update is in progress.
struct Running {
    /// The Machine's name, and its plan's namespace.
    machine: Key,
    plan: Arc<UpdatePlan>,
    steps: Vec<Step>,
    progress: Progress,
    /// The objects sent to updaters: those that Cluster API sent first, which are those of the plan.
    objects: Value,
    /// A call is in flight.
    called: bool,
    /// The entry in the plan's status.
    written: Option<MachineUpdate>,
}

/// All updates in progress, by the Machine's uid.
pub struct Work {
    tools: Tools,
    running: Mutex<BTreeMap<String, Running>>,
    wake: Notify,
}

/// The dependencies of the updates.
pub struct Tools {
    /// The updaters, in order.
    pub updaters: Vec<Updater>,
    /// The clients of the updaters.
    pub call: Arc<dyn Call>,
    /// The actions on Nodes.
    pub nodes: Arc<dyn Nodes>,
    /// The store of plans.
    pub plans: Arc<Plans>,
    /// The events about Machines.
    pub reports: Arc<Reports>,
    /// The current time.
    pub clock: Clock,
}

/// A Machine that Cluster API queries.
pub struct MachineQuery {
    /// The Machine's namespace and name.
    pub machine: Key,
    /// The Machine's uid.
    pub uid: String,
    /// The objects of the request.
    pub objects: Value,
}

impl Work {
    /// No updates in progress.
    pub fn new(tools: Tools) -> Self {
        Self {
            tools,
            running: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// The reply for a Machine whose request matches its plan. Starts the update if it has not started yet.
    pub fn reply_to_query(&self, plan: Arc<UpdatePlan>, query: MachineQuery) -> Reply {
        let now = self.tools.clock.now();
        let mut all = self.running.lock();
        let is_of = |running: &Running| running.plan.uid() == plan.uid();
        if !all.get(&query.uid).is_some_and(is_of) {
            let entry = recorded(&plan, &query.uid);
            let begun = begun(plan, query.machine, query.objects, entry);
            all.insert(query.uid.clone(), begun);
            self.wake.notify_one();
        }
        match all.get_mut(&query.uid) {
            Some(running) => running.progress.reply(&running.steps, now),
            // It was inserted above.
            None => Reply::InProgress {
                after: 1,
                message: String::new(),
            },
        }
    }

    /// Continues a started update after a restart, although the desired state has changed. A plan of one Machine has
    /// its objects; that of a MachineSet has templates, which do not contain a Machine to send to updaters.
    pub fn resume(&self, plan: &Arc<UpdatePlan>, machine: &Key, uid: &str) -> Result<(), String> {
        if self.pinned(plan, uid).is_some() || plan.spec.level != UpdateLevel::Machine {
            return Ok(());
        }
        let is_begun = |entry: &MachineUpdate| entry.is_open() || entry.state == MachineUpdateState::Updated;
        if let Some(entry) = recorded(plan, uid).filter(is_begun) {
            let desired = plans::desired(plan).map_err(|problem| problem.to_string())?;
            let begun = begun(Arc::clone(plan), machine.clone(), desired.side(), Some(entry));
            let mut all = self.running.lock();
            // Another request may have been faster.
            let is_there = all
                .get(uid)
                .is_some_and(|running| running.plan.uid() == plan.uid());
            if !is_there {
                all.insert(uid.to_owned(), begun);
                self.wake.notify_one();
            }
        }
        Ok(())
    }

    /// The objects with which the update of a Machine started, if it is in progress in this process.
    pub fn objects(&self, uid: &str) -> Option<Value> {
        self.running
            .lock()
            .get(uid)
            .map(|running| running.objects.clone())
    }

    /// The reply for a Machine whose request no longer matches its plan: a started update is finished.
    pub fn pinned(&self, plan: &UpdatePlan, uid: &str) -> Option<Reply> {
        let now = self.tools.clock.now();
        let mut all = self.running.lock();
        let running = all
            .get_mut(uid)
            .filter(|running| running.plan.uid() == plan.uid())?;
        Some(running.progress.reply(&running.steps, now))
    }

    /// Whether the update of a Machine by this plan has started and not ended, in this process or as recorded.
    pub fn is_open(&self, plan: &UpdatePlan, uid: &str) -> bool {
        match self.pinned(plan, uid) {
            Some(reply) => reply != Reply::Done,
            None => recorded(plan, uid).is_some_and(|entry| entry.is_open()),
        }
    }

    /// Whether the update of a Machine by this plan has not started, neither in this process nor as recorded.
    pub fn is_new(&self, plan: &UpdatePlan, uid: &str) -> bool {
        let entry = recorded(plan, uid);
        self.pinned(plan, uid).is_none()
            && entry.is_none_or(|entry| entry.state == MachineUpdateState::Pending && !entry.is_open())
    }

    /// Whether the update of a Machine has started and not ended in this process.
    pub fn has_begun(&self, uid: &str) -> bool {
        let now = self.tools.clock.now();
        let mut all = self.running.lock();
        let running = all.get_mut(uid);
        running.is_some_and(|running| running.progress.reply(&running.steps, now) != Reply::Done)
    }

    /// Runs due steps and writes their results, until shutdown.
    pub async fn run(self: Arc<Self>, shutdown: Shutdown) {
        let mut calls = JoinSet::new();
        loop {
            for uid in self.due(CALLS - calls.len().min(CALLS)) {
                let this = Arc::clone(&self);
                calls.spawn(async move { this.called(&uid).await });
            }
            self.write().await;
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.wake.notified() => {}
                Some(_) = calls.join_next() => {}
                () = tokio::time::sleep(TURN), if self.is_busy() => {}
            }
        }
    }

    /// Whether an update is in progress. Finished ones are kept for the next desired state, and cost nothing.
    fn is_busy(&self) -> bool {
        let now = self.tools.clock.now();
        let mut all = self.running.lock();
        all.values_mut().any(|running| {
            matches!(
                running.progress.reply(&running.steps, now),
                Reply::InProgress { .. }
            )
        })
    }

    fn due(&self, most: usize) -> Vec<String> {
        let now = self.tools.clock.now();
        let mut all = self.running.lock();
        let mut waiting: Vec<(&String, &mut Running)> =
            all.iter_mut().filter(|(_, running)| !running.called).collect();
        // The one that has waited longest is first: a Cluster that does not respond does not delay others.
        waiting.sort_by_key(|(_, running)| running.progress.next());
        let mut due = Vec::new();
        for (uid, running) in waiting {
            if due.len() < most && running.progress.call(&running.steps, now).is_some() {
                running.called = true;
                due.push(uid.clone());
            }
        }
        due
    }

    async fn called(&self, uid: &str) {
        let now = self.tools.clock.now();
        let Some((began, task, machine, objects, plan)) =
            self.running.lock().get_mut(uid).and_then(|running| {
                let began = running.progress.began()?;
                let task = running.steps.get(began.0)?.task.clone();
                let (objects, plan) = (running.objects.clone(), Arc::clone(&running.plan));
                Some((began, task, running.machine.clone(), objects, plan))
            })
        else {
            return;
        };
        let digest = plan.spec.to.as_str();
        let answered = match &task {
            Task::Node(action) => {
                let (machine, plan) = (&machine, &plan.name_any());
                self.tools
                    .nodes
                    .attempt(&Subject { machine, uid, plan }, *action)
                    .await
            }
            Task::Update { updater, .. } => self.polled(updater, &objects, digest).await,
        };
        let mut all = self.running.lock();
        if let Some(running) = all
            .get_mut(uid)
            .filter(|running| running.plan.uid() == plan.uid())
        {
            running.called = false;
            // After a retry, this would be the response to another step.
            if running.progress.began() == Some(began) {
                let now = self.tools.clock.now().max(now);
                running.progress.take(&running.steps, digest, answered, now);
            }
        }
    }

    /// The response of an updater.
    async fn polled(&self, name: &str, objects: &Value, digest: &str) -> Polled {
        let Some(updater) = self.tools.updaters.iter().find(|updater| updater.name == name) else {
            return Polled::Failed {
                message: format!("updater {name} is no longer configured"),
            };
        };
        let hook = Hook::UpdateMachine;
        let settings = [(DIGEST_SETTING, digest)];
        let request = updaters::hook_request(hook, updater, json!({"desired": objects}), &settings);
        let called = self
            .tools
            .call
            .call(updater, hook, &request, updater.timeout)
            .await;
        polled(updaters::received(&called))
    }

    /// Writes changes into the plans: the state that survives a restart.
    async fn write(&self) {
        let now = self.tools.clock.now();
        let mut changed: BTreeMap<Key, Vec<(String, MachineUpdate)>> = BTreeMap::new();
        for (uid, running) in self.running.lock().iter_mut() {
            let entry = entry(running, uid, now);
            if running.written.as_ref() != Some(&entry) {
                let plan = Key::of(&*running.plan);
                changed.entry(plan).or_default().push((uid.clone(), entry));
            }
        }
        for (plan, entries) in changed {
            let written = self.tools.plans.write(&plan.namespace, &plan.name, |record| {
                for (uid, entry) in &entries {
                    // A Machine that was removed meanwhile stays out.
                    if let Some(known) = record.machines.get_mut(uid) {
                        *known = entry.clone();
                    }
                }
            });
            if let Err(error) = written.await {
                warn!(plan = %plan, error, "the progress of machines is not recorded");
                continue;
            }
            for (uid, entry) in entries {
                let mut all = self.running.lock();
                // It may belong to another plan by now.
                let is_of = |running: &&mut Running| Key::of(&*running.plan) == plan;
                if let Some(running) = all.get_mut(&uid).filter(is_of) {
                    let before = running.written.replace(entry.clone());
                    self.tools
                        .reports
                        .changed(&running.plan, &running.machine, before.as_ref(), &entry);
                }
            }
        }
    }

    /// Applies the annotations of a plan.
    pub async fn control(&self, plan: &UpdatePlan) -> Result<(), String> {
        let now = self.tools.clock.now();
        let orders = Orders::of(plan, now)?;
        if !orders.is_news() {
            return Ok(());
        }
        let here = self.directed(plan, &orders, &BTreeMap::new());
        self.wake.notify_one();
        let steps = plans::steps(plan);
        let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
        let written = self.tools.plans.write(&namespace, &name, |record| {
            for (uid, entry) in &mut record.machines {
                match here.get(uid) {
                    Some(directed) => *entry = directed.clone(),
                    None => orders.apply_to_record(entry, &steps, now),
                }
            }
            record.handled = orders.handled.clone();
        });
        written.await?;
        // An update that started meanwhile continues from the previous record.
        self.directed(plan, &orders, &here);
        self.wake.notify_one();
        Ok(())
    }

    /// Applies orders to the updates of a plan that are in progress, unless they have them already; returns their new
    /// states.
    fn directed(
        &self,
        plan: &UpdatePlan,
        orders: &Orders,
        have: &BTreeMap<String, MachineUpdate>,
    ) -> BTreeMap<String, MachineUpdate> {
        let now = self.tools.clock.now();
        let mut all = self.running.lock();
        let of_plan = all
            .iter_mut()
            .filter(|(uid, running)| running.plan.uid() == plan.uid() && !have.contains_key(*uid));
        of_plan
            .map(|(uid, running)| {
                orders.direct(&running.machine.name, &mut running.progress, &running.steps, now);
                (uid.clone(), entry(running, uid, now))
            })
            .collect()
    }

    /// Drops Machines whose name an existing one has now.
    pub fn forget_others(&self, machine: &Key, uid: &str) {
        self.running
            .lock()
            .retain(|known, running| running.machine != *machine || known == uid);
    }

    /// Drops Machines that are gone.
    pub fn retain_living(&self, living: &BTreeSet<String>) {
        self.running.lock().retain(|uid, _| living.contains(uid));
    }
}

fn recorded(plan: &UpdatePlan, uid: &str) -> Option<MachineUpdate> {
    let machines = plan.status.iter().flat_map(|status| &status.machines);
    machines.into_iter().find(|machine| machine.uid == uid).cloned()
}

/// The update as recorded in the plan's status: after a restart it continues from there.
fn begun(plan: Arc<UpdatePlan>, machine: Key, objects: Value, entry: Option<MachineUpdate>) -> Running {
    let steps = plans::steps(&plan);
    let progress = entry.as_ref().map_or_else(Progress::default, |entry| {
        let number = usize::try_from(entry.step).unwrap_or(usize::MAX);
        let since = entry.since.as_ref().map(|since| since.0);
        match (entry.state, since) {
            (MachineUpdateState::Updated, _) => Progress::at(steps.len()),
            (MachineUpdateState::Failed, since) => Progress::failed(
                number,
                Failed {
                    at: since.unwrap_or_default(),
                    message: entry.message.clone().unwrap_or_default(),
                },
            ),
            (MachineUpdateState::Updating, Some(since)) => Progress::resumed(number, since),
            (MachineUpdateState::Pending | MachineUpdateState::Updating, _) => Progress::at(number),
        }
    });
    Running {
        machine,
        steps,
        progress,
        objects,
        called: false,
        written: entry,
        plan,
    }
}

/// The entry of a machine in the plan's status.
fn entry(running: &mut Running, uid: &str, now: Timestamp) -> MachineUpdate {
    let (state, since, message) = match running.progress.reply(&running.steps, now) {
        Reply::Done => (MachineUpdateState::Updated, None, None),
        Reply::Failed(failed) => (MachineUpdateState::Failed, Some(failed.at), Some(failed.message)),
        Reply::InProgress { .. } => {
            let (since, words) = (
                running.progress.began().map(|(_, since)| since),
                running.progress.last_message(),
            );
            let has_begun = running
                .written
                .as_ref()
                .is_some_and(|entry| entry.state != MachineUpdateState::Pending);
            let state = if since.is_some() || has_begun || running.progress.step() > 0 {
                MachineUpdateState::Updating
            } else {
                MachineUpdateState::Pending
            };
            (
                state,
                since,
                Some(words.to_owned()).filter(|words| !words.is_empty()),
            )
        }
    };
    MachineUpdate {
        name: running.machine.name.clone(),
        uid: uid.to_owned(),
        state,
        step: u32::try_from(running.progress.step()).unwrap_or(u32::MAX),
        since: since.map(Time),
        message: message.map(|message| message.chars().take(MAX_MESSAGE).collect()),
    }
}
