//! `muster zones` in the clusters of a bed, and the observed pods of a rollout group there.

use std::{collections::BTreeMap, path::Path, process::Stdio, sync::Arc, time::Duration};

use muster_apiserver::ChangeKind;
use muster_controllers::{
    metrics::Metrics,
    process::{self, ZonesSetup},
    runtime::{Clock, Jitter, Shutdown},
    zones::{metrics::ZoneMetrics, pods::Network},
};
use muster_zones::flags::{self, Settings};
use serde_json::Value;
use tokio::{process::Command, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Bed, ZONES, install, kinds,
    process::{Process, open_log, seed_of},
    programs::muster,
    server::Server,
};
use crate::app::{APPS, condition};

/// Timeout of a request to a pod; none is sent unless something is scaled down.
const PODS: Duration = Duration::from_secs(5);

/// The observed rollout of a group in a cluster.
#[derive(Debug, Default)]
pub struct Zones {
    /// The maximum of zones that had fewer Ready pods than desired at once, after all pods were Ready for the first
    /// time.
    pub most_disturbed: usize,
    /// When an image first appeared in a spec, and when the last of its pods became Ready.
    pub images: BTreeMap<String, (Instant, Option<Instant>)>,
}

impl Bed {
    /// Installs `muster zones` in a cluster and starts it, without webhooks.
    pub async fn start_zones(&mut self, cluster: &str) {
        let api = &self.clusters[cluster].api;
        install::zones(api).await;
        let instance = format!("{ZONES}-{cluster}");
        let process = match api {
            Server::Embedded(server) if self.is_virtual() => {
                task(server.client_as(ZONES), self.clock.clone(), &instance)
            }
            Server::Embedded(_) | Server::Real(_) => child(api, &instance, self.directory.path()),
        };
        self.zones.insert(cluster.to_owned(), process);
    }

    /// The observed rollout of StatefulSets of a cluster with this number of pods each, by the events of its API
    /// server.
    pub fn zones(&self, cluster: &str, sets: &[&str], replicas: usize) -> Zones {
        let api = &self.clusters[cluster].api;
        let mut zones = Zones::default();
        for event in api.events(kinds::STATEFUL_SET) {
            if let Some(image) = image(&event.object()["spec"]["template"]) {
                let first = || (event.at, None);
                zones.images.entry(image).or_insert_with(first);
            }
        }
        let mut pods: BTreeMap<String, (String, bool)> = BTreeMap::new();
        let mut were_whole = false;
        for event in api.events(kinds::POD) {
            let pod = event.object();
            let name = super::name_of(pod).to_owned();
            let Some(set) = sets.iter().find(|set| name.starts_with(**set)) else {
                continue;
            };
            if event.kind() == ChangeKind::Deleted {
                pods.remove(&name);
            } else {
                let ready = is_ready(pod);
                let turned = !pods
                    .insert(name, ((*set).to_owned(), ready))
                    .is_some_and(|(_, before)| before);
                let times = image(pod).and_then(|image| zones.images.get_mut(&image));
                if let Some(times) = times.filter(|_| ready && turned) {
                    times.1 = Some(event.at);
                }
            }
            let whole =
                |set: &str| pods.values().filter(|(of, ready)| of == set && *ready).count() == replicas;
            let disturbed = sets.iter().filter(|set| !whole(set)).count();
            were_whole |= disturbed == 0;
            if were_whole {
                zones.most_disturbed = zones.most_disturbed.max(disturbed);
            }
        }
        zones
    }
}

fn is_ready(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// The image in a pod spec.
fn image(of: &Value) -> Option<String> {
    let image = of["spec"]["containers"][0]["image"].as_str();
    image.map(str::to_owned)
}

/// Starts it as a task, on paused time.
fn task(client: kube::Client, clock: Clock, instance: &str) -> Process {
    let (shutdown, metrics) = (Shutdown::new(), Metrics::default());
    let zone_metrics = ZoneMetrics::new(&metrics);
    let arguments = [format!("-kubernetes.namespace={APPS}")];
    let setup = ZonesSetup {
        client,
        settings: Settings::new(&flags::parse_flags(&arguments).unwrap()).unwrap(),
        clock,
        jitter: Jitter::seeded(seed_of(instance)),
        pods: Arc::new(Network::new(Some(PODS), None, zone_metrics.clone()).unwrap()),
        instance: instance.to_owned(),
        lease: None,
        door: None,
        webhooks: None,
        zone_metrics,
        metrics,
        shutdown: shutdown.clone(),
    };
    Process::Task(
        AbortOnDropHandle::new(tokio::spawn(process::zones(setup))),
        shutdown,
    )
}

/// Starts the released binary.
fn child(api: &Server, instance: &str, directory: &Path) -> Process {
    let kubeconfig = directory.join(format!("{instance}.kubeconfig"));
    std::fs::write(&kubeconfig, api.kubeconfig_of(ZONES)).unwrap();
    let log = open_log(directory, &format!("{instance}.log"));
    let child = Command::new(muster())
        .args(["--kubeconfig".as_ref(), kubeconfig.as_os_str()])
        .args([
            "zones",
            &format!("-kubernetes.namespace={APPS}"),
            "-server.port=0",
        ])
        .env("HOSTNAME", instance)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .kill_on_drop(true)
        .spawn();
    Process::Child(Box::new(child.unwrap()))
}
