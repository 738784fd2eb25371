//! A live view of the fleet, for the command and the dashboard.
//!
//! Each kind has its own watch. All of them feed one [`Snapshot`], which is rebuilt shortly after a change, so that a
//! burst of changes is one.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _, stream, stream::BoxStream};
use k8s_openapi::api::events::v1::Event as ApiEvent;
use kube::{
    Client, Resource,
    core::{ApiResource, DynamicObject, NamespaceResourceScope},
    runtime::{watcher, watcher::Event},
};
use muster_api::{
    BootstrapModule, ClusterUpgrade, Module, ModuleRevision, ProxyAssemblage, RemoteAssemblage, UpdatePlan,
    ZoneRollout, cluster::Version,
};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{Clock, Guard, watch::watch_api};
use muster_dashboard::{Objects, Snapshot, Trouble};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use crate::{
    event_log::Log,
    extent::Extent,
    held::Held,
    live_nodes::{self, LiveNodes},
    read::served,
    watched::{NOT_THERE, is_refused, watch_events},
};

/// The delay from a change to the snapshot that has it, with all changes in between.
const GATHER: Duration = Duration::from_millis(100);
/// How often the served version of Cluster is checked.
const LOOK_FOR_CLUSTERS: Duration = Duration::from_mins(1);
/// The namespace of events about cluster-scoped objects, such as NodeModules.
const OF_NO_NAMESPACE: &str = "default";
/// How often it is checked whether ZoneRollouts, ClusterUpgrades or UpdatePlans are served.
const SERVED_AGAIN: Duration = Duration::from_mins(1);
/// How often the served version of Cluster is checked while none is served, or the server does not answer.
const LOOK_FOR_CLUSTERS_SOON: Duration = Duration::from_secs(5);

/// Follows a fleet until all receivers are dropped.
pub fn follow(client: &Client, namespace: &str, extent: Extent) -> watch::Receiver<Arc<Snapshot>> {
    let (sender, receiver) = watch::channel(Arc::new(Snapshot::new(
        namespace.to_owned(),
        Clock::system().now(),
        Objects::default(),
        false,
        Vec::new(),
    )));
    let live = Live::new(client.clone(), namespace.to_owned(), extent);
    tokio::spawn(async move {
        tokio::select! {
            () = live.run(&sender) => {}
            () = sender.closed() => {}
        }
    });
    receiver
}

/// An item from one of the watches.
enum WatchItem {
    Module(Event<Guard<Module>>),
    BootstrapModule(Event<Guard<BootstrapModule>>),
    Upgrade(Event<Guard<ClusterUpgrade>>),
    Proxy(Event<Guard<ProxyAssemblage>>),
    Remote(Event<Guard<RemoteAssemblage>>),
    Revision(Event<Guard<ModuleRevision>>),
    Zones(Event<Guard<ZoneRollout>>),
    Updates(Event<Guard<UpdatePlan>>),
    Cluster(Event<DynamicObject>),
    Happened(Event<ApiEvent>),
    Nodes(live_nodes::Change),
    /// A watch failed, and is retried.
    Failed(Kind, String),
    /// No Clusters are served.
    NoClusters,
    /// ClusterUpgrades are not served, or may not be read.
    NoUpgrades,
}

/// The kind of a watch.
#[derive(Clone, Copy)]
enum Kind {
    Modules,
    BootstrapModules,
    Upgrades,
    Proxies,
    Remotes,
    Revisions,
    Zones,
    Updates,
    Clusters,
    Events,
}

struct Live {
    client: Client,
    namespace: String,
    extent: Extent,
    clock: Clock,
    modules: Held<Module>,
    bootstrap_modules: Held<BootstrapModule>,
    upgrades: Held<ClusterUpgrade>,
    are_upgrades_served: bool,
    proxies: Held<ProxyAssemblage>,
    remotes: Held<RemoteAssemblage>,
    revisions: Held<ModuleRevision>,
    zones: Held<ZoneRollout>,
    updates: Held<UpdatePlan>,
    clusters: Held<DynamicObject>,
    are_clusters_served: bool,
    nodes: LiveNodes,
    log: Log,
}

