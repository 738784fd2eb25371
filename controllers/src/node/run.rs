//! The controller of NodeModules: watches, passes, and the writes of a pass.
//!
//! Invariant: nothing of a revision is assigned before its NodeRevision is recorded, its nodes are claimed, and the
//! memory has the change (W2). Invariant: a row is written only over the version of the NodeAssemblage that was read
//! (W3): no other row has changed meanwhile.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, ObjectReference},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::{reflector::Store, watcher},
};
use muster_api::{
    conditions::NODE_CONFIGURED,
    labels::{self, finalizer, label, manager},
    node::{
        NodeAssemblage, NodeBudget, NodeModule, NodeRevision,
        assemblage::{NodeAssemblageSpec, NodeRow},
        budget::{self, NodeBudgetSpec, NodeBudgetStatus},
        revision::{NodeRevisionSpec, NodeRevisionStatus},
    },
};
use muster_driver::{AssignmentWrite, Holder, Rules};
use muster_rollout::{Incarnation, Memory, UnitId};
use serde_json::json;
use thiserror::Error;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tracing::{debug, info};

use super::{
    agents::Agents,
    configured::{self, Configured, StartupTaint},
    decision::{self, Plan, Write},
    events::NodeEvents,
    facts::{AssemblageFacts, NodeFacts, RESTORE_FAILED, RevisionFacts},
    observation::Observation,
    pass::{self, Lists, Next, PassError},
    rendering::Renderings,
    revisions,
};
use crate::{
    bindings::{KnownObjects, Objects},
    module::memory::{self, Gaps},
    reconcile::{Base, Runner},
    runtime::{
        Action, Api, CallError, Clock, Events, Index, Key, Retry, Retryable, call,
        status::{StatusError, patch_if_changed},
        watch as watching,
    },
};

/// The namespace of the node agents and their Leases.
pub const NAMESPACE: &str = "muster-nodes";
/// NodeAssemblages per page of a list.
const PAGE: u32 = 200;
/// How long to wait for the watch: it normally delivers a write as soon as the response arrives.
const SHOWN: Duration = Duration::from_secs(1);
/// How many times one reconcile may read objects or claim nodes before it starts again.
const ROUNDS: usize = 16;

/// A decision processes all nodes: after it, changes are gathered for this multiple of its duration, and at most this
/// long.
const GATHER: u32 = 3;
const GATHER_AT_MOST: Duration = Duration::from_secs(1);

/// Why a reconcile of a NodeModule did not finish.
#[derive(Debug, Error)]
pub enum Error {
    /// The pass failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// A call to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A status could not be written.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// There was another write since the read: read again.
    #[error("{0} was changed by another writer")]
    Overtaken(String),
    /// The watch is behind the API server: nothing is decided until it catches up.
    #[error("{0} differs from the watch: the watch is behind, and nothing is decided until it catches up")]
    Behind(String),
    /// Another revision has the name: nothing of this one can be assigned.
    #[error(
        "NodeRevision {name} has the name of revision {revision} and belongs to another one: change anything in the NodeModule to get another name"
    )]
    Taken {
        /// The name of the NodeRevision.
        name: String,
        /// The revision that is not recorded.
        revision: String,
    },
    /// The pass needs too many rounds.
    #[error("NodeModule {0}: a pass did not finish after {ROUNDS} rounds")]
    Restless(String),
}

impl Retryable for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Pass(_) | Self::Taken { .. } => Retry::AwaitChange,
            Self::Call(error) => error.retry(),
            Self::Status(_) | Self::Overtaken(_) | Self::Behind(_) | Self::Restless(_) => Retry::Soon,
        }
    }
}

/// The dependencies of the controller.
pub struct Setup {
    /// The dependencies that all controllers of the process share.
    pub base: Base,
    /// The only source of `now`.
    pub clock: Clock,
    /// The objects for bindings.
    pub objects: Arc<Objects>,
    /// How long no process was the leader before this one.
    pub gap: Duration,
    /// The publisher of events.
    pub events: Events,
    /// Taints that are removed once a node is configured for the first time.
    pub startup_taints: Vec<StartupTaint>,
}

