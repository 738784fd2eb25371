//! What `muster controller` and `muster agent` share: the setup of a process from flags.

mod flags;

use std::{collections::BTreeSet, path::Path, sync::Arc};

use anyhow::{Context as _, bail};
use kube::{Client, Config};
use muster_api::validate::InsecureSources;
use muster_controllers::{
    bindings::BindingKind,
    gates,
    lease::{Election, LeaseDuration},
    metrics::Metrics,
    notify,
    process::{ProcessError, Setup, until_signalled},
    reconcile::{Options, SyncMode},
    registry,
    runtime::{Clock, Jitter, call::error_chain, sendable},
};
use muster_fleet::connect::{self, Target};
use muster_operate::install::Sync;
use muster_sync::source::{GitOptions, GitSource};
use tokio::net::TcpListener;

pub(crate) use self::flags::ProcessFlags;
use crate::{
    exit::{DONE, FAILED},
    flags::{DoorAddress, duration},
    output::Out,
};

/// The exit code of a process that has ended; an error is printed.
pub(crate) fn ended(result: Result<(), ProcessError>, out: &Out) -> u8 {
    match result {
        Ok(()) => DONE,
        Err(error) => {
            complain!(out, "error: {}", error_chain(&error));
            FAILED
        }
    }
}

/// Builds the setup of a process from its flags.
pub(crate) async fn setup(cluster: &Target, flags: ProcessFlags) -> anyhow::Result<Setup> {
    let ProcessFlags {
        sync,
        proxy_poll_interval,
        binding_kinds,
        data_dir,
        allow_insecure_sources,
        log_format: _,
        leader_elect,
        lease_duration,
        metrics_addr,
        gate_hosts,
        proxy_hosts,
        record_decisions,
        git,
    } = flags;
    let mut config = connect::config(cluster).await?;
    // Retries are done by muster: bounded, and only of requests that may be repeated.
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
    let proxies = connect::proxies()?;
    let lease = leader_elect
        .then(|| election(&config, lease_duration))
        .transpose()?;
    Ok(Setup {
        client: client(config)?,
        namespace,
        options: Options {
            sync: match sync {
                Sync::Builtin => SyncMode::Builtin,
                Sync::Flux => SyncMode::Flux,
            },
            proxy_poll_interval,
            binding_kinds: kinds?,
            record_decisions,
            nodes: None,
            upgrades: false,
            proxies: proxies.clone(),
            proxy_hosts: proxy_hosts.into_iter().collect(),
        },
        clock,
        jitter: Jitter::from_system(),
        source: Arc::new(GitSource::new(git, now)?.with_proxies(proxies.clone())),
        connect: Arc::new(registry::connect_over_network),
        gates: gates::Access {
            hosts: gate_hosts.into_iter().collect(),
            insecure: if allow_insecure_sources {
                InsecureSources::Allowed
            } else {
                InsecureSources::Refused
            },
            fetch: Arc::new(gates::Web::through(proxies)),
        },
        notify: None,
        instance: std::env::var("HOSTNAME").unwrap_or_else(|_unset| std::process::id().to_string()),
        lease,
        door: open(metrics_addr).await?,
        metrics: Metrics::default(),
        shutdown: until_signalled()?,
    })
}

/// Reads the file of `--notify-config`.
pub(crate) fn receivers(file: &Path) -> anyhow::Result<Arc<notify::Config>> {
    let config = notify::Config::read(file).with_context(|| format!("--notify-config {}", file.display()))?;
    Ok(Arc::new(config))
}

fn client(config: Config) -> anyhow::Result<Client> {
    sendable::sendable_client(config, Client::try_from).context("the kubeconfig cannot be used")
}

/// The client of the lease has its own connections, so that bursts of other requests do not delay it.
fn election(config: &Config, duration: LeaseDuration) -> anyhow::Result<Election> {
    Ok(Election {
        client: client(config.clone())?,
        duration,
    })
}

pub(crate) async fn open(door: DoorAddress) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = door.address() else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("--metrics-addr {address}: cannot listen there"))?;
    Ok(Some(listener))
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

/// Parses `--lease-duration`.
pub(crate) fn lease_duration(text: &str) -> Result<LeaseDuration, String> {
    LeaseDuration::try_from(duration(text)?).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_a_lease_lasts() {
        let check = |text: &str, expect: Result<u64, &str>| {
            let read = lease_duration(text).map(|duration| duration.duration().as_secs());
            assert_eq!(read, expect.map_err(str::to_owned));
        };
        check("1s", Ok(1));
        check("1m", Ok(60));
        check(
            "500ms",
            Err("a lease of 0.5 s is not valid: choose from 1 s to 600 s"),
        );
    }
}
