//! `muster machines`: the process that updates machines in place for Cluster API, and what people say about the update of a Machine.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use kube::{Client, ResourceExt as _, api::ListParams};
use muster_api::{
    UpdatePlan,
    control::Control,
    labels::{SYSTEM_NAMESPACE, annotation},
    update_plan::{MachineUpdate, MachineUpdateState},
};
use muster_controllers::{
    admission::{certificate::Subject, keeper::Storage},
    lease::{Election, LeaseDuration},
    machines::{config, updaters::Web},
    metrics::Metrics,
    process::{self, MACHINES, MachinesSetup, until_signalled},
    registry::connect_over_network,
    runtime::{Api, Clock, Jitter, sendable},
};
use muster_dashboard::why_machine;
use muster_fleet::{
    Address,
    connect::{self, Target},
    control::{self, DryRun},
    near,
};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::net::TcpListener;

use crate::{
    exit::DONE,
    explain,
    flags::{DoorAddress, DryRunFlag, WhyFlags, door_address},
    logs::{self, LogFormat},
    output,
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

/// How often a Machine is read while it is watched.
const AGAIN: Duration = Duration::from_secs(2);
/// How long a certificate of the process is valid.
const CERTIFICATE: Duration = Duration::from_hours(365 * 24);

#[derive(Args, Debug)]
pub(crate) struct MachinesFlags {
    #[command(subcommand)]
    pub verb: MachinesVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MachinesVerb {
    /// Answer the hooks of Cluster API for updates in place, and call the updaters (docs/machines.md)
    ///
    /// Exit codes: 0 ended by SIGTERM or Ctrl-C, 1 it ended by itself, 2 usage, or it could not begin.
    #[command(before_help = SERVE_EXAMPLES)]
    Serve(ServeFlags),
    /// Retry the update of a Machine: the step that failed begins once more
    ///
    /// Exit codes: 0 written, 2 could not be written, or no update of the Machine has failed.
    #[command(before_help = RETRY_EXAMPLES)]
    Retry(MachineFlags),
    /// Abort the update of a Machine: no updater is called for it any more, until a retry
    ///
    /// What was changed on the Machine stays. Cluster API hears a failure, with the way out.
    ///
    /// Exit codes: 0 written, 2 could not be written, or no update of the Machine is under way.
    #[command(before_help = ABORT_EXAMPLES)]
    Abort(MachineFlags),
}

#[derive(Args, Debug)]
pub(crate) struct ServeFlags {
    /// The updaters, and in which order they are called (docs/machines.md)
    #[arg(long, value_name = "FILE", env = "MUSTER_UPDATERS")]
    pub updaters: PathBuf,
    /// Where the hooks are called, over TLS
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:9443",
        env = "MUSTER_HOOKS_ADDR"
    )]
    pub hooks_addr: SocketAddr,
    /// The certificate of the hooks; without it, one is made, and kept in Secret muster-machines-certificate
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_key_file: Option<PathBuf>,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "MUSTER_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// Elect a leader by the Lease muster-machines; without it this must be the only such process
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", env = "MUSTER_LEADER_ELECT")]
    pub leader_elect: bool,
    /// Listen address of /metrics, /healthz and /readyz (plain HTTP, no authentication), such as 127.0.0.1:8080, or :8080 for all
    /// addresses; 0 or empty disables
    #[arg(long, default_value = "0", value_name = "ADDRESS:PORT", value_parser = door_address, env = "MUSTER_METRICS_ADDR")]
    pub metrics_addr: DoorAddress,
}

#[derive(Args, Debug)]
pub(crate) struct MachineFlags {
    /// The Machine
    pub machine: String,
    /// Reason, recorded in the UpdatePlan and in the message of the Machine
    #[arg(long)]
    pub reason: String,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Why there is no update to be changed.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum MachineError {
    /// The definition is not there.
    #[error(
        "this cluster has no UpdatePlans: muster machines is not installed here (docs/machines.md); next: muster install --export --machines --updaters FILE --crds"
    )]
    NotServed,
    /// No plan names the Machine.
    #[error(
        "no UpdatePlan in namespace {namespace} names Machine {machine}{near}; next: kubectl get updateplans -n {namespace}"
    )]
    NoPlan {
        /// The namespace.
        namespace: String,
        /// The Machine.
        machine: String,
        /// Names that may be meant.
        near: String,
    },
    /// Nothing failed.
    #[error(
        "the update of Machine {machine} has not failed: it is {state}; next: kubectl describe updateplan {plan} -n {namespace}"
    )]
    NotFailed {
        /// The Machine.
        machine: String,
        /// What it is.
        state: String,
        /// Its plan.
        plan: String,
        /// The namespace.
        namespace: String,
    },
    /// It is no rollout.
    #[error("machine/{machine} is no rollout; next: muster machines {verb} {machine} --reason REASON")]
    NotARollout {
        /// The Machine.
        machine: String,
        /// What is possible instead.
        verb: &'static str,
    },
    /// Nothing is left to end.
    #[error("the update of Machine {machine} is complete: there is nothing to abort")]
    Complete {
        /// The Machine.
        machine: String,
    },
}

