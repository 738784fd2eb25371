//! Real API servers: a fleet of control planes on this machine, each watched from its beginning.
//!
//! All of them have one etcd, which numbers the writes of all. An event's place on the time line is that number, a microsecond each: what
//! came first is exact, across servers and whatever the watches took; how long something took is not to be had from it.

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

/// The kinds that scenarios ask the event log for.
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
/// Names the folder in which the rights that were used are kept: see `e2e/tests/rights.rs`.
const USES: &str = "MUSTER_RIGHTS_USED";
/// How long a server that cannot be asked may know no roles yet.
const STARTED: Duration = Duration::from_secs(20);
/// The pause before a watch that failed is opened again: its kind may not be there yet, or its server.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a watch may take to show what a list has.
const CAUGHT_UP: Duration = Duration::from_secs(10);
/// The version that a watch goes on from is forgotten.
const GONE: u16 = 410;
/// How long a watch is asked to last, in seconds.
const SESSION: u32 = 290;

/// The control planes of a bed. The last one of them ends all.
#[derive(Clone)]
pub(crate) struct Planes {
    fleet: Arc<Mutex<Fleet>>,
    epoch: Epoch,
    folder: Arc<TempDir>,
    /// Times at which something may be denied.
    excused: Arc<Mutex<Vec<(Timestamp, Timestamp)>>>,
}

/// The same for a fleet without a bed, under a name of its own.
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
    /// How much of the audit log does not count any more.
    forgotten: AtomicU64,
    /// Kubeconfigs of the accounts of muster, by user.
    admitted: Mutex<BTreeMap<&'static str, String>>,
}

/// What a watch has shown so far.
struct Log {
    seen: Arc<Mutex<Seen>>,
    _watch: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Seen {
    events: Vec<(u64, ChangeKind, Arc<Value>)>,
    /// How many of them were given out: only those can be forgotten.
    given: usize,
    /// The greatest version, of which the next watch is asked for what follows.
    version: u64,
}

impl Planes {
    /// An etcd; no control plane yet.
    pub(crate) async fn new(flux: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("fleet");
        let plan = Plan { kwok: true, flux };
        let fleet = spawn_blocking(move || Fleet::start(&place, plan)).await.unwrap();
        Self {
            fleet: Arc::new(Mutex::new(fleet.unwrap_or_else(|error| panic!("{error:?}")))),
            epoch: Epoch::now(),
            folder: Arc::new(folder),
            excused: Arc::default(),
        }
    }

    /// Starts control planes side by side.
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

    /// A control plane that was added, or is added now.
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

    /// From now on it is as well if something is denied: the scenario takes rights away.
    pub(crate) fn excuse_denials(&self) {
        self.excused.lock().push((Timestamp::now(), Timestamp::MAX));
    }

    /// The same from then until now.
    pub(crate) fn excuse_denials_since(&self, began: Timestamp) {
        self.excused.lock().push((began, Timestamp::now()));
    }

    /// Adds to the folder `$MUSTER_RIGHTS_USED`, if there is one, what rights muster used on these control planes.
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
        let name = self.folder.path().file_name().unwrap().to_string_lossy();
        let kept = audit::lines(&self.fleet.lock(), is_excused);
        fs::write(Path::new(&place).join(name.trim_start_matches('.')), kept).unwrap();
    }

    /// Does something that blocks.
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

    /// From now on a process of muster comes in with this token.
    pub fn admit(&self, user: &'static str, token: &str) {
        let fleet = self.planes.fleet.lock();
        let kubeconfig = fleet.plane(&self.name).unwrap().kubeconfig_by_token(user, token);
        self.admitted.lock().insert(user, kubeconfig);
    }

    /// The kubeconfig of a process of muster; of several controllers each has the same account.
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

    /// Starts the API server again with another certificate; the authority that made it, PEM.
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

    /// Ends Flux.
    pub async fn stop_flux(&self) {
        let name = self.name.clone();
        self.planes.with(move |fleet| fleet.stop_flux(&name)).await;
    }

