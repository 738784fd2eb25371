//! The handle of a server: start it, get clients, inspect what happened, stop it.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::clock::Clock;
use crate::core::{Core, Parts};
use crate::crd;
use crate::door::{self, Credentials, CredentialsError, Identity, InProcess, ListenError, Login};
use crate::fault::{Faults, Match};
use crate::lifecycle;
use crate::meta;
use crate::player::{self, Speeds};
use crate::record::Recorder;
use crate::store::{Limits, Store};
use crate::tokens;
use crate::webhooks::{Endpoint, ServicePort, Webhooks};
use crate::work::WorkQueue;

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The certificates could not be created.
    #[error("the server's certificates could not be created")]
    Credentials(#[from] CredentialsError),
    /// The HTTPS listener could not be opened.
    #[error("the HTTPS listener could not be opened")]
    Listen(#[from] ListenError),
    /// An initial object is rejected.
    #[error("an object of Builder::with was rejected")]
    Object(#[from] ObjectError),
}

/// An object that the server does not accept from [`Builder::with`] or [`ApiServer::add`].
#[derive(Debug, thiserror::Error)]
#[error("{object} was rejected: {problem}")]
pub struct ObjectError {
    /// Kind and name of the object.
    pub object: String,
    /// Why it is rejected.
    pub problem: String,
}

/// Default number of changes of each resource kept for watches: enough for a burst of writes to a fleet of ten thousand
/// clusters between two reads of a watcher.
const HISTORY: usize = 16_384;

/// Default number of bytes of old versions kept for watches: one more version of each object of a fleet of ten thousand
/// clusters, whose ProxyAssemblages take about 3 KiB each; so after a burst that writes each once, a watcher still gets
/// every change.
const HISTORY_BYTES: usize = 32 << 20;

/// User of clients without another name.
const ADMIN: &str = "kubernetes-admin";

/// User of the workload player.
const PLAYER: &str = "workload-player";

/// User of the token controller.
const TOKEN_CONTROLLER: &str = "token-controller";

/// A server that runs until it is stopped or dropped.
pub struct ApiServer {
    core: Arc<Core>,
    credentials: Arc<Credentials>,
    admin: Identity,
    name: String,
    tasks: Mutex<Vec<AbortHandle>>,
    address: Mutex<Option<SocketAddr>>,
}

/// Memory used by the objects of a server, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The current objects.
    pub objects: usize,
    /// Old versions that only the history keeps.
    pub history: usize,
}

/// Configures a server.
#[derive(Clone, Debug)]
pub struct Builder {
    clock: Option<Clock>,
    seed: Option<u64>,
    history: usize,
    history_bytes: usize,
    events: bool,
    log_limit: usize,
    name: String,
    workloads: Option<Speeds>,
    /// Each initial object as JSON, or the serialization error.
    objects: Vec<Result<Value, String>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            clock: None,
            seed: None,
            history: HISTORY,
            history_bytes: HISTORY_BYTES,
            events: false,
            log_limit: crate::record::DEFAULT_LIMIT,
            name: "muster-apiserver".to_owned(),
            workloads: None,
            objects: Vec::new(),
        }
    }
}

impl Builder {
    /// Sets the clock; by default it starts at the system time and follows tokio's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Makes uids and generated names reproducible: they depend only on the requests.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets how many changes of each resource are kept for watches.
    #[must_use]
    pub fn history(mut self, changes: usize) -> Self {
        self.history = changes;
        self
    }