/// Runs a verb.
pub(crate) async fn run(cluster: &Target, flags: &MachinesFlags) -> anyhow::Result<u8> {
    match &flags.verb {
        MachinesVerb::Serve(flags) => serve(cluster, flags).await,
        MachinesVerb::Retry(flags) => said(cluster, flags, annotation::RETRY).await,
        MachinesVerb::Abort(flags) => said(cluster, flags, annotation::ABORT).await,
    }
}

async fn serve(cluster: &Target, flags: &ServeFlags) -> anyhow::Result<u8> {
    let file = &flags.updaters;
    let named = || format!("--updaters {}", file.display());
    let text = tokio::fs::read(file).await.with_context(named)?;
    let updaters = config::read(&text).with_context(named)?;
    logs::start(flags.log_format);
    let mut config = connect::config(cluster).await?;
    // Retries are ours: bounded, and only of what may be repeated.
    config.default_retry = false;
    let client =
        || sendable::client(config.clone(), Client::try_from).context("the kubeconfig cannot be used");
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
    Ok(ended(process::machines(setup).await))
}

/// Writes a control to the plans that name a Machine.
async fn said(cluster: &Target, flags: &MachineFlags, key: &'static str) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let api: Api<UpdatePlan> = Api::namespaced(client.clone(), &namespace);
    let plans = listed(&api).await?;
    let named = meant(&plans, &namespace, &flags.machine, key)?;
    let control = Control {
        what: flags.machine.clone(),
        by: Some(control::me(&client).await),
        reason: Some(flags.reason.clone()),
        at: Some(control::now()),
        until: None,
    };
    let (other, verb) = if key == annotation::RETRY {
        (annotation::ABORT, "retried")
    } else {
        (annotation::RETRY, "aborted")
    };
    for plan in named {
        let address = Address::of_update_plan(&client, &namespace, &plan);
        // What was said before is over.
        let body = json!({"metadata": {"annotations": {key: control.to_text(), other: Value::Null}}});
        control::write(&address, body, flags.dry_run.by).await?;
        say!(
            "{}",
            control::done(
                &address,
                &format!("Machine {} {verb}", flags.machine),
                flags.dry_run.by
            )
        );
        if flags.dry_run.by == DryRun::None {
            say!("next: kubectl describe updateplan {plan} -n {namespace}");
        }
    }
    Ok(DONE)
}

/// Explains the update of a Machine; once, or at each change.
pub(crate) async fn why(
    client: &Client,
    namespace: &str,
    machine: &str,
    flags: &WhyFlags,
) -> anyhow::Result<u8> {
    if flags.cluster.is_some() || flags.node.is_some() {
        bail!(
            "--cluster is for modules, and --node for NodeModules: a Machine is named by its name and namespace alone"
        );
    }
    let api: Api<UpdatePlan> = Api::namespaced(client.clone(), namespace);
    let explained = async || {
        let plans = listed(&api).await?;
        let plan = present(&plans, namespace, machine)?;
        let why = why_machine(plan, machine).context("its plan does not name it any more")?;
        anyhow::Ok((plan.clone(), why))
    };
    let (mut plan, mut found) = explained().await?;
    if !flags.watch {
        return explain::print(&found, flags.output);
    }
    let mut live = output::Live::default();
    let mut shown = None;
    loop {
        if shown.as_ref() != Some(&found) {
            live.show_blocks(&explain::blocks(&found, output::width()));
            shown = Some(found);
        }
        tokio::time::sleep(AGAIN).await;
        // The one plan as long as it is under way: those of a namespace are up to a MiB each.
        let same = api
            .get_opt(&plan.name_any())
            .await
            .context("reading its UpdatePlan")?;
        let same = same.filter(|plan| entries(plan).any(|entry| entry.name == machine && entry.is_open()));
        (plan, found) = match same {
            Some(plan) => {
                let why = why_machine(&plan, machine).context("its plan does not name it any more")?;
                (plan, why)
            }
            None => explained().await?,
        };
    }
}

/// The plan by which a Machine is updated: one that is under way before one that is to come, and that before one that is over.
fn present<'a>(
    plans: &'a [UpdatePlan],
    namespace: &str,
    machine: &str,
) -> Result<&'a UpdatePlan, MachineError> {
    let order = |plan: &UpdatePlan| {
        let mut entries = entries(plan).filter(|entry| entry.name == machine);
        Some(match entries.next()?.state {
            MachineUpdateState::Updating | MachineUpdateState::Failed => 0,
            MachineUpdateState::Pending => 1,
            MachineUpdateState::Updated => 2,
        })
    };
    let made = |plan: &UpdatePlan| std::cmp::Reverse(plan.creation_timestamp());
    let naming = plans.iter().filter_map(|plan| Some((order(plan)?, plan)));
    let first = naming.min_by_key(|(order, plan)| (*order, made(plan)));
    first
        .map(|(_, plan)| plan)
        .ok_or_else(|| no_plan(plans, namespace, machine))
}

