//! Promise: `muster demo --zones` is a cluster whose zones kubectl can roll by what it prints; a bad image stops at one
//! pod, its correction gets everywhere, a downscale is reviewed by the webhooks, and SIGTERM ends it cleanly.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::wait::{Condition, await_condition},
};
use muster_api::{ZoneRollout, names};
use serde_json::json;

/// How long an automatic consequence may take.
const SOON: Duration = Duration::from_mins(3);
const ZONES: [&str; 3] = ["ingester-zone-a", "ingester-zone-b", "ingester-zone-c"];

/// The demo; killed if the test fails.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Demo {
    /// Starts the demo, and reads its output until all zones are done for the first time.
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_muster"))
            .args(["demo", "--zones", "--dir"])
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let demo = Self(child);
        assert!(
            lines
                .by_ref()
                .any(|line| line.unwrap() == "Ctrl-C stops everything.")
        );
        // Further output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        demo
    }
}

async fn client(directory: &Path) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(directory.join("zones.kubeconfig")).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// The status and reason of a condition.
fn has_condition(kind: &'static str, status: &'static str) -> impl Condition<ZoneRollout> {
    move |rollout: Option<&ZoneRollout>| {
        let conditions = rollout.and_then(|rollout| rollout.status.as_ref());
        conditions.is_some_and(|known| {
            let mut found = known.conditions.iter();
            found.any(|condition| condition.type_ == kind && condition.status == status)
        })
    }
}

async fn set_image(sets: &Api<StatefulSet>, image: &str) {
    for zone in ZONES {
        let containers = json!([{"name": "ingester", "image": image}]);
        let body = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let patch = Patch::Strategic(body);
        sets.patch(zone, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// The images of the pods, by name.
async fn images(pods: &Api<Pod>) -> Vec<(String, String)> {
    let list = pods.list(&ListParams::default()).await.unwrap();
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
    list.items
        .iter()
        .map(|pod| (pod.name_any(), image(pod)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zones_are_rolled_by_what_the_demo_prints() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path());
    let client = client(directory.path()).await;
    let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let rollouts: Api<ZoneRollout> = Api::default_namespaced(client);
    let name = names::zone_rollout_name("ingester");
    let until = async |condition, what: &str| {
        let waiting = await_condition(rollouts.clone(), &name, condition);
        let waited = tokio::time::timeout(SOON, waiting).await;
        waited
            .unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
            .unwrap();
    };

    set_image(&sets, "grafana/mimir:bad").await;
    until(has_condition("Stalled", "True"), "the bad image is condemned").await;
    let bad: Vec<String> = images(&pods)
        .await
        .into_iter()
        .filter(|(_, image)| image.ends_with(":bad"))
        .map(|(pod, _)| pod)
        .collect();
    assert_eq!(bad, ["ingester-zone-a-0"]);

    set_image(&sets, "grafana/mimir:2.17.0").await;
    until(has_condition("Ready", "True"), "all zones are done").await;
    let images = images(&pods).await;
    assert_eq!(images.len(), 9, "{images:?}");
    assert!(
        images.iter().all(|(_, image)| image == "grafana/mimir:2.17.0"),
        "{images:?}"
    );

    // A new record starts now: the next downscale waits for a minute.
    let fewer = Patch::Merge(json!({"spec": {"replicas": 2}}));
    let by = PatchParams::default();
    let first = sets.patch(ZONES[0], &by, &fewer).await;
    let refused = sets
        .patch(ZONES[1], &by, &fewer)
        .await
        .expect_err("another zone was scaled down");
    let words = refused.to_string();
    assert!(
        words.contains("prepare-downscale-default.grafana.com") && words.contains("denied the request"),
        "{words} after {first:?}"
    );

    let pid = demo.0.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert_eq!(demo.0.wait().unwrap().code(), Some(0));
}
