//! The expansion of one assemblage, step by step, and its dependencies.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use kube::{Resource, ResourceExt, core::NamespaceResourceScope};
use muster_api::{
    Shared,
    assemblage::{Agent, AssemblageStatus, SyncPhase, SyncRow, SyncState},
    features,
    flux::{GitRepository, KubeConfigReference, Kustomization, OciRepository},
    labels::{annotation, manager},
    names,
    reasons::{EventReason, Reason},
};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

use super::{
    decide,
    derive::ExpansionTarget,
    desired::{Values, desired_row},
    flux_object::FluxObject,
    known::{Known, KnownRow, KnownRows},
    memory::Memory,
    needs::{Need, Needs},
    observed::{KustomizationRow, SourceRow},
    plan::Plan,
    row_state,
    rows::{Entry, row_entries},
    status,
    view::{Away, DesiredRow, Live, RowError, Scope, View},
};
use crate::{
    reconcile::{Context, Runner, SyncMode},
    runtime::{
        Action, Api, CallError, Event, Index, Key, Pace, Retry, Retryable, call,
        call::error_chain,
        status::{Reports, StatusError},
    },
};

/// Concurrent reads at most, when observing live objects.
const READERS: usize = 8;

/// An object whose rows are expanded: `Assemblage` or `RemoteAssemblage`.
pub trait Assembled:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The rows of the spec.
    fn rows(&self) -> &[Shared<SyncRow>];
    /// The status as last written.
    fn state(&self) -> Option<&AssemblageStatus>;
}

/// The inputs that are specific to one assemblage.
#[derive(Debug, Default)]
pub struct Setting {
    /// The kubeconfig of the target cluster, if it is not this one.
    pub kube_config: Option<KubeConfigReference>,
    /// Why nothing may be written for it now, if so.
    pub away: Option<Away>,
    /// Whether its Kustomizations must be suspended: their kubeconfig leads to another cluster.
    pub suspend: bool,
    /// The values of each row's variables, or why they are not available; by name of the row.
    pub values: BTreeMap<String, Result<Values, RowError>>,
    /// When to reconcile again without any change that a watch reports.
    pub again: Option<Duration>,
}

/// An expansion that must be retried.
#[derive(Debug, Error)]
pub enum ExpandError {
    /// Something could not be read.
    #[error(transparent)]
    Read(#[from] CallError),
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// The rows changed since the watch delivered them.
    #[error("{0} changed meanwhile")]
    Outdated(Key),
    /// A write was refused, or there was a conflict.
    #[error("some writes for {0} failed")]
    Again(Key),
}

impl Retryable for ExpandError {
    fn retry(&self) -> Retry {
        match self {
            Self::Read(error) => error.retry(),
            Self::Status(_) | Self::Outdated(_) | Self::Again(_) => Retry::Soon,
        }
    }
}

/// What expansions of one kind of assemblage share.
#[derive(Debug)]
pub struct Expander {
    pub(super) context: Context,
    pub(super) kind: &'static str,
    pub(super) manager: &'static str,
    /// The capabilities of this process. Only an agent reports them: a controller applies what it writes itself.
    own: Agent,
    pub(super) kustomizations: Arc<Index<Kustomization, KustomizationRow>>,
    pub(super) sources: Arc<Index<GitRepository, SourceRow>>,
    /// Stays empty if muster applies, because muster reads no OCIRepositories.
    pub(super) artifacts: Arc<Index<OciRepository, SourceRow>>,
    pub(super) needs: Arc<Needs>,
    pub(super) memory: Memory,
    known: Known,
    pub(super) reports: Reports<AssemblageStatus>,
}

impl Expander {
    /// An expander for assemblages of `kind`, which writes as `manager`.
    pub fn new(context: Context, kind: &'static str, manager: &'static str) -> Self {
        let needs = Arc::new(Needs::default());
        let [of_sources, of_artifacts, of_kustomizations] = [(); 3].map(|()| Arc::clone(&needs));
        let sync = context.options.sync;
        let own = match kind {
            "RemoteAssemblage" => from_elsewhere(sync),
            _ => this_agent(sync),
        };
        Self {
            context,
            kind,
            manager,
            own,
            kustomizations: Arc::new(Index::new(
                |object| Some(KustomizationRow::of(object)),
                move |key: &Key, row: &KustomizationRow| {
                    let owner = row
                        .owner
                        .iter()
                        .filter(|owner| owner.kind == kind)
                        .map(|owner| Key::new(key.namespace.clone(), owner.name.clone()));
                    owner
                        .chain(of_kustomizations.of_kustomization(&key.name))
                        .collect()
                },
            )),
            sources: Arc::new(Index::new(
                |object| Some(SourceRow::of(object)),
                move |key: &Key, _: &SourceRow| of_sources.of_source(&key.name),
            )),
            artifacts: Arc::new(Index::new(
                |object| Some(SourceRow::of(object)),
                move |key: &Key, _: &SourceRow| of_artifacts.of_source(&key.name),
            )),
            needs,
            memory: Memory::default(),
            known: Known::default(),
            reports: Reports::new(manager),
        }
    }

