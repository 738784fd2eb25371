//! Promise: a row's content is applied as it was rendered, reported before it starts and after it ends, and nothing
//! else is written.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

use std::{
    collections::BTreeMap,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use muster_api::{
    crds, names,
    node::{
        NodeAssemblage, NodeRevision,
        assemblage::{NodeAssemblageSpec, NodePhase, NodeRow, NodeRowState},
        content::NodeContent,
        module::NodeOnDelete,
        render::{self, Values},
        revision::{self, NodeRevisionSpec},
    },
};
use muster_apiserver::{
    ApiServer,
    fault::{Failure, Fault, Match, Rule},
    record::RequestRecord,
};
use muster_controllers::runtime::{self, Shutdown};
use muster_node::{
    Account, ApiServer as Asked, Clock, Config, Dialed, Host, HostClock, Lock, PlainHttp, Program, Server,
    Services,
    disk::{Disk, HostDisk},
    journal::Identity,
};
use muster_node_agent::{
    config_file::{ConfigFile, Loaded},
    lease,
    platform::Platform,
    service::{self, Service, Watched},
    worker::{Start, Worker},
};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::task::AbortOnDropHandle;

/// Timeout for reaching a state.
const PATIENCE: Duration = Duration::from_secs(30);
const NODE: &str = "n1";

/// A host in a directory: its service rejects a file that contains `bad`.
#[derive(Clone)]
struct Directory(PathBuf);

impl Platform for Directory {
    fn identity(&self) -> io::Result<Identity> {
        Ok(Identity {
            boot_id: "boot".to_owned(),
            machine_id: "machine".to_owned(),
        })
    }

    fn clock(&self) -> Rc<dyn Clock> {
        Rc::new(HostClock)
    }

    fn host(&self, _: Rc<dyn Clock>, _: Box<dyn Asked>) -> Rc<dyn Host> {
        Rc::new(self.clone())
    }

    fn disk(&self, directories: Vec<String>) -> Rc<dyn Disk> {
        Rc::new(HostDisk::new(directories))
    }
}

impl Host for Directory {
    fn run(&self, _: &Program) -> Result<(), String> {
        let content = fs::read_to_string(self.0.join("etc/a")).unwrap_or_default();
        if content.contains("bad") {
            Err("line 1: bad".to_owned())
        } else {
            Ok(())
        }
    }

    fn links(&self) -> Result<BTreeMap<String, String>, String> {
        Ok(BTreeMap::new())
    }

    fn dial(&self, _: SocketAddr, _: Duration) -> Dialed {
        Dialed::Open
    }

    fn api_server(&self, _: &Server, _: Duration) -> Result<(), String> {
        Ok(())
    }

    fn account(&self, _: Account, _: &str) -> Option<u32> {
        None
    }

    fn secret(&self, _: &str) -> Result<Vec<u8>, String> {
        Ok(b"hunter2".to_vec())
    }
}

struct Bed {
    api: ApiServer,
    directory: TempDir,
    root: PathBuf,
    shutdown: Shutdown,
    running: Option<AbortOnDropHandle<()>>,
}

impl Bed {
    fn new() -> Self {
        let api = ApiServer::builder().with(crds::nodes()).in_process().unwrap();
        let directory = tempfile::tempdir().unwrap();
        // A directory for temporary files may be a link.
        let root = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir(root.join("own")).unwrap();
        fs::create_dir(root.join("etc")).unwrap();
        let bed = Self {
            api,
            directory,
            root,
            shutdown: Shutdown::new(),
            running: None,
        };
        bed.configure("etc");
        bed
    }

    async fn running() -> Self {
        let mut bed = Self::new();
        bed.start().await;
        bed
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.root.join(name)).ok()
    }

    /// The configuration of the node allows files below this directory.
    fn configure(&self, prefix: &str) {
        let text = format!(
            "prefixes: [{}]\nservices: {{app: {{argv: [/bin/app], timeout: 1s}}}}\nsecrets: {{key: /etc/key}}\n",
            self.path(prefix)
        );
        fs::write(self.root.join("node.yaml"), text).unwrap();
    }

    async fn restart(&mut self) {
        let running = self.running.take().unwrap();
        running.abort();
        // It was aborted.
        let _ = running.await;
        let own = self.root.join("own");
        let ended = async {
            while Lock::take(&own).is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap();
        self.start().await;
    }

    async fn start(&mut self) {
        let file = ConfigFile::new(self.root.join("node.yaml"), &self.root.join("own"));
        let loaded = file.load();
        assert!(loaded.problem.is_none(), "{:?}", loaded.problem);
        let (sender, events) = unbounded_channel();
        let start = Start {
            directory: self.root.join("own"),
            platform: Arc::new(Directory(self.root.clone())),
            api_server: Arc::new(PlainHttp),
            config: loaded.config,
            earlier: loaded.earlier,
            settled: loaded.settled,
            services: Services::Running,
        };
        let service = Service {
            client: self.api.client_as("agent"),
            node: NODE.to_owned(),
            version: "0.1.0".to_owned(),
            worker: Worker::spawn(start, sender).await.unwrap(),
            events,
            config: Some(Watched {
                text: file.text().ok(),
                file,
                server: None,
            }),
            clock: runtime::Clock::system(),
            shutdown: self.shutdown.clone(),
        };
        let run = async { service::run(service).await.unwrap() };
        self.running = Some(AbortOnDropHandle::new(tokio::spawn(run)));
    }

    /// The agent's requests to the API server.
    fn requests(&self) -> impl Iterator<Item = Arc<RequestRecord>> {
        let requests = self.api.recorder().requests().into_iter();
        requests.filter(|request| request.client == "agent")
    }

    fn assemblages(&self) -> Api<NodeAssemblage> {
        Api::all(self.api.client_as("person"))
    }

    async fn record(&self, content: &NodeContent) {
        let revision = revision::content_revision(content);
        let name = names::node_revision_name("fabric", "uid", &revision);
        let spec = NodeRevisionSpec {
            module: "fabric".to_owned(),
            uid: Some("uid".to_owned()),
            revision,
            content: content.clone(),
        };
        let revisions = Api::<NodeRevision>::all(self.api.client_as("person"));
        let object = NodeRevision::new(&name, spec);
        // The recorded state is the same.
        let _ = revisions.create(&PostParams::default(), &object).await;
    }

    /// Writes the row.
    async fn assign(&self, row: NodeRow) {
        self.assign_all(vec![row]).await;
    }

    async fn assign_all(&self, rows: Vec<NodeRow>) {
        let mut object = NodeAssemblage::new(NODE, NodeAssemblageSpec { rows });
        object.metadata.managed_fields = None;
        let by = PatchParams::apply("person").force();
        self.assemblages()
            .patch(NODE, &by, &Patch::Apply(&object))
            .await
            .unwrap();
    }

    /// Writes the content's NodeRevision, and assigns it.
    async fn roll(&self, token: u64, content: &NodeContent) -> NodeRow {
        self.record(content).await;
        let row = row(token, content, &Values::new());
        self.assign(row.clone()).await;
        row
    }

    async fn until(&self, what: &str, holds: impl Fn(&NodeRowState) -> bool) -> NodeRowState {
        self.until_status(what, |assemblage| {
            let status = assemblage.status.clone().unwrap_or_default();
            status.rows.into_iter().find(|state| holds(state))
        })
        .await
    }

    async fn until_status<T>(&self, what: &str, holds: impl Fn(&NodeAssemblage) -> Option<T>) -> T {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let read = self.assemblages().get(NODE).await.unwrap();
                if let Some(found) = holds(&read) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        match waited.await {
            Ok(found) => found,
            Err(_elapsed) => {
                let read = self.assemblages().get(NODE).await.unwrap();
                panic!("not {what}: {}", serde_json::to_string_pretty(&read).unwrap())
            }
        }
    }

    async fn until_phase(&self, token: u64, phase: NodePhase) -> NodeRowState {
        self.until(&format!("{phase:?} of {token}"), |state| {
            state.token == token && state.state == phase
        })
        .await
    }
}

/// One file that the service reads.
fn content(path: &str, text: &str) -> NodeContent {
    serde_json::from_value(json!({
        "parts": [{"files": [{"path": path, "content": text}]}],
        "checks": {"services": ["app"]}, "settle": "0s", "holdFor": "0s", "confirmWithin": "5s",
    }))
    .unwrap()
}

fn row(token: u64, content: &NodeContent, values: &Values) -> NodeRow {
    let parts = [0].into();
    NodeRow {
        name: "fabric".to_owned(),
        uid: Some("uid".to_owned()),
        revision: Some(revision::content_revision(content)),
        digest: Some(render::render(content, &parts, values).unwrap().digest()),
        parts,
        values: values.clone(),
        token,
        ..NodeRow::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_carried_out_and_what_fails_is_taken_back() {
    let bed = Bed::running().await;
    let good = bed.roll(1, &content(&bed.path("etc/a"), "one")).await;
    let state = bed.until_phase(1, NodePhase::Confirmed).await;
    assert_eq!((&state.digest, &state.confirmed), (&good.digest, &good.digest));
    assert_eq!(bed.read("etc/a").as_deref(), Some("one"));
    bed.roll(2, &content(&bed.path("etc/a"), "bad")).await;
    let state = bed.until_phase(2, NodePhase::Failed).await;
    assert_eq!(state.reason.as_deref(), Some("Failed"));
    assert!(state.terminal, "{state:?}");
    assert_eq!(state.confirmed, good.digest, "the previous content is in place");
    assert!(state.message.unwrap().contains("app"));
    assert_eq!(bed.read("etc/a").as_deref(), Some("one"));
    let ready = bed
        .until_status("not ready", |assemblage| {
            let status = assemblage.status.clone()?;
            status
                .conditions
                .into_iter()
                .find(|condition| condition.status == "False")
        })
        .await;
    assert_eq!((ready.type_.as_str(), ready.reason.as_str()), ("Ready", "Failed"));
}

/// DX9: repeated failures do not keep the service from ending.
#[tokio::test(flavor = "multi_thread")]
async fn it_ends_when_it_is_asked_to_though_every_request_fails() {
    let mut bed = Bed::running().await;
    bed.roll(1, &content(&bed.path("etc/a"), "one")).await;
    bed.until_phase(1, NodePhase::Confirmed).await;
    bed.api.faults().add(Rule::always(
        Match::client("agent"),
        Fault::Status(Failure::Unavailable),
    ));
    bed.roll(2, &content(&bed.path("etc/a"), "two")).await;
    let refused = || bed.requests().filter(|request| request.code() == 503).count();
    let tried = async {
        while refused() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, tried).await.unwrap();
    bed.shutdown.cancel();
    let ended = tokio::time::timeout(PATIENCE, bed.running.take().unwrap()).await;
    ended.expect("the service continues").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_does_not_begin_before_its_begin_is_written() {
    let bed = Bed::running().await;
    bed.roll(1, &content(&bed.path("etc/a"), "one")).await;
    bed.until_phase(1, NodePhase::Confirmed).await;
    let status = Match {
        path: Some("/status".to_owned()),
        ..Match::client("agent")
    };
    bed.api
        .faults()
        .add(Rule::always(status, Fault::Status(Failure::Unavailable)));
    let refused = || bed.requests().filter(|request| request.code() == 503).count();
    bed.roll(2, &content(&bed.path("etc/a"), "two")).await;
    let tried = async {
        // Reports: the row was read, the change starts, it failed, and again.
        while refused() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, tried).await.unwrap();
    assert_eq!(bed.read("etc/a").as_deref(), Some("one"));
    bed.api.faults().clear();
    bed.until("waiting", |state| {
        state.token == 2 && state.reason.as_deref() == Some("NotAcknowledged")
    })
    .await;
    assert_eq!(bed.read("etc/a").as_deref(), Some("one"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hashes_to_something_else_is_refused_and_nothing_is_written() {
    let bed = Bed::running().await;
    let content = content(&bed.path("etc/a"), "$(COLOR)");
    bed.record(&content).await;
    let red = Values::from([("COLOR".to_owned(), "red".to_owned())]);
    let blue = Values::from([("COLOR".to_owned(), "blue".to_owned())]);
    let altered = NodeRow {
        values: blue,
        ..row(1, &content, &red)
    };
    bed.assign(altered).await;
    let state = bed.until_phase(1, NodePhase::Failed).await;
    assert_eq!(state.reason.as_deref(), Some("RenderMismatch"));
    assert_eq!(bed.read("etc/a"), None);
    let unknown = NodeRow {
        revision: Some("0".repeat(64)),
        ..row(2, &content, &red)
    };
    bed.assign(unknown).await;
    let state = bed.until_phase(2, NodePhase::Failed).await;
    assert_eq!(state.reason.as_deref(), Some("RevisionMissing"));
    assert!(!state.terminal, "it may come");
    bed.assign(row(3, &content, &red)).await;
    bed.until_phase(3, NodePhase::Confirmed).await;
    assert_eq!(bed.read("etc/a").as_deref(), Some("red"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_with_secret_syntax_is_not_expanded() {
    let bed = Bed::running().await;
    let content = content(&bed.path("etc/b"), "$(VALUE) $(SECRET_key)");
    bed.record(&content).await;
    let values = Values::from([("VALUE".to_owned(), "$(SECRET_key)$".to_owned())]);
    bed.assign(row(1, &content, &values)).await;
    bed.until_phase(1, NodePhase::Confirmed).await;
    assert_eq!(bed.read("etc/b").as_deref(), Some("$(SECRET_key)$ hunter2"));
    let status = bed.assemblages().get(NODE).await.unwrap().status;
    assert!(!json!(status).to_string().contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_withdrawn_gives_back_what_was_there_or_leaves_it() {
    let bed = Bed::running().await;
    fs::write(bed.path("etc/a"), "original").unwrap();
    let given = bed.roll(1, &content(&bed.path("etc/a"), "one")).await;
    bed.until_phase(1, NodePhase::Confirmed).await;
    let withdraw = |token: u64, how: NodeOnDelete| NodeRow {
        digest: None,
        token,
        withdraw: Some(how),
        ..given.clone()
    };
    bed.assign(withdraw(2, NodeOnDelete::Restore)).await;
    bed.until_phase(2, NodePhase::Withdrawn).await;
    assert_eq!(bed.read("etc/a").as_deref(), Some("original"));
    bed.assign(NodeRow {
        token: 3,
        ..given.clone()
    })
    .await;
    bed.until_phase(3, NodePhase::Confirmed).await;
    bed.assign(withdraw(4, NodeOnDelete::Orphan)).await;
    bed.until_phase(4, NodePhase::Withdrawn).await;
    assert_eq!(bed.read("etc/a").as_deref(), Some("one"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_held_says_so_and_is_not_written() {
    let bed = Bed::running().await;
    bed.roll(1, &content(&bed.path("etc/a"), "one")).await;
    bed.until_phase(1, NodePhase::Confirmed).await;
    let own = bed.path("own");
    let surroundings = || muster_node::AgentEnvironment {
        disk: Rc::new(HostDisk::new([own.clone()])),
        directory: own.clone(),
        clock: Rc::new(HostClock),
        host: Rc::new(Directory(bed.root.clone())),
        identity: Directory(bed.root.clone()).identity().unwrap(),
    };
    muster_node::hold_for(&surroundings(), Duration::from_hours(1), "a disk is replaced").unwrap();
    let reported = |assemblage: &NodeAssemblage| assemblage.status.clone()?.agent?.held;
    let hold = bed.until_status("held", reported).await;
    assert_eq!(hold.reason, "a disk is replaced");
    bed.roll(2, &content(&bed.path("etc/a"), "two")).await;
    let state = bed.until_phase(2, NodePhase::Updating).await;
    assert_eq!(state.reason.as_deref(), Some("HeldLocally"));
    assert_eq!(bed.read("etc/a").as_deref(), Some("one"));
    muster_node::release(&surroundings()).unwrap();
    bed.until_phase(2, NodePhase::Confirmed).await;
    assert_eq!(bed.read("etc/a").as_deref(), Some("two"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_configuration_allows_later_is_carried_out_then() {
    let bed = Bed::new();
    fs::create_dir(bed.path("other")).unwrap();
    bed.configure("other");
    let mut bed = bed;
    bed.start().await;
    bed.roll(1, &content(&bed.path("etc/a"), "one")).await;
    let state = bed.until_phase(1, NodePhase::Failed).await;
    assert_eq!(state.reason.as_deref(), Some("NotAllowed"));
    assert_eq!(bed.read("etc/a"), None);
    fs::write(bed.path("node.yaml"), "prefixes: nonsense").unwrap();
    bed.configure("etc");
    bed.until_phase(1, NodePhase::Confirmed).await;
    assert_eq!(bed.read("etc/a").as_deref(), Some("one"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_changes_nothing_and_at_rest_nothing_is_written() {
    let mut bed = Bed::running().await;
    bed.roll(1, &content(&bed.path("etc/a"), "one")).await;
    bed.until_phase(1, NodePhase::Confirmed).await;
    let before = bed.assemblages().get(NODE).await.unwrap().resource_version();
    bed.restart().await;
    bed.roll(2, &content(&bed.path("etc/a"), "two")).await;
    bed.until_phase(2, NodePhase::Confirmed).await;
    let after = bed.assemblages().get(NODE).await.unwrap();
    assert_ne!(after.resource_version(), before);
    let writes = || bed.requests().filter(|request| request.method != "GET").count();
    let written = writes();
    // The files are compared, and the status with their content.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(writes(), written);
    assert!(bed.directory.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_stay_when_the_rows_are_deleted_by_hand() {
    let bed = Bed::running().await;
    let row = bed.roll(1, &content(&bed.path("etc/a"), "one")).await;
    bed.until_phase(1, NodePhase::Confirmed).await;
    let delete = async || {
        let (assemblages, by) = (bed.assemblages(), DeleteParams::default());
        assemblages.delete(NODE, &by).await.unwrap();
    };
    delete().await;
    bed.roll(1, &content(&bed.path("etc/a"), "other")).await;
    let state = bed.until_phase(1, NodePhase::Confirmed).await;
    assert_eq!(bed.read("etc/a").as_deref(), Some("other"));
    assert!(state.confirmed.is_some());
    bed.assign(row.clone()).await;
    bed.until("one again", |state| {
        state.digest == row.digest && state.state == NodePhase::Confirmed
    })
    .await;
    // The same row in another object is reported again.
    delete().await;
    bed.assign(row).await;
    bed.until_phase(1, NodePhase::Confirmed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_that_failed_says_nothing_of_another() {
    let bed = Bed::running().await;
    fs::write(bed.path("etc/a"), "bad original").unwrap();
    let fabric = content(&bed.path("etc/a"), "one");
    bed.record(&fabric).await;
    let other = content(&bed.path("etc/b"), "one");
    let named = |row: NodeRow| NodeRow {
        name: "other".to_owned(),
        ..row
    };
    let fabric = row(1, &fabric, &Values::new());
    let revision = revision::content_revision(&other);
    let spec = NodeRevisionSpec {
        module: "other".to_owned(),
        uid: Some("uid".to_owned()),
        revision: revision.clone(),
        content: other.clone(),
    };
    let object = NodeRevision::new(&names::node_revision_name("other", "uid", &revision), spec);
    let revisions = Api::<NodeRevision>::all(bed.api.client_as("person"));
    revisions.create(&PostParams::default(), &object).await.unwrap();
    let other = named(row(1, &other, &Values::new()));
    let leaves = |row: &NodeRow, token: u64| NodeRow {
        digest: None,
        token,
        withdraw: Some(NodeOnDelete::Restore),
        ..row.clone()
    };
    let reaches = async |name: &str, token: u64, phase: NodePhase| {
        bed.until(&format!("{phase:?} of {name}"), |state| {
            state.name == name && state.token == token && state.state == phase
        })
        .await
    };
    bed.assign_all(vec![fabric.clone(), other.clone()]).await;
    reaches("fabric", 1, NodePhase::Confirmed).await;
    reaches("other", 1, NodePhase::Confirmed).await;
    bed.assign_all(vec![leaves(&fabric, 2), other.clone()]).await;
    let failed = reaches("fabric", 2, NodePhase::Failed).await;
    assert_eq!(
        failed.reason.as_deref(),
        Some("Failed"),
        "what it had before is bad"
    );
    assert_eq!(bed.read("etc/a").as_deref(), Some("one"));
    bed.assign_all(vec![leaves(&fabric, 2), leaves(&other, 2)]).await;
    reaches("other", 2, NodePhase::Withdrawn).await;
    assert_eq!(bed.read("etc/b"), None, "it had none");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_renewed() {
    let api = ApiServer::builder().namespace("muster-nodes");
    let api = api.in_process().unwrap();
    let client: Client = api.client();
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": NODE}})).unwrap();
    let uid = nodes.create(&PostParams::default(), &node).await.unwrap().uid();
    let renewed = tokio::spawn(lease::renew(
        client.clone(),
        NODE.to_owned(),
        uid.clone(),
        runtime::Clock::system(),
    ));
    let _renewed = AbortOnDropHandle::new(renewed);
    let leases: Api<Lease> = Api::namespaced(client, "muster-nodes");
    let waited = async {
        loop {
            if let Some(lease) = leases.get_opt(NODE).await.unwrap() {
                return lease;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let lease = tokio::time::timeout(PATIENCE, waited).await.unwrap();
    let owner = lease.owner_references()[0].uid.clone();
    assert_eq!(Some(owner), uid, "it goes with the Node");
    assert!(lease.spec.unwrap().renew_time.is_some());
}

/// Users other than root who can write the configuration would get root access.
#[test]
fn a_configuration_that_others_may_write_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("node.yaml");
    fs::write(&file, "prefixes: [/etc/a]").unwrap();
    let read = || ConfigFile::new(&file, directory.path().join("own").as_path()).load();
    fs::create_dir(directory.path().join("own")).unwrap();
    let keep = |loaded: Loaded| loaded.settled.unwrap()();
    keep(read());
    assert_eq!(read().config.prefixes, ["/etc/a"]);
    fs::write(&file, "prefixes: [/etc/b]").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let loaded = read();
    assert_eq!(
        loaded.config.prefixes,
        ["/etc/a"],
        "the last one that could be read"
    );
    assert!(loaded.problem.unwrap().to_string().contains("chmod go-w"));
    fs::remove_file(&file).unwrap();
    assert_eq!(read().config.prefixes, ["/etc/a"]);
    let nothing = ConfigFile::new(Path::new("/nonexistent/node.yaml"), Path::new("/nonexistent"));
    assert_eq!(nothing.load().config, Config::default());
}

/// Whatever happens to the process until nothing is left to restore, the next one knows which directories may have to
/// be restored.
#[test]
fn the_prefixes_of_before_are_kept_until_nothing_is_left_to_restore() {
    let directory = tempfile::tempdir().unwrap();
    let (file, own) = (directory.path().join("node.yaml"), directory.path().join("own"));
    fs::create_dir(&own).unwrap();
    let load = || ConfigFile::new(&file, &own).load();
    fs::write(&file, "prefixes: [/etc/a]").unwrap();
    load().settled.unwrap()();
    fs::write(&file, "prefixes: [/etc/b]").unwrap();
    assert_eq!(load().earlier, ["/etc/a"]);
    let loaded = load();
    assert_eq!(
        (loaded.config.prefixes, loaded.earlier),
        (vec!["/etc/b".to_owned()], vec!["/etc/a".to_owned()])
    );
    loaded.settled.unwrap()();
    assert_eq!(load().earlier, ["/etc/b"]);
}
