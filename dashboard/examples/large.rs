//! Serves a simulated large fleet: 50 modules on 200 clusters, one of which fails and recovers every second. Shows how
//! fast a page loads and updates.
//!
//!     cargo run --release -p muster-dashboard --example large      # prints the URL; try ?fold=no

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::core::DynamicObject;
use muster_api::{Module, ProxyAssemblage};
use muster_dashboard::{
    Objects, Snapshot,
    server::{Hosts, Limits, Setup, router, serve},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch};

const MODULES: usize = 50;
const CLUSTERS: usize = 200;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let door = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/?fold=no", door.local_addr()?);
    let clusters: Vec<Arc<DynamicObject>> = (0..CLUSTERS).map(cluster).collect::<Result<_>>()?;
    let proxies: Vec<Arc<ProxyAssemblage>> = (0..CLUSTERS).map(proxy).collect::<Result<_>>()?;
    let snapshot = |fails: bool| -> Result<Arc<Snapshot>> {
        let modules = (0..MODULES).map(|number| module(number, fails && number == 7));
        let objects = Objects {
            modules: modules.collect::<Result<Vec<Arc<Module>>>>()?,
            clusters: clusters.clone(),
            proxies: proxies.clone(),
            ..Objects::default()
        };
        let at = Timestamp::UNIX_EPOCH;
        Ok(Arc::new(Snapshot::new(
            "fleet".to_owned(),
            at,
            objects,
            true,
            Vec::new(),
        )))
    };
    let states = [snapshot(false)?, snapshot(true)?];
    let (tell, snapshots) = watch::channel(Arc::clone(&states[0]));
    let setup = Setup {
        snapshots,
        hosts: Hosts::Loopback(Vec::new()),
        admission: None,
        limits: Limits::default(),
    };
    tokio::spawn(serve(door, router(setup)));
    for state in states.iter().cycle() {
        tell.send(Arc::clone(state))?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

fn cluster(number: usize) -> Result<Arc<DynamicObject>> {
    let labels = json!({"env": "prod", "region": format!("r-{}", number % 5)});
    object(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": format!("cluster-{number}"), "labels": labels}, "spec": {},
    }))
}

fn module(number: usize, fails: bool) -> Result<Arc<Module>> {
    let up_to_date =
        |count: usize, clusters: &str| json!({"reason": "UpToDate", "count": count, "clusters": clusters});
    let (told, reasons) = if fails {
        let failed = json!({"reason": "Failed", "count": 1, "clusters": "cluster-100"});
        let told = json!([{"cluster": "cluster-100", "reason": "Failed", "message": "Deployment web/web: ImagePullBackOff"}]);
        let rest = up_to_date(CLUSTERS - 1, "cluster-{0..99},cluster-{101..199}");
        (told, json!([failed, rest]))
    } else {
        (json!([]), json!([up_to_date(CLUSTERS, "cluster-{0..199}")]))
    };
    object(json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": format!("module-{number}"), "generation": 1},
        "spec": {"selector": {}, "sync": {"source": source()}},
        "status": {
            "observedGeneration": 1, "revision": "r", "attention": told, "reasons": reasons,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        },
    }))
}

fn proxy(number: usize) -> Result<Arc<ProxyAssemblage>> {
    let name = |module: usize| format!("module-{module}");
    let rows = (0..MODULES).map(|module| json!({"name": name(module), "token": 1, "digest": "d", "revision": "r", "source": source()}));
    let states = (0..MODULES)
        .map(|module| json!({"name": name(module), "token": 1, "digest": "d", "state": "succeeded"}));
    let cluster = format!("cluster-{number}");
    object(json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ProxyAssemblage", "metadata": {"name": cluster},
        "spec": {"clusterRef": {"name": cluster}, "syncs": rows.collect::<Vec<_>>()},
        "status": {"syncs": states.collect::<Vec<_>>()},
    }))
}

fn source() -> Value {
    json!({"git": {"url": "https://git.test/fleet", "version": {"tag": "v1.2.3"}}})
}

fn object<K: DeserializeOwned>(value: Value) -> Result<Arc<K>> {
    Ok(Arc::new(serde_json::from_value(value)?))
}
