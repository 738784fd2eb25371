//! `muster zones`: the setup of the process from the flags of rollout-operator.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use muster_controllers::{
    lease::{Election, LeaseDuration},
    metrics::Metrics,
    process::{self, ZonesSetup, until_signalled},
    runtime::{Clock, Jitter, sendable},
    zones::{metrics::ZoneMetrics, pods::Network},
};
use muster_fleet::connect::{self, Target};
use muster_zones::flags::{self, Settings};
use tokio::net::TcpListener;
use tracing::warn;

use crate::{
    exit::{DONE, UNKNOWN},
    logs::{self, LogFormat},
    output::Out,
    process::ended,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster zones -kubernetes.namespace=mimir -server-tls.enabled=true
  muster zones -h                                                  every flag";

/// Roll out and scale StatefulSets that span several zones, one zone at a time, in place of Grafana's rollout-operator
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES, disable_help_flag = true)]
pub(crate) struct ZonesFlags {
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "MUSTER_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// Flags of rollout-operator, in Go's syntax; -h prints them
    #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

/// Runs the process until SIGTERM or Ctrl-C.
pub(crate) async fn run(cluster: &Target, flags: &ZonesFlags, out: &Out) -> anyhow::Result<u8> {
    let read = flags::parse_flags(&flags.arguments).and_then(|given| Ok((Settings::new(&given)?, given)));
    let (settings, given) = match read {
        Ok(read) => read,
        Err(flags::Error::Help) => {
            say!(out, "{}", flags::help())?;
            return Ok(DONE);
        }
        Err(error) => {
            complain!(out, "error: {error}\nmuster zones -h prints all flags");
            return Ok(UNKNOWN);
        }
    };
    logs::start(flags.log_format, out);
    for flag in given.without_effect() {
        warn!("{flag}");
    }
    Ok(ended(process::zones(setup(cluster, settings).await?).await, out))
}

async fn setup(cluster: &Target, settings: Settings) -> anyhow::Result<ZonesSetup> {
    let mut config = match &settings.kubeconfig {
        Some((url, file)) => config_with_server(url, file).await?,
        None => connect::config(cluster).await?,
    };
    // Retries are done by muster: bounded, and only of requests that may be repeated.
    config.default_retry = false;
    let lease = sendable::sendable_client(config.clone(), Client::try_from)
        .context("the kubeconfig cannot be used")?;
    // The limit of each step of a request; muster has its own deadline for the whole request.
    (config.connect_timeout, config.read_timeout, config.write_timeout) = (
        settings.client_timeout,
        settings.client_timeout,
        settings.client_timeout,
    );
    let client = sendable::sendable_client(config, Client::try_from);
    let metrics = Metrics::default();
    let zone_metrics = ZoneMetrics::new(&metrics);
    let hosts = settings.pod_hosts.clone().map(PathBuf::from);
    let pods = Network::new(settings.pods_timeout, hosts, zone_metrics.clone())
        .context("requests to pods cannot be prepared")?;
    let webhooks = match settings.webhooks_port {
        Some(port) => Some(listen(port, "-server-tls.port").await?),
        None => None,
    };
    Ok(ZonesSetup {
        client: client.context("the kubeconfig cannot be used")?,
        door: Some(listen(settings.port, "-server.port").await?),
        webhooks,
        settings,
        clock: Clock::system(),
        jitter: Jitter::from_system(),
        pods: Arc::new(pods),
        instance: std::env::var("HOSTNAME").unwrap_or_else(|_unset| std::process::id().to_string()),
        lease: Some(Election {
            client: lease,
            duration: LeaseDuration::default(),
        }),
        metrics,
        zone_metrics,
        shutdown: until_signalled()?,
    })
}

/// The current context of a kubeconfig file, with another server address.
async fn config_with_server(url: &str, file: &str) -> anyhow::Result<Config> {
    let kubeconfig =
        Kubeconfig::read_from(file).with_context(|| format!("-kubernetes.config-file {file}"))?;
    let mut config = connect::configured(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("-kubernetes.config-file {file}"))?;
    config.cluster_url = url
        .parse()
        .with_context(|| format!("-kubernetes.api-url {url}"))?;
    Ok(config)
}

async fn listen(port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(("0.0.0.0", port))
        .await
        .with_context(|| format!("{flag} {port}: cannot listen there"))
}
