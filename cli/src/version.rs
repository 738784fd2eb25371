//! `muster version`: prints versions.

use anyhow::Context as _;
use clap::Args;
use muster_fleet::connect::{self, Target};

use crate::{exit::DONE, flags::View, output::Out};

/// Print the version of this command and of the management cluster's API server
///
/// With -o json: `schema` (`version/v1`), muster, and server (null with --client).
///
/// Exit codes: 0 printed, 2 the API server does not answer.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct VersionFlags {
    /// Only the version of this command
    #[arg(long)]
    pub client: bool,
    /// Output format: table or json
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster version
  muster version --client
  muster version -o json";

/// Prints the versions of this command and of the management cluster's API server.
pub(crate) async fn run(cluster: &Target, flags: &VersionFlags, out: &Out) -> anyhow::Result<u8> {
    let own = env!("CARGO_PKG_VERSION");
    if flags.output == View::Table {
        say!(out, "muster {own}")?;
    }
    let server = if flags.client {
        None
    } else {
        Some(server(cluster).await?)
    };
    match (flags.output, server) {
        (View::Table, Some(server)) => say!(out, "API server {server}")?,
        (View::Table, None) => {}
        (View::Json, server) => {
            let json = serde_json::json!({"schema": "version/v1", "muster": own, "server": server});
            out.json(&json)?;
        }
    }
    Ok(DONE)
}

async fn server(cluster: &Target) -> anyhow::Result<String> {
    let (client, _) = connect::client(cluster).await?;
    let server = client.apiserver_version().await;
    let server =
        server.context("the API server does not report its version (with --client, it is not asked)")?;
    Ok(server.git_version)
}
