//! The pod of a node copies its token and the CA certificate of the API server to the agent of the host.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use muster_controllers::runtime::Shutdown;
use thiserror::Error;
use tracing::{info, warn};

use crate::{
    connection::{AUTHORITY, TOKEN},
    files,
};

/// The interval of comparing the files. The kubelet writes a new token after 80% of the old one's lifetime.
const PERIOD: Duration = Duration::from_secs(10);

/// Why a file was not copied.
#[derive(Debug, Error)]
#[error("{}: {error}", .file.display())]
pub struct CopyError {
    /// The file.
    pub file: PathBuf,
    /// The error.
    pub error: io::Error,
}

/// Copies the files whenever they change, until shutdown.
pub async fn keep(from: &Path, to: &Path, shutdown: Shutdown) {
    let mut last = String::new();
    loop {
        let problem = copy(from, to).err().map(|error| error.to_string());
        let problem = problem.unwrap_or_default();
        match (problem.is_empty(), problem == last) {
            (_, true) => {}
            (true, _) => info!("token and CA certificate were copied"),
            (false, _) => warn!(error = problem, "not copied, will be retried"),
        }
        last = problem;
        if shutdown
            .run_until_cancelled(tokio::time::sleep(PERIOD))
            .await
            .is_none()
        {
            return;
        }
    }
}

/// Copies both files if they differ: atomically, readable by root only.
pub fn copy(from: &Path, to: &Path) -> Result<(), CopyError> {
    for name in [AUTHORITY, TOKEN] {
        let (from, to) = (from.join(name), to.join(name));
        let content = fs::read(&from).map_err(|error| CopyError { file: from, error })?;
        if fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        files::replace(&to, &content, 0o600).map_err(|error| CopyError { file: to, error })?;
    }
    Ok(())
}