    /// The Kustomizations of the namespace, filled by a watch.
    pub fn kustomizations(&self) -> Arc<Index<Kustomization, KustomizationRow>> {
        Arc::clone(&self.kustomizations)
    }

    /// The sources of the namespace, filled by a watch.
    pub fn sources(&self) -> Arc<Index<GitRepository, SourceRow>> {
        Arc::clone(&self.sources)
    }

    /// Watches the sources of the namespace: git repositories, and OCI artifacts if Flux applies.
    pub fn follow_sources<K: Assembled>(&self, runner: Runner<K>) -> Runner<K> {
        let runner = runner.rows(self.sources());
        match self.context.options.sync {
            SyncMode::Flux => runner.late_rows(Arc::clone(&self.artifacts)),
            SyncMode::Builtin => runner,
        }
    }

    /// Which assemblage needs which objects.
    pub fn needs(&self) -> Arc<Needs> {
        Arc::clone(&self.needs)
    }

    /// The context of this expander.
    pub const fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.context.client.clone(), &self.context.namespace)
    }

    /// Makes the live objects match the rows, and the status match the live objects. An assemblage that is being
    /// deleted is left alone.
    pub async fn expand<K: Assembled>(&self, object: &K, setting: &Setting) -> Result<Action, ExpandError> {
        if object.meta().deletion_timestamp.is_some() {
            return Ok(Action::await_change());
        }
        let pace = Pace::begin(object.rows().len());
        let rows = self.desired_rows(object, setting);
        self.need(object, &rows);
        let suspended = !setting.suspend || self.suspend(object, &rows).await?;
        let plans = self.decide(object, &rows, setting).await;
        if plans.iter().any(removes) {
            self.confirm(object).await?;
        }
        let after = plans
            .iter()
            .filter_map(|plan| plan.after)
            .chain(setting.again)
            .min();
        let done = self.apply_plans(plans).await;
        if self.report(object, done.states).await? {
            pace.gather().await;
        }
        if done.again || !suspended {
            return Err(ExpandError::Again(Key::of(object)));
        }
        Ok(after.map_or_else(Action::await_change, Action::requeue))
    }

    /// Nothing is removed based on rows that may be outdated: a watch may have delivered an old version.
    async fn confirm<K: Assembled>(&self, cached: &K) -> Result<(), ExpandError> {
        let (key, api): (Key, Api<K>) = (Key::of(cached), self.api());
        let now = call(format!("reading {} {key}", self.kind), api.get(&key.name)).await?;
        if now.uid() == cached.uid() && now.meta().generation == cached.meta().generation {
            return Ok(());
        }
        Err(ExpandError::Outdated(key))
    }

    fn desired_rows<K: Assembled>(&self, object: &K, setting: &Setting) -> Vec<(Entry, Arc<DesiredRow>)> {
        let place = ExpansionTarget {
            namespace: self.context.namespace.clone(),
            assemblage: object.name_any(),
            // Only an object without name or uid has no reference, and no API server returns such an object.
            owner: object.controller_owner_ref(&()).unwrap_or_default(),
            kube_config: setting.kube_config.clone(),
        };
        let (key, none) = (Key::of(object), Ok(Values::new()));
        let mut known = self.known.take(&key, &place);
        let mut kept = KnownRows::with_capacity(object.rows().len());
        let mut desired_rows = Vec::with_capacity(object.rows().len());
        for entry in row_entries(object.rows(), object.state()) {
            let (row, values) = (&entry.row, setting.values.get(&entry.row.name).unwrap_or(&none));
            let same = known
                .remove(&row.name)
                .and_then(|known| known.desired(row, values));
            let desired = same.unwrap_or_else(|| Arc::new(desired_row(&place, row, values, &self.own)));
            let known = KnownRow::new(row.clone(), values.clone(), Arc::clone(&desired));
            kept.insert(row.name.clone(), known);
            desired_rows.push((entry, desired));
        }
        self.known.keep(key, place, kept);
        desired_rows
    }

    /// Records which objects affect this assemblage before reading them: a change in between is not lost.
    fn need<K: Assembled>(&self, object: &K, rows: &[(Entry, Arc<DesiredRow>)]) {
        let sources = rows.iter().filter_map(|(_, desired)| match &**desired {
            DesiredRow::Carry(derived) => Some(derived.source.name().to_owned()),
            DesiredRow::Withdraw(_) | DesiredRow::Bare | DesiredRow::Refused(_) => None,
        });
        let need = Need {
            sources: sources.collect(),
            kustomizations: rows
                .iter()
                .map(|(entry, _)| self.kustomization_name(object, &entry.row))
                .collect(),
        };
        self.needs.set(&Key::of(object), need);
    }

    async fn decide<K: Assembled>(
        &self,
        object: &K,
        rows: &[(Entry, Arc<DesiredRow>)],
        setting: &Setting,
    ) -> Vec<Plan> {
        let scope = Scope {
            kind: self.kind.to_owned(),
            assemblage: object.name_any(),
            manager: self.manager.to_owned(),
            away: setting.away.clone(),
            flux_at: (self.context.options.sync == SyncMode::Flux).then(|| self.context.clock.now()),
        };
        let reported = reported_states(object.state());
        let plans: Vec<_> = rows
            .iter()
            .map(|(entry, desired)| {
                let reported = reported.get(entry.row.name.as_str()).copied();
                self.decide_entry(object, &scope, entry, desired, reported)
            })
            .collect();
        stream::iter(plans)
            .buffered(READERS)
            .filter_map(std::future::ready)
            .collect()
            .await
    }

    /// `None`: the row is gone, and so are its installed objects.
    async fn decide_entry<K: Assembled>(
        &self,
        object: &K,
        scope: &Scope,
        entry: &Entry,
        desired: &DesiredRow,
        reported: Option<&SyncState>,
    ) -> Option<Plan> {
        let plan = self
            .decide_one(object, scope, &entry.row, desired, reported)
            .await;
        let over = entry.vanished && plan.state.state == SyncPhase::Withdrawn;
        (!over).then_some(plan)
    }

    async fn decide_one<K: Assembled>(
        &self,
        object: &K,
        scope: &Scope,
        row: &SyncRow,
        desired: &DesiredRow,
        reported: Option<&SyncState>,
    ) -> Plan {
        let name = self.kustomization_name(object, row);
        if scope.away.is_some() {
            self.memory.away(&name);
        }
        let view = match self.observe_row(&name, desired).await {
            Ok((kustomization, source)) => View {
                row,
                desired,
                reported,
                kustomization,
                source,
                was_away: self.memory.was_away(&name),
            },
            // What cannot be read is not touched, and its last status stays.
            Err(error) => {
                let state = reported
                    .cloned()
                    .unwrap_or_else(|| row_state::waiting_state(row, Reason::Updating, &error_chain(&error)));
                return Plan {
                    again: true,
                    ..Plan::rest(state)
                };
            }
        };
        let plan = decide::decide_row(scope, &view);
        if plan.state.state == SyncPhase::Succeeded && scope.away.is_none() {
            self.memory.lived_through(&name);
        }
        plan
    }

    async fn observe_row(
        &self,
        name: &str,
        desired: &DesiredRow,
    ) -> Result<(Live<KustomizationRow, Kustomization>, Live<SourceRow, FluxObject>), ExpandError> {
        match desired {
            DesiredRow::Carry(derived) => Ok((
                self.observe_kustomization(name, Some(&derived.kustomization_print))
                    .await?,
                self.observe_source(derived).await?,
            )),
            DesiredRow::Withdraw(_) => Ok((self.observe_kustomization(name, None).await?, Live::Absent)),
            // No decision uses more than the index has.
            DesiredRow::Bare | DesiredRow::Refused(_) => Ok((self.glance(name), Live::Absent)),
        }
    }

    pub(super) fn kustomization_name<K: Assembled>(&self, object: &K, row: &SyncRow) -> String {
        names::kustomization(&self.context.namespace, &object.name_any(), &row.name)
    }

    /// Whether something was written.
    async fn report<K: Assembled>(
        &self,
        object: &K,
        states: Vec<Shared<SyncState>>,
    ) -> Result<bool, ExpandError> {
        let old = object.state();
        let conditions = status::summary_conditions(&states);
        let new = AssemblageStatus {
            agent: (self.manager == manager::AGENT).then(|| self.own.clone()),
            ..status::assemblage_status(
                states,
                &conditions,
                old,
                object.meta().generation.unwrap_or_default(),
                object.annotations().get(annotation::RECONCILE_REQUESTED_AT),
                self.context.clock.now(),
            )
        };
        let api: Api<K> = self.api();
        let is_written = self.reports.write(&api, object, old, &new).await?;
        if is_written {
            self.publish_row_events(object, &new).await;
        }
        Ok(is_written)
    }

    /// Events about rows whose state changed.
    async fn publish_row_events<K: Assembled>(&self, object: &K, new: &AssemblageStatus) {
        let reported = reported_states(object.state());
        for state in &new.syncs {
            let before = reported.get(state.name.as_str());
            if before.is_some_and(|before| before.state == state.state && before.reason == state.reason) {
                continue;
            }
            if let Some(event) = event(state) {
                self.context.events.publish(object, event).await;
            }
        }
    }
}

