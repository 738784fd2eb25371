//! One cluster inside the actor: facts, kubeconfig, contact, and what is published of it. No I/O.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use muster_api::cluster::{self, Facts, NotReady};
use tokio::sync::Notify;

use super::{
    Connect,
    connection::{ConnectError, Connection, Gate},
    contact::Contact,
    identity::Sight,
    kubeconfig::Access,
    probe::{Ask, Probe},
    row::{ClusterRow, ClusterState},
    state::{self, Kubeconfig},
};
use crate::runtime::{Jitter, Panicked, call::explain};

/// How long a cluster is left alone after a panic; twice as long each time, up to [`AFTER_PANIC_MAX`].
const AFTER_PANIC: Duration = Duration::from_secs(5);
/// The longest time.
const AFTER_PANIC_MAX: Duration = Duration::from_mins(5);
/// So many doublings of [`AFTER_PANIC`] are over [`AFTER_PANIC_MAX`].
const LONGEST_SHIFT: u32 = 6;

/// What the registry knows of one cluster.
pub(super) struct Entry {
    pub(super) facts: Facts,
    link: Link,
    pub(super) contact: Contact,
    /// What the present credential was seen to lead to.
    pub(super) sight: Option<Sight>,
    pub(super) identity: Identity,
    /// The uid that it was last known by.
    recognized: Option<String>,
    pub(super) last_contact: Option<Timestamp>,
    state: Option<(ClusterState, Timestamp)>,
    /// Why it does not answer, as it was told last in an event, or was so before anybody could tell.
    told: Option<NotReady>,
    /// It answered in the time of this process.
    answered: bool,
    first_seen: Timestamp,
    /// The generation whose probe is under way or waiting.
    pub(super) probing: Option<u64>,
    /// Panics since it answered last.
    panics: u32,
    /// Counts connections and credentials: the outcome of a probe that was begun under an earlier one is not taken.
    pub(super) generation: u64,
    /// Brings the next probe forward.
    pub(super) poke: Arc<Notify>,
    /// Of its own, so that no cluster shifts the times of another.
    pub(super) jitter: Jitter,
}

/// Which cluster the present credential leads to, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// Not seen yet.
    Unchecked,
    /// Seen, and being recorded.
    Keeping,
    /// The one that it was; without a uid if the credential may not read it.
    Known(Option<String>),
    /// Another one, or that cannot be said; why, and what to do.
    Refused(String),
}

/// Whether a cluster answers has changed.
pub(super) enum News {
    /// It does not, or is not what it was.
    Away {
        reason: NotReady,
        message: String,
        /// Nothing was known of it before: an earlier process may have told it.
        first: bool,
    },
    /// It does again.
    Back,
}

/// What became of the kubeconfig.
enum Link {
    Unknown,
    Absent,
    Rejected(String),
    /// Handling it panicked: nothing is done with it for a while.
    Broken,
    Up(Arc<Connection>),
}

/// What a Secret says: nothing there, refused, or a way in.
pub(super) type Found = Option<Result<Access, String>>;

impl Entry {
    pub(super) fn new(facts: Facts, now: Timestamp, generation: u64, jitter: &Jitter) -> Self {
        let jitter = jitter.of(&facts.name);
        Self {
            facts,
            link: Link::Unknown,
            contact: Contact::default(),
            sight: None,
            identity: Identity::Unchecked,
            recognized: None,
            last_contact: None,
            state: None,
            told: None,
            answered: false,
            first_seen: now,
            probing: None,
            panics: 0,
            generation,
            poke: Arc::default(),
            jitter,
        }
    }

    /// Takes in what the Secret says now. Returns whether another credential, or none, is in use: probes that are under way then say nothing.
    pub(super) fn take_kubeconfig(&mut self, connect: &Connect, found: Found) -> Result<bool, Panicked> {
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
                    // What was known of the old server says nothing of another one.
                    self.contact = Contact::default();
                })
            }
        };
        match linked {
            Ok(()) => {}
            Err(ConnectError::Panicked(panicked)) => return Err(panicked),
            Err(error) => return Ok(self.unlink(Link::Rejected(explain(&error)))),
        }
        // Another credential may lead to another cluster, also at the same address.
        self.forget_identity();
        Ok(true)
    }

    /// Handling it panicked: what is known of its connection cannot be relied on any more. Returns the pause before it is tried again.
    pub(super) fn break_off(&mut self, generation: u64) -> Duration {
        self.unlink(Link::Broken);
        self.generation = generation;
        let pause = AFTER_PANIC.saturating_mul(1 << self.panics.min(LONGEST_SHIFT));
        self.panics = self.panics.saturating_add(1);
        pause.min(AFTER_PANIC_MAX)
    }

    /// It is handled again from the start. Returns whether it was broken off.
    pub(super) fn begin_again(&mut self) -> bool {
        let broken = matches!(self.link, Link::Broken);
        if broken {
            self.unlink(Link::Unknown);
        }
        broken
    }

    /// What a probe found out.
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
        self.sight = None;
        self.identity = Identity::Unchecked;
    }

    /// What was found out about the identity: opens the gate of the connection, or shuts it.
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

    /// What the next probe is to find out.
    pub(super) fn ask(&self) -> Ask {
        let thorough = self.contact.is_thorough();
        Ask {
            kind: thorough,
            identity: thorough || !matches!(self.identity, Identity::Known(_)),
        }
    }

    /// Whether probes are of use: there is a connection, and nothing of the Cluster object itself forbids calls.
    pub(super) fn is_to_be_probed(&self) -> bool {
        self.connection().is_some() && cluster::state(Some(&self.facts)).is_ok()
    }

    /// The living connection.
    pub(super) fn connection(&self) -> Option<&Arc<Connection>> {
        match &self.link {
            Link::Up(connection) => Some(connection),
            Link::Unknown | Link::Absent | Link::Rejected(_) | Link::Broken => None,
        }
    }

    /// The Secret was not looked for yet.
    pub(super) fn needs_kubeconfig(&self) -> bool {
        matches!(self.link, Link::Unknown)
    }

    /// Whether it has a state yet.
    pub(super) fn is_known(&self) -> bool {
        self.state.is_some()
    }

    /// Works the state out again; `since` moves with the reason only.
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

    /// Whether it answers, each time that this changes. What is in the way of calls besides (it is paused, its Secret is gone) says nothing
    /// of that.
    pub(super) fn take_news(&mut self) -> Option<News> {
        let (state, _) = self.state.as_ref()?;
        // That it leads to another cluster is told where that is judged.
        if state.reason() == Some(NotReady::KubeconfigRejected) && self.connection().is_some() {
            return None;
        }
        match state.reason() {
            None | Some(NotReady::KindMissing) => {
                self.answered = true;
                self.told.take().map(|_| News::Back)
            }
            Some(
                reason @ (NotReady::KubeconfigRejected
                | NotReady::Unreachable
                | NotReady::CredentialsRejected),
            ) => {
                let before = self.told.replace(reason);
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

    /// What the world sees. A cluster of which nothing is known yet says so.
    pub(super) fn row(&self) -> ClusterRow {
        let (state, since) = self
            .state
            .clone()
            .unwrap_or_else(|| (state::not_contacted(&self.facts.name), self.first_seen));
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
