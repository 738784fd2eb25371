//! Waits for the Lease, and acquires it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::{
    Election,
    post::Post,
    term::Term,
    watched::{Chance, Watched, taken},
};
use crate::runtime::{Api, CallError, Clock, Jitter, call::error_chain};

/// A process that waits to become the leader.
pub struct Candidate {
    pub(super) post: Post,
    jitter: Jitter,
    watched: Watched,
    /// A write whose response was lost: it may have succeeded.
    attempt: Option<(Lease, Instant)>,
    /// The holder that was logged last.
    logged_holder: Option<String>,
}

impl Candidate {
    /// A candidate for the Lease `name` in a namespace; a suffix makes `instance` unique to this process.
    pub fn new(
        election: Election,
        namespace: &str,
        name: &str,
        instance: &str,
        clock: Clock,
        jitter: Jitter,
    ) -> Self {
        Self {
            post: Post {
                leases: Api::namespaced(election.client, namespace),
                name: name.to_owned(),
                me: format!("{instance}_{}", jitter.tag()),
                duration: election.duration,
                clock,
            },
            jitter,
            watched: Watched::default(),
            attempt: None,
            logged_holder: None,
        }
    }

    /// The holder identity in the Lease.
    pub fn identity(&self) -> &str {
        &self.post.me
    }

    /// Waits for the Lease and acquires it. Dropping the future withdraws the candidate at once.
    pub async fn stand(mut self) -> Term {
        loop {
            let started = Instant::now();
            let wait = match self.try_acquire().await {
                Ok(AcquireResult::Leads(term)) => return *term,
                Ok(AcquireResult::Waits(wait)) => wait,
                Err(error) => {
                    warn!(
                        error = error_chain(&error),
                        "the lease could not be acquired, retrying"
                    );
                    self.pause()
                }
            };
            sleep_until(started + wait).await;
        }
    }

    /// Reads the Lease once, and acquires it if it is free.
    async fn try_acquire(&mut self) -> Result<AcquireResult, CallError> {
        let lease = self.post.read().await?;
        let now = Instant::now();
        if let Some(term) = self.already(lease.as_ref()) {
            return Ok(AcquireResult::Leads(Box::new(term)));
        }
        match self.watched.observe(lease.as_ref(), self.post.duration, now) {
            Chance::Held { by, until } => {
                let left = until.saturating_duration_since(now);
                self.log_holder(by);
                Ok(AcquireResult::Waits(self.pause().min(left)))
            }
            Chance::Free => self.take(lease).await,
        }
    }

    async fn take(&mut self, lease: Option<Lease>) -> Result<AcquireResult, CallError> {
        let Post {
            name,
            me,
            duration,
            clock,
            ..
        } = &self.post;
        let wanted = taken(lease, name, me, *duration, clock.now());
        let sent = Instant::now();
        self.attempt = Some((wanted.clone(), sent));
        match self.post.write(&wanted).await {
            Ok(lease) => Ok(AcquireResult::Leads(Box::new(self.lead(lease, sent)))),
            // Another process was faster.
            Err(error) if error.is_conflict() => {
                self.attempt = None;
                Ok(AcquireResult::Waits(self.pause()))
            }
            Err(error) => Err(error),
        }
    }

    /// Leadership by an attempt whose response was lost, if it has time left.
    fn already(&mut self, lease: Option<&Lease>) -> Option<Term> {
        let (attempt, sent) = self.attempt.as_ref()?;
        let came_about = lease.filter(|lease| lease.spec == attempt.spec)?;
        let in_time = sent.elapsed() < self.post.duration.acts_for();
        let sent = *sent;
        in_time.then(|| self.lead(came_about.clone(), sent))
    }

    fn lead(&self, lease: Lease, sent: Instant) -> Term {
        let gap = self.watched.gap(self.post.clock.now());
        info!(
            lease = self.post.name,
            holder = self.post.me,
            gap_seconds = gap.as_secs(),
            "leading"
        );
        Term::new(&self.post, lease, sent, gap)
    }

    fn log_holder(&mut self, by: String) {
        if self.logged_holder.as_ref() != Some(&by) {
            info!(
                lease = self.post.name,
                holder = by,
                "waiting: another process is the leader"
            );
            self.logged_holder = Some(by);
        }
    }

    /// The wait until the next try: candidates do not try in step, and none waits longer than
    /// [`super::LeaseDuration::retry_every`].
    fn pause(&self) -> Duration {
        self.jitter
            .spread(self.post.duration.retry_every().mul_f64(0.9), 0.1)
    }
}

/// The result of a try.
enum AcquireResult {
    Leads(Box<Term>),
    Waits(Duration),
}
