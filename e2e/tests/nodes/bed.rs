//! Six nodes as network and mount namespaces on a bridge, each agent process 1 of its own PID namespace; the harness
//! simulates systemd (it restarts an agent that exited), the kubelet (a Node is Ready while its link is up), and the
//! network to the API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use muster_api::node::{NodeAssemblage, NodeModule, NodeRevision};
use muster_e2e::bed::{muster, node_agent, open_log, print_logs};
use muster_node::journal::{self, Reading, Step};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::{frr, server::Server};

/// The API server, and the BGP peer, by their addresses for nodes.
pub(crate) const SERVER: &str = "10.77.0.1";
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often the state of nodes is read.
const PERIOD: Duration = Duration::from_millis(20);
/// The kubelet's status interval: a quarter of the grace period of Kubernetes.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The kubeconfig of an administrator.
const KUBECONFIG: &str = "admin.kubeconfig";
/// Namespaces end on their own, however the harness ends.
const LIFETIME: &str = "900";

pub(crate) struct Bed {
    directory: TempDir,
    pub server: Server,
    wire: Option<AbortOnDropHandle<()>>,
    pub nodes: BTreeMap<String, Arc<Machine>>,
    most: Arc<Mutex<Most>>,
    controllers: Mutex<Vec<Child>>,
    _watching: Vec<AbortOnDropHandle<()>>,
}

/// The maximum that was changing at once: nodes with unsettled journals, and their racks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Most {
    pub nodes: usize,
    pub racks: usize,
}

/// A node.
pub(crate) struct Machine {
    pub name: String,
    /// Two nodes share each rack.
    rack: String,
    /// Whether its Node is, or should be, in the cluster.
    is_member: Mutex<bool>,
    /// Its files, mounted at [`Machine::view`].
    files: PathBuf,
    view: PathBuf,
    holder: Mutex<Child>,
    agent: Mutex<Option<Child>>,
    /// Whether systemd restarts an agent that exited.
    supervised: Mutex<bool>,
}

