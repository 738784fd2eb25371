//! NodeModules over many simulated nodes: the writes of one rollout, and the cost for the controller.
//!
//! The API server, the controller and the agents share this process: its CPU time and memory cover all three.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use muster_api::{
    crds,
    node::{NodeAssemblage, NodeModule, NodeRevision, assemblage::NodePhase},
};
use muster_apiserver::ApiServer;
use muster_controllers::{
    bindings::{Kinds, Objects},
    metrics::Metrics,
    node::{NAMESPACE, run},
    reconcile::Base,
    runtime::{Clock, Events, Jitter, Shutdown},
};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::usage::{processor, ratio, resident_memory, writes};

/// How long a change takes on a node.
const TAKES: Duration = Duration::from_millis(500);
/// How long a rollout may take.
const PATIENCE: Duration = Duration::from_mins(20);
/// How long it may take until everything is recorded after the end: a NodeRevision is written within a minute.
const SETTLES: Duration = Duration::from_mins(1);
/// Quiet period that marks the end.
const REST: Duration = Duration::from_mins(1);
/// How often all Leases are renewed; a real agent renews its Lease equally often.
const RENEWED: Duration = Duration::from_secs(10);
/// Requests of one run that are recorded: all of them.
const KEPT: usize = 4_000_000;

/// Sizes of the benchmark.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Simulated nodes
    #[arg(long, default_value_t = 1_000)]
    nodes: usize,
    /// Nodes that may change at once
    #[arg(long, default_value_t = 50)]
    at_once: usize,
}

/// Rolls out two revisions over the nodes, and prints what each one cost.
pub(crate) async fn run(plan: &Plan) -> anyhow::Result<()> {
    let api = ApiServer::builder().log_limit(KEPT).namespace(NAMESPACE);
    let api = api.with(crds::nodes()).in_process()?;
    prepare(&api.client_as("bench"), plan.nodes).await?;
    let renewing = Arc::new(AtomicBool::new(true));
    let _leases = AbortOnDropHandle::new(tokio::spawn(renew(
        api.client_as("leases"),
        plan.nodes,
        Arc::clone(&renewing),
    )));
    let _agents = AbortOnDropHandle::new(tokio::spawn(agents(api.client_as("agent"))));
    let _controller = AbortOnDropHandle::new(tokio::spawn(controller(&api)));
    let idle = resident_memory()?;
    for content in ["one", "two"] {
        let (began, used) = (Instant::now(), processor()?);
        let before = writes(api.recorder())?;
        apply(&api.client_as("bench"), content, plan.at_once).await?;
        until_ready(&api.client_as("bench")).await?;
        let after = writes(api.recorder())?;
        println!(
            "{} nodes, {} at once, revision {content}: {:.1} s (the nodes alone {:.1} s), {:.1} s of processor time, {} MiB ({} MiB before)",
            plan.nodes,
            plan.at_once,
            began.elapsed().as_secs_f64(),
            TAKES.as_secs_f64() * ratio(plan.nodes, plan.at_once),
            processor()?.saturating_sub(used).as_secs_f64(),
            resident_memory()?,
            idle,
        );
        for (what, count) in &after {
            let count = count - before.get(what).copied().unwrap_or_default();
            println!(
                "  {what}: {count} ({:.3} for each node)",
                ratio(count, plan.nodes)
            );
        }
    }
    // The verdict is recorded after the last status.
    tokio::time::sleep(SETTLES).await;
    let client = api.client_as("bench");
    let (before, stored) = (writes(api.recorder())?, revisions(&client).await?);
    tokio::time::sleep(REST).await;
    let after = writes(api.recorder())?;
    let now = revisions(&client).await?;
    ensure!(
        stored == now,
        "a NodeRevision changed while idle: {stored:?}, then {now:?}"
    );
    ensure!(
        before == after,
        "something was written while idle: {before:?}, then {after:?}"
    );
    println!("at rest for {} s: 0 writes but Leases", REST.as_secs());
    Ok(())
}

fn controller(api: &ApiServer) -> impl Future<Output = ()> + Send + use<> {
    let client = api.client_as("controller");
    let clock = Clock::system();
    let objects = Objects::new(client.clone(), "default", Kinds::default());
    let base = Base {
        client: client.clone(),
        namespace: "default".to_owned(),
        jitter: Jitter::from_system(),
        metrics: Metrics::default(),
        shutdown: Shutdown::new(),
    };
    let events = Events::new(client, "muster-agent", "bench".to_owned(), clock.clone());
    run::run(run::Setup {
        base,
        clock,
        objects,
        gap: Duration::ZERO,
        events,
        startup_taints: Vec::new(),
    })
}

