//! Management cluster, clusters, controller and agents, each in a separate process, connected through relays.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use muster_api::{cluster::Version, crds, labels::SYSTEM_NAMESPACE};
use muster_real::Meter;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Child;

use super::{
    Plan,
    management::Management,
    observer::Observer,
    processes::{self, Servers, Usage},
    repository,
};
use crate::fleet::{self, client, cluster, define};

/// The namespace of modules and Clusters.
pub(super) const FLEET: &str = "fleet";

/// The kinds of processes that are measured, in the order of the table.
pub(super) const KINDS: [&str; 4] = ["management API server", "controller", "API servers", "agents"];
/// The connections that are counted, in the order of the table.
pub(super) const CONNECTIONS: [&str; 3] = [
    "controller - management",
    "controller - clusters",
    "agents - clusters",
];

pub(super) struct World {
    pub client: Client,
    /// The observer of the limit.
    pub observer: Observer,
    /// The clusters, by number.
    pub inside: Vec<Client>,
    pub repository: PathBuf,
    pub stages: usize,
    management: Management,
    servers: Servers,
    controller: Option<Child>,
    agents: Vec<Child>,
    bytes: [Arc<AtomicU64>; 3],
    _meters: Vec<Meter>,
    logs: PathBuf,
    controllers_kubeconfig: PathBuf,
    _directory: TempDir,
}

impl World {
    pub(super) async fn start(plan: &Plan) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let place = directory.path().to_owned();
        let logs = plan.logs.clone().unwrap_or_else(|| place.join("logs"));
        fs::create_dir_all(&logs)?;
        let names: Vec<String> = (0..plan.clusters).map(cluster).collect();
        let management = Management::start(&place, plan.real).await?;
        let servers = Servers::start(&place, &names).await?;
        let bytes = <[Arc<AtomicU64>; 3]>::default();
        let mut meters = Vec::new();

        let administrator = client(&place.join("management.kubeconfig")).await?;
        for kind in crds::management()
            .into_iter()
            .chain(crds::flux())
            .chain([crds::cluster_api()])
        {
            define(&administrator, &kind).await?;
        }
        fleet::namespace(&administrator, FLEET).await?;
        let controllers_kubeconfig = metered(
            &place.join("management.controller.kubeconfig"),
            &bytes[0],
            &mut meters,
        )
        .await?;

        let (mut inside, mut agents) = (Vec::new(), Vec::new());
        for (number, name) in names.iter().enumerate() {
            let there = client(&place.join(format!("{name}.kubeconfig"))).await?;
            for kind in crds::downstream().into_iter().chain(crds::flux()) {
                define(&there, &kind).await?;
            }
            for namespace in [SYSTEM_NAMESPACE, repository::APPS] {
                fleet::namespace(&there, namespace).await?;
            }
            inside.push(there);
            let kubeconfig = place.join(format!("{name}.agent.kubeconfig"));
            let kubeconfig = metered(&kubeconfig, &bytes[2], &mut meters).await?;
            agents.push(processes::muster(
                "agent",
                &kubeconfig,
                SYSTEM_NAMESPACE,
                name,
                &logs,
            )?);
            let kubeconfig = place.join(format!("{name}.controller.kubeconfig"));
            let kubeconfig = metered(&kubeconfig, &bytes[1], &mut meters).await?;
            join(
                &administrator,
                name,
                number % plan.stages,
                &fs::read_to_string(kubeconfig)?,
            )
            .await?;
        }
        let repository = place.join("repository");
        repository::init(&repository)?;
        let mut world = Self {
            observer: Observer::begin(administrator.clone(), FLEET),
            client: administrator,
            inside,
            repository,
            stages: plan.stages,
            management,
            servers,
            controller: None,
            agents,
            bytes,
            _meters: meters,
            logs,
            controllers_kubeconfig,
            _directory: directory,
        };
        world.start_controller()?;
        Ok(world)
    }

    pub(super) fn start_controller(&mut self) -> anyhow::Result<()> {
        let child = processes::muster(
            "controller",
            &self.controllers_kubeconfig,
            FLEET,
            "controller",
            &self.logs,
        )?;
        self.controller = Some(child);
        Ok(())
    }

    pub(super) async fn kill_controller(&mut self) -> anyhow::Result<()> {
        let mut child = self.controller.take().context("there is no controller")?;
        Ok(child.kill().await?)
    }

    /// CPU time and memory of each kind of process so far, in the order of [`KINDS`].
    pub(super) fn usage(&self) -> anyhow::Result<[Usage; 4]> {
        Ok([
            Usage::of(self.management.pids()?)?,
            Usage::of(self.controller.as_ref().and_then(Child::id))?,
            Usage::of(self.servers.pid())?,
            Usage::of(self.agents.iter().filter_map(Child::id))?,
        ])
    }

    /// The bytes of both directions so far, in the order of [`CONNECTIONS`].
    pub(super) fn bytes(&self) -> [u64; 3] {
        [0, 1, 2].map(|at| self.bytes[at].load(Ordering::Relaxed))
    }

    /// The writes in all API servers since the previous call, by resource and user.
    pub(super) async fn writes(&mut self) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut all = self.management.writes().await?;
        for (what, count) in self.servers.writes().await? {
            *all.entry(what).or_default() += count;
        }
        Ok(all)
    }
}

/// A kubeconfig that connects through a relay.
async fn metered(
    kubeconfig: &Path,
    bytes: &Arc<AtomicU64>,
    meters: &mut Vec<Meter>,
) -> anyhow::Result<PathBuf> {
    let text = fs::read_to_string(kubeconfig)?;
    let (_, rest) = text
        .split_once("https://")
        .context("no address in a kubeconfig")?;
    let address = rest.split(['"', '\n', '/']).next().unwrap_or_default().to_owned();
    let meter = Meter::counting(&address, Arc::clone(bytes)).await?;
    let through = kubeconfig.with_extension("metered.kubeconfig");
    fs::write(&through, text.replace(&address, meter.address()))?;
    meters.push(meter);
    Ok(through)
}

async fn join(client: &Client, name: &str, stage: usize, kubeconfig: &str) -> anyhow::Result<()> {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": format!("{name}-kubeconfig")}, "type": "cluster.x-k8s.io/secret",
        "stringData": {"value": kubeconfig},
    }))?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), FLEET);
    secrets.create(&PostParams::default(), &secret).await?;
    let clusters: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), FLEET, &Version::V1Beta2.api_resource());
    let object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": {},
        "metadata": {
            "name": name, "labels": {"stage": format!("s-{stage}")},
            "annotations": {"fleet.muster.dev/enrolled": ""},
        },
    });
    clusters
        .patch(name, &PatchParams::apply("bench"), &Patch::Apply(object))
        .await?;
    Ok(())
}