/// Runs a program of the host until it exits.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Machine {
    fn start(number: usize, directory: &Path, token: &str, authority: &str) -> Self {
        let name = format!("n{number}");
        let (files, view) = (directory.join(&name), directory.join("node"));
        for part in ["own", "etc", "run"] {
            fs::create_dir_all(files.join(part)).unwrap();
        }
        let write = |file: &str, text: &str| fs::write(files.join(file), text).unwrap();
        write("own/token", token);
        write("own/ca.crt", authority);
        write("machine-id", &format!("machine-{name}\n"));
        write("boot_id", &format!("boot-{name}-0\n"));
        write("hosts", &format!("{SERVER} kubernetes\n"));
        write("node.yaml", &configuration(&view).to_string());
        write("etc/links", &links(0, "up"));
        write("run/vtysh.conf", frr::VTYSH);
        write("run/bgpd.conf", "");
        let holder = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-ec"])
            .arg(
                "mount --bind $0 $1; mount --bind $0/hosts /etc/hosts; mount --bind $0/machine-id /etc/machine-id; \
                 mount -t sysfs none /sys; ip link set lo up; echo ready; exec sleep $2",
            )
            .args([&files, &view])
            .arg(LIFETIME)
            .stdout(Stdio::piped())
            .spawn();
        let mut holder = holder.unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n", "the namespaces of {name} were not made");
        let (pid, wire) = (holder.id().to_string(), format!("p{number}"));
        run(
            "ip",
            &[
                "link", "add", &wire, "type", "veth", "peer", "name", "eth0", "netns", &pid,
            ],
        );
        run("ip", &["link", "set", &wire, "master", "br0", "up"]);
        let machine = Self {
            name,
            rack: format!("r{}", number.div_ceil(2)),
            is_member: Mutex::new(true),
            files,
            view,
            holder: Mutex::new(holder),
            agent: Mutex::new(None),
            supervised: Mutex::new(true),
        };
        machine.ip(&[
            "addr",
            "add",
            &format!("10.77.0.{}/24", 10 + number),
            "dev",
            "eth0",
        ]);
        machine.ip(&["link", "set", "eth0", "up"]);
        machine
    }

    fn ip(&self, arguments: &[&str]) -> String {
        let pid = self.holder.lock().id().to_string();
        run("nsenter", &[&["-t", &pid, "-n", "ip"], arguments].concat())
    }

    /// A program with the network and the files of this node, which the harness ends.
    pub(crate) fn background(&self, program: &Command) -> Command {
        let pid = self.holder.lock().id().to_string();
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &pid, "-n", "-m"])
            .arg(program.get_program())
            .args(program.get_args());
        for (name, value) in program.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    }

    pub(crate) fn is_up(&self) -> bool {
        self.ip(&["-o", "link", "show", "eth0"]).contains("state UP")
    }

    /// A program in the namespaces of this node, as process 1 of a new PID namespace of this boot.
    fn program(&self, arguments: &[&str]) -> Command {
        let pid = self.holder.lock().id().to_string();
        let log = open_log(self.files.parent().unwrap(), &format!("{}.log", self.name));
        let mut command = Command::new("nsenter");
        command
            .args([
                "-t",
                &pid,
                "-n",
                "-m",
                "unshare",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-ec",
            ])
            .arg("mount --bind $0/boot_id /proc/sys/kernel/random/boot_id; exec \"$@\"")
            .arg(&self.view)
            .arg(node_agent())
            .arg("node-agent")
            .args(arguments)
            .arg("--config")
            .arg(self.view.join("node.yaml"))
            .arg("--data-dir")
            .arg(self.view.join("own"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        command
    }

    /// Restarts the agent if it has exited, as systemd does.
    fn supervise(&self) {
        let mut agent = self.agent.lock();
        let ended = agent
            .as_mut()
            .is_none_or(|child| child.try_wait().unwrap().is_some());
        if ended && *self.supervised.lock() {
            *agent = Some(self.program(&["run", "--node-name", &self.name]).spawn().unwrap());
        }
    }

    /// Ends the PID namespace of the agent, with all processes in it.
    pub(crate) fn kill(&self) {
        if let Some(mut agent) = self.agent.lock().take() {
            agent.kill().unwrap();
            agent.wait().unwrap();
            // The process that ended is its parent; the kernel kills the agent afterwards, and systemd waits for the
            // whole control group. An agent that was just starting has no lock yet.
            if let Ok(lock) = File::open(self.files.join("own/lock")) {
                lock.lock().unwrap();
            }
        }
    }

    /// Ends the agent; nothing restarts it.
    pub(crate) fn stop(&self) {
        *self.supervised.lock() = false;
        self.kill();
    }

    pub(crate) fn resume(&self) {
        *self.supervised.lock() = true;
    }

    /// Boots the host: links come up, the restore unit runs, and nothing else yet.
    pub(crate) fn boot(&self, number: usize) {
        fs::write(
            self.files.join("boot_id"),
            format!("boot-{}-{number}\n", self.name),
        )
        .unwrap();
        let status = self.program(&["restore", "--boot"]).status().unwrap();
        assert!(status.success(), "{}: restore --boot", self.name);
    }

    pub(crate) fn links(&self) -> Option<String> {
        self.read("etc/links")
    }

    pub(crate) fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.files.join(file)).ok()
    }

    /// The last step in the node's journal.
    pub(crate) fn step(&self) -> Option<Step> {
        let bytes = fs::read(self.files.join("own/journal")).ok()?;
        match journal::read(&bytes) {
            Reading::Record(record) => Some(record.step),
            _ => None,
        }
    }

    fn is_changing(&self) -> bool {
        self.step().is_some_and(|step| !step.is_settled())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
        let holder = self.holder.get_mut();
        // Started here; no error if it has already exited.
        let _ = holder.kill();
        let _ = holder.wait();
    }
}

