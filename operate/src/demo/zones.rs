//! `muster demo --zones`: one simulated cluster with the StatefulSets of `examples/zones`, and the shipped `muster
//! zones`.
//!
//! The API server calls the webhooks over HTTPS, with the certificate that `muster zones` creates. Pods are simulated:
//! one that is asked to prepare for its shutdown reports that it is prepared.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Context as _;
use async_trait::async_trait;
use futures::{StreamExt as _, pin_mut};
use kube::{
    Client,
    api::PostParams,
    core::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt as _, watcher},
};
use muster_api::{ZoneRollout, crds, names};
use muster_apiserver::{ApiServer, Endpoint, player::Speeds};
use muster_controllers::{
    metrics::Metrics,
    process::{self, ZonesSetup},
    runtime::{Api, Clock},
    zones::{metrics::ZoneMetrics, pods::AskPods},
};
use muster_dashboard::{Shape, ZonesView};
use muster_zones::{
    flags::{Settings, parse_flags},
    scale::pods::{Answer, Answered, Ask},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Ground, directory::Directory, log_limit, narrator::Narrator};
use crate::install::zones;

/// The namespace of all objects: kubectl's default.
const NAMESPACE: &str = "default";
/// The group of the example.
const GROUP: &str = "ingester";
/// The objects of the example, in an order in which they can be created.
const EXAMPLE: [&str; 3] = [
    include_str!("../../../examples/zones/replicas.yaml"),
    include_str!("../../../examples/zones/budget.yaml"),
    include_str!("../../../examples/zones/ingester.yaml"),
];
/// The speed of pods: slow enough to be watched.
const SPEEDS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(1));
/// How long a revision is tried here, shortened from ten minutes.
const PROGRESS_DEADLINE: &str = "30s";

/// Runs until Ctrl-C or SIGTERM.
pub(crate) async fn run(directory: Directory, ground: &Ground) -> anyhow::Result<()> {
    let (ready_after, stop_after) = SPEEDS;
    let api = ApiServer::builder()
        .name("zones")
        .with(crds::zones())
        .with(crds::rollout_operator())
        .event_log(false)
        .log_limit(log_limit(false))
        .workloads(Speeds {
            ready_after,
            stop_after,
            ..Speeds::default()
        })
        .start()
        .await?;
    let client = api.client_as("installer");
    for object in objects()? {
        create(&client, object).await?;
    }
    let kubeconfig = api.kubeconfig().context("the HTTPS listener is not open")?;
    directory.write_kubeconfig("zones.kubeconfig", &kubeconfig)?;
    let process = start(&api, ground).await?;
    print_zone_commands(&directory, &ground.reporter);
    let looking = api.client();
    let ended = tokio::select! {
        ended = process => ended.context("muster zones"),
        result = what_moves(&looking, &ground.reporter) => result,
        () = ground.shutdown.cancelled() => Ok(()),
    };
    drop(api);
    directory.remove()?;
    ended
}

/// Creates the objects of the cluster: the example, its ZoneRollout with a shorter deadline, and the webhooks of an
/// installation.
fn objects() -> anyhow::Result<Vec<Value>> {
    let mut objects = vec![json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ZoneRollout", "metadata": {"name": names::zone_rollout_name(GROUP)},
        "spec": {"group": GROUP, "progressDeadline": PROGRESS_DEADLINE},
    })];
    for text in EXAMPLE {
        for document in muster_sync::yaml::documents("examples/zones", text.as_bytes())? {
            objects.push(document.value()?);
        }
    }
    objects.extend(zones::webhooks(NAMESPACE));
    Ok(objects)
}

async fn create(client: &Client, object: Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().context("an object without a kind")?;
    let resource = ApiResource::from_gvk(&types.try_into()?);
    let api: Api<DynamicObject> = if resource.group == "admissionregistration.k8s.io" {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), NAMESPACE, &resource)
    };
    let name = object.metadata.name.clone().unwrap_or_default();
    let created = api.create(&PostParams::default(), &object).await;
    created
        .map(drop)
        .with_context(|| format!("creating {} {name}", resource.kind))
}

