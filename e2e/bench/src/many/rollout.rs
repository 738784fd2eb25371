//! Measures versions of all modules, health flips of one cluster, a controller restart during a rollout, and idle load.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::{Stream, StreamExt as _};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use muster_api::{Module, flux::Kustomization, labels::SYSTEM_NAMESPACE, names};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{
    processes::Usage,
    repository::{self, module},
    world::{FLEET, World},
};
use crate::fleet::{cluster, watch_objects};

/// How long one version may take.
const PATIENCE: Duration = Duration::from_mins(40);
/// Quiet period required before a measurement.
const QUIET: Duration = Duration::from_secs(5);
/// Duration of the idle measurement.
const REST: Duration = Duration::from_secs(30);
/// Number of health flips of one cluster.
const FLIPS: usize = 10;

/// One version of all modules.
#[derive(Debug)]
pub(super) struct Run {
    pub assignments: usize,
    pub time: Duration,
    /// CPU time of each kind of process.
    pub processor: [f64; 4],
    /// Bytes on each kind of connection.
    pub bytes: [u64; 3],
    pub writes: BTreeMap<String, usize>,
}

/// Rolls a version of this number of modules out to all clusters.
pub(super) async fn version(world: &mut World, modules: usize, version: usize) -> anyhow::Result<Run> {
    let commit = repository::commit(&world.repository, modules, version)?;
    world.writes().await?;
    let (before, bytes, start) = (world.usage()?, world.bytes(), Instant::now());
    let generations = apply(world, modules, &commit).await?;
    let assignments = modules * world.inside.len();
    until_confirmed(world, &generations, assignments).await?;
    let time = start.elapsed();
    sleep(QUIET).await;
    let (after, bytes_after) = (world.usage()?, world.bytes());
    Ok(Run {
        assignments,
        time,
        processor: processor(before, after),
        bytes: [0, 1, 2].map(|at| bytes_after[at] - bytes[at]),
        writes: world.writes().await?,
    })
}

fn processor(before: [Usage; 4], after: [Usage; 4]) -> [f64; 4] {
    [0, 1, 2, 3].map(|at| after[at].processor - before[at].processor)
}

/// Kills the controller when half of a version is confirmed; returns the time until the next confirmation.
pub(super) async fn restart(world: &mut World, modules: usize, version: usize) -> anyhow::Result<Duration> {
    let commit = repository::commit(&world.repository, modules, version)?;
    let generations = apply(world, modules, &commit).await?;
    let all = modules * world.inside.len();
    until_confirmed(world, &generations, all / 2).await?;
    world.kill_controller().await?;
    sleep(Duration::from_millis(500)).await;
    let there = confirmed_now(world, &generations).await?;
    let start = Instant::now();
    world.start_controller()?;
    until_confirmed(world, &generations, (there + 1).min(all)).await?;
    let time = start.elapsed();
    until_confirmed(world, &generations, all).await?;
    Ok(time)
}

/// Writes in half a minute of idling.
pub(super) async fn rest(world: &mut World) -> anyhow::Result<usize> {
    sleep(QUIET).await;
    world.writes().await?;
    sleep(REST).await;
    Ok(world.writes().await?.values().sum())
}