/// A reload takes a second, so that events during it can be observed. JSON is valid YAML.
fn configuration(view: &Path) -> Value {
    let etc = view.join("etc");
    let environment = json!({"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LD_LIBRARY_PATH": frr::libraries()});
    let shell = |script: String, timeout: &str| json!({"argv": ["/bin/sh", "-c", script], "timeout": timeout, "environment": environment});
    let vtysh = frr::vtysh(view);
    let reset = format!("{vtysh} -c 'configure terminal' -c 'no router bgp'");
    json!({
        "prefixes": [etc],
        "reloaders": {
            "links": shell(format!("sleep 1; exec ip -batch {}/links", etc.display()), "4s"),
            "frr": shell(format!("{reset}; exec {vtysh} -f {}/frr.conf", etc.display()), "4s"),
        },
        "services": {
            "bgp": shell(format!("{vtysh} -c 'show bgp summary established json' | grep -q '\"state\":\"Established\"'"), "2s"),
        },
        "checkTargets": [format!("{SERVER}/32:6443"), format!("{SERVER}/32:179")],
        "server": "https://kubernetes:6443",
        "dialTimeout": "1s",
        "dialTries": 2,
    })
}

/// The reload commands of this version; `link` is the new state of the only link.
pub(crate) fn links(version: u32, link: &str) -> String {
    format!("# version {version}\nlink set eth0 {link}\n")
}

impl Bed {
    /// On the embedded API server.
    pub(crate) async fn new(count: usize) -> Self {
        // Only a second call could fail, because the provider is already set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        run("ip", &["link", "set", "lo", "up"]);
        Self::on(Server::embedded().await, count).await
    }

    /// On a kube-apiserver.
    pub(crate) async fn on_kubernetes(count: usize) -> Self {
        // Only a second call could fail, because the provider is already set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        run("ip", &["link", "set", "lo", "up"]);
        Self::on(Server::kubernetes().await, count).await
    }

