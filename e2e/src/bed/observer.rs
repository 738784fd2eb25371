//! An independent observer: reconstructs what happened from the event logs of all API servers, on one timeline.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::time::Instant;

use super::{Bed, Kind, kinds, objects, recorded::Event};
use crate::app::{APPS, image_tag};

/// A Deployment of downstream clusters, whose image tag is its version.
#[derive(Clone, Debug)]
pub struct Workload {
    namespace: String,
    name: String,
}

/// The state of a cluster's workload at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time of the event.
    pub at: Instant,
    /// The name of the cluster.
    pub cluster: String,
    /// The version in the Deployment's spec.
    pub version: String,
    /// Whether that version is ready, by kstatus.
    pub healthy: bool,
}

/// A claim that clusters are at a version.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The time of the claim.
    pub at: Instant,
    /// The object with the claim.
    pub by: String,
    /// The number of clusters, if the claim names none.
    pub count: usize,
    /// The name of the cluster, if the claim names one.
    pub cluster: Option<String>,
    /// The claimed version.
    pub version: String,
}

impl Workload {
    /// A Deployment by namespace and name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn is(&self, object: &Value) -> bool {
        object["metadata"]["name"] == *self.name && object["metadata"]["namespace"] == *self.namespace
    }
}

impl Bed {
    /// All versions of an object in a cluster, in order.
    pub fn versions(&self, cluster: &str, kind: Kind, name: &str) -> Vec<Value> {
        let events = self.clusters[cluster].api.events(kind);
        let of_it = events
            .iter()
            .map(Event::object)
            .filter(|object| object["metadata"]["name"] == name);
        of_it.cloned().collect()
    }

    /// All events of a workload, in order; at the same instant, clusters that became healthy come first.
    pub fn moments(&self, workload: &Workload) -> Vec<Moment> {
        let mut moments = Vec::new();
        for (name, cluster) in &self.clusters {
            let events = cluster.api.events(kinds::DEPLOYMENT);
            moments.extend(
                events
                    .iter()
                    .filter(|event| workload.is(event.object()))
                    .filter_map(|event| {
                        let version = image_tag(event.object())?.to_owned();
                        Some(Moment {
                            at: event.at,
                            cluster: name.clone(),
                            version,
                            healthy: is_healthy(event.object()),
                        })
                    }),
            );
        }
        moments.sort_by_key(|moment| (moment.at, !moment.healthy));
        moments
    }

    /// The clusters in the order in which a version first appeared in them.
    pub fn order(&self, workload: &Workload, version: &str) -> Vec<String> {
        let mut order: Vec<String> = Vec::new();
        for moment in self
            .moments(workload)
            .into_iter()
            .filter(|moment| moment.version == version)
        {
            if !order.contains(&moment.cluster) {
                order.push(moment.cluster);
            }
        }
        order
    }

    /// The largest number of clusters that were changing at once: their Deployment had a version that was not ready
    /// yet.
    pub fn most_changing(&self, workload: &Workload) -> usize {
        let sets = self.changing(workload);
        sets.iter().map(BTreeSet::len).max().unwrap_or_default()
    }

    /// The clusters that were changing, after each event.
    pub fn changing(&self, workload: &Workload) -> Vec<BTreeSet<String>> {
        let mut reached: BTreeSet<(String, String)> = BTreeSet::new();
        let mut changing = BTreeSet::new();
        let mut sets = Vec::new();
        for Moment {
            cluster,
            version,
            healthy,
            ..
        } in self.moments(workload)
        {
            let state = (cluster.clone(), version.clone());
            if healthy {
                reached.insert(state);
                changing.remove(&cluster);
            } else if !reached.contains(&state) {
                changing.insert(cluster);
            }
            sets.push(changing.clone());
        }
        sets
    }

    /// Every claim of a Module, ProxyAssemblage or Assemblage that clusters are at a version of `app`.
    pub fn claims(&self, app: &str) -> Vec<Claim> {
        let commits = self.versions_by_commit(app);
        let mut claims = Vec::new();
        for event in self.management.events(kinds::MODULE) {
            let status = &event.object()["status"];
            let (count, version) = (
                status["summary"]["updated"].as_u64().unwrap_or_default(),
                status["source"]["tag"].as_str(),
            );
            if let Some(version) = version.filter(|_| objects::name(event.object()) == app) {
                let count = usize::try_from(count).unwrap();
                claims.push(Claim {
                    at: event.at,
                    by: format!("Module {app}"),
                    count,
                    cluster: None,
                    version: version.to_owned(),
                });
            }
        }
        let proxies = self.management.events(kinds::PROXY_ASSEMBLAGE);
        let inside = self
            .clusters
            .values()
            .flat_map(|cluster| cluster.api.events(kinds::ASSEMBLAGE));
        for event in proxies.into_iter().chain(inside) {
            let cluster = objects::name(event.object()).to_owned();
            let state = find_by_name(&event.object()["status"]["syncs"], app)
                .filter(|state| state["state"] == "succeeded");
            let version = state.and_then(|state| commits.get(state["commit"].as_str()?));
            let by = event.object()["kind"].as_str().unwrap_or_default().to_owned();
            claims.extend(version.map(|version| Claim {
                at: event.at,
                by,
                count: 1,
                cluster: Some(cluster),
                version: version.clone(),
            }));
        }
        claims
    }

    /// The claims about `app` that were made before they were true: none, if muster keeps its promise. Fails if there
    /// are no claims at all.
    pub fn premature_claims(&self, app: &str) -> Vec<Claim> {
        let moments = self.moments(&Workload::new(APPS, app));
        let claims = self.claims(app);
        assert!(
            claims.iter().any(|claim| claim.cluster.is_some()) && claims.iter().any(|claim| claim.count > 1),
            "there are no claims: {claims:?}"
        );
        let is_true = |claim: &Claim| {
            let healthy = moments
                .iter()
                .filter(|moment| moment.healthy && moment.version == claim.version && moment.at <= claim.at);
            let clusters: BTreeSet<&str> = healthy.map(|moment| moment.cluster.as_str()).collect();
            match &claim.cluster {
                Some(cluster) => clusters.contains(cluster.as_str()),
                None => clusters.len() >= claim.count,
            }
        };
        claims.into_iter().filter(|claim| !is_true(claim)).collect()
    }

    /// The versions of `app` by commit, as its Module resolved them.
    fn versions_by_commit(&self, app: &str) -> BTreeMap<String, String> {
        let modules = self.management.events(kinds::MODULE);
        let sources = modules
            .iter()
            .filter(|event| objects::name(event.object()) == app)
            .map(|event| &event.object()["status"]["source"]);
        sources
            .filter_map(|source| {
                Some((
                    source["commit"].as_str()?.to_owned(),
                    source["tag"].as_str()?.to_owned(),
                ))
            })
            .collect()
    }
}

pub(super) fn find_by_name<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|item| item["name"] == name)
}

/// By the rules of kstatus for a Deployment.
fn is_healthy(deployment: &Value) -> bool {
    let number = |pointer: &str| {
        deployment
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    let wanted = number("/spec/replicas");
    let observed = deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"];
    observed
        && [
            "/status/replicas",
            "/status/updatedReplicas",
            "/status/availableReplicas",
        ]
        .iter()
        .all(|pointer| number(pointer) == wanted)
}
