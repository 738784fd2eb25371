//! `ProxyAssemblage`: the syncs of one cluster, mirrored into an `Assemblage` there; its status is what the cluster
//! reports.
//!
//! ```text
//!   ProxyAssemblage ── reach (registry) ── rows (values) ── poll ──► mirror (pure) ──► act ──► copy (pure) ──► status
//!                                            watch on it: sessions ─┘   every 20 s, each 5 min while watched
//! ```
//!
//! Invariant: a cluster that is not ready gets no call; its last report stays, with the reason added. Invariant: a row
//! of the mirror is changed only if it is still as read, everything else with the resourceVersion that was read; and
//! only if the mirror is of this origin.

mod act;
mod copies;
pub mod copy;
pub mod distribute;
pub mod mirror;
mod observe;
mod plain;
mod sessions;
mod status;
mod values;
mod versions;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use kube::{Client, ResourceExt, runtime::reflector::Store};
use muster_api::{
    Assemblage, ProxyAssemblage,
    assemblage::{Agent, AssemblageStatus},
    labels::{annotation, manager},
};
use thiserror::Error;
use tokio::sync::{OnceCell, Semaphore};

use self::{
    act::MirrorWrite,
    copies::Copies,
    mirror::{Mirror, Proxy},
    observe::Reach,
    plain::Plain,
    sessions::Sessions,
    values::Rows,
};
use crate::{
    bindings::Objects,
    expand::view::Away,
    module::Carriers,
    reconcile::{Base, Context, Runner},
    runtime::{
        Action, CallError, Key, Pace, Retry, Retryable,
        call::error_chain,
        status::{Reports, StatusError},
    },
    targeted,
};

/// Concurrent reconciles of proxies. Each is one future that waits for its cluster, whose calls are limited by the
/// registry: clusters that hang do not delay others.
const WORKERS: u16 = 1_024;
/// Concurrent status writes in this cluster.
const WRITERS: usize = 8;
/// How long a mirror is not read while a watch reports its changes. The end of a watch, within five minutes, enqueues
/// the proxy: this is for a watch that does not end.
const WATCHED_POLL: Duration = Duration::from_secs(330);
/// The jitter of the poll interval, so that a fleet is not read in step.
const JITTER: f64 = 0.1;
/// When a kubeconfig is retried that belongs to no Cluster, and whose changes no watch reports.
const UNTOLD: Duration = Duration::from_secs(30);

/// How often watches without a proxy are collected, in memory.
const SWEEP: Duration = Duration::from_mins(1);

/// A reconcile that must be retried.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// A read in this cluster failed.
    #[error(transparent)]
    Here(CallError),
    /// The cluster did not respond, or refused.
    #[error("cluster of {proxy}")]
    Downstream {
        /// The key of the proxy.
        proxy: Key,
        /// The failed call.
        #[source]
        source: CallError,
    },
    /// The rows changed since the watch delivered them.
    #[error("ProxyAssemblage {0} changed meanwhile")]
    Outdated(Key),
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] StatusError),
}

impl Retryable for ProxyError {
    fn retry(&self) -> Retry {
        match self {
            Self::Here(error) => error.retry(),
            Self::Downstream { source, .. } => source.retry(),
            Self::Outdated(_) | Self::Status(_) => Retry::Soon,
        }
    }
}

/// The shared state of mirroring all proxies.
#[derive(Debug)]
pub struct Mirroring {
    context: Context,
    sessions: Sessions,
    /// The objects for control-plane bindings.
    objects: Arc<Objects>,
    /// Limits concurrent writes in this cluster.
    writers: Semaphore,
    reports: Reports<AssemblageStatus>,
    /// The rows that need no resolving.
    plain: Plain,
    /// Cached Secrets for distribution.
    distributed: distribute::Store,
    /// The uid of this cluster's `kube-system`, read once.
    identity: OnceCell<String>,
}