impl Live {
    fn new(client: Client, namespace: String, extent: Extent) -> Self {
        Self {
            client,
            namespace,
            extent,
            clock: Clock::system(),
            modules: Held::new("modules"),
            bootstrap_modules: Held::new("bootstrapmodules"),
            upgrades: Held::new("clusterupgrades"),
            are_upgrades_served: true,
            proxies: Held::new("proxyassemblages"),
            remotes: Held::new("remoteassemblages"),
            revisions: Held::new("modulerevisions"),
            zones: Held::new("zonerollouts"),
            updates: Held::new("updateplans"),
            clusters: Held::new("clusters"),
            are_clusters_served: true,
            nodes: LiveNodes::default(),
            log: Log::default(),
        }
    }

    async fn run(mut self, sender: &watch::Sender<Arc<Snapshot>>) {
        let mut items = self.watches();
        let mut due: Option<Instant> = None;
        loop {
            let gathered = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                next = items.next() => {
                    let Some(next) = next else { return };
                    if self.handle(next) && due.is_none() {
                        due = Some(Instant::now() + GATHER);
                    }
                }
                () = gathered => {
                    due = None;
                    sender.send_replace(Arc::new(self.snapshot()));
                }
            }
        }
    }

    fn watches(&self) -> BoxStream<'static, WatchItem> {
        let mut all = Vec::new();
        if self.extent.has_modules() {
            all.extend([
                self.watch(Kind::Modules, WatchItem::Module),
                self.watch(Kind::BootstrapModules, WatchItem::BootstrapModule),
                self.watch(Kind::Proxies, WatchItem::Proxy),
                self.watch(Kind::Remotes, WatchItem::Remote),
                clusters(self.client.clone(), self.namespace.clone()).boxed(),
                upgrades(self.client.clone(), &self.namespace),
            ]);
        }
        if matches!(self.extent, Extent::Whole | Extent::WithNodes) {
            all.push(self.watch(Kind::Revisions, WatchItem::Revision));
            all.push(updates(self.client.clone(), &self.namespace));
        }
        if self.extent != Extent::Fleet {
            all.push(zones(self.client.clone(), self.namespace.clone()));
            let namespace = if self.extent.has_modules() {
                &self.namespace
            } else {
                OF_NO_NAMESPACE
            };
            let events: Api<ApiEvent> = Api::namespaced(self.client.clone(), namespace);
            all.push(watch_events(events, failed(Kind::Events), WatchItem::Happened));
        }
        if self.extent.has_nodes() {
            let nodes = live_nodes::watches(self.client.clone());
            all.push(nodes.map(WatchItem::Nodes).boxed());
        }
        stream::select_all(all).boxed()
    }

    fn watch<K>(&self, kind: Kind, to_item: fn(Event<Guard<K>>) -> WatchItem) -> BoxStream<'static, WatchItem>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + 'static,
    {
        let api: Api<Guard<K>> = Api::namespaced(self.client.clone(), &self.namespace);
        watch_events(api, failed(kind), to_item)
    }

    /// Handles an item; returns whether the view changed.
    fn handle(&mut self, item: WatchItem) -> bool {
        let now = self.clock.now();
        match item {
            WatchItem::Module(event) => self.modules.event(&event, now),
            WatchItem::BootstrapModule(event) => self.bootstrap_modules.event(&event, now),
            WatchItem::Upgrade(event) => {
                self.are_upgrades_served = true;
                self.upgrades.event(&event, now)
            }
            WatchItem::NoUpgrades => std::mem::replace(&mut self.are_upgrades_served, false),
            WatchItem::Proxy(event) => self.proxies.event(&event, now),
            WatchItem::Remote(event) => self.remotes.event(&event, now),
            WatchItem::Revision(event) => self.revisions.event(&event, now),
            WatchItem::Zones(event) => self.zones.event(&event, now),
            WatchItem::Updates(event) => self.updates.event(&event, now),
            WatchItem::Cluster(event) => {
                self.are_clusters_served = true;
                self.clusters.event(&guarded(event), now)
            }
            WatchItem::NoClusters => {
                let is_news = self.are_clusters_served;
                self.are_clusters_served = false;
                self.clusters = Held::new("clusters");
                is_news
            }
            WatchItem::Happened(event) => self.log.event(event),
            WatchItem::Nodes(change) => self.nodes.handle(change, now),
            WatchItem::Failed(kind, why) => match kind {
                Kind::Modules => self.modules.failed(why, now),
                Kind::BootstrapModules => self.bootstrap_modules.failed(why, now),
                Kind::Upgrades => self.upgrades.failed(why, now),
                Kind::Proxies => self.proxies.failed(why, now),
                Kind::Remotes => self.remotes.failed(why, now),
                Kind::Revisions => self.revisions.failed(why, now),
                Kind::Zones => self.zones.failed(why, now),
                Kind::Updates => self.updates.failed(why, now),
                Kind::Clusters => self.clusters.failed(why, now),
                Kind::Events => self.log.failed(why, now),
            },
        }
    }

    fn snapshot(&self) -> Snapshot {
        let objects = Objects {
            modules: self.modules.all(),
            bootstrap_modules: self.bootstrap_modules.all(),
            upgrades: self.upgrades.all(),
            proxies: self.proxies.all(),
            remotes: self.remotes.all(),
            clusters: self.clusters.all(),
            revisions: self.revisions.all(),
            zones: self.zones.all(),
            update_plans: self.updates.all(),
            events: self.log.newest(),
            nodes: self.nodes.objects(),
        };
        let are_modules_read = self.modules.is_read()
            && self.bootstrap_modules.is_read()
            && (self.upgrades.is_read() || !self.are_upgrades_served)
            && self.proxies.is_read()
            && self.remotes.is_read()
            && (self.clusters.is_read() || !self.are_clusters_served);
        let is_complete = if self.extent.has_modules() {
            are_modules_read
        } else {
            self.nodes.is_read()
        };
        let troubles: Vec<Trouble> = self
            .modules
            .troubles()
            .chain(self.bootstrap_modules.troubles())
            .chain(self.upgrades.troubles())
            .chain(self.proxies.troubles())
            .chain(self.remotes.troubles())
            .chain(self.clusters.troubles())
            .chain(self.revisions.troubles())
            .chain(self.zones.troubles())
            .chain(self.updates.troubles())
            .chain(self.nodes.troubles())
            .chain(self.log.troubles())
            .collect();
        Snapshot::new(
            self.namespace.clone(),
            self.clock.now(),
            objects,
            is_complete,
            troubles,
        )
    }
}

