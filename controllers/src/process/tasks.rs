//! The tasks of a process, and how they end.

use std::time::Duration;

use tokio::task::JoinSet;
use tracing::{info, warn};

use super::ProcessError;
use crate::{metrics::Metrics, runtime::Shutdown};

/// How long reconciles in flight may take to finish after shutdown starts: the deadline of the longest call.
const FINISH: Duration = crate::runtime::call::CALL_DEADLINE;

/// The tasks of a process; dropping them ends them.
pub(super) struct Tasks {
    set: JoinSet<&'static str>,
    shutdown: Shutdown,
    metrics: Metrics,
}

impl Tasks {
    pub(super) fn new(shutdown: Shutdown, metrics: Metrics) -> Self {
        Self {
            set: JoinSet::new(),
            shutdown,
            metrics,
        }
    }

    /// A task that serves controllers.
    pub(super) fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.set.spawn(async move {
            task.await;
            name
        });
    }

    /// A controller: this process is not ready until the controller is.
    pub(super) fn control(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        // Registered here, as not synced.
        drop(self.metrics.controller(name));
        self.spawn(name, task);
    }

    /// Waits for shutdown and then for the tasks; an end before that is an error.
    pub(super) async fn finish(&mut self) -> Result<(), ProcessError> {
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            Some(ended) = self.set.join_next() => {
                // Both may have happened at once.
                if !self.shutdown.is_cancelled() {
                    return Err(ended.map_or_else(ProcessError::Panicked, ProcessError::Ended));
                }
            }
        }
        info!("shutting down: writes in flight are finished");
        let all = async {
            while let Some(ended) = self.set.join_next().await {
                ended.map_err(ProcessError::Panicked)?;
            }
            Ok(())
        };
        tokio::time::timeout(FINISH, all)
            .await
            .unwrap_or_else(|_elapsed| {
                warn!(
                    seconds = FINISH.as_secs(),
                    "a task did not finish in time; it is aborted"
                );
                Ok(())
            })
    }
}