fn entries(plan: &UpdatePlan) -> impl Iterator<Item = &MachineUpdate> {
    plan.status.iter().flat_map(|status| &status.machines)
}

fn no_plan(plans: &[UpdatePlan], namespace: &str, machine: &str) -> MachineError {
    let known = plans.iter().flat_map(entries).map(|entry| entry.name.as_str());
    MachineError::NoPlan {
        namespace: namespace.to_owned(),
        machine: machine.to_owned(),
        near: near::offer(machine, known),
    }
}

async fn listed(api: &Api<UpdatePlan>) -> anyhow::Result<Vec<UpdatePlan>> {
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(MachineError::NotServed),
        Err(error) => Err(error).context("listing UpdatePlans"),
    }
}

/// The plans that are meant: those in which the update of the Machine can be retried or aborted.
fn meant(
    plans: &[UpdatePlan],
    namespace: &str,
    machine: &str,
    key: &str,
) -> Result<Vec<String>, MachineError> {
    let named: Vec<(String, MachineUpdateState)> = plans
        .iter()
        .flat_map(|plan| entries(plan).map(|entry| (plan.name_any(), entry)))
        .filter(|(_, entry)| entry.name == machine)
        .map(|(plan, entry)| (plan, entry.state))
        .collect();
    let Some((plan, state)) = named.first() else {
        return Err(no_plan(plans, namespace, machine));
    };
    let fits = |state: MachineUpdateState| match key {
        annotation::RETRY => state == MachineUpdateState::Failed,
        _ => state != MachineUpdateState::Updated,
    };
    let fitting: Vec<String> = named
        .iter()
        .filter(|(_, state)| fits(*state))
        .map(|(plan, _)| plan.clone())
        .collect();
    if !fitting.is_empty() {
        return Ok(fitting);
    }
    let machine = machine.to_owned();
    Err(match key {
        annotation::RETRY => MachineError::NotFailed {
            machine,
            state: format!("{state:?}"),
            plan: plan.clone(),
            namespace: namespace.to_owned(),
        },
        _ => MachineError::Complete { machine },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, machine: &str, state: &str) -> UpdatePlan {
        let spec = json!({"level": "MachineSet", "source": "old", "from": "a", "to": "b", "steps": [], "current": "{}", "desired": "{}"});
        let status = json!({"machines": [{"name": machine, "uid": "u", "state": state}]});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec, "status": status})).unwrap()
    }

    fn said(plans: &[UpdatePlan], machine: &str, key: &str) -> Result<Vec<String>, String> {
        meant(plans, "fleet", machine, key).map_err(|error| error.to_string())
    }

    #[test]
    fn a_retry_is_of_what_failed_and_an_abort_of_what_is_not_complete() {
        let plans = [
            plan("p1", "m1", "Updated"),
            plan("p2", "m1", "Failed"),
            plan("p3", "m2", "Updating"),
            plan("p4", "m3", "Updated"),
        ];
        assert_eq!(said(&plans, "m1", annotation::RETRY), Ok(vec!["p2".to_owned()]));
        assert_eq!(said(&plans, "m2", annotation::ABORT), Ok(vec!["p3".to_owned()]));
        let refused = said(&plans, "m2", annotation::RETRY).unwrap_err();
        assert!(
            refused.starts_with("the update of Machine m2 has not failed: it is Updating"),
            "{refused}"
        );
        let refused = said(&plans, "m3", annotation::ABORT).unwrap_err();
        assert_eq!(
            refused,
            "the update of Machine m3 is complete: there is nothing to abort"
        );
        let refused = said(&plans, "m4", annotation::RETRY).unwrap_err();
        assert!(
            refused.starts_with("no UpdatePlan in namespace fleet names Machine m4"),
            "{refused}"
        );
    }

    #[test]
    fn explained_is_the_plan_that_is_under_way() {
        let plans = [
            plan("p1", "m1", "Updated"),
            plan("p2", "m1", "Pending"),
            plan("p3", "m1", "Updating"),
            plan("p4", "m2", "Updated"),
        ];
        let name = |machine: &str| {
            let found = present(&plans, "fleet", machine).map(kube::ResourceExt::name_any);
            found.map_err(|error| error.to_string())
        };
        assert_eq!(name("m1"), Ok("p3".to_owned()));
        assert_eq!(name("m2"), Ok("p4".to_owned()));
        let refused = name("m3").unwrap_err();
        assert!(
            refused.starts_with("no UpdatePlan in namespace fleet names Machine m3"),
            "{refused}"
        );
    }
}