fn failed(kind: Kind) -> impl Fn(String) -> WatchItem + Send + 'static {
    move |why| WatchItem::Failed(kind, why)
}

/// The ClusterUpgrades, once they are served and may be read: only a controller that runs with --upgrades has them.
fn upgrades(client: Client, namespace: &str) -> BoxStream<'static, WatchItem> {
    let api: Api<Guard<ClusterUpgrade>> = Api::namespaced(client, namespace);
    let served = async move {
        if !is_refused(&api, &NOT_THERE).await {
            return watch_events(api, failed(Kind::Upgrades), WatchItem::Upgrade);
        }
        let later = async move {
            while is_refused(&api, &NOT_THERE).await {
                tokio::time::sleep(SERVED_AGAIN).await;
            }
            watch_events(api, failed(Kind::Upgrades), WatchItem::Upgrade)
        };
        stream::iter([WatchItem::NoUpgrades])
            .chain(stream::once(later).flatten())
            .boxed()
    };
    stream::once(served).flatten().boxed()
}

/// The ZoneRollouts, once they are served: few clusters of a fleet have them, and rarely the management cluster.
fn zones(client: Client, namespace: String) -> BoxStream<'static, WatchItem> {
    let served = async move {
        let api: Api<Guard<ZoneRollout>> = Api::namespaced(client.clone(), &namespace);
        while is_refused(&api, &[404]).await {
            tokio::time::sleep(SERVED_AGAIN).await;
        }
        watch_events(api, failed(Kind::Zones), WatchItem::Zones)
    };
    stream::once(served).flatten().boxed()
}