fn name(number: usize) -> String {
    format!("node-{number:05}")
}

async fn prepare(client: &Client, nodes: usize) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    for number in 1..=nodes {
        let node = json!({
            "metadata": {"name": name(number), "labels": {"kubernetes.io/os": "linux", "role": "worker"}},
        });
        api.create(&PostParams::default(), &serde_json::from_value(node)?)
            .await?;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        api.patch_status(&name(number), &PatchParams::default(), &Patch::Merge(ready))
            .await?;
    }
    Ok(())
}

/// Renews the Lease of each node.
async fn renew(client: Client, nodes: usize, renewing: Arc<AtomicBool>) {
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(client, NAMESPACE);
    let by = PatchParams::apply("agent").force();
    for renewal in 0_u64.. {
        let began = Instant::now();
        for number in (1..=nodes).take_while(|_| renewing.load(Ordering::Relaxed)) {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name(number)},
                "spec": {"holderIdentity": format!("{renewal}")},
            });
            // A failed renewal is repeated with the next round.
            let _ = leases.patch(&name(number), &by, &Patch::Apply(lease)).await;
        }
        tokio::time::sleep(RENEWED.saturating_sub(began.elapsed())).await;
    }
}

/// Each agent reports that it starts an assignment, and after a delay that it is confirmed.
async fn agents(client: Client) {
    let api: Api<NodeAssemblage> = Api::all(client);
    let mut rows = Box::pin(watcher(api.clone(), watcher::Config::default()).default_backoff());
    let mut answers = tokio::task::JoinSet::new();
    while let Some(event) = rows.next().await {
        let Ok(watcher::Event::Apply(found) | watcher::Event::InitApply(found)) = event else {
            continue;
        };
        let known = found.status.clone().unwrap_or_default();
        let open = found.spec.rows.iter().find(|row| {
            let state = known.rows.iter().find(|state| state.name == row.name);
            state.is_none_or(|state| state.token != row.token)
        });
        if let Some(row) = open.cloned() {
            answers.spawn(answer(api.clone(), found.name_any(), json!(row)));
        }
    }
}

async fn answer(api: Api<NodeAssemblage>, node: String, row: Value) {
    for phase in [NodePhase::Updating, NodePhase::Confirmed] {
        let state =
            json!({"name": row["name"], "digest": row["digest"], "token": row["token"], "state": phase});
        let body = json!({"status": {"agent": {"version": "0.1.0"}, "rows": [state]}});
        // A lost answer would block the benchmark until its timeout, which reports it.
        let _ = api
            .patch_status(&node, &PatchParams::default(), &Patch::Merge(body))
            .await;
        if phase == NodePhase::Updating {
            tokio::time::sleep(TAKES).await;
        }
    }
}

async fn apply(client: &Client, content: &str, at_once: usize) -> anyhow::Result<()> {
    let modules: Api<NodeModule> = Api::all(client.clone());
    let object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "NodeModule", "metadata": {"name": "fabric"},
        "spec": {
            "selector": {"matchLabels": {"role": "worker"}},
            "parts": [{"files": [{"path": "/etc/sysctl.d/90-fleet.conf", "content": format!("{content} $(NODE_NAME)\n")}]}],
            "rollout": {"maxUnreadyNodes": at_once},
        },
    });
    let by = PatchParams::apply("bench").force();
    modules.patch("fabric", &by, &Patch::Apply(object)).await?;
    Ok(())
}

async fn until_ready(client: &Client) -> anyhow::Result<()> {
    let modules: Api<NodeModule> = Api::all(client.clone());
    let ready = async {
        loop {
            let module = modules.get("fabric").await?;
            let status = module.status.unwrap_or_default();
            let ready = status
                .conditions
                .iter()
                .find(|condition| condition.type_ == "Ready");
            if status.observed_generation == module.metadata.generation
                && ready.is_some_and(|ready| ready.status == "True")
            {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ready)
        .await
        .context("the NodeModule did not become Ready")?
}

/// The recorded history of each revision.
async fn revisions(client: &Client) -> anyhow::Result<Vec<Value>> {
    let all: Api<NodeRevision> = Api::all(client.clone());
    let list = all.list(&ListParams::default()).await?;
    Ok(list
        .items
        .iter()
        .map(|one| json!({"name": one.name_any(), "status": one.status}))
        .collect())
}
