//! `muster reconcile`: reconciles now, not at the next interval.

use std::time::Duration;

use clap::Args;
use muster_fleet::{
    connect::{self, Target},
    name::{ModuleName, over_clusters},
    reconcile,
};

use crate::{
    exit::{DONE, FAILED},
    flags::duration,
    output::Out,
};

/// Reconcile a module now instead of at its next interval
///
/// Exit codes: 0 reconciled, 1 timed out; 2 no such module, or the result is unknown.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ReconcileFlags {
    /// module/NAME or bootstrapmodule/NAME
    #[arg(value_parser = over_clusters)]
    pub module: ModuleName,
    /// Give up after this time; exit code 1
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub timeout: Duration,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster reconcile module/podinfo
  muster reconcile bootstrapmodule/base --timeout 2m";

/// Requests a reconcile by Flux's annotation, and waits until it is handled.
pub(crate) async fn run(cluster: &Target, flags: &ReconcileFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let ReconcileFlags { module, timeout } = flags;
    let request = reconcile::request(&client, &namespace, module).await?;
    match tokio::time::timeout(*timeout, request.handled()).await {
        Ok(outcome) => {
            say!(out, "{module} reconciled: {}", outcome?)?;
            Ok(DONE)
        }
        Err(_elapsed) => {
            say!(
                out,
                "{module} was not reconciled within {}s: is muster controller running?",
                timeout.as_secs()
            )?;
            Ok(FAILED)
        }
    }
}
