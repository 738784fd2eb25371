//! `muster machines`: the process that updates machines in place for Cluster API, and the commands that control the
//! update of a Machine.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use kube::Client;
use muster_api::labels::SYSTEM_NAMESPACE;
use muster_controllers::{
    admission::{certificate::Subject, keeper::Storage},
    lease::{Election, LeaseDuration},
    machines::{config, updaters::Web},
    metrics::Metrics,
    process::{self, MACHINES, MachinesSetup, until_signalled},
    registry::connect_over_network,
    runtime::{Clock, Jitter, sendable},
};
use muster_fleet::{
    connect::{self, Target},
    machines,
    stage_control::ControlOptions,
};
use tokio::net::TcpListener;

use crate::{
    exit::DONE,
    flags::{DoorAddress, DryRunFlag, door_address},
    logs::{self, LogFormat},
    output::Out,
    process::{ended, open},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster machines serve --updaters updaters.yaml
  muster machines retry web-md-0-x7k2p -n fleet --reason 'the registry is back'
  muster machines abort web-md-0-x7k2p -n fleet --reason 'wrong image'";
pub(crate) const SERVE_EXAMPLES: &str = "\
Examples:
  muster machines serve --updaters updaters.yaml
  muster machines serve --updaters updaters.yaml --tls-cert-file tls.crt --tls-key-file tls.key";
pub(crate) const RETRY_EXAMPLES: &str = "\
Examples:
  muster machines retry web-md-0-x7k2p -n fleet --reason 'the registry is back'";
pub(crate) const ABORT_EXAMPLES: &str = "\
Examples:
  muster machines abort web-md-0-x7k2p -n fleet --reason 'wrong image'";

/// How long a certificate of the process is valid.
const CERTIFICATE: Duration = Duration::from_hours(365 * 24);

/// Update machines in place for Cluster API, and retry or abort the update of a Machine
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct MachinesFlags {
    #[command(subcommand)]
    pub verb: MachinesVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MachinesVerb {
    Serve(ServeFlags),
    /// Retry the update of a Machine: the step that failed starts again
    ///
    /// Exit codes: 0 written, 2 no update of the Machine has failed, or it could not be written.
    #[command(before_help = RETRY_EXAMPLES)]
    Retry(MachineFlags),
    /// Abort the update of a Machine: no updater is called for it until a retry
    ///
    /// What was changed on the Machine stays. Cluster API gets a failure whose message says how to retry.
    ///
    /// Exit codes: 0 written, 2 could not be written, or no update of the Machine is in progress.
    #[command(before_help = ABORT_EXAMPLES)]
    Abort(MachineFlags),
}

/// Serve the Cluster API hooks for in-place updates, and call the updaters (docs/machines.md)
///
/// Exit codes: 0 ended by SIGTERM or Ctrl-C, 1 ended on its own, 2 usage, or could not start.
#[derive(Args, Debug)]
#[command(before_help = SERVE_EXAMPLES)]
pub(crate) struct ServeFlags {
    /// The file with the updaters, in the order in which they are called (docs/machines.md)
    #[arg(long, value_name = "FILE", env = "MUSTER_UPDATERS")]
    pub updaters: PathBuf,
    /// Listen address of the hooks (TLS)
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:9443",
        env = "MUSTER_HOOKS_ADDR"
    )]
    pub hooks_addr: SocketAddr,
    /// The TLS certificate of the hooks; without it, one is created and kept in the Secret muster-machines-certificate
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// The private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_key_file: Option<PathBuf>,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "MUSTER_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// Elect a leader through the Lease muster-machines; if false, this must be the only such process
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", env = "MUSTER_LEADER_ELECT")]
    pub leader_elect: bool,
    /// Listen address of /metrics, /healthz and /readyz (plain HTTP, no authentication), such as 127.0.0.1:8080, or
    /// :8080 for all addresses; 0 or empty disables
    #[arg(long, default_value = "0", value_name = "ADDRESS:PORT", value_parser = door_address, env = "MUSTER_METRICS_ADDR")]
    pub metrics_addr: DoorAddress,
}

#[derive(Args, Debug)]
pub(crate) struct MachineFlags {
    /// The name of the Machine
    pub machine: String,
    /// Reason, recorded in the UpdatePlan and shown in the Machine's status message
    #[arg(long)]
    pub reason: String,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Runs a verb.
pub(crate) async fn run(cluster: &Target, flags: &MachinesFlags, out: &Out) -> anyhow::Result<u8> {
    match &flags.verb {
        MachinesVerb::Serve(flags) => serve(cluster, flags, out).await,
        MachinesVerb::Retry(flags) => {
            let (client, namespace) = connect::client(cluster).await?;
            machines::retry_machine(&client, (&namespace, &flags.machine), &flags.word(), out).await?;
            Ok(DONE)
        }
        MachinesVerb::Abort(flags) => {
            let (client, namespace) = connect::client(cluster).await?;
            machines::abort_machine(&client, (&namespace, &flags.machine), &flags.word(), out).await?;
            Ok(DONE)
        }
    }
}

impl MachineFlags {
    fn word(&self) -> ControlOptions {
        ControlOptions {
            reason: Some(self.reason.clone()),
            dry_run: self.dry_run.by,
        }
    }
}

async fn serve(cluster: &Target, flags: &ServeFlags, out: &Out) -> anyhow::Result<u8> {
    let file = &flags.updaters;
    let named = || format!("--updaters {}", file.display());
    let text = tokio::fs::read(file).await.with_context(named)?;
    let updaters = config::read(&text).with_context(named)?;
    logs::start(flags.log_format, out);
    let mut config = connect::config(cluster).await?;
    // Retries are done by muster: bounded, and only of requests that may be repeated.
    config.default_retry = false;
    let client = || {
        sendable::sendable_client(config.clone(), Client::try_from).context("the kubeconfig cannot be used")
    };
    let namespace = cluster
        .namespace
        .clone()
        .unwrap_or_else(|| SYSTEM_NAMESPACE.to_owned());
    let storage = match (&flags.tls_cert_file, &flags.tls_key_file) {
        (Some(certificate), Some(key)) => Storage::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        },
        _ => Storage::Secret {
            namespace: namespace.clone(),
            name: format!("{MACHINES}-certificate"),
            subject: Subject {
                dns_names: vec![format!("{MACHINES}.{namespace}.svc")],
                org: "muster".to_owned(),
                expiration: CERTIFICATE,
            },
        },
    };
    let address = flags.hooks_addr;
    let hooks = TcpListener::bind(address).await;
    let setup = MachinesSetup {
        client: client()?,
        lease: flags
            .leader_elect
            .then(client)
            .transpose()?
            .map(|client| Election {
                client,
                duration: LeaseDuration::default(),
            }),
        namespace,
        updaters,
        call: Arc::new(Web::default()),
        connect: Arc::new(connect_over_network),
        storage,
        hooks: hooks.with_context(|| format!("--hooks-addr {address}: cannot listen there"))?,
        clock: Clock::system(),
        jitter: Jitter::from_system(),
        instance: std::env::var("HOSTNAME").unwrap_or_else(|_unset| std::process::id().to_string()),
        door: open(flags.metrics_addr).await?,
        metrics: Metrics::default(),
        shutdown: until_signalled()?,
    };
    Ok(ended(process::run_machines(setup).await, out))
}
