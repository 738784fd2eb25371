//! `muster dashboard`: the fleet in a browser, with the rights of whoever starts it.

use std::net::SocketAddr;

use anyhow::Context as _;
use clap::Args;
use kube::Client;
use muster_dashboard::server::{self, Hosts, Limits, Setup};
use tokio::net::TcpListener;

use crate::{
    DONE,
    args::ClusterFlags,
    connect,
    fleet::{self, Extent},
    process,
};

pub const EXAMPLES: &str = "\
Examples:
  muster dashboard                                  prints the address to open
  muster dashboard --addr 127.0.0.1:8080            always the same address
  muster dashboard --host-allowed fleet.test        behind a proxy on this machine that has this name";

#[derive(Args, Debug)]
pub struct DashboardFlags {
    /// Where it is answered; port 0: one that is free
    #[arg(
        long,
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS:PORT",
        env = "MUSTER_DASHBOARD_ADDR"
    )]
    pub addr: SocketAddr,
    /// A name besides localhost and loopback addresses by which a browser may ask; may be repeated. Others are refused, so that no
    /// stranger's page can look in by a name that points here
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub host_allowed: Vec<String>,
}

/// Answers until Ctrl-C or SIGTERM.
pub async fn run(cluster: &ClusterFlags, flags: DashboardFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let DashboardFlags { addr, host_allowed } = flags;
    // Whatever is wrong for good is said now, and not on a page.
    fleet::read(&client, &namespace).await?;
    let shutdown = process::until_signalled()?;
    let local = Local::open(addr, &client, &namespace, Hosts::Loopback(host_allowed)).await?;
    anstream::println!("The fleet of namespace {namespace}: {}", local.url);
    anstream::println!("Ctrl-C ends it.");
    // Whoever ended it has what was asked for.
    let _ = shutdown.run_until_cancelled(local.serve()).await;
    Ok(DONE)
}

/// A dashboard that is about to be answered on this machine.
pub struct Local {
    /// Where to look.
    pub url: String,
    door: TcpListener,
    setup: Setup,
}

impl Local {
    /// Opens the door, and begins to read the fleet.
    pub async fn open(
        addr: SocketAddr,
        client: &Client,
        namespace: &str,
        hosts: Hosts,
    ) -> anyhow::Result<Self> {
        let door = TcpListener::bind(addr)
            .await
            .with_context(|| format!("{addr}: cannot listen there"))?;
        let url = format!(
            "http://{}/",
            door.local_addr().context("the address of the dashboard")?
        );
        let setup = Setup {
            snapshots: fleet::follow(client, namespace, Extent::Whole),
            hosts,
            admission: None,
            limits: Limits::default(),
        };
        Ok(Self { url, door, setup })
    }

    /// Answers until it is dropped.
    pub async fn serve(self) {
        server::serve(self.door, server::router(self.setup)).await;
    }
}