/// Mirrors the ProxyAssemblages of the context's namespace until its shutdown. Control-plane bindings read `objects`;
/// the controller of Modules uses the same watch through `carriers`.
pub async fn run(context: Context, objects: Arc<Objects>, carriers: Arc<Carriers<ProxyAssemblage>>) {
    let registry = Arc::clone(&context.registry);
    let (sessions, changed) = Sessions::new(context.clock.clone(), context.jitter.clone());
    let base = Base::from(&context);
    let proxies = carriers.watch(&base);
    let runner = Runner::watching("proxyassemblage", base, proxies).workers(WORKERS);
    context.metrics.conditions(runner.store());
    let (bound, placed, present) = (runner.store(), runner.store(), runner.store());
    let of_objects = objects
        .changes()
        .flat_map(move |()| stream::iter(targeted::with_bindings(&bound)));
    let of_clusters = registry
        .subscribe()
        .flat_map(move |cluster| stream::iter(targeted::of_cluster(&placed, &cluster)));
    let runner = runner
        .on(changed)
        .on(of_objects)
        .on(of_clusters)
        .after(async move { registry.synced().await });
    let mirroring = Arc::new(Mirroring {
        context,
        sessions,
        objects,
        writers: Semaphore::new(WRITERS),
        reports: Reports::new(manager::CONTROLLER),
        plain: Plain::default(),
        distributed: distribute::Store::default(),
        identity: OnceCell::new(),
    });
    tokio::select! {
        () = runner.run(Arc::clone(&mirroring), reconcile) => {}
        () = mirroring.sweep(&present) => {}
    }
}

/// Makes the mirror match the proxy's rows, and the proxy's status match the mirror's report. A proxy that is being
/// deleted is left alone.
pub async fn reconcile(proxy: Arc<ProxyAssemblage>, mirroring: Arc<Mirroring>) -> Result<Action, ProxyError> {
    let key = Key::of(&*proxy);
    if proxy.metadata.deletion_timestamp.is_some() {
        mirroring.sessions.end(&key);
        return Ok(Action::await_change());
    }
    let client = match mirroring.reach(&proxy).await {
        Reach::Ready(client) => client,
        Reach::Away(away) => return mirroring.stand_by(&proxy, &away).await,
    };
    let pace = Pace::begin(proxy.spec.syncs.len());
    let mut rows = mirroring.rows(&proxy).await;
    let live = match mirroring.poll(&proxy, &client).await {
        Ok(live) => live,
        Err(error) => return mirroring.failed(&proxy, error).await,
    };
    let origin = mirroring.origin(&proxy).await?;
    rows.leave_out(live.as_ref().and_then(agent));
    let distributed = mirroring
        .distribute(&proxy, &client, &origin, &mut rows, live.as_ref())
        .await;
    let (copies, live, soon) = match distributed {
        Ok(done) => (done.copies, done.live.or(live), done.next),
        Err(BringError::Act(error)) => return mirroring.failed(&proxy, error).await,
        Err(BringError::Confirm(error)) => return Err(error),
    };
    let outcome = match mirroring
        .bring(&proxy, &client, (&origin, &copies), &rows, live.as_ref())
        .await
    {
        // The CRD in the cluster is older than its agent.
        Err(BringError::Act(error))
            if is_unknown_field(&error) && rows.leave_out_all(&error_chain(&error)) =>
        {
            mirroring
                .bring(&proxy, &client, (&origin, &copies), &rows, live.as_ref())
                .await
        }
        outcome => outcome,
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(BringError::Act(error)) => return mirroring.failed(&proxy, error).await,
        Err(BringError::Confirm(error)) => return Err(error),
    };
    let kept = rows.refused.keys().cloned().collect();
    let is_reported = mirroring
        .report(
            &proxy,
            &view(&proxy, (&origin, &copies), &rows, &kept),
            &rows,
            outcome.live.as_ref().or(live.as_ref()),
            outcome.foreign.as_deref(),
        )
        .await?;
    if is_reported || outcome.live.is_some() {
        pace.gather().await;
    }
    let refused = rows.refused.values().any(distribute::is_refusal);
    let soon = if refused {
        soon.or(Some(distribute::INTERVAL))
    } else {
        soon
    };
    let next = mirroring.next_poll(&key);
    Ok(Action::requeue(soon.map_or(next, |soon| soon.min(next))))
}

/// Why rows were not written to a cluster.
enum BringError {
    /// Something would be removed based on rows that are outdated, or may be.
    Confirm(ProxyError),
    /// The cluster did not respond, or refused.
    Act(CallError),
}

