//! An independent observer: reads all writes from the logs of all API servers, ordered by time.

use std::collections::{BTreeMap, BTreeSet};

use muster_apiserver::{ApiServer, ChangeKind, GroupResource, record::EventRecord};
use serde_json::Value;

use super::{
    super::{
        cluster::{AGENT, Cluster},
        plane::{CONTROLLER, NAMESPACE, Plane},
    },
    guide::CheckResult,
    rights,
    world::App,
};
use crate::install;

/// The logs of all API servers.
pub(crate) struct Observer<'a> {
    management: &'a ApiServer,
    clusters: Vec<(String, &'a ApiServer)>,
}

/// A write to an application's Deployment.
struct Moment {
    at: tokio::time::Instant,
    cluster: String,
    /// Tag of the image; `None` if the Deployment was deleted.
    version: Option<String>,
    ready: bool,
}

impl<'a> Observer<'a> {
    /// Creates an observer of a demo.
    pub(crate) fn new(plane: &'a Plane, clusters: &[&'a Cluster]) -> Self {
        Self {
            management: plane.server(),
            clusters: clusters
                .iter()
                .map(|cluster| (cluster.name.to_string(), cluster.server()))
                .collect(),
        }
    }

    /// Whether no more than `limit` clusters were changing at any time since the start: from the write of another
    /// version to a cluster's Deployment until it is ready.
    pub(crate) fn changing(&self, app: App, limit: usize) -> CheckResult {
        let mut versions: BTreeMap<&str, &str> = BTreeMap::new();
        let mut changing: BTreeSet<&str> = BTreeSet::new();
        let mut most: BTreeSet<&str> = BTreeSet::new();
        let mut times = 0;
        let moments = self.moments(app)?;
        for moment in &moments {
            let cluster = moment.cluster.as_str();
            match &moment.version {
                None => {
                    versions.remove(cluster);
                    changing.remove(cluster);
                }
                Some(version) if versions.insert(cluster, version) != Some(version) => {
                    times += 1;
                    changing.insert(cluster);
                }
                Some(_) => {}
            }
            if moment.ready {
                changing.remove(cluster);
            }
            if changing.len() > most.len() {
                most.clone_from(&changing);
            }
        }
        match most.len() {
            0 => Err("no cluster ever changed".to_owned()),
            number if number <= limit => Ok(format!("{times} changes, never more than {number} at once")),
            _ => Err(format!("{} at the same time", listed(most))),
        }
    }

    /// Whether no module was assigned to a further cluster while `limit` clusters had not reported it done: from a row
    /// with a new token to the report of that token, in the log of the management plane.
    pub(crate) fn assigned(&self, resource: &str, module: &str, limit: usize) -> CheckResult {
        let (mut tokens, mut open, mut most) = (BTreeMap::new(), BTreeSet::new(), 0);
        for event in log(self.management, "fleet.muster.dev", resource)? {
            let object = event.object();
            let cluster = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let row = find_by_name(&object["spec"]["syncs"], module)
                .filter(|_| event.kind() != ChangeKind::Deleted);
            let Some((row, token)) = row.and_then(|row| Some((row, row["token"].as_u64()?))) else {
                open.remove(&cluster);
                continue;
            };
            if tokens.insert(cluster.clone(), token) != Some(token) {
                open.remove(&cluster);
                // A row without a source requests a withdrawal, which does not count against the limit.
                if row["source"].is_object() {
                    open.insert(cluster.clone());
                    most = most.max(open.len());
                }
            }
            let done = find_by_name(&object["status"]["syncs"], module).is_some_and(|report| {
                report["token"] == token
                    && report["digest"] == row["digest"]
                    && report["state"] == "succeeded"
            });
            if done {
                open.remove(&cluster);
            }
        }
        match most {
            0 => Err(format!("{module} was never assigned")),
            number if number <= limit => Ok(format!("never more than {number}")),
            number => Err(format!("{number} clusters at once")),
        }
    }

    /// Whether muster sent only requests to the API servers that `muster install --export` allows. For an agent only
    /// requests for muster's and Flux's kinds count: it may apply anything from git.
    pub(crate) fn rights(&self) -> CheckResult {
        let controller = install::rights_of_controller(NAMESPACE);
        let of_controller = rights::suffice(self.management, CONTROLLER, &controller, |_| true)?;
        let agent = install::rights_of_agent();
        let is_own = |group: &str| {
            group.ends_with("muster.dev") || group.ends_with("fluxcd.io") || group.ends_with(".k8s.io")
        };
        let mut of_agents = String::new();
        for (name, api) in &self.clusters {
            of_agents = rights::suffice(api, AGENT, &agent, is_own)
                .map_err(|observed| format!("{name}: {observed}"))?;
        }
        Ok(format!(
            "{of_controller} of the controller, {of_agents} of an agent"
        ))
    }

    /// All clusters to which a version was written, in the order of the first write.
    pub(crate) fn had(&self, app: App, version: &str) -> Result<Vec<String>, String> {
        let mut order: Vec<String> = Vec::new();
        for moment in self.moments(app)? {
            if moment.version.as_deref() == Some(version) && !order.contains(&moment.cluster) {
                order.push(moment.cluster);
            }
        }
        Ok(order)
    }

    fn moments(&self, app: App) -> Result<Vec<Moment>, String> {
        let mut moments = Vec::new();
        for (name, api) in &self.clusters {
            let all = log(api, "apps", "deployments")?;
            let of_app = all.iter().filter(|event| {
                let metadata = &event.object()["metadata"];
                metadata["namespace"] == app.namespace && metadata["name"] == app.deployment
            });
            moments.extend(of_app.map(|event| moment(name, event)));
        }
        // At the same time, clusters that become ready come first.
        moments.sort_by_key(|moment| (moment.at, !moment.ready));
        Ok(moments)
    }
}

fn moment(cluster: &str, event: &EventRecord) -> Moment {
    let object = event.object();
    let image = object
        .pointer("/spec/template/spec/containers/0/image")
        .and_then(Value::as_str);
    let version = image.and_then(|image| Some(image.rsplit_once(':')?.1.to_owned()));
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let ready = object["status"]["observedGeneration"] == object["metadata"]["generation"]
        && [
            "/status/replicas",
            "/status/updatedReplicas",
            "/status/availableReplicas",
        ]
        .iter()
        .all(|pointer| number(pointer) == number("/spec/replicas"));
    Moment {
        at: event.at,
        cluster: cluster.to_owned(),
        version: version.filter(|_| event.kind() != ChangeKind::Deleted),
        ready,
    }
}

/// All writes to a resource; an incomplete log proves nothing.
fn log(api: &ApiServer, group: &str, resource: &str) -> Result<Vec<EventRecord>, String> {
    if api.recorder().dropped().1 > 0 {
        return Err("the log of an API server is not complete".to_owned());
    }
    let resource = GroupResource::new(group, resource);
    Ok(api
        .recorder()
        .events()
        .into_iter()
        .filter(|event| event.resource == resource)
        .collect())
}

fn find_by_name<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|item| item["name"] == name)
}

fn listed(names: BTreeSet<&str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}
