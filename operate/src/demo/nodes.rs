//! `muster demo --nodes`: each cluster has simulated nodes, whose files are directories, with the shipped agent.
//!
//! The programs of a node are simulated: `sysctl --system` rejects a file with a line that contains `bad`.

use std::{
    collections::BTreeMap,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use muster_apiserver::ApiServer;
use muster_controllers::{node::NAMESPACE, runtime::Api};
use muster_node::{
    Account, ApiServer as AskApiServer, Attributes, Clock, Dialed, Host, HostClock, PlainHttp, Program,
    Server, Services,
    disk::{Disk, DiskResult, Entry, HostDisk},
    journal::Identity,
};
use muster_node_agent::{
    config_file, lease,
    platform::Platform,
    service::{self, Service},
    worker::{Start, Worker},
};
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use super::Ground;

/// Number of nodes in a cluster.
const COUNT: usize = 3;
/// The configuration of the nodes.
const CONFIG: &str = include_str!("../../../examples/nodes/node.yaml");
/// The directory of a node.
const OWN: &str = "/var/lib/muster/node";

/// Creates the nodes of a cluster, with their files in `directory`, and starts their agents.
pub(super) async fn start(api: &ApiServer, directory: &Path, ground: &Ground) -> anyhow::Result<()> {
    let client = api.client_as("kubelet");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    for number in 1..=COUNT {
        let name = format!("worker-{number}");
        let uid = join(&client, &name).await?;
        let agent = agent(api, &directory.join(&name), &name, ground)
            .await
            .with_context(|| format!("the agent of {name} does not start"))?;
        api.attach(agent);
        let client = api.client_as(muster_node_agent::MANAGER);
        api.attach(lease::renew(client, name, uid, ground.clock.clone()));
    }
    Ok(())
}

/// Acts as the kubelet.
async fn join(client: &Client, name: &str) -> anyhow::Result<Option<String>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/hostname": name, "role": "worker"});
    let node = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}))?;
    let made = nodes.create(&PostParams::default(), &node).await?;
    let ready =
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(ready))
        .await?;
    Ok(made.uid())
}

async fn agent(
    api: &ApiServer,
    root: &Path,
    name: &str,
    ground: &Ground,
) -> anyhow::Result<impl Future<Output = ()> + Send + use<>> {
    let config = config_file::parse(Path::new("examples/nodes/node.yaml"), CONFIG)?;
    for directory in config.prefixes.iter().map(String::as_str).chain([OWN]) {
        fs::create_dir_all(below(root, directory))?;
    }
    let (sender, events) = unbounded_channel();
    let start = Start {
        settled: None,
        directory: below(root, OWN),
        platform: Arc::new(Simulated {
            root: fs::canonicalize(root)?,
            name: name.to_owned(),
        }),
        api_server: Arc::new(PlainHttp),
        config,
        earlier: Vec::new(),
        services: Services::Running,
    };
    let service = Service {
        client: api.client_as(muster_node_agent::MANAGER),
        node: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        worker: Worker::spawn(start, sender).await?,
        events,
        config: None,
        clock: ground.clock.clone(),
        shutdown: ground.shutdown.clone(),
    };
    let (name, reporter) = (name.to_owned(), ground.reporter.clone());
    Ok(async move {
        if let Err(error) = service::run(service).await {
            reporter.warn(&format!("error: the agent of {name} ended: {error}"));
        }
    })
}

/// A path of a node, in the directory that simulates it.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// A host whose files are in a directory, and whose programs are simulated.
#[derive(Clone)]
struct Simulated {
    root: PathBuf,
    name: String,
}

impl Platform for Simulated {
    fn identity(&self) -> io::Result<Identity> {
        Ok(Identity {
            boot_id: format!("boot-{}", self.name),
            machine_id: format!("machine-{}", self.name),
        })
    }

    fn clock(&self) -> Rc<dyn Clock> {
        Rc::new(HostClock)
    }