    /// Sets how many bytes of replaced or deleted versions are kept for watches, for all resources together. A watch or
    /// list from an older version gets 410.
    #[must_use]
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.history_bytes = bytes;
        self
    }

    /// Keeps every version of every object in the recorder's event log (bounded; the oldest are dropped first).
    #[must_use]
    pub fn event_log(mut self, keep: bool) -> Self {
        self.events = keep;
        self
    }

    /// Sets how many requests and events the recorder keeps; 0 for one of thousands of servers.
    #[must_use]
    pub fn log_limit(mut self, entries: usize) -> Self {
        self.log_limit = entries;
        self
    }

    /// Simulates the workloads of a cluster: see [`ApiServer::play_workloads`].
    #[must_use]
    pub fn workloads(mut self, speeds: Speeds) -> Self {
        self.workloads = Some(speeds);
        self
    }

    /// Sets the name of cluster, user and context in kubeconfigs.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Adds objects that exist before the first request is handled, in this order: CustomResourceDefinitions are
    /// established immediately, so that objects of their kinds may follow. The recorder has no requests for them.
    #[must_use]
    pub fn with<T: Serialize>(mut self, objects: impl IntoIterator<Item = T>) -> Self {
        self.objects.extend(objects.into_iter().map(json_of));
        self
    }

    /// Adds a namespace that exists before the first request is handled.
    #[must_use]
    pub fn namespace(self, name: &str) -> Self {
        self.with([json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})])
    }

    /// Starts a server without a listener, for in-process clients only. Must be called within a tokio runtime.
    pub fn in_process(self) -> Result<ApiServer, StartError> {
        let work = Arc::new(WorkQueue::default());
        let recorder = Arc::new(Recorder::new(self.events, self.log_limit));
        let webhooks = Arc::new(Webhooks::default());
        let (noted, kept, hooks) = (work.clone(), recorder.clone(), webhooks.clone());
        let observers: Vec<crate::store::Observer> = vec![
            Box::new(move |resource, change| noted.enqueue_for_change(resource, change)),
            Box::new(move |resource, change| kept.record_change(resource, change)),
            Box::new(move |resource, _| hooks.count_change(resource)),
        ];
        let credentials = Arc::new(Credentials::new()?);
        let admin = credentials.issue(ADMIN)?;
        let parts = Parts {
            clock: self.clock.unwrap_or_else(Clock::of_this_machine),
            work,
            recorder,
            webhooks,
            authority: credentials.authority_pem(),
            random: self
                .seed
                .map_or_else(|| StdRng::from_rng(&mut rand::rng()), StdRng::seed_from_u64),
        };
        let limits = Limits {
            changes: self.history,
            bytes: self.history_bytes,
        };
        let core = Arc::new(Core::new(Store::new(limits, observers), parts));
        lifecycle::namespaces::make_initial(&core);
        for object in self.objects {
            create(&core, object)?;
        }
        let worker = tokio::spawn(lifecycle::run(core.clone())).abort_handle();
        let server = ApiServer {
            core,
            credentials,
            admin,
            name: self.name,
            tasks: Mutex::new(vec![worker]),
            address: Mutex::new(None),
        };
        if let Some(speeds) = self.workloads {
            server.play_workloads(speeds);
        }
        Ok(server)
    }

    /// Starts a server for in-process clients and HTTPS on any free port.
    pub async fn start(self) -> Result<ApiServer, StartError> {
        let server = self.in_process()?;
        server.listen(0).await?;
        Ok(server)
    }
}

fn json_of<T: Serialize>(object: T) -> Result<Value, String> {
    serde_json::to_value(object).map_err(|error| error.to_string())
}

/// Creates an object without a request, including the consequences: a definition is established.
fn create(core: &Arc<Core>, object: Result<Value, String>) -> Result<(), ObjectError> {
    let refused = |object: &str, problem: String| ObjectError {
        object: object.to_owned(),
        problem,
    };
    let object = object.map_err(|problem| refused("an object that is not JSON", problem))?;
    let (kind, name) = (object["kind"].as_str().unwrap_or_default(), meta::name(&object));
    let (is_definition, name) = (kind == "CustomResourceDefinition", name.to_owned());
    let title = format!("{kind} {name}");
    core.create_initial(ADMIN, object)
        .map_err(|problem| refused(&title, problem))?;
    lifecycle::process_queue(core);
    let problem = is_definition.then(|| crd::establish_now(core, &name)).flatten();
    problem.map_or(Ok(()), |problem| Err(refused(&title, problem)))
}

impl ApiServer {
    /// Configures a server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a server without a listener, for in-process clients only. Must be called within a tokio runtime.
    pub fn in_process() -> Result<Self, StartError> {
        Self::builder().in_process()
    }

    /// Starts a server for in-process clients and HTTPS on any free port.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// Opens an HTTPS listener on 127.0.0.1; port 0 is any free one. Returns its address.
    pub async fn listen(&self, port: u16) -> Result<SocketAddr, ListenError> {
        let (listener, serving) = door::open_https(self.core.clone(), self.credentials.clone(), port).await?;
        self.tasks.lock().push(tokio::spawn(serving).abort_handle());
        *self.address.lock() = Some(listener.address);
        Ok(listener.address)
    }

