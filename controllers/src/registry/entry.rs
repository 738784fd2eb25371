//! One cluster inside the actor: facts, kubeconfig, contact, and its published row. No I/O.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use muster_api::cluster::{self, Facts, NotReady};
use tokio::sync::Notify;

use super::{
    Connect,
    connection::{ConnectError, Connection, Gate},
    contact::Contact,
    identity::ObservedIdentity,
    kubeconfig::Access,
    probe::{Ask, Probe},
    row::{ClusterRow, ClusterState},
    state::{self, Kubeconfig},
};
use crate::runtime::{Jitter, Panicked, call::error_chain};

/// The pause for a cluster after a panic; it doubles each time, up to [`AFTER_PANIC_MAX`].
const AFTER_PANIC: Duration = Duration::from_secs(5);
/// The longest pause after a panic.
const AFTER_PANIC_MAX: Duration = Duration::from_mins(5);
/// This number of doublings of [`AFTER_PANIC`] exceeds [`AFTER_PANIC_MAX`].
const LONGEST_SHIFT: u32 = 6;

/// What the registry knows of one cluster.
pub(super) struct Entry {
    pub(super) facts: Facts,
    link: Link,
    pub(super) contact: Contact,
    /// The observed identity of the cluster behind the present credential.
    pub(super) observed_identity: Option<ObservedIdentity>,
    pub(super) identity: Identity,
    /// The uid of the last accepted identity.
    recognized: Option<String>,
    pub(super) last_contact: Option<Timestamp>,
    state: Option<(ClusterState, Timestamp)>,
    /// The last reported reason why it does not answer; also set if that was already so at startup.
    reported_reason: Option<NotReady>,
    /// Whether it has answered this process.
    answered: bool,
    added_at: Timestamp,
    /// The generation whose probe is running or waiting.
    pub(super) probing: Option<u64>,
    /// Panics since the last answer.
    panics: u32,
    /// Counts connections and credentials: the result of a probe of an earlier generation is ignored.
    pub(super) generation: u64,
    /// Triggers the next probe early.
    pub(super) poke: Arc<Notify>,
    /// A separate sequence, so that one cluster does not shift the times of another.
    pub(super) jitter: Jitter,
}

/// The identity of the cluster behind the present credential, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// Not observed yet.
    Unchecked,
    /// Observed, and being recorded.
    Keeping,
    /// The expected cluster; without a uid if the credential must not read it.
    Known(Option<String>),
    /// Another cluster, or it cannot be determined; why, and what to do.
    Refused(String),
}

/// A change in whether a cluster answers.
pub(super) enum News {
    /// It does not answer, or is not the expected cluster.
    Away {
        reason: NotReady,
        message: String,
        /// Whether nothing was known of it before: an earlier process may have reported it.
        first: bool,
    },
    /// It answers again.
    Back,
}

/// The connection, or why there is none.
enum Link {
    Unknown,
    Absent,
    Rejected(String),
    /// Handling it panicked: it is paused for a while.
    Broken,
    Up(Arc<Connection>),
}

/// The kubeconfig in a Secret: missing, rejected, or accepted.
pub(super) type KubeconfigLookup = Option<Result<Access, String>>;

impl Entry {
    pub(super) fn new(facts: Facts, now: Timestamp, generation: u64, jitter: &Jitter) -> Self {
        let jitter = jitter.of(&facts.name);
        Self {
            facts,
            link: Link::Unknown,
            contact: Contact::default(),
            observed_identity: None,
            identity: Identity::Unchecked,
            recognized: None,
            last_contact: None,
            state: None,
            reported_reason: None,
            answered: false,
            added_at: now,
            probing: None,
            panics: 0,
            generation,
            poke: Arc::default(),
            jitter,
        }
    }

    /// Processes the present kubeconfig. Returns whether the credential changed or was removed: results of probes in
    /// progress are ignored then.
    pub(super) fn take_kubeconfig(
        &mut self,
        connect: &Connect,
        found: KubeconfigLookup,
    ) -> Result<bool, Panicked> {
        let access = match found {
            None => return Ok(self.unlink(Link::Absent)),
            Some(Err(why)) => return Ok(self.unlink(Link::Rejected(why))),
            Some(Ok(access)) => access,
        };
        let linked = match &self.link {
            Link::Up(connection) if connection.same_access(&access) => return Ok(false),
            Link::Up(connection) if connection.same_server(&access) => connection.swap(connect, access),
            Link::Up(_) | Link::Unknown | Link::Absent | Link::Rejected(_) | Link::Broken => {
                Connection::open(connect, access).map(|connection| {
                    self.link = Link::Up(Arc::new(connection));
                    // The state of the old server does not apply to another one.
                    self.contact = Contact::default();
                })
            }
        };
        match linked {
            Ok(()) => {}
            Err(ConnectError::Panicked(panicked)) => return Err(panicked),
            Err(error) => return Ok(self.unlink(Link::Rejected(error_chain(&error)))),
        }
        // Another credential may lead to another cluster, even at the same address.
        self.forget_identity();
        Ok(true)
    }

    /// Drops the connection after a panic, as its state is not reliable. Returns the pause before the retry.
    pub(super) fn break_off(&mut self, generation: u64) -> Duration {
        self.unlink(Link::Broken);
        self.generation = generation;
        let pause = AFTER_PANIC.saturating_mul(1 << self.panics.min(LONGEST_SHIFT));
        self.panics = self.panics.saturating_add(1);
        pause.min(AFTER_PANIC_MAX)
    }