    /// What muster asked of it, from the audit log.
    pub fn requests(&self) -> Vec<Request> {
        let log = self.audit_log();
        let forgotten = usize::try_from(self.forgotten.load(Ordering::Relaxed)).unwrap();
        audit::requests(log.get(forgotten..).unwrap_or_default(), self.planes.epoch)
    }

    /// Forgets requests, and the versions that were given out so far.
    pub fn forget(&self) {
        self.forgotten
            .store(self.audit_log().len() as u64, Ordering::Relaxed);
        for log in self.logs.values() {
            let mut seen = log.seen.lock();
            let given = std::mem::take(&mut seen.given);
            seen.events.drain(..given);
        }
    }

    /// Ends the API server, and starts it again on the same port with the same data.
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
        // Until it is ready it knows no roles, and denies everything to everybody.
        self.planes.excused.lock().push((began, Timestamp::now()));
    }

    /// All versions of the objects of a kind, after the watch has shown what is there now.
    pub fn events(&self, kind: Kind) -> Vec<Event> {
        let log = &self.logs[kind.resource().1];
        block_in_place(|| Handle::current().block_on(self.catch_up(kind, log)));
        let mut seen = log.seen.lock();
        seen.given = seen.events.len();
        let events = seen.events.iter().map(|(version, kind, object)| {
            let at = self.planes.epoch.instant + Duration::from_micros(*version);
            Event::watched(at, *kind, Arc::clone(object))
        });
        events.collect()
    }

    /// The versions of a kind that the watch has shown so far.
    pub fn versions(&self, kind: Kind) -> Vec<Value> {
        let seen = self.logs[kind.resource().1].seen.lock();
        seen.events
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
            while log.seen.lock().version < newest.unwrap_or_default() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let done = timeout(CAUGHT_UP, caught_up).await;
        assert!(done.is_ok(), "the watch of {kind:?} in {} is behind", self.name);
    }
}

impl Log {
    fn open(client: Client, kind: Kind) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let api: Api<DynamicObject> = Api::all_with(client, &kind.api_resource());
        let watch = tokio::spawn(follow(api, Arc::clone(&seen)));
        Self {
            seen,
            _watch: AbortOnDropHandle::new(watch),
        }
    }
}

/// Never ends. From version 0 a server shows what is there, then what changes.
async fn follow(api: Api<DynamicObject>, seen: Arc<Mutex<Seen>>) {
    loop {
        // The server has ended, or the session has: what follows is asked for anew.
        if let Err(kube::Error::Api(status)) = watch(&api, &seen).await
            && status.code == GONE
        {
            relist(&api, &seen).await;
        }
        sleep(AGAIN).await;
    }
}

async fn watch(api: &Api<DynamicObject>, seen: &Mutex<Seen>) -> kube::Result<()> {
    let from = seen.lock().version.to_string();
    let parameters = WatchParams::default().timeout(SESSION);
    let mut events = api.watch(&parameters, &from).await?.boxed();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(object) => seen.lock().take(ChangeKind::Added, object),
            WatchEvent::Modified(object) => seen.lock().take(ChangeKind::Modified, object),
            WatchEvent::Deleted(object) => seen.lock().take(ChangeKind::Deleted, object),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(())
}

/// A server that was started again has forgotten what it once showed. While it was away nobody wrote, so that nothing is missed but what
/// was written before this watch was open again.
async fn relist(api: &Api<DynamicObject>, seen: &Mutex<Seen>) {
    let Ok(list) = api.list(&ListParams::default()).await else {
        return;
    };
    let mut seen = seen.lock();
    let known = seen.version;
    for object in list.items {
        if version_of(&object.metadata) > known {
            seen.take(ChangeKind::Modified, object);
        }
    }
    let version = list.metadata.resource_version.unwrap_or_default();
    seen.version = version.parse().expect("a real server's versions are numbers");
}

impl Seen {
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
