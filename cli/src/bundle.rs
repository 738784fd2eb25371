//! `muster support-bundle`: collects everything needed to diagnose an installation into one file, without secrets.

use std::path::PathBuf;

use clap::Args;
use muster_fleet::connect::{self, Target};
use muster_inspect::bundle;

use crate::{
    exit::DONE,
    output::{Out, counted},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster support-bundle                       muster-support-<time>.tar.gz, here
  muster support-bundle -o bundle.tar.gz
  tar -tzf bundle.tar.gz                      list its content; review it before you share it";

/// Collect diagnostics into one archive, secrets redacted
///
/// The archive contains the objects of muster's kinds, events, logs of muster's pods, and the output of muster check -o
/// json; and only the names and keys of Secrets. Values of Secrets and anything that looks like a credential are masked
/// everywhere.
///
/// Exit codes: 0 written, 2 could not be written, or the management cluster does not answer.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct BundleFlags {
    /// The archive to write; it must not exist yet
    #[arg(short, long, value_name = "FILE.tar.gz")]
    pub output: Option<PathBuf>,
}

/// Writes the archive and prints what it contains.
pub(crate) async fn run(target: &Target, flags: &BundleFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let written = bundle::write(&client, &namespace, flags.output.clone()).await?;
    say!(
        out,
        "{}: {}",
        written.path.display(),
        counted(written.files, "file", "files")
    )?;
    for line in &written.failed {
        say!(out, "► not included: {line}")?;
    }
    say!(
        out,
        "Values of Secrets and anything that looks like a credential are masked. Review it before you share it: tar -tzf {}",
        written.path.display()
    )?;
    Ok(DONE)
}
