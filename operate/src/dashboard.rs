//! Serves the dashboard of a fleet on this machine.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use kube::Client;
use muster_dashboard::server::{self, Admission, Hosts, Limits, Setup};
use muster_fleet::{self as fleet, Extent};
use tokio::net::TcpListener;

/// A dashboard that is ready to be served on this machine.
pub struct Local {
    /// URL of the dashboard.
    pub url: String,
    door: TcpListener,
    setup: Setup,
}

impl Local {
    /// Binds the address, and starts to read the fleet.
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

    /// Restricts access by this check.
    pub fn admit(&mut self, admission: Arc<dyn Admission>) {
        self.setup.admission = Some(admission);
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        server::serve(self.door, server::router(self.setup)).await;
    }
}