    fn host(&self, _: Rc<dyn Clock>, _: Box<dyn AskApiServer>) -> Rc<dyn Host> {
        Rc::new(self.clone())
    }

    fn disk(&self, _: Vec<String>) -> Rc<dyn Disk> {
        let root = self.root.display().to_string();
        Rc::new(Below {
            inner: HostDisk::new([root.clone()]),
            root,
        })
    }
}

impl Host for Simulated {
    fn run(&self, _: &Program) -> Result<(), String> {
        let directory = below(&self.root, "/etc/sysctl.d");
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            if let Some(line) = text.lines().find(|line| line.contains("bad")) {
                let key = line.split('=').next().unwrap_or_default().trim();
                let file = key.replace('.', "/");
                return Err(format!(
                    "sysctl: cannot stat /proc/sys/{file}: No such file or directory"
                ));
            }
        }
        Ok(())
    }

    fn links(&self) -> Result<BTreeMap<String, String>, String> {
        Ok([("eth0".to_owned(), "up".to_owned())].into())
    }

    fn dial(&self, _: SocketAddr, _: Duration) -> Dialed {
        Dialed::Open
    }

    fn api_server(&self, _: &Server, _: Duration) -> Result<(), String> {
        Ok(())
    }

    fn account(&self, _: Account, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }

    fn secret(&self, _: &str) -> Result<Vec<u8>, String> {
        Ok(b"simulated".to_vec())
    }
}

/// A filesystem whose root is the directory of a node. File ownership is not simulated.
struct Below {
    root: String,
    inner: HostDisk,
}

impl Below {
    fn path(&self, path: &str) -> String {
        if path.starts_with(&self.root) {
            path.to_owned()
        } else {
            format!("{}{path}", self.root)
        }
    }
}

impl Disk for Below {
    fn entry(&self, path: &str) -> DiskResult<Option<Entry>> {
        let entry = self.inner.entry(&self.path(path))?;
        Ok(entry.map(|entry| Entry {
            attributes: Attributes {
                uid: 0,
                gid: 0,
                ..entry.attributes
            },
            ..entry
        }))
    }

    fn read(&self, path: &str, most: u64) -> DiskResult<Option<Vec<u8>>> {
        self.inner.read(&self.path(path), most)
    }

    fn list(&self, directory: &str) -> DiskResult<Vec<String>> {
        self.inner.list(&self.path(directory))
    }

    fn free(&self, directory: &str) -> DiskResult<Option<u64>> {
        self.inner.free(&self.path(directory))
    }

    fn write_new(&self, path: &str, content: &[u8], attributes: Attributes) -> DiskResult<()> {
        let attributes = Attributes {
            mode: attributes.mode,
            ..Attributes::PRIVATE
        };
        self.inner.write_new(&self.path(path), content, attributes)
    }

    fn sync_file(&self, path: &str) -> DiskResult<()> {
        self.inner.sync_file(&self.path(path))
    }

    fn sync_dir(&self, directory: &str) -> DiskResult<()> {
        self.inner.sync_dir(&self.path(directory))
    }

    fn link(&self, from: &str, to: &str) -> DiskResult<()> {
        self.inner.link(&self.path(from), &self.path(to))
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        self.inner.rename(&self.path(from), &self.path(to))
    }

    fn unlink(&self, path: &str) -> DiskResult<()> {
        self.inner.unlink(&self.path(path))
    }

    fn make_dir(&self, path: &str) -> DiskResult<()> {
        self.inner.make_dir(&self.path(path))
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        self.inner.remove_dir(&self.path(path))
    }

    fn allocate(&self, path: &str, bytes: usize) -> DiskResult<()> {
        self.inner.allocate(&self.path(path), bytes)
    }

    fn write_at(&self, path: &str, offset: usize, content: &[u8]) -> DiskResult<()> {
        self.inner.write_at(&self.path(path), offset, content)
    }
}
