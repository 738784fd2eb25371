//! `muster version`.

use anyhow::Context as _;

use crate::{
    DONE,
    args::{ClusterFlags, VersionFlags},
    connect,
};

pub const EXAMPLES: &str = "\
Examples:
  muster version
  muster version --client";

/// Prints the version of this command, and that of the management cluster's API server.
pub async fn run(cluster: &ClusterFlags, flags: &VersionFlags) -> anyhow::Result<u8> {
    say!("muster {}", env!("CARGO_PKG_VERSION"));
    if !flags.client {
        let (client, _) = connect::client(cluster).await?;
        let server = client
            .apiserver_version()
            .await
            .context("the API server does not tell its version (--client: do not ask)")?;
        say!("API server {}", server.git_version);
    }
    Ok(DONE)
}
