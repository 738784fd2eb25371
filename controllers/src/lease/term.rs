//! Holds the Lease: renews it, and releases it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use thiserror::Error;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{info, warn};

use super::{
    Leadership,
    post::{Post, is_same_term},
    watched::{holder, released_lease, renewed},
};
use crate::runtime::{CallError, call::error_chain};

/// The term in which this process leads.
pub struct Term {
    post: Post,
    /// The Lease as last written or read.
    held: Lease,
    leadership: Leadership,
    renew_at: Instant,
    /// How long there was no leader before.
    pub gap: Duration,
}

/// Why a term ended. This process must not do anything else.
#[derive(Debug, Error)]
pub enum Lost {
    /// No renewal succeeded in time, or this process was stopped.
    #[error("Lease {lease} was not renewed for {} s: this process stops acting and ends, another process may become the leader", tenths(*.after))]
    NotRenewed {
        /// The name of the Lease.
        lease: String,
        /// How long a renewal may take.
        after: Duration,
        /// The error of the last try.
        #[source]
        last: Option<CallError>,
    },
    /// The Lease has another holder.
    #[error("Lease {lease} was taken by {by}: this process stops acting and ends")]
    Taken {
        /// The name of the Lease.
        lease: String,
        /// The new holder.
        by: String,
    },
}

impl Term {
    pub(super) fn new(post: &Post, held: Lease, sent: Instant, gap: Duration) -> Self {
        Self {
            leadership: Leadership::until(sent + post.duration.acts_for()),
            renew_at: sent + post.duration.renew_every(),
            post: post.clone(),
            held,
            gap,
        }
    }

    /// The right to act.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Renews until that fails for too long.
    pub async fn keep(&mut self) -> Lost {
        let mut last = None;
        loop {
            let end = self.leadership.end();
            sleep_until(self.renew_at.min(end)).await;
            // First of all: a process that was stopped and continued may find its lease still unclaimed, and has lost
            // it.
            if self.leadership.check().is_err() {
                return self.not_renewed(last);
            }
            let sent = Instant::now();
            match timeout_at(end, self.renew()).await {
                Ok(Ok(Renewal::Done)) => {
                    self.leadership.extend(sent + self.post.duration.acts_for());
                    self.renew_at = sent + self.post.duration.renew_every();
                    last = None;
                }
                Ok(Ok(Renewal::Taken(by))) => {
                    return Lost::Taken {
                        lease: self.post.name.clone(),
                        by,
                    };
                }
                Ok(Err(error)) => {
                    warn!(
                        lease = self.post.name,
                        error = error_chain(&error),
                        "the lease could not be renewed, retrying"
                    );
                    self.renew_at = (sent + self.post.duration.retry_every()).max(Instant::now());
                    last = Some(error);
                }
                Err(_elapsed) => return self.not_renewed(last),
            }
        }
    }

    /// Releases the right to act, and then the Lease, so that another process need not wait. Nothing may act any more
    /// when this is called; later attempts are refused.
    pub async fn release(self) {
        self.leadership.give_up();
        let lease = released_lease(&self.held, self.post.clock.now());
        match self.post.write(&lease).await {
            Ok(_) => info!(lease = self.post.name, "released"),
            Err(error) => warn!(
                lease = self.post.name,
                error = error_chain(&error),
                "the lease could not be released, another process must wait until it expires"
            ),
        }
    }

    /// Renews once. If another writer changed the object in the meantime, it is read first.
    async fn renew(&mut self) -> Result<Renewal, CallError> {
        let refused = match self.write_renewal().await {
            Ok(()) => return Ok(Renewal::Done),
            // A deleted object is a conflict for a server that checks the uid first, and an internal error for one that
            // checks the version first.
            Err(error) if matches!(error.code(), Some(400 | 404 | 409 | 422 | 500)) => error,
            Err(error) => return Err(error),
        };
        match self.post.read().await? {
            None => {
                // Deleted by hand. Other candidates wait until the lease that they observed expires.
                self.held.metadata.resource_version = None;
                self.held.metadata.uid = None;
                self.held.metadata.creation_timestamp = None;
            }
            Some(lease) if is_same_term(&lease, &self.post, &self.held) => self.held = lease,
            Some(lease) => {
                let by = lease.spec.as_ref().and_then(holder).unwrap_or("nobody");
                return Ok(Renewal::Taken(by.to_owned()));
            }
        }
        warn!(
            lease = self.post.name,
            error = error_chain(&refused),
            "another writer changed the lease"
        );
        self.write_renewal().await.map(|()| Renewal::Done)
    }

    async fn write_renewal(&mut self) -> Result<(), CallError> {
        let lease = renewed(&self.held, self.post.duration, self.post.clock.now());
        self.held = self.post.write(&lease).await?;
        Ok(())
    }

    fn not_renewed(&self, last: Option<CallError>) -> Lost {
        Lost::NotRenewed {
            lease: self.post.name.clone(),
            after: self.post.duration.acts_for(),
            last,
        }
    }
}

/// Seconds, to a tenth.
fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

/// The result of a renewal that got a response.
enum Renewal {
    Done,
    Taken(String),
}