/// The fields of the proxy that its mirror needs.
fn view<'a>(
    proxy: &'a ProxyAssemblage,
    (origin, copies): (&'a str, &'a Copies),
    rows: &'a Rows,
    kept: &'a BTreeSet<String>,
) -> Proxy<'a> {
    let annotation = |key| proxy.annotations().get(key).map(String::as_str);
    let cluster = proxy.spec.cluster_ref.as_ref();
    Proxy {
        name: proxy.metadata.name.as_deref().unwrap_or_default(),
        cluster: cluster.map(|reference| reference.name.as_str()),
        origin,
        adopt: annotation(annotation::ADOPT),
        copies,
        requested_at: annotation(annotation::RECONCILE_REQUESTED_AT),
        rows: &rows.resolved,
        kept,
        states: proxy
            .status
            .as_ref()
            .map_or(&[], |status| status.syncs.as_slice()),
    }
}

/// What to do in the cluster.
fn next(proxy: &ProxyAssemblage, of: (&str, &Copies), rows: &Rows, live: Option<&Assemblage>) -> Mirror {
    let kept = rows.refused.keys().cloned().collect();
    mirror::mirror(&view(proxy, of, rows, &kept), live)
}

/// What an Assemblage's agent reports about itself.
fn agent(live: &Assemblage) -> Option<&Agent> {
    live.status.as_ref()?.agent.as_ref()
}

/// Whether a strict write was rejected because of a field that the CRD there does not have.
fn is_unknown_field(error: &CallError) -> bool {
    let words = error.refusal().filter(|_| error.code() == Some(400));
    words.is_some_and(|words| words.contains("unknown field"))
}

impl Mirroring {
    /// Writes rows to the cluster.
    async fn bring(
        &self,
        proxy: &ProxyAssemblage,
        client: &Client,
        of: (&str, &Copies),
        rows: &Rows,
        live: Option<&Assemblage>,
    ) -> Result<MirrorWrite, BringError> {
        let wanted = next(proxy, of, rows, live);
        if mirror::removes(&wanted, live) {
            self.confirm(proxy).await.map_err(BringError::Confirm)?;
        }
        let key = Key::of(proxy);
        let patched = live.filter(|_| self.sessions.may_patch(&key));
        let outcome = self.act(client, &key, wanted, patched).await;
        match &outcome {
            Ok(MirrorWrite { live: Some(live), .. }) => self.sessions.written(&key, live),
            Ok(_) => {}
            // The mirror is outdated, or its state is unknown: it is read again.
            Err(_) => self.sessions.invalidate(&key),
        }
        outcome.map_err(BringError::Act)
    }

    /// Ends the watches of deleted proxies, which get no reconcile.
    async fn sweep(&self, present: &Store<ProxyAssemblage>) {
        loop {
            tokio::time::sleep(SWEEP).await;
            let lives = |key: &Key| present.get(&key.object_ref()).is_some();
            self.sessions.retain(lives);
            self.reports.retain(lives);
            self.plain.retain(lives);
        }
    }

    /// The cluster is not ready: no call, and the reason is added to its last report.
    async fn stand_by(&self, proxy: &ProxyAssemblage, away: &Away) -> Result<Action, ProxyError> {
        self.sessions.end(&Key::of(proxy));
        self.report_away(proxy, away).await?;
        Ok(if proxy.spec.cluster_ref.is_some() {
            Action::await_change()
        } else {
            Action::requeue(UNTOLD)
        })
    }

    /// A call to the cluster failed: reported in status, and the registry checks the cluster now.
    async fn failed(&self, proxy: &ProxyAssemblage, source: CallError) -> Result<Action, ProxyError> {
        if let Some(cluster) = &proxy.spec.cluster_ref {
            self.context.registry.suspect(&cluster.name);
        }
        if !source.is_conflict() {
            self.report_failure(proxy, &source).await?;
        }
        Err(ProxyError::Downstream {
            proxy: Key::of(proxy),
            source,
        })
    }

    fn next_poll(&self, key: &Key) -> Duration {
        if self.sessions.is_watched(key) {
            return WATCHED_POLL;
        }
        let jitter = self.context.jitter.of(&key.to_string());
        jitter.spread(self.context.options.proxy_poll_interval, JITTER)
    }
}