/// The shared state of reconciles.
struct Shared {
    base: Base,
    clock: Clock,
    objects: Arc<Objects>,
    modules: Store<NodeModule>,
    nodes: Arc<Index<Node, Arc<NodeFacts>>>,
    assemblages: Arc<Index<NodeAssemblage, Arc<AssemblageFacts>>>,
    revisions: Arc<Index<NodeRevision, RevisionFacts>>,
    budgets: Arc<Index<NodeBudget, Arc<NodeBudget>>>,
    agents: Arc<Agents>,
    renderings: Renderings,
    gaps: Gaps,
    events: Events,
    startup_taints: Vec<StartupTaint>,
}

/// Runs the controller until shutdown.
pub async fn run(setup: Setup) {
    let Setup {
        base,
        clock,
        objects,
        gap,
        events,
        startup_taints,
    } = setup;
    let runner = Runner::<NodeModule>::of_cluster("nodemodule", &base);
    let store = runner.store();
    // Only the node tells which NodeModules select it: each change of a node triggers all of them.
    let all = {
        let store = store.clone();
        move |changed: BTreeSet<Key>| {
            let modules = store.state();
            let changed = modules.iter().filter(|_| !changed.is_empty());
            changed.map(|module| Key::of(&**module)).collect::<Vec<Key>>()
        }
    };
    let any = || BTreeSet::from([every()]);
    let nodes = Arc::new(Index::new(
        |node: &Node| Some(Arc::new(NodeFacts::of(node))),
        |_: &Key, _: &Arc<NodeFacts>| vec![every()],
    ));
    let assemblages = Arc::new(Index::new(
        |assemblage: &NodeAssemblage| Some(Arc::new(AssemblageFacts::of(assemblage))),
        |_: &Key, _: &Arc<AssemblageFacts>| vec![every()],
    ));
    let revisions = Arc::new(Index::new(
        |revision: &NodeRevision| Some(RevisionFacts::of(revision)),
        |_: &Key, revision: &RevisionFacts| vec![Key::new("", &revision.module)],
    ));
    let budgets = Arc::new(Index::new(
        |budget: &NodeBudget| (budget.name_any() == budget::NAME).then(|| Arc::new(budget.clone())),
        |_: &Key, _: &Arc<NodeBudget>| vec![every()],
    ));
    let agents = Arc::new(Agents::default());
    let reports = Arc::clone(&assemblages);
    let stuck = move |module: &str| stuck(&reports.all(), module);
    base.metrics.node_modules(store.clone(), stuck, clock.clone());
    let shared = Arc::new(Shared {
        clock: clock.clone(),
        modules: store,
        nodes: Arc::clone(&nodes),
        assemblages: Arc::clone(&assemblages),
        revisions: Arc::clone(&revisions),
        budgets: Arc::clone(&budgets),
        agents: Arc::clone(&agents),
        renderings: Renderings::default(),
        gaps: Gaps::new(gap),
        events,
        startup_taints,
        objects: Arc::clone(&objects),
        base: base.clone(),
    });
    let (of_nodes, of_assemblages, of_budgets) = (all.clone(), all.clone(), all.clone());
    let (of_leases, of_objects) = (all.clone(), all);
    let read = watch::Sender::new(false);
    let all_read = read.subscribe();
    let leases =
        leases(&base, agents, clock, read).flat_map(move |()| futures::stream::iter(of_leases(any())));
    let changed = objects
        .changes()
        .flat_map(move |()| futures::stream::iter(of_objects(any())));
    runner
        .cluster_rows(nodes, of_nodes)
        .cluster_rows(assemblages, of_assemblages)
        .cluster_rows(revisions, |modules| modules.into_iter().collect())
        .cluster_rows(budgets, of_budgets)
        .on(leases)
        .on(changed)
        .after(async move {
            let mut all_read = all_read;
            // The sender is owned by the stream above.
            let _ = all_read.wait_for(|read| *read).await;
        })
        .run(shared, reconcile)
        .await;
}

/// The key that represents all NodeModules.
fn every() -> Key {
    Key::new("", "*")
}

