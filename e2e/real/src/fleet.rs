//! A fleet: one etcd, and control planes that have nothing else in common.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};

use crate::{
    api::{Api, is},
    cache::Cache,
    flux,
    pki::Authority,
    plane::{Etcd, Plane, Ports, text},
    processes::{Launch, Processes},
};

/// How long a process may take to be ready. An API server takes 3 s alone, and 7 s beside two others on two busy cores.
const READY: Duration = Duration::from_mins(2);
/// Where a ServiceAccount says that the controllers of a control plane run.
const ACCOUNT: &str = "/api/v1/namespaces/default/serviceaccounts/default";
/// The user of an API server at etcd.
const CLIENT: &str = "client";

/// What a fleet consists of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The names of its control planes.
    pub planes: Vec<String>,
    /// With a scheduler, two nodes and a player of pods: workloads turn ready.
    pub kwok: bool,
    /// With Flux in each of them.
    pub flux: bool,
}

impl Plan {
    fn programs(&self) -> Vec<&'static str> {
        let mut programs = vec!["etcd", "kube-apiserver", "kube-controller-manager"];
        if self.kwok {
            programs.extend(["kube-scheduler", "kwok"]);
        }
        if self.flux {
            programs.extend(flux::PROGRAMS);
        }
        programs
    }
}

/// A running fleet. Its end ends the processes and removes the folder.
pub struct Fleet {
    planes: Vec<Plane>,
    processes: Processes,
    cache: Cache,
}

impl Fleet {
    /// Starts a fleet in a folder that is empty or not there yet.
    pub fn start(folder: &Path, plan: &Plan) -> anyhow::Result<Self> {
        let cache = Cache::open()?;
        cache.require(&plan.programs())?;
        fs::create_dir_all(folder)?;
        ensure!(
            fs::read_dir(folder)?.next().is_none(),
            "{} is not empty; `cargo xtask real down` ends what runs there and removes it",
            folder.display()
        );
        // Keys lie here.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        let folder = folder.canonicalize()?;
        let mut fleet = Self {
            planes: Vec::new(),
            processes: Processes::new(&folder)?,
            cache,
        };
        let etcd = fleet.start_etcd(&folder)?;
        for name in &plan.planes {
            let [apiserver, controller_manager, scheduler, kwok] = free_ports()?;
            let ports = Ports {
                apiserver,
                controller_manager,
                scheduler,
                kwok,
            };
            let plane = Plane::new(&folder, name, ports)?;
            fleet
                .processes
                .start(&plane.apiserver(&fleet.cache, &etcd.seen()))?;
            fleet.planes.push(plane);
        }
        fleet.start_the_rest(plan)?;
        if plan.flux {
            for plane in &fleet.planes {
                flux::start(plane, &folder, &fleet.cache, &mut fleet.processes)?;
            }
        }
        Ok(fleet)
    }

    /// A control plane by its name.
    pub fn plane(&self, name: &str) -> anyhow::Result<&Plane> {
        let found = self.planes.iter().find(|plane| plane.name == name);
        found.with_context(|| format!("there is no control plane {name}"))
    }

