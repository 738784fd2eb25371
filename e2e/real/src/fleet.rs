//! A fleet: one etcd, and control planes that have nothing else in common.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};

use crate::{
    api::{Api, is},
    cache::Cache,
    cluster_api, flux,
    pki::Authority,
    plane::{Certificate, Etcd, Plane, Ports, text},
    ports::free_ports,
    processes::{Launch, Processes},
    registry::{self, Registry},
};

/// How long a process may take to be ready. An API server takes 3 s alone, and 7 s beside two others on two busy cores.
const READY: Duration = Duration::from_mins(2);
/// Where a ServiceAccount says that the controllers of a control plane run.
const ACCOUNT: &str = "/api/v1/namespaces/default/serviceaccounts/default";

/// What the control planes of a fleet consist of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// With a scheduler, two nodes and a player of pods: workloads turn ready.
    pub kwok: bool,
    /// With Flux in each of them.
    pub flux: bool,
}

impl Plan {
    /// The names of the programs that run.
    pub fn programs(self) -> Vec<&'static str> {
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
    folder: PathBuf,
    plan: Plan,
    store: Store,
    planes: Vec<Plane>,
    processes: Processes,
    cache: Cache,
}

impl Fleet {
    /// Starts a fleet without control planes in a folder that is empty or not there yet.
    pub fn start(folder: &Path, plan: Plan) -> anyhow::Result<Self> {
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
        let mut processes = Processes::new(&folder)?;
        let store = Store::start(&folder, &cache, &mut processes)?;
        Ok(Self {
            folder,
            plan,
            store,
            planes: Vec::new(),
            processes,
            cache,
        })
    }