/// What an agent of this version reports about itself.
fn this_agent(sync: SyncMode) -> Agent {
    Agent {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sync: sync.as_str().to_owned(),
        features: features::own(sync == SyncMode::Flux),
    }
}

/// What this process can do in clusters that it applies to remotely.
fn from_elsewhere(sync: SyncMode) -> Agent {
    Agent {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sync: features::REMOTE.to_owned(),
        features: features::remote(sync == SyncMode::Flux),
    }
}

/// Whether a plan removes something from the cluster.
fn removes(plan: &Plan) -> bool {
    plan.state.state == SyncPhase::Withdrawing && !plan.writes.is_empty()
}

/// The states of the rows as last written, by name.
fn reported_states(status: Option<&AssemblageStatus>) -> HashMap<&str, &SyncState> {
    let listed = status.map(|status| status.syncs.as_slice()).unwrap_or_default();
    listed
        .iter()
        .map(|state| (state.name.as_str(), &**state))
        .collect()
}

/// Which states get an event: success, failure, and those that need an action of the user.
fn event(state: &SyncState) -> Option<Event> {
    let reason = state.reason.clone().unwrap_or_default();
    let note = format!("{}: {}", state.name, state.message.as_deref().unwrap_or(&reason));
    match state.state {
        SyncPhase::Succeeded => {
            let commit = state.commit.as_deref().unwrap_or("its commit");
            Some(Event::normal(
                EventReason::ClusterUpdated,
                "Sync",
                format!("{} is ready at {commit}", state.name),
            ))
        }
        SyncPhase::Withdrawn => Some(Event::normal(
            EventReason::ClusterWithdrawn,
            "Withdraw",
            format!("{} is withdrawn", state.name),
        )),
        SyncPhase::Failed => Some(Event::warning(reason, "Sync", note)),
        SyncPhase::Updating | SyncPhase::Withdrawing => {
            let needs_a_hand = [Reason::NameConflict, Reason::Held, Reason::BindingFailed]
                .iter()
                .any(|word| word.as_str() == reason);
            needs_a_hand.then(|| Event::warning(reason, "Sync", note))
        }
    }
}