/// The UpdatePlans, once they are served and may be read: only where `muster machines` is installed.
fn updates(client: Client, namespace: &str) -> BoxStream<'static, WatchItem> {
    let api: Api<Guard<UpdatePlan>> = Api::namespaced(client, namespace);
    let served = async move {
        while is_refused(&api, &NOT_THERE).await {
            tokio::time::sleep(SERVED_AGAIN).await;
        }
        watch_events(api, failed(Kind::Updates), |event| {
            WatchItem::Updates(light(event))
        })
    };
    stream::once(served).flatten().boxed()
}

/// Drops the objects that a plan was decided on: they have up to 1 MiB each, and are not shown.
fn light(event: Event<Guard<UpdatePlan>>) -> Event<Guard<UpdatePlan>> {
    let without = |Guard(plan): Guard<UpdatePlan>| {
        Guard(plan.map(|mut plan| {
            plan.spec.current = String::new();
            plan.spec.desired = String::new();
            plan
        }))
    };
    match event {
        Event::Apply(plan) => Event::Apply(without(plan)),
        Event::InitApply(plan) => Event::InitApply(without(plan)),
        other => other,
    }
}

/// The Clusters in the served version, also when that changes.
fn clusters(client: Client, namespace: String) -> impl Stream<Item = WatchItem> + Send {
    let (sender, receiver) = mpsc::channel(64);
    let gone = sender.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = find_clusters(&client, &namespace, sender) => {}
            () = gone.closed() => {}
        }
    });
    stream::unfold(receiver, |mut receiver| async move {
        let next = receiver.recv().await?;
        Some((next, receiver))
    })
}

async fn find_clusters(client: &Client, namespace: &str, sender: mpsc::Sender<WatchItem>) {
    loop {
        let nothing = match served(client).await {
            Ok(Some(version)) => {
                let resource = version.api_resource();
                tokio::select! {
                    () = watch_clusters(client, namespace, &resource, sender.clone()) => {}
                    () = other_than(client, version) => {}
                }
                continue;
            }
            Ok(None) => WatchItem::NoClusters,
            Err(error) => WatchItem::Failed(Kind::Clusters, format!("{error:#}")),
        };
        // The task ends when the receiver is dropped.
        let _ = sender.send(nothing).await;
        tokio::time::sleep(LOOK_FOR_CLUSTERS_SOON).await;
    }
}

async fn watch_clusters(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
    sender: mpsc::Sender<WatchItem>,
) {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let events = watch_api(api, watcher::Config::default(), resource.kind.clone());
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        if sender.send(WatchItem::Cluster(event)).await.is_err() {
            return;
        }
    }
}

/// Returns when another version than this one is served.
async fn other_than(client: &Client, version: Version) {
    loop {
        tokio::time::sleep(LOOK_FOR_CLUSTERS).await;
        // Without an answer the version is taken as unchanged.
        if served(client).await.is_ok_and(|now| now != Some(version)) {
            return;
        }
    }
}

/// Reads a Cluster as a dynamic object, which always succeeds.
fn guarded(event: Event<DynamicObject>) -> Event<Guard<DynamicObject>> {
    let guard = |object| Guard(Ok(object));
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(guard(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(guard(object)),
        Event::Delete(object) => Event::Delete(guard(object)),
    }
}
