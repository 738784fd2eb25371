//! Checks the health of an installation; each problem has a code, a reason and a remedy.
//!
//! ```text
//!   world (reads) ─► judge (pure) ─► findings ─► Report ─► text, JSON
//!   before_installation, one (cluster, from this machine), before_upgrade: each reads what it needs
//! ```
//!
//! Invariant: nothing is written; no value of a Secret is shown.

mod code;
mod deep;
mod expiry;
mod finding;
mod flux;
mod judge;
mod machines;
mod pre;
mod rights;
mod text;
mod upgrade;
mod world;

use kube::Client;
use muster_controllers::upgrade::version::Version;

pub use self::{
    finding::{Finding, Group, Level, Report},
    text::lines,
    upgrade::version,
};

/// The value that was read, or why it could not be read.
pub type Read<T> = Result<T, String>;

/// Checks whether a cluster is ready for an installation.
pub async fn before_installation(client: &Client, namespace: &str) -> anyhow::Result<Report> {
    Ok(Report::new(
        namespace,
        pre::check_before_install(client, namespace).await?,
    ))
}

/// Checks what currently blocks each opted-in Cluster from this version, before a ClusterUpgrade.
pub async fn before_upgrade(client: &Client, namespace: &str, target: Version) -> anyhow::Result<Report> {
    Ok(Report::new(
        namespace,
        upgrade::check_upgrades(client, namespace, target).await?,
    ))
}

/// Checks one cluster in depth: from this machine, with the kubeconfig that the controller uses.
pub async fn one(client: &Client, namespace: &str, cluster: &str) -> anyhow::Result<Report> {
    Ok(Report::new(
        namespace,
        deep::check_cluster(client, namespace, cluster).await?,
    ))
}

/// Checks the installation, its clusters and modules.
pub async fn check_installation(client: &Client, namespace: &str) -> anyhow::Result<Report> {
    let world = Box::pin(world::read(client, namespace)).await?;
    Ok(Report::new(namespace, judge::all(&world)))
}