/// Records the Leases of agents; `read` is set when all were read: before that no agent counts as missing. An item
/// means that a missing agent is back.
fn leases(
    base: &Base,
    agents: Arc<Agents>,
    clock: Clock,
    read: watch::Sender<bool>,
) -> impl futures::Stream<Item = ()> + Send + use<> {
    let events = watching::watch::<Lease>(base.client.clone(), NAMESPACE, watcher::Config::default());
    events.filter_map(move |event| {
        let now = clock.now();
        let back = match event {
            watcher::Event::Apply(guard) | watcher::Event::InitApply(guard) => {
                guard.0.ok().is_some_and(|lease| {
                    let node = lease.name_any();
                    let missing = agents.missing(&node, now).is_some();
                    agents.record_lease(&node, &lease.resource_version().unwrap_or_default(), now);
                    missing
                })
            }
            watcher::Event::Delete(guard) => {
                if let Ok(lease) = guard.0 {
                    agents.remove(&lease.name_any());
                }
                true
            }
            watcher::Event::Init => false,
            watcher::Event::InitDone => {
                read.send_replace(true);
                false
            }
        };
        std::future::ready(back.then_some(()))
    })
}

async fn reconcile(module: Arc<NodeModule>, shared: Arc<Shared>) -> Result<Action, Error> {
    let name = module.name_any();
    let ours = module.finalizers().iter().any(|held| held == finalizer::MODULE);
    if module.metadata.deletion_timestamp.is_some() && !ours {
        shared.remove_module_state(&module);
        return Ok(Action::await_change());
    }
    shared.check_missing(&module).await?;
    let mut known = KnownObjects::new();
    let mut budget = shared.budget().await?;
    let mut spent = Duration::ZERO;
    for _round in 0..ROUNDS {
        let now = shared.clock.now();
        let began = Instant::now();
        let next = shared.lists(&module, &budget, &known, now, |lists| {
            pass::next_step(&module, lists)
        });
        spent += began.elapsed();
        match next? {
            Next::Read(objects) => {
                for object in objects {
                    let value = shared.objects.get(&object).await?;
                    known.insert(object, value);
                }
            }
            Next::Claim(status) => budget = shared.write_budget(budget, &status).await?,
            Next::Write(observed, plan) => {
                let wake_at = plan.wake_at;
                let release = plan.release;
                let events = plan.events.clone();
                let memory = shared.act(&module, &observed, *plan).await?;
                shared.publish(&module, &observed, events).await;
                if let Some(memory) = memory {
                    shared.let_go(&module, &memory, budget, &known).await?;
                }
                if release {
                    shared.release(&module).await?;
                }
                // Last: a Node that cannot be written must not block claims or the end of a NodeModule.
                shared.stand(&module, &known).await?;
                if release {
                    return Ok(Action::await_change());
                }
                tokio::time::sleep((spent * GATHER).min(GATHER_AT_MOST)).await;
                return Ok(shared.next(&observed, wake_at));
            }
        }
    }
    Err(Error::Restless(name))
}

