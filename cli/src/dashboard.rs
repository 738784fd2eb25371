//! The fleet in a browser: `muster dashboard` runs with the rights of its user, the dashboard of a controller with
//! those of its service account.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use muster_controllers::process::until_signalled;
use muster_dashboard::server::Hosts;
use muster_fleet as fleet;
use muster_fleet::{
    Extent,
    connect::{self, Target},
};
use muster_operate::{dashboard::Local, install::Auth, reviews::Reviews};

use crate::{
    exit::DONE,
    flags::{DoorAddress, auth, door_address},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster dashboard                                  prints the address to open
  muster dashboard --addr 127.0.0.1:8080            always the same address
  muster dashboard --context eu-1                   NodeModules and nodes of that cluster
  muster dashboard --dashboard-hosts fleet.test     behind a proxy with this host name on this machine";

/// Serve a read-only dashboard of the fleet, live, with your own permissions
///
/// Listens on a loopback address until Ctrl-C. Nothing is written, and the pages have no buttons that change anything:
/// they show commands to copy. See docs/dashboard.md.
///
/// Exit codes: 0 ended by Ctrl-C, 2 could not start.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct DashboardFlags {
    /// Listen address; port 0 picks a free port
    #[arg(
        long,
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS:PORT",
        env = "MUSTER_DASHBOARD_ADDR"
    )]
    pub addr: SocketAddr,
    /// A host name that browsers may use, in addition to localhost and loopback addresses; may be repeated. Requests
    /// for other names are refused, so that another web page cannot read the dashboard by DNS rebinding
    #[arg(
        long,
        alias = "host-allowed",
        value_delimiter = ',',
        value_name = "NAME",
        env = "MUSTER_DASHBOARD_HOSTS"
    )]
    pub dashboard_hosts: Vec<String>,
}

/// Serves until Ctrl-C or SIGTERM.
pub(crate) async fn run(cluster: &Target, flags: DashboardFlags, out: &Out) -> anyhow::Result<u8> {
    let out = out.outliving_readers();
    let (client, namespace) = connect::client(cluster).await?;
    let DashboardFlags {
        addr,
        dashboard_hosts,
    } = flags;
    // Permanent errors are reported now, and not on a page.
    let extent = fleet::extent(&client, &namespace).await?;
    let shutdown = until_signalled()?;
    let hosts = Hosts::Loopback(dashboard_hosts);
    let local = Local::open(addr, &client, &namespace, hosts, extent).await?;
    match extent {
        Extent::Nodes => say!(out, "The nodes of the cluster: {}", local.url)?,
        _ => say!(out, "The fleet of namespace {namespace}: {}", local.url)?,
    }
    say!(out, "Ctrl-C stops it.")?;
    // Ended by the user: no error.
    let _ = shutdown.run_until_cancelled(local.serve()).await;
    Ok(DONE)
}

/// Flags of the dashboard of a controller.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Dashboard")]
#[allow(clippy::struct_field_names, reason = "the names of the flags")]
pub(crate) struct BesideFlags {
    /// Listen address of the dashboard (plain HTTP), such as 127.0.0.1:8081, or :8081 for all addresses; 0 or empty
    /// disables
    #[arg(
        long,
        default_value = "0",
        value_name = "ADDRESS:PORT",
        value_parser = door_address,
        env = "MUSTER_DASHBOARD_ADDR"
    )]
    pub dashboard_addr: DoorAddress,
    /// Who may view the dashboard
    #[arg(long, value_parser = auth(), default_value = "none", env = "MUSTER_DASHBOARD_AUTH")]
    pub dashboard_auth: Auth,
    /// A host name that browsers may use, in addition to localhost and loopback addresses; may be repeated. Without
    /// any, every name is accepted if --dashboard-addr is not a loopback address
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME",
        env = "MUSTER_DASHBOARD_HOSTS"
    )]
    pub dashboard_hosts: Vec<String>,
}

/// The dashboard of a controller, if it is enabled. It needs no leader election: every replica serves it.
pub(crate) async fn beside(cluster: &Target, flags: BesideFlags) -> anyhow::Result<Option<Local>> {
    let BesideFlags {
        dashboard_addr,
        dashboard_auth,
        dashboard_hosts,
    } = flags;
    let Some(addr) = dashboard_addr.address() else {
        return Ok(None);
    };
    // Uses its own connections, so that it and the controllers do not delay each other.
    let (client, namespace) = connect::client(cluster).await?;
    let hosts = if addr.ip().is_loopback() || !dashboard_hosts.is_empty() {
        Hosts::Loopback(dashboard_hosts)
    } else {
        Hosts::Any
    };
    // NodeModules are in other clusters, and the controller must not read their nodes.
    let mut local = Local::open(addr, &client, &namespace, hosts, Extent::Whole)
        .await
        .context("--dashboard-addr")?;
    if dashboard_auth == Auth::Token {
        local.admit(Arc::new(Reviews::new(client, namespace)));
    }
    Ok(Some(local))
}