/// Time from a health change of one module in one cluster until the module's status shows it.
pub(super) async fn flips(world: &World) -> anyhow::Result<Vec<Duration>> {
    let inside = world.inside.first().context("no cluster")?;
    let kustomizations: Api<Kustomization> = Api::namespaced(inside.clone(), SYSTEM_NAMESPACE);
    let name = names::kustomization(SYSTEM_NAMESPACE, &cluster(0), &module(0));
    let mut modules = watch_objects::<Module>(world.client.clone(), FLEET).filter(|module| {
        let is_it = module.name_any() == repository::module(0);
        std::future::ready(is_it)
    });
    let mut before = next(&mut modules).await?;
    let mut times = Vec::new();
    for flip in 0..FLIPS {
        sleep(Duration::from_millis(700)).await;
        let live = kustomizations.get(&name).await?;
        let mut conditions = live.status.map(|status| status.conditions).unwrap_or_default();
        for condition in conditions
            .iter_mut()
            .filter(|condition| condition.type_ == "Ready")
        {
            let is_ready = flip % 2 == 1;
            if is_ready { "True" } else { "False" }.clone_into(&mut condition.status);
            if is_ready {
                "ReconciliationSucceeded"
            } else {
                "HealthCheckFailed"
            }
            .clone_into(&mut condition.reason);
        }
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        let start = Instant::now();
        kustomizations
            .patch_status(&name, &PatchParams::default(), &patch)
            .await?;
        loop {
            let now = next(&mut modules).await?;
            if now != before {
                before = now;
                break;
            }
        }
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times)
}

/// What the module reports about its clusters, once it reports something.
async fn next(modules: &mut (impl Stream<Item = Module> + Unpin)) -> anyhow::Result<Value> {
    let module = timeout(Duration::from_mins(1), modules.next())
        .await
        .context("a flip was not observed")?;
    let status = module.and_then(|module| module.status).context("no status")?;
    Ok(serde_json::to_value(status.summary)?)
}

async fn apply(world: &World, modules: usize, commit: &str) -> anyhow::Result<BTreeMap<String, i64>> {
    let api: Api<Module> = Api::namespaced(world.client.clone(), FLEET);
    let url = format!("file://{}", world.repository.display());
    let mut generations = BTreeMap::new();
    for number in 0..modules {
        let name = module(number);
        let object = json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": name},
            "spec": {
                "selector": {},
                "rollout": rollout(world.stages),
                "sync": {"source": {"git": {"url": url, "version": {"commit": commit}}}, "package": {"path": name}},
            },
        });
        let applied = api
            .patch(&name, &PatchParams::apply("bench").force(), &Patch::Apply(object))
            .await?;
        generations.insert(name, applied.metadata.generation.unwrap_or_default());
    }
    Ok(generations)
}

fn rollout(stages: usize) -> Value {
    let mut rollout = json!({"maxUnreadyClusters": "50%"});
    if stages > 1 {
        let stage = |number| json!({"name": format!("s-{number}"), "selector": {"matchLabels": {"stage": format!("s-{number}")}}});
        rollout["stages"] = (0..stages).map(stage).collect();
    }
    rollout
}

fn confirmed(module: &Module, generation: i64) -> usize {
    let Some(status) = &module.status else { return 0 };
    if status.observed_generation != Some(generation) {
        return 0;
    }
    let updated = status.summary.as_ref().map_or(0, |summary| summary.updated);
    usize::try_from(updated).unwrap_or_default()
}

async fn confirmed_now(world: &World, generations: &BTreeMap<String, i64>) -> anyhow::Result<usize> {
    let api: Api<Module> = Api::namespaced(world.client.clone(), FLEET);
    let all = api.list(&kube::api::ListParams::default()).await?;
    let of = |module: &Module| confirmed(module, generations.get(&module.name_any()).copied().unwrap_or(-1));
    Ok(all.items.iter().map(of).sum())
}

async fn until_confirmed(
    world: &World,
    generations: &BTreeMap<String, i64>,
    enough: usize,
) -> anyhow::Result<()> {
    let mut counts = BTreeMap::new();
    let mut modules = watch_objects::<Module>(world.client.clone(), FLEET);
    let all = async {
        while let Some(module) = modules.next().await {
            let name = module.name_any();
            let generation = generations.get(&name).copied().unwrap_or(-1);
            counts.insert(name, confirmed(&module, generation));
            if counts.values().sum::<usize>() >= enough {
                break;
            }
        }
    };
    timeout(PATIENCE, all)
        .await
        .with_context(|| format!("{enough} assignments are not confirmed"))
}
