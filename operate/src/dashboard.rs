//! The dashboard of a fleet, answered on this machine.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use kube::Client;
use muster_dashboard::server::{self, Admission, Hosts, Limits, Setup};
use muster_fleet::{self as fleet, Extent};
use tokio::net::TcpListener;

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
        extent: Extent,
    ) -> anyhow::Result<Self> {
        let door = TcpListener::bind(addr)
            .await
            .with_context(|| format!("{addr}: cannot listen there"))?;
        let url = format!(
            "http://{}/",
            door.local_addr().context("the address of the dashboard")?
        );
        let setup = Setup {
            snapshots: fleet::follow(client, namespace, extent),
            hosts,
            admission: None,
            limits: Limits::default(),
        };
        Ok(Self { url, door, setup })
    }

    /// Lets only those look whom this admits.
    pub fn admit(&mut self, admission: Arc<dyn Admission>) {
        self.setup.admission = Some(admission);
    }

    /// Answers until it is dropped.
    pub async fn serve(self) {
        server::serve(self.door, server::router(self.setup)).await;
    }
}