impl Shared {
    fn lists<T>(
        &self,
        module: &NodeModule,
        budget: &NodeBudget,
        objects: &KnownObjects,
        now: Timestamp,
        read: impl FnOnce(&Lists<'_>) -> T,
    ) -> T {
        let own = self.revisions.about(&Key::new("", module.name_any()));
        let revisions: Vec<RevisionFacts> = own.into_iter().map(|(_, revision)| revision).collect();
        let mut modules = self.modules.state();
        modules.sort_by_key(|module| module.name_any());
        let stored = module.status.as_ref().and_then(|status| status.rollout.as_ref());
        let lists = Lists {
            nodes: &self.nodes.all(),
            assemblages: &self.assemblages.all(),
            revisions: &revisions,
            modules: &modules,
            budget,
            missing: &|node| self.agents.missing(node, now),
            kinds: self.objects.kinds(),
            objects,
            renderings: &self.renderings,
            gap: self.gaps.before(&Key::of(module), stored),
            now,
        };
        read(&lists)
    }

    /// Drops the state of a deleted NodeModule.
    fn remove_module_state(&self, module: &NodeModule) {
        self.gaps.drop_module(&Key::of(module));
        drop(self.renderings.take(&module.name_any()));
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::all(self.base.client.clone())
    }

    /// Fails if a Node that is being changed, or has a row that a lost memory is rebuilt from, exists and the watch
    /// does not show it (W1, W7): another process may have read, and decided on, more than this one.
    async fn check_missing(&self, module: &NodeModule) -> Result<(), Error> {
        let name = module.name_any();
        let stored = module.status.as_ref().and_then(|status| status.rollout.as_ref());
        let recalled = memory::recall(stored, module.metadata.uid.as_deref());
        let mut holders = Vec::new();
        if recalled.lost {
            for assemblage in self.listed().await? {
                let Some(row) = assemblage.of_module(&name) else {
                    continue;
                };
                let read = self.assemblages.get(&Key::new("", &assemblage.name));
                if read.as_ref().and_then(|read| read.of_module(&name)) != Some(row) {
                    return Err(Error::Behind(format!("NodeAssemblage {}", assemblage.name)));
                }
                holders.push(Holder {
                    unit: assemblage.name.as_str().into(),
                    incarnation: assemblage.owner.as_deref().map(Incarnation::of),
                });
            }
        }
        let known = (!recalled.lost).then_some(&recalled.memory);
        let read = |unit: &UnitId| {
            let node = self.nodes.get(&Key::new("", unit.as_str()))?;
            Some(Incarnation::of(&node.uid))
        };
        let missing = muster_driver::missing(known, holders, read, &Rules::shipped());
        for holder in missing {
            let what = format!("reading Node {}", holder.unit);
            let found = call(what, self.api::<Node>().get_opt(holder.unit.as_str())).await?;
            let uid = found.and_then(|node| node.uid());
            if uid.is_some_and(|uid| holder.is(Incarnation::of(&uid))) {
                return Err(Error::Behind(format!("Node {}", holder.unit)));
            }
        }
        Ok(())
    }

    /// All NodeAssemblages, read from the API server.
    async fn listed(&self) -> Result<Vec<AssemblageFacts>, Error> {
        let mut page = ListParams::default().limit(PAGE);
        let mut all = Vec::new();
        loop {
            let assemblages = self.api::<NodeAssemblage>();
            let list = call("listing NodeAssemblages", assemblages.list(&page)).await?;
            all.extend(list.items.iter().map(AssemblageFacts::of));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// The NodeBudget as the watch shows it: writes use this version. Created if it does not exist.
    async fn budget(&self) -> Result<Arc<NodeBudget>, Error> {
        let key = Key::new("", budget::NAME);
        if let Some(known) = self.budgets.get(&key) {
            return Ok(known);
        }
        let mut object = NodeBudget::new(budget::NAME, NodeBudgetSpec::default());
        object.metadata.labels = Some(ours());
        let what = format!("creating NodeBudget {}", budget::NAME);
        match call(what, self.api().create(&post(), &object)).await {
            Ok(made) => Ok(Arc::new(made)),
            Err(error) if error.is_conflict() => Err(Error::Behind(format!("NodeBudget {}", budget::NAME))),
            Err(error) => Err(error.into()),
        }
    }

    async fn write_budget(
        &self,
        current: Arc<NodeBudget>,
        status: &NodeBudgetStatus,
    ) -> Result<Arc<NodeBudget>, Error> {
        let budgets = self.api();
        let written = patch_if_changed(
            &budgets,
            &*current,
            current.status.as_ref(),
            status,
            manager::CONTROLLER,
        );
        Ok(written.await?.map_or(current, Arc::new))
    }

    /// Releases claims whose changes are over.
    async fn let_go(
        &self,
        module: &NodeModule,
        memory: &Memory,
        budget: Arc<NodeBudget>,
        objects: &KnownObjects,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let released = |lists: &Lists<'_>| pass::released_budget(module, memory, lists);
        match self.lists(module, &budget, objects, now, released) {
            Some(status) => self.write_budget(budget, &status).await.map(drop),
            None => Ok(()),
        }
    }

    /// Applies a plan: first the NodeRevision and the memory, then rows. Returns the memory that was written.
    async fn act(
        &self,
        module: &NodeModule,
        observed: &Observation,
        plan: Plan,
    ) -> Result<Option<Memory>, Error> {
        let module = if (plan.records || plan.moves) && !observed.deleting {
            self.guarded(module).await?
        } else {
            module.clone()
        };
        if plan.records
            && let Some(target) = &observed.target
        {
            self.record(&module, &target.revision).await?;
        }
        let before = module.status.as_ref();
        let modules = self.api();
        let written = patch_if_changed(&modules, &module, before, &*plan.status, manager::CONTROLLER).await;
        let Some(decided) = plan.decided else {
            written?;
            return Ok(None);
        };
        let remembered = decided.written(written)?;
        let memory = remembered.decision().memory.clone();
        let rows = decision::decision_rows(&module, observed, &memory);
        // All are tried: a node that cannot be written does not block others.
        let mut written = Ok(());
        for write in remembered.writes(&rows) {
            written = written.and(self.write_row(&module, observed, &write).await);
        }
        written?;
        for (known, story) in revisions::changed_stories(&observed.revisions, &memory, self.clock.now()) {
            self.write_story(known, &story).await?;
        }
        for surplus in revisions::surplus_revisions(&module, observed, &memory) {
            self.forget_revision(&surplus).await?;
        }
        Ok(Some(memory))
    }

    /// Publishes events, after their causes are written.
    async fn publish(&self, module: &NodeModule, observed: &Observation, all: NodeEvents) {
        for event in all.module {
            info!(
                module = module.name_any(),
                reason = event.reason,
                "{}",
                event.note
            );
            self.events.publish(module, event).await;
        }
        for (node, event) in all.nodes {
            let Some(facts) = observed
                .node(&node)
                .and_then(|observed_node| observed_node.node.as_ref())
            else {
                continue;
            };
            let regarding = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node),
                uid: Some(facts.uid.clone()),
                ..ObjectReference::default()
            };
            self.events.publish_about(regarding, event).await;
        }
    }

    /// Writes the conditions of Nodes, and removes startup taints. At this point the watch shows the rows that this
    /// pass wrote.
    async fn stand(&self, module: &NodeModule, objects: &KnownObjects) -> Result<(), Error> {
        let now = self.clock.now();
        let taints = &self.startup_taints;
        let budget = self.budget().await?;
        let all = self.lists(module, &budget, objects, now, |lists| {
            pass::node_standings(lists, taints)
        });
        // All are tried: a Node that cannot be written does not block others.
        let mut written = Ok(());
        for standing in all {
            let node = &standing.node;
            if let Some(condition) = &standing.condition {
                written = written.and(self.write_condition(node, condition, now).await);
            }
            if standing.untaint {
                written = written.and(self.untaint(node).await);
            }
        }
        written
    }

    /// Only this condition; the other ones belong to the kubelet.
    async fn write_condition(
        &self,
        node: &NodeFacts,
        configured: &Configured,
        now: Timestamp,
    ) -> Result<(), Error> {
        let condition = configured::condition(node.configured.as_ref(), configured, now);
        let body = json!({"metadata": {"uid": node.uid}, "status": {"conditions": [condition]}});
        let what = format!("writing the condition {NODE_CONFIGURED} of Node {}", node.name);
        let nodes = self.api::<Node>();
        match call(
            what,
            nodes.patch_status(&node.name, &patch(), &Patch::Strategic(body)),
        )
        .await
        {
            Ok(_) => Ok(()),
            // It was deleted or re-created.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the startup taints from a Node, over the version that was read.
    async fn untaint(&self, node: &NodeFacts) -> Result<(), Error> {
        let nodes = self.api::<Node>();
        let what = format!("reading Node {}", node.name);
        let found = call(what, nodes.get_opt(&node.name)).await?;
        let Some(live) = found.filter(|live| live.uid().as_ref() == Some(&node.uid)) else {
            return Ok(());
        };
        let taints = live.spec.as_ref().and_then(|spec| spec.taints.as_deref());
        let Some(kept) = configured::without_startup(taints.unwrap_or_default(), &self.startup_taints) else {
            return Ok(());
        };
        let body =
            json!({"metadata": {"resourceVersion": live.resource_version()}, "spec": {"taints": kept}});
        let what = format!("removing the startup taints of Node {}", node.name);
        match call(what, nodes.patch(&node.name, &patch(), &Patch::Merge(body))).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => Err(Error::Overtaken(format!("Node {}", node.name))),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds the finalizer to the NodeModule: before anything of it is on a node, so that a deletion withdraws it.
    async fn guarded(&self, module: &NodeModule) -> Result<NodeModule, Error> {
        let held = module.finalizers().iter().any(|held| held == finalizer::MODULE);
        if held {
            return Ok(module.clone());
        }
        let mut finalizers = module.finalizers().to_vec();
        finalizers.push(finalizer::MODULE.to_owned());
        self.with_finalizers(module, &finalizers).await
    }

    async fn release(&self, module: &NodeModule) -> Result<(), Error> {
        self.remove_module_state(module);
        let left: Vec<String> = module
            .finalizers()
            .iter()
            .filter(|held| *held != finalizer::MODULE)
            .cloned()
            .collect();
        // The status was written meanwhile.
        let name = module.name_any();
        let what = format!("reading NodeModule {name}");
        match call(what, self.api::<NodeModule>().get_opt(&name)).await? {
            Some(live) if live.uid() == module.uid() => self.with_finalizers(&live, &left).await.map(drop),
            _ => Ok(()),
        }
    }

    async fn with_finalizers(&self, module: &NodeModule, finalizers: &[String]) -> Result<NodeModule, Error> {
        let name = module.name_any();
        let body =
            json!({"metadata": {"resourceVersion": module.resource_version(), "finalizers": finalizers}});
        let what = format!("writing the finalizers of NodeModule {name}");
        let modules = self.api::<NodeModule>();
        Ok(call(what, modules.patch(&name, &patch(), &Patch::Merge(body))).await?)
    }

    /// Creates the NodeRevision of a revision, if it does not exist.
    async fn record(&self, module: &NodeModule, revision: &str) -> Result<(), Error> {
        let name = revisions::name(&module.name_any(), &module.uid().unwrap_or_default(), revision);
        let spec = NodeRevisionSpec {
            module: module.name_any(),
            uid: module.uid(),
            revision: revision.to_owned(),
            content: module.spec.content.clone(),
        };
        let mut object = NodeRevision::new(&name, spec);
        object.metadata = ObjectMeta {
            labels: Some(ours()),
            owner_references: module.owner_ref(&()).map(|owner| vec![owner]),
            ..object.metadata
        };
        let what = format!("creating NodeRevision {name}");
        match call(what, self.api().create(&post(), &object)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => self.check_recorded(&name, revision).await,
            Err(error) => Err(error.into()),
        }
    }

    /// The name has only a part of the hash: an existing object must be of the same revision.
    async fn check_recorded(&self, name: &str, revision: &str) -> Result<(), Error> {
        let what = format!("reading NodeRevision {name}");
        match call(what, self.api::<NodeRevision>().get_opt(name)).await? {
            Some(found) if found.spec.revision != revision => Err(Error::Taken {
                name: name.to_owned(),
                revision: revision.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Writes one row over the version that was read. After a conflict the decision is made again.
    async fn write_row(
        &self,
        module: &NodeModule,
        observed: &Observation,
        write: &AssignmentWrite<Write>,
    ) -> Result<(), Error> {
        let node = write.planned().unit.to_string();
        let Write { version, row } = write.write();
        let overtaken = || Error::Overtaken(format!("NodeAssemblage {node}"));
        let assemblages = self.api::<NodeAssemblage>();
        let written = match version {
            None => {
                let object = assemblage(&node, observed, row.as_ref()).ok_or_else(overtaken)?;
                let what = format!("creating NodeAssemblage {node}");
                call(what, assemblages.create(&post(), &object)).await
            }
            Some(version) => {
                let known = observed.node(&node).and_then(|node| node.assemblage.as_ref());
                let mut rows: Vec<NodeRow> = known
                    .into_iter()
                    .flat_map(|known| &known.rows)
                    .map(|row| row.row.clone())
                    .collect();
                let at = rows.iter().position(|known| known.name == module.name_any());
                match (at, row) {
                    (Some(at), Some(row)) => rows[at] = row.clone(),
                    (Some(at), None) => drop(rows.remove(at)),
                    (None, Some(row)) => rows.push(row.clone()),
                    (None, None) => return Ok(()),
                }
                let body = json!({"metadata": {"resourceVersion": version}, "spec": {"rows": rows}});
                let what = format!("writing a row of NodeAssemblage {node}");
                call(what, assemblages.patch(&node, &patch(), &Patch::Merge(body))).await
            }
        };
        match written {
            Ok(written) => {
                debug!(module = module.name_any(), node, "a row is written");
                self.wait_until_watched(&written).await;
                Ok(())
            }
            Err(error) if error.is_conflict() => Err(overtaken()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the result of a revision, unless its NodeRevision is gone.
    async fn write_story(&self, known: &RevisionFacts, story: &NodeRevisionStatus) -> Result<(), Error> {
        let revisions = self.api::<NodeRevision>();
        let what = format!("reading NodeRevision {}", known.name);
        let found = call(what, revisions.get_opt(&known.name)).await?;
        let Some(live) = found.filter(|live| live.uid().as_ref() == Some(&known.uid)) else {
            return Ok(());
        };
        let before = live.status.as_ref();
        let written = patch_if_changed(&revisions, &live, before, story, manager::CONTROLLER).await?;
        debug!(
            revision = known.name,
            is_news = written.is_some(),
            "the status of a NodeRevision is written"
        );
        Ok(())
    }

    async fn forget_revision(&self, revision: &RevisionFacts) -> Result<(), Error> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(revision.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let what = format!("deleting NodeRevision {}", revision.name);
        match call(
            what,
            self.api::<NodeRevision>().delete(&revision.name, &parameters),
        )
        .await
        {
            Ok(()) => Ok(()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the watch shows what was written: a pass over outdated rows would write them again.
    async fn wait_until_watched(&self, written: &NodeAssemblage) {
        let key = Key::of(written);
        let tokens = |facts: &AssemblageFacts| -> Vec<(String, u64)> {
            facts
                .rows
                .iter()
                .map(|row| (row.row.name.clone(), row.row.token))
                .collect()
        };
        let wanted = tokens(&AssemblageFacts::of(written));
        let shows = |facts: Option<&Arc<AssemblageFacts>>| facts.is_some_and(|facts| tokens(facts) == wanted);
        if timeout(SHOWN, self.assemblages.until(&key, shows)).await.is_err() {
            debug!(node = key.name, "the watch does not show the write yet");
        }
    }

    /// When time alone changes something: a deadline of the engine, or an agent that does not renew its Lease.
    fn next(&self, observed: &Observation, wake_at: Option<Timestamp>) -> Action {
        let now = self.clock.now();
        let names: BTreeSet<&str> = observed.nodes.iter().map(|node| node.name.as_str()).collect();
        let silent = self.agents.next_change(&names, now);
        let Some(at) = wake_at.into_iter().chain(silent).min() else {
            return Action::await_change();
        };
        let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        Action::requeue(wait.max(Duration::from_millis(1)))
    }
}

/// The number of nodes that could not restore their files from before a change of this NodeModule.
fn stuck(assemblages: &[Arc<AssemblageFacts>], module: &str) -> u32 {
    let is_stuck = |of: &&Arc<AssemblageFacts>| {
        let report = of.of_module(module).and_then(|row| row.report());
        report.is_some_and(|report| report.reason.as_deref() == Some(RESTORE_FAILED))
    };
    u32::try_from(assemblages.iter().filter(is_stuck).count()).unwrap_or(u32::MAX)
}

/// A NodeAssemblage with one row, owned by its Node: it is deleted with the Node.
fn assemblage(node: &str, observed: &Observation, row: Option<&NodeRow>) -> Option<NodeAssemblage> {
    let facts = observed.node(node)?.node.as_ref()?;
    let spec = NodeAssemblageSpec {
        rows: vec![row?.clone()],
    };
    let mut object = NodeAssemblage::new(node, spec);
    object.metadata.labels = Some(ours());
    object.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: facts.uid.clone(),
        ..OwnerReference::default()
    }]);
    Some(object)
}

fn ours() -> std::collections::BTreeMap<String, String> {
    [label::MANAGED_BY, label::APP_MANAGED_BY]
        .map(|key| (key.to_owned(), labels::MUSTER.to_owned()))
        .into()
}

fn post() -> PostParams {
    PostParams {
        field_manager: Some(manager::CONTROLLER.to_owned()),
        ..PostParams::default()
    }
}

fn patch() -> PatchParams {
    PatchParams {
        field_manager: Some(manager::CONTROLLER.to_owned()),
        ..PatchParams::default()
    }
}