    /// All control planes.
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }

    /// Ends one process of a control plane: `apiserver`, `controller-manager`, `source-controller`.
    pub fn stop(&mut self, plane: &str, process: &str) -> anyhow::Result<()> {
        self.processes.stop(&format!("{plane}-{process}"))
    }

    /// Starts it again as it was; an API server is waited for.
    pub fn start_again(&mut self, plane: &str, process: &str) -> anyhow::Result<()> {
        let name = format!("{plane}-{process}");
        self.processes.start_again(&name)?;
        if process == "apiserver" {
            let api = self.plane(plane)?.api()?;
            self.processes.wait(&name, READY, || api.is_there("/readyz"))?;
        }
        Ok(())
    }

    /// Lets it run on after the end of this process; [`crate::down`] ends it.
    pub fn leave(self) -> anyhow::Result<()> {
        self.processes.leave()
    }

    fn start_etcd(&mut self, folder: &Path) -> anyhow::Result<Store> {
        let (pki, [clients, peers]) = (folder.join("etcd-pki"), free_ports()?);
        fs::create_dir_all(&pki)?;
        let authority = Authority::new("etcd")?;
        authority.identity().write(&pki, "ca")?;
        authority.server("etcd")?.write(&pki, "server")?;
        let client = authority.client("kube-apiserver", &[])?;
        client.write(&pki, CLIENT)?;
        let (url, peer) = (
            format!("https://127.0.0.1:{clients}"),
            format!("http://127.0.0.1:{peers}"),
        );
        let flags = [
            ("name", "etcd".to_owned()),
            ("data-dir", text(&folder.join("etcd"))),
            ("log-level", "warn".to_owned()),
            ("listen-client-urls", url.clone()),
            ("advertise-client-urls", url.clone()),
            ("listen-peer-urls", peer.clone()),
            ("initial-advertise-peer-urls", peer.clone()),
            ("initial-cluster", format!("etcd={peer}")),
            ("cert-file", text(&pki.join("server.crt"))),
            ("key-file", text(&pki.join("server.key"))),
            ("client-cert-auth", "true".to_owned()),
            ("trusted-ca-file", text(&pki.join("ca.crt"))),
            // Nothing here has to survive a power cut.
            ("unsafe-no-fsync", "true".to_owned()),
        ];
        self.processes.start(&Launch {
            name: "etcd".to_owned(),
            program: self.cache.program("etcd"),
            arguments: flags
                .iter()
                .map(|(flag, value)| format!("--{flag}={value}"))
                .collect(),
            environment: Vec::new(),
        })?;
        let api = Api::new(&url, &authority.certificate(), &client)?;
        self.processes.wait("etcd", READY, || api.is_there("/health"))?;
        Ok(Store { url, pki })
    }

    /// What needs an API server that answers: all of them start side by side.
    fn start_the_rest(&mut self, plan: &Plan) -> anyhow::Result<()> {
        for plane in &self.planes {
            let api = plane.api()?;
            self.processes
                .wait(&plane.process("apiserver"), READY, || api.is_there("/readyz"))?;
            self.processes.start(&plane.controller_manager(&self.cache))?;
            if plan.kwok {
                self.processes.start(&plane.scheduler(&self.cache))?;
                self.processes.start(&plane.kwok(&self.cache)?)?;
            }
        }
        for plane in &self.planes {
            let api = plane.api()?;
            self.processes
                .wait(&plane.process("controller-manager"), READY, || {
                    api.is_there(ACCOUNT)
                })?;
            if plan.kwok {
                let nodes = [0, 1].map(|number| format!("{}-node-{number}", plane.name));
                for node in &nodes {
                    api.apply(&format!("/api/v1/nodes/{node}"), node_yaml(node))?;
                }
                self.processes.wait(&plane.process("kwok"), READY, || {
                    nodes.iter().all(|node| is_usable(&api, node))
                })?;
            }
        }
        Ok(())
    }
}

/// etcd, and the files of its authority.
struct Store {
    url: String,
    pki: PathBuf,
}

impl Store {
    fn seen(&self) -> Etcd<'_> {
        Etcd {
            url: &self.url,
            pki: &self.pki,
        }
    }
}

fn node_yaml(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  annotations: {{kwok.x-k8s.io/node: fake}}\n  \
         labels: {{type: kwok, kubernetes.io/hostname: {name}, kubernetes.io/os: linux, kubernetes.io/arch: amd64}}\n"
    )
}

/// Ready, and free of the taints that a new node has.
fn is_usable(api: &Api, node: &str) -> bool {
    api.get(&format!("/api/v1/nodes/{node}"))
        .is_some_and(|node| is(&node, "Ready") && node["spec"]["taints"].is_null())
}

/// Ports that nobody listens on now.
pub(crate) fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let listeners = (0..N)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<std::io::Result<Vec<_>>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
