//! Applies a directory to a cluster and prints what it took: `apply KUBECONFIG DIRECTORY [prune]`.
//!
//! Prints one line of JSON: `objects`; how many were `created`, `configured`, `recreated`, `unchanged` and `skipped`;
//! `plan_seconds`; `seconds` in total (reading and building the directory, planning, applying); and `vmhwm_kib`, the
//! peak memory of the process. Run it twice to measure apply and re-check; with `prune` it deletes the objects instead
//! and counts `gone` and `waiting`.

use std::{env, error::Error, fs, path::Path, process::ExitCode, time::Duration};

use async_trait::async_trait;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use muster_sync::{
    apply::{self, ApplyOutcome, Cluster, Ledger, LedgerError, Options, Owner, Plan},
    build::{self, BuildOptions},
    inventory::Inventory,
    source::{self, Limits},
};
use serde_json::{Value, json};
use tokio::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// An inventory that is not stored: the directory is the record.
struct Nowhere;

#[async_trait]
impl Ledger for Nowhere {
    async fn record(&self, _: &Inventory) -> std::result::Result<(), LedgerError> {
        Ok(())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match work().await {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn work() -> Result<Value> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (kubeconfig, directory, prunes) = match arguments.as_slice() {
        [kubeconfig, directory] => (kubeconfig, directory, false),
        [kubeconfig, directory, word] if word == "prune" => (kubeconfig, directory, true),
        _ => return Err("usage: apply KUBECONFIG DIRECTORY [prune]".into()),
    };
    let cluster = connect(kubeconfig).await?;
    let started = Instant::now();
    let plan = planned(&cluster, directory).await?;
    let plan_seconds = started.elapsed().as_secs_f64();
    let mut report = if prunes {
        prune(&cluster, &plan).await
    } else {
        run(&cluster, &plan).await?
    };
    report["objects"] = json!(plan.len());
    report["plan_seconds"] = json!(plan_seconds);
    report["seconds"] = json!(started.elapsed().as_secs_f64());
    report["vmhwm_kib"] = json!(peak_memory()?);
    Ok(report)
}

async fn connect(kubeconfig: &str) -> Result<Cluster> {
    // Fails only if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Cluster::new(Client::try_from(config)?, Duration::from_secs(30)))
}

fn owner() -> Owner {
    Owner {
        name: "example".to_owned(),
        namespace: "default".to_owned(),
    }
}

async fn planned(cluster: &Cluster, directory: &str) -> Result<Plan> {
    let files = source::read_directory(Path::new(directory), &Limits::default())?;
    let manifests = build::build(&files, &BuildOptions::default())?;
    let objects = manifests.into_iter().map(|manifest| manifest.object).collect();
    let options = Options {
        owner: owner(),
        target_namespace: None,
        force: false,
        timeout: Duration::from_mins(5),
    };
    Ok(apply::plan(cluster, objects, options).await?)
}

async fn run(cluster: &Cluster, plan: &Plan) -> Result<Value> {
    let applied = apply::run(cluster, plan, &Nowhere, &apply::Alone).await?;
    Ok(json!({
        "created": applied.count(ApplyOutcome::Created),
        "configured": applied.count(ApplyOutcome::Configured),
        "recreated": applied.count(ApplyOutcome::Recreated),
        "unchanged": applied.count(ApplyOutcome::Unchanged),
        "skipped": applied.count(ApplyOutcome::Skipped),
    }))
}

async fn prune(cluster: &Cluster, plan: &Plan) -> Value {
    let all = plan.inventory().pruned_by(&Inventory::default());
    let pruned = apply::prune(cluster, &owner(), &all, &apply::Alone).await;
    let failures: Vec<String> = pruned.failures.iter().map(ToString::to_string).collect();
    json!({
        "gone": pruned.gone.len(),
        "waiting": pruned.waiting.len(),
        "blocked": pruned.blocked.len(),
        "failures": failures,
    })
}

/// The peak resident memory of this process (`VmHWM`).
fn peak_memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}