    /// Starts from scratch after a panic. Returns whether there was one.
    pub(super) fn begin_again(&mut self) -> bool {
        let broken = matches!(self.link, Link::Broken);
        if broken {
            self.unlink(Link::Unknown);
        }
        broken
    }

    /// Records the result of a probe.
    pub(super) fn record(&mut self, probe: Probe) {
        if matches!(probe, Probe::Answered { .. }) {
            self.panics = 0;
        }
        self.contact.record(probe);
    }

    fn unlink(&mut self, link: Link) -> bool {
        let was_up = self.connection().is_some();
        self.link = link;
        self.contact = Contact::default();
        self.forget_identity();
        was_up
    }

    fn forget_identity(&mut self) {
        self.observed_identity = None;
        self.identity = Identity::Unchecked;
    }

    /// Sets the result of the identity check, and opens or closes the gate of the connection.
    pub(super) fn identified(&mut self, identity: Identity) {
        let gate = match &identity {
            Identity::Unchecked | Identity::Keeping => Gate::Unchecked,
            Identity::Known(_) => Gate::Open,
            Identity::Refused(why) => Gate::Shut(why.as_str().into()),
        };
        if let Link::Up(connection) = &self.link {
            connection.set_gate(gate);
        }
        match &identity {
            Identity::Unchecked | Identity::Keeping => {}
            Identity::Known(uid) => self.recognized.clone_from(uid),
            Identity::Refused(_) => self.recognized = None,
        }
        self.identity = identity;
    }

    /// What the next probe should check.
    pub(super) fn next_probe(&self) -> Ask {
        let thorough = self.contact.is_thorough();
        Ask {
            kind: thorough,
            identity: thorough || !matches!(self.identity, Identity::Known(_)),
        }
    }

    /// Whether to probe: there is a connection, and the Cluster object itself does not forbid calls.
    pub(super) fn is_to_be_probed(&self) -> bool {
        self.connection().is_some() && cluster::state(Some(&self.facts)).is_ok()
    }

    /// The connection, if there is one.
    pub(super) fn connection(&self) -> Option<&Arc<Connection>> {
        match &self.link {
            Link::Up(connection) => Some(connection),
            Link::Unknown | Link::Absent | Link::Rejected(_) | Link::Broken => None,
        }
    }

    /// Whether the Secret has not been looked up yet.
    pub(super) fn needs_kubeconfig(&self) -> bool {
        matches!(self.link, Link::Unknown)
    }

    /// Whether its state is known.
    pub(super) fn is_known(&self) -> bool {
        self.state.is_some()
    }

    /// Computes the state; `since` changes only with the reason.
    pub(super) fn decide(&mut self, namespace: &str, now: Timestamp) {
        let kubeconfig = match (&self.link, &self.identity) {
            (Link::Unknown, _) => Kubeconfig::Unknown,
            (Link::Absent, _) => Kubeconfig::Absent,
            (Link::Broken, _) => Kubeconfig::Broken,
            (Link::Rejected(why), _) | (Link::Up(_), Identity::Refused(why)) => Kubeconfig::Rejected(why),
            (Link::Up(_), Identity::Unchecked | Identity::Keeping) => Kubeconfig::Unproven,
            (Link::Up(_), Identity::Known(_)) => Kubeconfig::Accepted,
        };
        let Some(state) = state::decide(namespace, &self.facts, kubeconfig, self.contact.reach()) else {
            return;
        };
        let since = match &self.state {
            Some((before, since)) if before.reason() == state.reason() => *since,
            _ => now,
        };
        self.state = Some((state, since));
    }

    /// Returns a change in whether it answers, once. Other obstacles (it is paused, its Secret is gone) are no such
    /// change.
    pub(super) fn take_news(&mut self) -> Option<News> {
        let (state, _) = self.state.as_ref()?;
        // A change of identity is reported where identities are checked.
        if state.reason() == Some(NotReady::KubeconfigRejected) && self.connection().is_some() {
            return None;
        }
        match state.reason() {
            None | Some(NotReady::KindMissing) => {
                self.answered = true;
                self.reported_reason.take().map(|_| News::Back)
            }
            Some(
                reason @ (NotReady::KubeconfigRejected
                | NotReady::Unreachable
                | NotReady::CredentialsRejected),
            ) => {
                let before = self.reported_reason.replace(reason);
                (before != Some(reason)).then(|| News::Away {
                    reason,
                    message: state.message().to_owned(),
                    first: before.is_none() && !self.answered,
                })
            }
            Some(
                NotReady::Deleting
                | NotReady::ClusterPaused
                | NotReady::ControlPlaneNotReady
                | NotReady::NoKubeconfig,
            ) => None,
        }
    }

    /// The published row. A cluster whose state is unknown yet says so.
    pub(super) fn row(&self) -> ClusterRow {
        let (state, since) = self
            .state
            .clone()
            .unwrap_or_else(|| (state::not_contacted(&self.facts.name), self.added_at));
        ClusterRow {
            api_version: self.facts.api_version.clone(),
            name: self.facts.name.clone(),
            uid: self.facts.uid.clone(),
            labels: self.facts.labels.clone(),
            annotations: self.facts.annotations.clone(),
            state,
            since,
            last_contact: self.last_contact,
            identity: self.recognized.clone(),
            upgrading: self.facts.upgrading,
            leads_elsewhere: matches!(self.identity, Identity::Refused(_)),
        }
    }
}
