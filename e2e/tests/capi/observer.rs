//! How many Clusters were changing at once, from the audit log: independent of muster's own counts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const OF_CLUSTER: &str = "cluster.x-k8s.io/cluster-name";

/// The Clusters whose version was ever changed, and the maximum that had a Machine of another version, or one too few,
/// at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    pub given: BTreeSet<String>,
    pub most: usize,
}

/// Reads an audit log of Clusters with this number of Machines each.
pub(crate) fn observed(log: &str, version: &str, machines: usize) -> Observed {
    let mut observed = Observed::default();
    let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for line in log.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let object = &event["responseObject"];
        let name = || object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match object["kind"].as_str() {
            Some("Cluster") if object["spec"]["topology"]["version"] == version => {
                observed.given.insert(name());
            }
            Some("KubeadmControlPlane") if object["spec"]["version"] == version => {
                let of = object["metadata"]["labels"][OF_CLUSTER].as_str();
                observed.given.insert(of.unwrap_or_default().to_owned());
            }
            Some("Machine") => {
                let of = object["metadata"]["labels"][OF_CLUSTER].as_str();
                let of = found.entry(of.unwrap_or_default().to_owned()).or_default();
                let is_gone = !object["metadata"]["deletionTimestamp"].is_null()
                    && object["metadata"]["finalizers"].is_null();
                if is_gone {
                    of.remove(&name());
                } else {
                    let version = object["spec"]["version"].as_str().unwrap_or_default();
                    of.insert(name(), version.to_owned());
                }
            }
            _ => continue,
        }
        let changing = observed.given.iter().filter(|cluster| {
            let of = found.get(*cluster);
            let is_there = |of: &BTreeMap<String, String>| {
                of.len() >= machines && of.values().all(|found| found == version)
            };
            !of.is_some_and(is_there)
        });
        observed.most = observed.most.max(changing.count());
    }
    observed
}