    /// Creates objects immediately, as [`Builder::with`] does before the start: definitions are established when it
    /// returns. The recorder has no requests for them.
    pub fn add<T: Serialize>(&self, objects: impl IntoIterator<Item = T>) -> Result<(), ObjectError> {
        let mut objects = objects.into_iter();
        objects.try_for_each(|object| create(&self.core, json_of(object)))
    }

    /// An in-process client, without a socket.
    pub fn client(&self) -> kube::Client {
        self.client_as(ADMIN)
    }

    /// An in-process client that the recorder and fault rules know by `name`.
    pub fn client_as(&self, name: &str) -> kube::Client {
        kube::Client::new(self.service_as(name), "default")
    }

    /// In-process access as a tower service.
    pub fn service(&self) -> InProcess {
        self.service_as(ADMIN)
    }

    /// In-process access as a tower service, for a client that the recorder and fault rules know by `name`.
    pub fn service_as(&self, name: &str) -> InProcess {
        InProcess::new(self.core.clone(), name)
    }

    /// The address of the last HTTPS listener opened.
    pub fn address(&self) -> Option<SocketAddr> {
        *self.address.lock()
    }

    /// A kubeconfig of the administrator with a client certificate. `None` without an HTTPS listener.
    pub fn kubeconfig(&self) -> Option<String> {
        self.kubeconfig_of(&self.admin, Login::Certificate)
    }

    /// A kubeconfig of a user. `None` without an HTTPS listener.
    pub fn kubeconfig_of(&self, identity: &Identity, login: Login) -> Option<String> {
        let address = self.address()?;
        Some(door::kubeconfig(
            &self.name,
            address,
            &self.credentials.authority_pem(),
            identity,
            login,
        ))
    }

    /// Issues credentials to a user for HTTPS.
    pub fn issue(&self, user: &str) -> Result<Identity, CredentialsError> {
        self.credentials.issue(user)
    }

    /// Revokes the credentials of a user.
    pub fn revoke(&self, user: &str) {
        self.credentials.revoke(user);
    }

    /// The recorded requests and events.
    pub fn recorder(&self) -> &Recorder {
        &self.core.recorder
    }

    /// The fault rules.
    pub fn faults(&self) -> &Faults {
        &self.core.faults
    }

    /// The server's time.
    pub fn clock(&self) -> Clock {
        self.core.clock
    }

    /// Drops the history: watches and lists from earlier versions get 410 afterwards.
    pub fn compact(&self) {
        self.core.store.compact();
    }

    /// Memory used by the objects.
    pub fn footprint(&self) -> Footprint {
        let (objects, history) = self.core.store.bytes();
        Footprint { objects, history }
    }

    /// The latest resource version.
    pub fn revision(&self) -> u64 {
        self.core.store.revision()
    }

    /// Runs a task until the server stops.
    pub fn attach(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().push(tokio::spawn(task).abort_handle());
    }

    /// Sets the resolver for Services of admission webhooks (`clientConfig.service`), since cluster IPs are not routed
    /// here. It is called for each webhook call, so that its result may change. If it returns `None`, the Service's
    /// `externalName` is used; without one the call fails.
    pub fn resolve_services(&self, find: impl Fn(&ServicePort) -> Option<Endpoint> + Send + Sync + 'static) {
        self.core.webhooks.resolve_by(Arc::new(find));
    }

    /// Simulates the controllers of workloads, the scheduler and the kubelets until the server stops. The recorder and
    /// fault rules know the player as `workload-player`.
    pub fn play_workloads(&self, speeds: Speeds) {
        self.attach(player::simulate_workloads(
            self.client_as(PLAYER),
            self.clock(),
            speeds,
        ));
    }

    /// Simulates the controller that fills Secrets of type `kubernetes.io/service-account-token` until the server
    /// stops: their token authenticates the service account over HTTPS until the Secret is deleted. The recorder knows
    /// it as `token-controller`.
    pub fn play_tokens(&self) {
        self.attach(tokens::fill_token_secrets(
            self.client_as(TOKEN_CONTROLLER),
            Arc::clone(&self.credentials),
        ));
    }

    /// Stops the server: its tasks, listeners and open watches.
    pub fn stop(&self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
        self.core.stop();
        self.core.faults.close_watches(Match::default());
        *self.address.lock() = None;
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
    }
}
