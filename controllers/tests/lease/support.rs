//! An API server with a Lease, and its candidates.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use muster_apiserver::{
    ApiServer,
    fault::{Fault, Match, Rule},
};
use muster_controllers::{
    lease::{Candidate, Election, Leadership, LeaseDuration, Lost, Term},
    runtime::{Clock, Jitter},
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) const NS: &str = "default";
pub(crate) const LEASE: &str = "muster-controller";
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct Bed {
    pub api: ApiServer,
    pub clock: Clock,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(Vec::new())
    }

    pub(crate) fn with(definitions: Vec<CustomResourceDefinition>) -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let api = ApiServer::builder()
            .event_log(true)
            .clock(muster_apiserver::Clock::starting_at(start))
            .with(definitions)
            .in_process()
            .unwrap();
        Self {
            api,
            clock: Clock::starting_at(start),
        }
    }

    /// A candidate with a lease of 15 s, identified by its name at the API server.
    pub(crate) fn candidate(&self, name: &str) -> Candidate {
        let election = Election {
            client: self.api.client_as(name),
            duration: LeaseDuration::default(),
        };
        let jitter = Jitter::seeded(1).of(name);
        Candidate::new(election, NS, LEASE, name, self.clock.clone(), jitter)
    }

    /// Becomes the leader at once.
    pub(crate) async fn lead(&self, name: &str) -> Term {
        let started = Instant::now();
        let term = self.candidate(name).stand().await;
        assert_eq!(started.elapsed(), Duration::ZERO, "it was free");
        term
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.api.client_as("person"), NS)
    }

    /// The spec of the Lease.
    pub(crate) async fn spec(&self) -> LeaseSpec {
        self.leases().get(LEASE).await.unwrap().spec.unwrap()
    }

    pub(crate) async fn holder(&self) -> Option<String> {
        self.spec().await.holder_identity
    }

    /// Changes the Lease, as a user does with kubectl.
    pub(crate) async fn edit(&self, change: Value) {
        let patch = Patch::Merge(change);
        self.leases()
            .patch(LEASE, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self) {
        self.leases()
            .delete(LEASE, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// The API server fails a client.
    pub(crate) fn fail(&self, name: &str, fault: Fault) -> muster_apiserver::fault::RuleId {
        self.api.faults().add(Rule::always(Match::client(name), fault))
    }

    /// The number of writes by a client.
    pub(crate) fn writes(&self, name: &str) -> usize {
        self.api.recorder().writes(name).len()
    }
}

/// A term that a task keeps, until it is dropped.
pub(crate) struct Kept {
    pub leadership: Leadership,
    pub lost: AbortOnDropHandle<(Lost, Duration)>,
}

/// Keeps a term. The task returns why it ended, and after how long.
pub(crate) fn keep(mut term: Term) -> Kept {
    let (leadership, started) = (term.leadership(), Instant::now());
    Kept {
        leadership,
        lost: AbortOnDropHandle::new(tokio::spawn(
            async move { (term.keep().await, started.elapsed()) },
        )),
    }
}

pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) fn holder_is(name: &str) -> Value {
    json!({"spec": {"holderIdentity": name}})
}
