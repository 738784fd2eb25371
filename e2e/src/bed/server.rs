//! An API server of the bed: the embedded one, which records all events, or a real one, which is watched.

use kube::Client;
use muster_apiserver::{ApiServer, GroupResource, Login};
use serde_json::Value;

use super::{
    Kind, PERSON, real,
    recorded::{Event, Request},
};

/// An API server.
pub enum Server {
    /// The embedded server, in this process.
    Embedded(ApiServer),
    /// kube-apiserver.
    Real(real::Server),
}

impl Server {
    /// A client for scenarios.
    pub fn client(&self) -> Client {
        match self {
            Self::Embedded(api) => api.client_as(PERSON),
            Self::Real(server) => server.client(),
        }
    }

    /// A kubeconfig for a user, if the server listens on a socket.
    pub fn kubeconfig_of(&self, user: &str) -> String {
        match self {
            Self::Embedded(api) => kubeconfig_of(api, user),
            Self::Real(server) => server.kubeconfig_of(user),
        }
    }

    /// All versions of the objects of a kind, in order.
    pub fn events(&self, kind: Kind) -> Vec<Event> {
        match self {
            Self::Real(server) => server.events(kind),
            Self::Embedded(api) => {
                let (group, resource) = kind.resource();
                let resource = GroupResource::new(group, resource);
                assert_eq!(api.recorder().dropped().1, 0, "the event log is complete");
                let events = api.recorder().events().into_iter();
                events
                    .filter(|event| event.resource == resource)
                    .map(Event::recorded)
                    .collect()
            }
        }
    }

    /// All versions of the objects of a kind that were observed so far; on a real server the most recent ones may be
    /// missing.
    pub fn versions(&self, kind: Kind) -> Vec<Value> {
        match self {
            Self::Real(server) => server.versions(kind),
            Self::Embedded(_) => {
                let events = self.events(kind);
                events.iter().map(|event| event.object().clone()).collect()
            }
        }
    }

    /// All requests so far, in order; on a real server only those of muster.
    pub fn requests(&self) -> Vec<Request> {
        match self {
            Self::Real(server) => server.requests(),
            Self::Embedded(api) => {
                let requests = api.recorder().requests();
                requests
                    .iter()
                    .map(|request| Request::recorded(request))
                    .collect()
            }
        }
    }

    /// Discards what was recorded so far.
    pub fn discard_history(&self) {
        match self {
            Self::Embedded(api) => api.recorder().clear(),
            Self::Real(server) => server.discard_history(),
        }
    }

    /// The embedded server, for fault injection and for its full record.
    pub fn embedded(&self) -> &ApiServer {
        match self {
            Self::Embedded(api) => api,
            Self::Real(_) => panic!("a real server knows no faults and keeps no record of all kinds"),
        }
    }
}

/// A kubeconfig for a user of an API server with HTTPS.
pub(crate) fn kubeconfig_of(api: &ApiServer, user: &str) -> String {
    let identity = api.issue(user).unwrap();
    api.kubeconfig_of(&identity, Login::Certificate)
        .expect("the HTTPS listener is open")
}