    async fn on(server: Server, count: usize) -> Self {
        run("ip", &["link", "add", "br0", "type", "bridge"]);
        run("ip", &["addr", "add", &format!("{SERVER}/24"), "dev", "br0"]);
        run("ip", &["link", "set", "br0", "up"]);
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("node")).unwrap();
        let authority = server.authority();
        let mut nodes = BTreeMap::new();
        for number in 1..=count {
            let token = server.token(&format!("n{number}")).await;
            let machine = Machine::start(number, directory.path(), &token, &authority);
            nodes.insert(machine.name.clone(), Arc::new(machine));
        }
        fs::write(directory.path().join(KUBECONFIG), server.kubeconfig()).unwrap();
        let controllers = Mutex::new(vec![controller(&server, directory.path(), 0)]);
        let most = Arc::default();
        let watching = vec![
            AbortOnDropHandle::new(tokio::spawn(kubelets(server.client(), nodes.clone()))),
            AbortOnDropHandle::new(tokio::spawn(observe(nodes.clone(), Arc::clone(&most)))),
        ];
        let mut bed = Self {
            directory,
            server,
            wire: None,
            nodes,
            most,
            controllers,
            _watching: watching,
        };
        bed.connect().await;
        bed
    }

    /// Connects nodes to the API server.
    pub(crate) async fn connect(&mut self) {
        let listener = TcpListener::bind((SERVER, 6443)).await.unwrap();
        let address = self.server.address();
        let forward = async move {
            let mut open = tokio::task::JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                open.spawn(async move {
                    if let Ok(mut far) = TcpStream::connect(address).await {
                        // Either side may close the connection.
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        };
        self.wire = Some(AbortOnDropHandle::new(tokio::spawn(forward)));
    }

    /// Disconnects all nodes, and closes their connections.
    pub(crate) fn disconnect(&mut self) {
        self.wire = None;
    }

    /// Kills the controller, and starts another one.
    pub(crate) fn restart_controller(&self) {
        let mut running = self.controllers.lock();
        running[0].kill().unwrap();
        running[0].wait().unwrap();
        running[0] = controller(&self.server, self.directory.path(), 0);
    }

    /// Starts one more controller, which does not know of the first one.
    pub(crate) fn add_controller(&self) {
        let mut running = self.controllers.lock();
        let number = running.len();
        running.push(controller(&self.server, self.directory.path(), number));
    }

    /// Shuts a node down, and deletes its Node.
    pub(crate) async fn leave(&self, node: &str) {
        self.nodes[node].stop();
        *self.nodes[node].is_member.lock() = false;
        self.until_node(node, false).await;
    }

    /// Adds a node to the cluster, a former or a new one.
    pub(crate) async fn join(&self, node: &str) {
        *self.nodes[node].is_member.lock() = true;
        self.nodes[node].resume();
        self.until_node(node, true).await;
    }

    async fn until_node(&self, node: &str, exists: bool) {
        let nodes: Api<Node> = Api::all(self.server.client());
        self.until(&format!("{node} as a Node: {exists}"), async || {
            nodes.get_opt(node).await.unwrap().is_some() == exists
        })
        .await;
    }

    /// The NodeModule with this file, with this limit of nodes at once.
    pub(crate) async fn apply(&self, text: &str, limit: &Value) {
        self.apply_rollout(text, json!({"maxUnreadyNodes": limit})).await;
    }

    pub(crate) async fn apply_rollout(&self, text: &str, rollout: Value) {
        self.apply_spec(json!({
            "selector": {},
            "parts": [{"files": [{"path": self.view("etc/links"), "content": text}]}],
            "reload": ["links"],
            "checks": {"interfaces": ["eth0"], "tcp": [format!("{SERVER}:6443")], "apiServer": true},
            "settle": "1s", "holdFor": "2s", "confirmWithin": "15s",
            "rollout": rollout,
        }))
        .await;
    }

    pub(crate) async fn apply_spec(&self, spec: Value) {
        let modules: Api<NodeModule> = Api::all(self.server.client());
        let object = json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "NodeModule", "metadata": {"name": "fabric"}, "spec": spec,
        });
        let by = PatchParams::apply("person").force();
        modules.patch("fabric", &by, &Patch::Apply(object)).await.unwrap();
    }

    /// The path of a file or directory as mounted on every node.
    pub(crate) fn view(&self, name: &str) -> PathBuf {
        self.directory.path().join("node").join(name)
    }

    pub(crate) async fn module(&self) -> NodeModule {
        let modules: Api<NodeModule> = Api::all(self.server.client());
        modules.get("fabric").await.unwrap()
    }

    /// The nodes of the cluster.
    fn members(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.nodes.values().filter(|node| *node.is_member.lock())
    }

    pub(crate) async fn revisions(&self) -> Vec<NodeRevision> {
        let revisions: Api<NodeRevision> = Api::all(self.server.client());
        revisions.list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn report(&self, node: &str) -> NodeAssemblage {
        let assemblages: Api<NodeAssemblage> = Api::all(self.server.client());
        assemblages.get(node).await.unwrap()
    }

    /// Waits for a state of the cluster.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let began = Instant::now();
        while !holds().await {
            if began.elapsed() > PATIENCE {
                let module = serde_json::to_string_pretty(&self.module().await.status).unwrap();
                print_logs(self.directory.path());
                panic!("not {what} within {PATIENCE:?}: {module}");
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Waits until all nodes of the cluster have this file, and the NodeModule is Ready with it.
    pub(crate) async fn until_ready(&self, text: &str) {
        self.until(&format!("ready with {text:?}"), async || {
            let all = self.members().all(|node| node.links().as_deref() == Some(text));
            all && self.is_ready().await
        })
        .await;
    }

    pub(crate) async fn is_ready(&self) -> bool {
        let module = self.module().await;
        let status = module.status.unwrap_or_default();
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready");
        status.observed_generation == module.metadata.generation
            && ready.is_some_and(|ready| ready.status == "True")
    }

    /// The nodes of the cluster with this file.
    pub(crate) fn with(&self, text: &str) -> BTreeSet<&str> {
        let has = self
            .members()
            .filter(|node| node.links().as_deref() == Some(text));
        has.map(|node| node.name.as_str()).collect()
    }

    /// The nodes of the cluster whose journals are unsettled.
    pub(crate) fn changing(&self) -> BTreeSet<&str> {
        let changing = self.members().filter(|node| node.is_changing());
        changing.map(|node| node.name.as_str()).collect()
    }

    /// The maximum that was changing at once since the last call, by the journals of the nodes.
    pub(crate) fn most(&self) -> Most {
        std::mem::take(&mut *self.most.lock())
    }

    /// The output of muster about this cluster.
    pub(crate) fn muster(&self, arguments: &[&str]) -> String {
        let output = Command::new(muster())
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.directory.path().join(KUBECONFIG))
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for controller in self.controllers.get_mut() {
            // Started here.
            let _ = controller.kill();
            let _ = controller.wait();
        }
    }
}

fn controller(server: &Server, directory: &Path, number: usize) -> Child {
    let kubeconfig = directory.join("controller.kubeconfig");
    fs::write(&kubeconfig, server.kubeconfig_of_controller()).unwrap();
    let log = open_log(directory, &format!("controller-{number}.log"));
    let child = Command::new(muster())
        .args(["agent", "--nodes", "--leader-elect=false", "--kubeconfig"])
        .arg(&kubeconfig)
        .arg("--data-dir")
        .arg(directory.join(format!("data-{number}")))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn();
    child.unwrap()
}

/// Simulates systemd, the kubelet, and the cloud provider that adds and removes nodes.
async fn kubelets(client: Client, nodes: BTreeMap<String, Arc<Machine>>) {
    let api: Api<Node> = Api::all(client);
    let mut known: BTreeMap<&str, (bool, Instant)> = BTreeMap::new();
    loop {
        for (name, machine) in &nodes {
            machine.supervise();
            if !*machine.is_member.lock() {
                if known.remove(name.as_str()).is_some() {
                    api.delete(name, &DeleteParams::default()).await.unwrap();
                }
                continue;
            }
            let up = machine.is_up();
            let before = known.get(name.as_str()).copied();
            if before.is_some_and(|(was, at)| was == up && at.elapsed() < HEARTBEAT) {
                continue;
            }
            known.insert(name, (up, Instant::now()));
            if before.is_none() {
                let labels = json!({"kubernetes.io/os": "linux", "rack": machine.rack});
                let node = json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                });
                let by = PatchParams::apply("kubelet");
                api.patch(name, &by, &Patch::Apply(node)).await.unwrap();
            }
            let status = if up { "True" } else { "False" };
            let now = jiff::Timestamp::now();
            let ready = json!({"type": "Ready", "status": status, "lastHeartbeatTime": now});
            let body = json!({"status": {"conditions": [ready]}});
            api.patch_status(name, &PatchParams::default(), &Patch::Strategic(body))
                .await
                .unwrap();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Counts the nodes with unsettled journals, and their racks. One that left during a change no longer counts.
async fn observe(nodes: BTreeMap<String, Arc<Machine>>, most: Arc<Mutex<Most>>) {
    loop {
        let changing = nodes
            .values()
            .filter(|node| *node.is_member.lock() && node.is_changing());
        let changing: Vec<&Arc<Machine>> = changing.collect();
        let racks: BTreeSet<&str> = changing.iter().map(|node| node.rack.as_str()).collect();
        {
            let mut most = most.lock();
            most.nodes = most.nodes.max(changing.len());
            most.racks = most.racks.max(racks.len());
        }
        tokio::time::sleep(PERIOD).await;
    }
}
