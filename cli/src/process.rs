//! `muster controller` and `muster agent`: flags into the setup of a process.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, bail};
use kube::Client;
use muster_controllers::{
    process::{self, Setup},
    registry,
    runtime::{BindingKind, Clock, Jitter, Options, Shutdown, SyncMode},
};
use muster_sync::source::{self, GitOptions, GitSource};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    DONE,
    args::{ClusterFlags, ProcessFlags, Sync},
    connect, logs,
};

/// Runs the process of the management cluster until SIGTERM or Ctrl-C.
pub async fn controller(cluster: &ClusterFlags, flags: ProcessFlags) -> anyhow::Result<u8> {
    logs::start(flags.log_format);
    process::controller(setup(cluster, flags).await?).await?;
    Ok(DONE)
}

/// Runs the process of a downstream cluster until SIGTERM or Ctrl-C.
pub async fn agent(cluster: &ClusterFlags, flags: ProcessFlags) -> anyhow::Result<u8> {
    logs::start(flags.log_format);
    let namespace = cluster
        .namespace
        .clone()
        .unwrap_or_else(|| muster_api::labels::SYSTEM_NAMESPACE.to_owned());
    let cluster = ClusterFlags {
        namespace: Some(namespace),
        ..cluster.clone()
    };
    process::agent(setup(&cluster, flags).await?).await?;
    Ok(DONE)
}

async fn setup(cluster: &ClusterFlags, flags: ProcessFlags) -> anyhow::Result<Setup> {
    let ProcessFlags {
        sync,
        proxy_poll_interval,
        binding_kinds,
        data_dir,
        allow_insecure_sources,
        log_format: _,
        git,
    } = flags;
    let mut config = connect::config(cluster).await?;
    // Retries are ours: bounded, and only of what may be repeated.
    config.default_retry = false;
    let namespace = cluster
        .namespace
        .clone()
        .unwrap_or_else(|| config.default_namespace.clone());
    let kinds: anyhow::Result<BTreeSet<BindingKind>> =
        binding_kinds.iter().map(|text| binding_kind(text)).collect();
    let clock = Clock::system();
    let now = clock.clone();
    let git = GitOptions {
        data_dir,
        allow_insecure: allow_insecure_sources,
        limits: git.into(),
    };
    Ok(Setup {
        client: Client::try_from(config).context("the kubeconfig cannot be used")?,
        namespace,
        options: Options {
            sync: match sync {
                Sync::Builtin => SyncMode::Builtin,
                Sync::Flux => SyncMode::Flux,
            },
            proxy_poll_interval,
            binding_kinds: kinds?,
        },
        clock,
        jitter: Jitter::from_system(),
        source: Arc::new(GitSource::new(git, source::Clock::new(move || now.now()))?),
        connect: Arc::new(registry::connect_over_network),
        instance: std::env::var("HOSTNAME").unwrap_or_else(|_unset| std::process::id().to_string()),
        shutdown: until_signalled()?,
    })
}

fn binding_kind(text: &str) -> anyhow::Result<BindingKind> {
    match text.rsplit_once('/') {
        Some((api_version, kind)) if !api_version.is_empty() && !kind.is_empty() => Ok(BindingKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }),
        _ => bail!("--binding-kinds {text}: write APIVERSION/KIND, such as apps/v1/Deployment"),
    }
}

/// Cancelled by SIGTERM or Ctrl-C.
pub fn until_signalled() -> anyhow::Result<Shutdown> {
    let shutdown = Shutdown::new();
    let mut terminated = signal(SignalKind::terminate()).context("SIGTERM cannot be listened to")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("SIGINT cannot be listened to")?;
    let order = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        order.cancel();
    });
    Ok(shutdown)
}
