//! A fleet: control planes that share one etcd and nothing else.

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
/// Path of the default ServiceAccount, which exists once the controllers of a control plane run.
const ACCOUNT: &str = "/api/v1/namespaces/default/serviceaccounts/default";

/// What the control planes of a fleet consist of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// Include a scheduler, two nodes and simulated pods: workloads become ready.
    pub kwok: bool,
    /// Include Flux.
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

/// A running fleet. Dropping it ends the processes and removes the directory.
pub struct Fleet {
    directory: PathBuf,
    plan: Plan,
    store: Store,
    planes: Vec<Plane>,
    processes: Processes,
    cache: Cache,
}

impl Fleet {
    /// Starts a fleet without control planes in a directory that is empty or does not exist.
    pub fn start(directory: &Path, plan: Plan) -> anyhow::Result<Self> {
        let cache = Cache::open()?;
        cache.require(&plan.programs())?;
        fs::create_dir_all(directory)?;
        ensure!(
            fs::read_dir(directory)?.next().is_none(),
            "{} is not empty; `cargo xtask real down` stops its processes and removes it",
            directory.display()
        );
        // The directory contains private keys.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
        let directory = directory.canonicalize()?;
        let mut processes = Processes::new(&directory)?;
        let store = Store::start(&directory, &cache, &mut processes)?;
        Ok(Self {
            directory,
            plan,
            store,
            planes: Vec::new(),
            processes,
            cache,
        })
    }

    /// Starts control planes concurrently, and waits until they are ready.
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
            let plane = Plane::new(&self.directory, name, ports)?;
            self.processes
                .start(&plane.apiserver(&self.cache, &self.store.endpoint()))?;
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
                flux::start(plane, &self.directory, &self.cache, &mut self.processes, "")?;
            }
        }
        Ok(())
    }

    /// A control plane by its name.
    pub fn plane(&self, name: &str) -> anyhow::Result<&Plane> {
        let found = self.planes.iter().find(|plane| plane.name == name);
        found.with_context(|| format!("unknown control plane {name}"))
    }

    /// All control planes.
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }

    /// A running process: `etcd`, or one of a control plane, such as `eu-1-apiserver`.
    pub fn pid(&self, process: &str) -> anyhow::Result<u32> {
        self.processes.pid(process)
    }

    /// Stops one process of a control plane: `apiserver`, `controller-manager`, `source-controller`.
    pub fn stop(&mut self, plane: &str, process: &str) -> anyhow::Result<()> {
        self.processes.stop(&format!("{plane}-{process}"))
    }

    /// Starts a stopped process with the same arguments; waits for an API server.
    pub fn start_again(&mut self, plane: &str, process: &str) -> anyhow::Result<()> {
        let name = format!("{plane}-{process}");
        self.processes.start_again(&name)?;
        if process == "apiserver" {
            let api = self.plane(plane)?.api()?;
            self.processes.wait(&name, READY, || api.is_there("/readyz"))?;
        }
        Ok(())
    }

    /// Restarts the API server of a control plane with another certificate. Returns the authority that issued it, PEM.
    pub fn show(&mut self, plane: &str, certificate: Certificate) -> anyhow::Result<String> {
        self.stop(plane, "apiserver")?;
        let authority = self.plane(plane)?.write_certificate(certificate)?;
        if certificate == Certificate::Good {
            self.start_again(plane, "apiserver")?;
        } else {
            // The certificate is not trusted yet, so readiness cannot be probed.
            let process = format!("{plane}-apiserver");
            self.processes.start_again(&process)?;
            let found = self.planes.iter().find(|found| found.name == plane);
            self.processes
                .wait(&process, READY, || found.is_some_and(Plane::listens))?;
        }
        Ok(authority)
    }

    /// Installs and starts Flux in a control plane that does not run it, with these feature gates of its
    /// kustomize-controller.
    pub fn start_flux(&mut self, plane: &str, gates: &str) -> anyhow::Result<()> {
        self.cache.require(&flux::PROGRAMS)?;
        let found = self.planes.iter().find(|found| found.name == plane);
        let plane = found.with_context(|| format!("unknown control plane {plane}"))?;
        flux::start(plane, &self.directory, &self.cache, &mut self.processes, gates)
    }

    /// Starts helm-controller concurrently in control planes with Flux.
    pub fn start_helm(&mut self, planes: &[String]) -> anyhow::Result<()> {
        self.cache.require(&[flux::HELM])?;
        for name in planes {
            let found = self.planes.iter().find(|found| found.name == *name);
            let plane = found.with_context(|| format!("unknown control plane {name}"))?;
            flux::start_helm(plane, &self.directory, &self.cache, &mut self.processes)?;
        }
        Ok(())
    }

    /// Starts a registry of OCI artifacts; it ends with the fleet.
    pub fn start_registry(&mut self) -> anyhow::Result<Registry> {
        self.cache.require(&[registry::PROGRAM])?;
        Registry::start(&self.directory, &self.cache, &mut self.processes)
    }

    /// Installs Cluster API in a control plane, and starts its controllers with infrastructure that is simulated in
    /// memory.
    pub fn start_cluster_api(&mut self, plane: &str) -> anyhow::Result<()> {
        self.cache.require(&cluster_api::PROGRAMS)?;
        let found = self.planes.iter().find(|found| found.name == plane);
        let plane = found.with_context(|| format!("unknown control plane {plane}"))?;
        cluster_api::start(plane, &self.directory, &self.cache, &mut self.processes)
    }

    /// Stops Flux in a control plane; its CRDs and objects stay.
    pub fn stop_flux(&mut self, plane: &str) -> anyhow::Result<()> {
        flux::PROGRAMS
            .iter()
            .try_for_each(|program| self.stop(plane, program))
    }

    /// Keeps the fleet running after this process has ended; [`crate::down`] ends it.
    pub fn leave(self) -> anyhow::Result<()> {
        self.processes.leave()
    }
}

/// Starts etcd, with the files of its authority.
struct Store {
    url: String,
    pki: PathBuf,
}

impl Store {
    fn start(directory: &Path, cache: &Cache, processes: &mut Processes) -> anyhow::Result<Self> {
        let (pki, [clients, peers]) = (directory.join("etcd-pki"), free_ports()?);
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
            ("data-dir", text(&directory.join("etcd"))),
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
            // Durability across a power cut is not needed.
            ("unsafe-no-fsync", "true".to_owned()),
        ];
        processes.start(&Launch::new("etcd".to_owned(), cache.program("etcd"), &flags))?;
        let api = Api::new(&url, &authority.certificate(), &client)?;
        processes.wait("etcd", READY, || api.is_there("/health"))?;
        Ok(Self { url, pki })
    }

    fn endpoint(&self) -> Etcd<'_> {
        Etcd {
            url: &self.url,
            pki: &self.pki,
        }
    }
}

/// The processes that need a running API server.
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

/// Whether a Node is ready, and free of the taints of a new node.
fn is_usable(api: &Api, node: &str) -> bool {
    api.get(&format!("/api/v1/nodes/{node}"))
        .is_some_and(|node| is(&node, "Ready") && node["spec"]["taints"].is_null())
}
