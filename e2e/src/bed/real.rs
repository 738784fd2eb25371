//! Real API servers: a fleet of control planes on this machine, with watches from the start.
//!
//! All of them share one etcd, which numbers the writes of all. The time of an event is that number in microseconds:
//! the order of events is exact across servers, independent of delays in the watches; durations cannot be derived from
//! it.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use muster_apiserver::ChangeKind;
use muster_real::{Certificate, Fleet, Plan, Registry};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    runtime::Handle,
    task::{block_in_place, spawn_blocking},
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Kind,
    audit::{self, Epoch},
    kinds,
    programs::kubectl_apply,
    recorded::{Event, Request},
};

/// The kinds that scenarios read from the event log.
const WATCHED: [Kind; 8] = [
    kinds::CLUSTER,
    kinds::MODULE,
    kinds::PROXY_ASSEMBLAGE,
    kinds::REMOTE_ASSEMBLAGE,
    kinds::ASSEMBLAGE,
    kinds::DEPLOYMENT,
    kinds::STATEFUL_SET,
    kinds::POD,
];
/// Environment variable for the directory in which the used permissions are recorded: see `e2e/tests/rights.rs`.
const USES: &str = "MUSTER_RIGHTS_USED";
/// How long a restarted server may take to load its roles.
const STARTED: Duration = Duration::from_secs(20);
/// The pause before a failed watch is reopened: its kind or its server may not be available yet.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a watch may take to catch up with a list.
const CAUGHT_UP: Duration = Duration::from_secs(10);
/// The resource version of the watch has expired.
const GONE: u16 = 410;
/// The timeout requested for a watch, in seconds.
const SESSION: u32 = 290;

/// The control planes of a bed. Dropping the last clone ends all of them.
#[derive(Clone)]
pub(crate) struct Planes {
    fleet: Arc<Mutex<Fleet>>,
    epoch: Epoch,
    directory: Arc<TempDir>,
    /// Periods in which denied requests are accepted.
    excused: Arc<Mutex<Vec<(Timestamp, Timestamp)>>>,
}

/// The same for a fleet without a bed, with its own name.
pub fn keep_uses(fleet: &Fleet, name: &str) {
    if let Some(place) = std::env::var_os(USES) {
        fs::write(Path::new(&place).join(name), audit::lines(fleet, |_| false)).unwrap();
    }
}

/// One API server.
pub struct Server {
    name: String,
    planes: Planes,
    client: Client,
    logs: BTreeMap<&'static str, Log>,
    /// The length of the audit log that is already discarded.
    forgotten: AtomicU64,
    /// Kubeconfigs of the accounts of muster, by user.
    admitted: Mutex<BTreeMap<&'static str, String>>,
}

/// What a watch has delivered so far.
struct Log {
    watched: Arc<Mutex<WatchedEvents>>,
    _watch: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct WatchedEvents {
    events: Vec<(u64, ChangeKind, Arc<Value>)>,
    /// How many events were handed out: only those can be discarded.
    given: usize,
    /// The greatest resource version, from which the next watch continues.
    version: u64,
}

impl Planes {
    /// Starts etcd; there is no control plane yet.
    pub(crate) async fn new(flux: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("fleet");
        let plan = Plan { kwok: true, flux };
        let fleet = spawn_blocking(move || Fleet::start(&place, plan)).await.unwrap();
        Self {
            fleet: Arc::new(Mutex::new(fleet.unwrap_or_else(|error| panic!("{error:?}")))),
            epoch: Epoch::now(),
            directory: Arc::new(directory),
            excused: Arc::default(),
        }
    }

    /// Starts control planes concurrently.
    pub(crate) async fn add(&self, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.with(move |fleet| fleet.add(&names)).await;
    }

    /// Starts helm-controller in control planes where Flux runs.
    pub(crate) async fn start_helm(&self, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.with(move |fleet| fleet.start_helm(&names)).await;
    }

    /// Starts a registry of OCI artifacts.
    pub(crate) async fn start_registry(&self) -> Registry {
        self.with(Fleet::start_registry).await
    }

    /// A control plane, which is started if necessary.
    pub(crate) async fn server(&self, name: &str) -> Server {
        let wanted = name.to_owned();
        let kubeconfig = self
            .with(move |fleet| {
                if fleet.plane(&wanted).is_err() {
                    fleet.add(std::slice::from_ref(&wanted))?;
                }
                Ok(std::fs::read_to_string(fleet.plane(&wanted)?.kubeconfig())?)
            })
            .await;
        let client = client_of(&kubeconfig).await;
        let logs = WATCHED.map(|kind| (kind.resource().1, Log::open(client.clone(), kind)));
        Server {
            name: name.to_owned(),
            planes: self.clone(),
            client,
            logs: logs.into(),
            forgotten: AtomicU64::default(),
            admitted: Mutex::default(),
        }
    }

