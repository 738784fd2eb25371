//! Promise: with the sync controllers of muster a row's objects are created in the cluster, follow its commits, and are
//! removed with its withdrawal; in both ways, by the agent and over the network.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use muster_api::{
    ProxyAssemblage, RemoteAssemblage,
    assemblage::{SyncRow, Withdraw},
};
use muster_apiserver::send;
use muster_controllers::{
    process::{self, Setup},
    registry::Connect,
    runtime::Clock,
};
use muster_sync::source::MemorySource;

use super::{setup, support::*};

const NAMESPACE: &str = "shop";

struct Whole {
    source: MemorySource,
    management: Cluster,
    downstream: BTreeMap<&'static str, Cluster>,
}

impl Whole {
    async fn new() -> Self {
        let clock = clock();
        let source = MemorySource::new(clock);
        let mut cluster = Cluster::downstream();
        let namespace = serde_json::json!({"metadata": {"name": NAMESPACE}});
        let client = cluster.server.client();
        send(&client, "POST", "/api/v1/namespaces", Some(namespace))
            .await
            .unwrap();
        let agent = setup(&cluster, &source, no_clusters());
        cluster.spawn(async { process::run_agent(agent).await.unwrap() });
        let downstream = BTreeMap::from([("eu-1", cluster)]);
        let mut management = Cluster::management();
        enrol(&management, &["eu-1"]).await;
        let controller = setup(&management, &source, connect(&downstream));
        management.spawn(async { process::controller(controller).await.unwrap() });
        Self {
            source,
            management,
            downstream,
        }
    }

    fn commit(&self, text: &str) -> String {
        let manifest = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web, namespace: {NAMESPACE}}}\ndata: {{text: {text}}}\n"
        );
        self.source
            .commit(URL, "main", [("web.yaml", manifest)])
            .to_string()
    }

    async fn text(&self) -> Option<String> {
        let objects: Api<ConfigMap> = Api::namespaced(self.downstream["eu-1"].server.client(), NAMESPACE);
        objects
            .get_opt("web")
            .await
            .unwrap()
            .and_then(|object| object.data?.remove("text"))
    }
}

fn clock() -> Clock {
    Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

fn setup(cluster: &Cluster, source: &MemorySource, connect: Connect) -> Setup {
    let client = cluster.server.client_as(CONTROLLERS);
    setup::setup(
        client,
        cluster.namespace,
        clock(),
        Arc::new(source.clone()),
        connect,
    )
}

#[tokio::test(start_paused = true)]
async fn by_the_agent() {
    let whole = Whole::new().await;
    let (first, second) = (whole.commit("one"), whole.commit("two"));
    whole
        .management
        .create(ProxyAssemblage::new(
            "eu-1",
            targeted("eu-1", &[row("web", &first, 1)]),
        ))
        .await;
    whole
        .management
        .until_state::<ProxyAssemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    assert_eq!(whole.text().await.as_deref(), Some("one"));
    whole
        .management
        .set_rows::<ProxyAssemblage>("eu-1", &[row("web", &second, 2)])
        .await;
    whole
        .management
        .until_state::<ProxyAssemblage>("eu-1", "web", "2 Succeeded UpToDate")
        .await;
    assert_eq!(whole.text().await.as_deref(), Some("two"));
    whole
        .management
        .set_rows::<ProxyAssemblage>("eu-1", &[SyncRow::withdrawal("web", 3, Withdraw::Prune)])
        .await;
    whole
        .management
        .until_state::<ProxyAssemblage>("eu-1", "web", "3 Withdrawn Excluded")
        .await;
    assert_eq!(whole.text().await, None);
}

#[tokio::test(start_paused = true)]
async fn over_the_network() {
    let whole = Whole::new().await;
    let (first, second) = (whole.commit("one"), whole.commit("two"));
    whole
        .management
        .create(RemoteAssemblage::new(
            "eu-1",
            targeted("eu-1", &[row("web", &first, 1)]),
        ))
        .await;
    whole
        .management
        .until_state::<RemoteAssemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    assert_eq!(whole.text().await.as_deref(), Some("one"));
    whole
        .management
        .set_rows::<RemoteAssemblage>("eu-1", &[row("web", &second, 2)])
        .await;
    whole
        .management
        .until_state::<RemoteAssemblage>("eu-1", "web", "2 Succeeded UpToDate")
        .await;
    assert_eq!(whole.text().await.as_deref(), Some("two"));
    whole
        .management
        .set_rows::<RemoteAssemblage>("eu-1", &[SyncRow::withdrawal("web", 3, Withdraw::Orphan)])
        .await;
    whole
        .management
        .until_state::<RemoteAssemblage>("eu-1", "web", "3 Withdrawn Excluded")
        .await;
    assert_eq!(whole.text().await.as_deref(), Some("two"), "released");
}