    /// Starts control planes, side by side, and waits until they are ready.
    pub fn add(&mut self, names: &[String]) -> anyhow::Result<()> {
        let first = self.planes.len();
        for name in names {
            let [apiserver, controller_manager, scheduler, kwok] = free_ports()?;
            let ports = Ports {
                apiserver,
                controller_manager,
                scheduler,
                kwok,
            };
            let plane = Plane::new(&self.folder, name, ports)?;
            self.processes
                .start(&plane.apiserver(&self.cache, &self.store.seen()))?;
            self.planes.push(plane);
        }
        for plane in &self.planes[first..] {
            start_controllers(plane, self.plan, &self.cache, &mut self.processes)?;
        }
        for plane in &self.planes[first..] {
            wait_for_controllers(plane, self.plan, &mut self.processes)?;
        }
        if self.plan.flux {
            for plane in &self.planes[first..] {
                flux::start(plane, &self.folder, &self.cache, &mut self.processes, "")?;
            }
        }
        Ok(())
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

    /// A process that runs: `etcd`, or one of a control plane, as `eu-1-apiserver`.
    pub fn pid(&self, process: &str) -> anyhow::Result<u32> {
        self.processes.pid(process)
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

    /// Starts the API server of a control plane again with another certificate; the authority that made it, PEM.
    pub fn show(&mut self, plane: &str, certificate: Certificate) -> anyhow::Result<String> {
        self.stop(plane, "apiserver")?;
        let authority = self.plane(plane)?.write_certificate(certificate)?;
        if certificate == Certificate::Good {
            self.start_again(plane, "apiserver")?;
        } else {
            // Nobody trusts it, so that it cannot be asked whether it is ready.
            let process = format!("{plane}-apiserver");
            self.processes.start_again(&process)?;
            let found = self.planes.iter().find(|found| found.name == plane);
            self.processes
                .wait(&process, READY, || found.is_some_and(Plane::listens))?;
        }
        Ok(authority)
    }

    /// Installs Flux in a control plane where it does not run, and starts it, with these feature gates of its kustomize-controller.
    pub fn start_flux(&mut self, plane: &str, gates: &str) -> anyhow::Result<()> {
        self.cache.require(&flux::PROGRAMS)?;
        let found = self.planes.iter().find(|found| found.name == plane);
        let plane = found.with_context(|| format!("there is no control plane {plane}"))?;
        flux::start(plane, &self.folder, &self.cache, &mut self.processes, gates)
    }

    /// Starts helm-controller in control planes where Flux runs, side by side with it.
    pub fn start_helm(&mut self, planes: &[String]) -> anyhow::Result<()> {
        self.cache.require(&[flux::HELM])?;
        for name in planes {
            let found = self.planes.iter().find(|found| found.name == *name);
            let plane = found.with_context(|| format!("there is no control plane {name}"))?;
            flux::start_helm(plane, &self.folder, &self.cache, &mut self.processes)?;
        }
        Ok(())
    }

    /// Starts a registry of OCI artifacts; it ends with the fleet.
    pub fn start_registry(&mut self) -> anyhow::Result<Registry> {
        self.cache.require(&[registry::PROGRAM])?;
        Registry::start(&self.folder, &self.cache, &mut self.processes)
    }

    /// Installs Cluster API in a control plane, and starts its controllers with an infrastructure of machines that are played in memory.
    pub fn start_cluster_api(&mut self, plane: &str) -> anyhow::Result<()> {
        self.cache.require(&cluster_api::PROGRAMS)?;
        let found = self.planes.iter().find(|found| found.name == plane);
        let plane = found.with_context(|| format!("there is no control plane {plane}"))?;
        cluster_api::start(plane, &self.folder, &self.cache, &mut self.processes)
    }

    /// Ends Flux in a control plane; its definitions and objects stay.
    pub fn stop_flux(&mut self, plane: &str) -> anyhow::Result<()> {
        flux::PROGRAMS
            .iter()
            .try_for_each(|program| self.stop(plane, program))
    }

    /// Lets it run on after the end of this process; [`crate::down`] ends it.
    pub fn leave(self) -> anyhow::Result<()> {
        self.processes.leave()
    }
}

/// etcd, and the files of its authority.
struct Store {
    url: String,
    pki: PathBuf,
}

impl Store {
    fn start(folder: &Path, cache: &Cache, processes: &mut Processes) -> anyhow::Result<Self> {
        let (pki, [clients, peers]) = (folder.join("etcd-pki"), free_ports()?);
        fs::create_dir_all(&pki)?;
        let authority = Authority::new("etcd")?;
        authority.identity().write(&pki, "ca")?;
        authority.server("etcd")?.write(&pki, "server")?;
        let client = authority.client("kube-apiserver", &[])?;
        client.write(&pki, "client")?;
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
        processes.start(&Launch::new("etcd".to_owned(), cache.program("etcd"), &flags))?;
        let api = Api::new(&url, &authority.certificate(), &client)?;
        processes.wait("etcd", READY, || api.is_there("/health"))?;
        Ok(Self { url, pki })
    }

    fn seen(&self) -> Etcd<'_> {
        Etcd {
            url: &self.url,
            pki: &self.pki,
        }
    }
}

/// What needs an API server that answers.
fn start_controllers(
    plane: &Plane,
    plan: Plan,
    cache: &Cache,
    processes: &mut Processes,
) -> anyhow::Result<()> {
    let api = plane.api()?;
    processes.wait(&plane.process("apiserver"), READY, || api.is_there("/readyz"))?;
    processes.start(&plane.controller_manager(cache))?;
    if plan.kwok {
        processes.start(&plane.scheduler(cache))?;
        processes.start(&plane.kwok(cache)?)?;
    }
    Ok(())
}

fn wait_for_controllers(plane: &Plane, plan: Plan, processes: &mut Processes) -> anyhow::Result<()> {
    let api = plane.api()?;
    processes.wait(&plane.process("controller-manager"), READY, || {
        api.is_there(ACCOUNT)
    })?;
    if plan.kwok {
        let nodes = [0, 1].map(|number| format!("{}-node-{number}", plane.name));
        for node in &nodes {
            api.apply(&format!("/api/v1/nodes/{node}"), node_yaml(node))?;
        }
        processes.wait(&plane.process("kwok"), READY, || {
            nodes.iter().all(|node| is_usable(&api, node))
        })?;
    }
    Ok(())
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