    /// Denied requests are accepted after this call: the scenario removes permissions.
    pub(crate) fn excuse_denials(&self) {
        self.excused.lock().push((Timestamp::now(), Timestamp::MAX));
    }

    /// The same for the period from `began` to now.
    pub(crate) fn excuse_denials_since(&self, began: Timestamp) {
        self.excused.lock().push((began, Timestamp::now()));
    }

    /// Appends the permissions that muster used on these control planes to the directory `$MUSTER_RIGHTS_USED`, if it
    /// is set.
    pub(crate) fn keep_uses(&self) {
        let Some(place) = std::env::var_os(USES) else {
            return;
        };
        let excused = self.excused.lock();
        let is_excused = |time: Timestamp| {
            excused
                .iter()
                .any(|(from, until)| (*from..=*until).contains(&time))
        };
        let name = self.directory.path().file_name().unwrap().to_string_lossy();
        let kept = audit::lines(&self.fleet.lock(), is_excused);
        fs::write(Path::new(&place).join(name.trim_start_matches('.')), kept).unwrap();
    }

    /// Runs a blocking function.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Fleet) -> anyhow::Result<T> + Send + 'static,
    ) -> T {
        let fleet = Arc::clone(&self.fleet);
        let done = spawn_blocking(move || work(&mut fleet.lock())).await.unwrap();
        done.unwrap_or_else(|error| panic!("{error:?}"))
    }
}

impl Server {
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A process of muster authenticates with this token after this call.
    pub fn admit(&self, user: &'static str, token: &str) {
        let fleet = self.planes.fleet.lock();
        let kubeconfig = fleet.plane(&self.name).unwrap().kubeconfig_by_token(user, token);
        self.admitted.lock().insert(user, kubeconfig);
    }

    /// The kubeconfig of a process of muster; all controllers share one account.
    pub fn kubeconfig_of(&self, user: &str) -> String {
        let admitted = self.admitted.lock();
        let found = admitted.iter().find(|(admitted, _)| user.starts_with(**admitted));
        let (_, kubeconfig) = found.unwrap_or_else(|| panic!("{user} has no account in {}", self.name));
        kubeconfig.clone()
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig_of_administrator(&self) -> String {
        let kubeconfig = self.planes.fleet.lock().plane(&self.name).unwrap().kubeconfig();
        fs::read_to_string(kubeconfig).unwrap()
    }

    /// `kubectl apply --server-side` as an administrator.
    pub async fn apply(&self, manifests: &str) {
        let kubeconfig = self.planes.fleet.lock().plane(&self.name).unwrap().kubeconfig();
        kubectl_apply(&kubeconfig, manifests).await;
    }

    /// Restarts the API server with another certificate. Returns the authority that issued it, PEM.
    pub async fn show(&self, certificate: Certificate) -> String {
        let (name, began) = (self.name.clone(), Timestamp::now());
        let authority = self
            .planes
            .with(move |fleet| fleet.show(&name, certificate))
            .await;
        self.planes
            .excused
            .lock()
            .push((began, Timestamp::now() + STARTED));
        authority
    }

    /// Installs Flux and starts it.
    pub async fn start_flux(&self, gates: &str) {
        let (name, gates) = (self.name.clone(), gates.to_owned());
        self.planes
            .with(move |fleet| fleet.start_flux(&name, &gates))
            .await;
    }

    /// Stops Flux.
    pub async fn stop_flux(&self) {
        let name = self.name.clone();
        self.planes.with(move |fleet| fleet.stop_flux(&name)).await;
    }

    /// The requests of muster, from the audit log.
    pub fn requests(&self) -> Vec<Request> {
        let log = self.audit_log();
        let forgotten = usize::try_from(self.forgotten.load(Ordering::Relaxed)).unwrap();
        audit::requests(log.get(forgotten..).unwrap_or_default(), self.planes.epoch)
    }

    /// Discards requests, and the object versions that were handed out so far.
    pub fn discard_history(&self) {
        self.forgotten
            .store(self.audit_log().len() as u64, Ordering::Relaxed);
        for log in self.logs.values() {
            let mut watched = log.watched.lock();
            let given = std::mem::take(&mut watched.given);
            watched.events.drain(..given);
        }
    }

    /// Restarts the API server on the same port with the same data.
    pub async fn set_running(&self, runs: bool) {
        let (name, began) = (self.name.clone(), Timestamp::now());
        self.planes
            .with(move |fleet| {
                if runs {
                    fleet.start_again(&name, "apiserver")
                } else {
                    fleet.stop(&name, "apiserver")
                }
            })
            .await;
        // Until it is ready it has no roles, and denies every request.
        self.planes.excused.lock().push((began, Timestamp::now()));
    }

    /// All versions of the objects of a kind, after the watch has caught up.
    pub fn events(&self, kind: Kind) -> Vec<Event> {
        let log = &self.logs[kind.resource().1];
        block_in_place(|| Handle::current().block_on(self.catch_up(kind, log)));
        let mut watched = log.watched.lock();
        watched.given = watched.events.len();
        let events = watched.events.iter().map(|(version, kind, object)| {
            let at = self.planes.epoch.instant + Duration::from_micros(*version);
            Event::watched(at, *kind, Arc::clone(object))
        });
        events.collect()
    }

    /// The versions of a kind that the watch has delivered so far.
    pub fn versions(&self, kind: Kind) -> Vec<Value> {
        let watched = self.logs[kind.resource().1].watched.lock();
        watched
            .events
            .iter()
            .map(|(_, _, object)| Value::clone(object))
            .collect()
    }

    fn audit_log(&self) -> String {
        let log = self.planes.fleet.lock().plane(&self.name).unwrap().audit_log();
        fs::read_to_string(log).unwrap_or_default()
    }

    async fn catch_up(&self, kind: Kind, log: &Log) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.api_resource());
        let Ok(list) = api.list(&ListParams::default()).await else {
            return;
        };
        let newest = list.items.iter().map(|object| version_of(&object.metadata)).max();
        let caught_up = async {
            while log.watched.lock().version < newest.unwrap_or_default() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let done = timeout(CAUGHT_UP, caught_up).await;
        assert!(done.is_ok(), "the watch of {kind:?} in {} is behind", self.name);
    }
}

