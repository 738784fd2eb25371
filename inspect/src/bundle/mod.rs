//! Support bundles: one file with everything needed to diagnose an installation, without secrets.
//!
//! ```text
//!   gather (reads, bounded) ─► redact (pure) ─► tar.gz, readable only by its owner
//! ```
//!
//! Invariant: of Secrets it has only names and keys; it has no kubeconfigs; everything else went through `redact`.

mod gather;
pub mod redact;

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use kube::Client;
use muster_controllers::runtime::{Clock, call_within};
use muster_fleet::apply::DEADLINE;

use self::gather::{File, Gathered};
use crate::check;

/// The written bundle.
#[derive(Debug)]
pub struct Bundle {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of files in the bundle.
    pub files: usize,
    /// What could not be read, a line each.
    pub failed: Vec<String>,
}

/// Writes a bundle of a namespace and of muster's own into a new file: the given one, or one in the working directory
/// with the time in its name.
pub async fn write(client: &Client, namespace: &str, path: Option<PathBuf>) -> anyhow::Result<Bundle> {
    let asking = client.apiserver_version();
    let server = call_within(DEADLINE, "asking the API server for its version", asking).await;
    let server = server.context(
        "the management cluster gave an unexpected answer (choose another with --kubeconfig or --context)",
    )?;
    let now = Clock::system().now();
    let stem = format!("muster-support-{}", now.strftime("%Y%m%d-%H%M%S"));
    let path = path.unwrap_or_else(|| PathBuf::from(format!("{stem}.tar.gz")));
    let file = create(&path)?;
    let read = Gathered::read(client, namespace).await;
    let mut gathered = read.inspect_err(|_| remove(&path))?;
    gathered.add(
        "version.txt",
        &format!(
            "muster {}\nAPI server {}\n{now}\n",
            env!("CARGO_PKG_VERSION"),
            server.git_version
        ),
    );
    match Box::pin(check::check_installation(client, namespace)).await {
        Ok(report) => gathered.add("check.json", &serde_json::to_string_pretty(&report)?),
        Err(error) => gathered
            .failed
            .push(gathered.redactor.text(&format!("check: {error:#}"))),
    }
    let failed = gathered.failed.join("\n");
    if !failed.is_empty() {
        gathered.add("not-read.txt", &format!("{failed}\n"));
    }
    gathered.add("README.txt", README);
    let written = pack(file, &stem, &gathered.files, now);
    if written.is_err() {
        remove(&path);
    }
    written.with_context(|| format!("writing {}", path.display()))?;
    Ok(Bundle {
        path,
        files: gathered.files.len(),
        failed: gathered.failed,
    })
}

/// Creates a file that only its owner may read.
fn create(path: &Path) -> anyhow::Result<fs::File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    file.with_context(|| {
        format!(
            "{} cannot be created (choose another name: -o FILE.tar.gz)",
            path.display()
        )
    })
}

/// Half a file is worse than none; a failure to remove it does not change the reported error.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

fn pack(file: impl Write, stem: &str, files: &[File], now: Timestamp) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for File { path, text } in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        // No clock is before 1970.
        header.set_mtime(u64::try_from(now.as_second()).unwrap_or_default());
        archive.append_data(&mut header, format!("{stem}/{path}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()?.flush()
}

const README: &str = "\
What muster support-bundle read from a management cluster.

version.txt     of the command and of the API server, and when
check.json      muster check -o json
objects/        modules, revisions, assemblages, clusters, sources, syncs, leases and events of the namespace and of muster-system,
                Deployments, pods and roles of muster-system
secrets/        Secrets by name, type and keys; no value
logs/           the last lines of muster's pods
not-read.txt    what could not be read, and why

Masked as ***: values of Secrets wherever they appear, values of environment variables and substitutions, users in addresses, tokens, private
keys. Left out: managed fields, copies of objects in annotations. Review it before you share it: plain text that a user wrote into an
object is included unchanged.
";