/// Starts the process, with the flags of an installation except for its speed, and points the API server to its
/// webhooks.
async fn start(
    api: &ApiServer,
    ground: &Ground,
) -> anyhow::Result<impl Future<Output = Result<(), process::ProcessError>> + use<>> {
    let webhooks = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = webhooks.local_addr()?;
    api.resolve_services(move |_| Some(Endpoint::Address(address)));
    let mut arguments = zones::arguments(NAMESPACE);
    arguments.push("-reconcile.interval=1s".to_owned());
    let settings = Settings::new(&parse_flags(&arguments)?)?;
    let metrics = Metrics::default();
    let Ground {
        clock,
        jitter,
        shutdown,
        data: _,
        reporter: _,
    } = ground.clone();
    Ok(process::zones(ZonesSetup {
        client: api.client_as(zones::NAME),
        settings,
        pods: Arc::new(Prepared(clock.clone())),
        clock,
        jitter,
        instance: zones::NAME.to_owned(),
        lease: None,
        door: None,
        webhooks: Some(webhooks),
        zone_metrics: ZoneMetrics::new(&metrics),
        metrics,
        shutdown,
    }))
}

/// Pods that report prepared as soon as they are asked.
struct Prepared(Clock);

#[async_trait]
impl AskPods for Prepared {
    async fn send_request(&self, _: &Ask) -> Answered {
        let since = json!({"timestamp": self.0.now().as_second()});
        Ok(Answer {
            status: 200,
            body: since.to_string(),
        })
    }
}

fn print_zone_commands(directory: &Directory, reporter: &Narrator) {
    let path = directory.path().display();
    reporter.line("muster demo: a simulated cluster with a store of three zones, three ingesters in each");
    reporter.line(
        "The cluster is simulated: its API server runs in this process, and its pods only say that they run.",
    );
    reporter.line("muster zones, its webhooks and their certificates are real.\n");
    reporter.line("In another terminal:");
    reporter.line(&format!("  export KUBECONFIG={path}/zones.kubeconfig"));
    // If the path of the program is unknown, its usual name is used.
    let command =
        std::env::current_exe().map_or_else(|_| "muster".to_owned(), |path| path.display().to_string());
    reporter.line(&format!("  alias muster={command}"));
    reporter.line("  kubectl get statefulsets,pods,zonerollouts\n");
}

/// Printed once all zones are done for the first time.
const NEXT: &str = "
All zones are done. Roll out a new image; nothing else is needed:
  for zone in a b c; do kubectl set image statefulset/ingester-zone-$zone ingester=grafana/mimir:2.17.0; done
  muster why zonerollout/ingester -w

Then one that cannot be pulled: it stops at the first pods of the first zone.
  for zone in a b c; do kubectl set image statefulset/ingester-zone-$zone ingester=grafana/mimir:bad; done
  muster why zonerollout/ingester
  for zone in a b c; do kubectl set image statefulset/ingester-zone-$zone ingester=grafana/mimir:2.17.1; done

Drain the only node: one pod is evicted; pods of other zones are not evicted until it is back.
  kubectl drain node-1 --delete-emptydir-data --timeout 12s; kubectl uncordon node-1

Fewer ingesters: one zone after the other, a minute apart; each pod is asked to prepare before it is removed.
  kubectl scale replicatemplate/ingester --replicas 2
  kubectl get statefulsets -w

Ctrl-C stops everything.";

/// A line for each StatefulSet and pod whose state changes.
async fn what_moves(client: &Client, reporter: &Narrator) -> anyhow::Result<()> {
    let api: Api<ZoneRollout> = Api::namespaced(client.clone(), NAMESPACE);
    let changes = watcher(api.for_watching()?, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    pin_mut!(changes);
    let mut printed: BTreeMap<String, String> = BTreeMap::new();
    let mut invited = false;
    while let Some(change) = changes.next().await {
        let Ok(rollout) = change else { continue };
        let view = ZonesView::of(&rollout);
        let steps = view.zones.iter().flat_map(|zone| &zone.steps);
        let now: BTreeMap<String, String> = steps
            .map(|step| {
                let line = format!(
                    "{} {:<18} {}: {}",
                    step.shape.glyph(),
                    step.who,
                    step.reason,
                    step.message
                );
                (step.who.clone(), line)
            })
            .collect();
        for (who, line) in &now {
            if printed.get(who) != Some(line) {
                reporter.line(line);
            }
        }
        printed = now;
        if !invited && view.shape == Shape::Ready {
            invited = true;
            reporter.line(&format!("{NEXT}\n"));
        }
    }
    Ok(())
}