impl Log {
    fn open(client: Client, kind: Kind) -> Self {
        let watched = Arc::new(Mutex::new(WatchedEvents::default()));
        let api: Api<DynamicObject> = Api::all_with(client, &kind.api_resource());
        let watch = tokio::spawn(follow(api, Arc::clone(&watched)));
        Self {
            watched,
            _watch: AbortOnDropHandle::new(watch),
        }
    }
}

/// Never returns. From version 0 a server sends the existing objects, then the changes.
async fn follow(api: Api<DynamicObject>, watched: Arc<Mutex<WatchedEvents>>) {
    loop {
        // The server or the watch has ended: continue with a new watch.
        if let Err(kube::Error::Api(status)) = watch(&api, &watched).await
            && status.code == GONE
        {
            relist(&api, &watched).await;
        }
        sleep(AGAIN).await;
    }
}

async fn watch(api: &Api<DynamicObject>, watched: &Mutex<WatchedEvents>) -> kube::Result<()> {
    let from = watched.lock().version.to_string();
    let parameters = WatchParams::default().timeout(SESSION);
    let mut events = api.watch(&parameters, &from).await?.boxed();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(object) => watched.lock().take(ChangeKind::Added, object),
            WatchEvent::Modified(object) => watched.lock().take(ChangeKind::Modified, object),
            WatchEvent::Deleted(object) => watched.lock().take(ChangeKind::Deleted, object),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(())
}

/// A restarted server no longer has earlier versions. Nothing was written while it was down, so only writes before this
/// watch was reopened could be missed; a list has those.
async fn relist(api: &Api<DynamicObject>, watched: &Mutex<WatchedEvents>) {
    let Ok(list) = api.list(&ListParams::default()).await else {
        return;
    };
    let mut watched = watched.lock();
    let known = watched.version;
    for object in list.items {
        if version_of(&object.metadata) > known {
            watched.take(ChangeKind::Modified, object);
        }
    }
    let version = list.metadata.resource_version.unwrap_or_default();
    watched.version = version.parse().expect("a real server's versions are numbers");
}

impl WatchedEvents {
    fn take(&mut self, kind: ChangeKind, object: DynamicObject) {
        let version = version_of(&object.metadata);
        self.version = self.version.max(version);
        self.events
            .push((version, kind, Arc::new(serde_json::to_value(object).unwrap())));
    }
}

fn version_of(metadata: &kube::core::ObjectMeta) -> u64 {
    let version = metadata.resource_version.as_deref().unwrap_or_default();
    version.parse().expect("a real server's versions are numbers")
}

async fn client_of(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}
