//! Records of identities: one ConfigMap for each Cluster, which outlives this process and is garbage-collected with its
//! Cluster.
//!
//! There is one object for each, as the Cluster is only read, and its assemblages are created later than the first
//! contact; a single object for all would be full at some thousand clusters. Its name is derived from the Cluster's
//! uid: a Cluster re-created under its old name has no record yet. The registry is the only writer.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Client, ResourceExt,
    api::{ListParams, PostParams},
    core::ObjectMeta,
};
use muster_api::{
    cluster::Facts,
    labels::{MUSTER, label, manager},
    names,
};
use tracing::warn;

use crate::runtime::{Api, CallError, call};

/// Keys in the ConfigMap.
const CLUSTER: &str = "cluster";
const CLUSTER_UID: &str = "clusterUid";
const IDENTITY: &str = "kubeSystemUid";
/// Records per page of a list: each has less than 2 KiB.
const PAGE: u32 = 500;

/// The recorded identity of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    /// The uid of `kube-system`.
    pub(super) identity: String,
    /// The resourceVersion of the record; `None` while it is being created.
    pub(super) version: Option<String>,
}

/// All records, by uid of the Cluster.
#[derive(Debug, Default)]
pub(super) struct Pins {
    by_cluster: BTreeMap<String, Pin>,
    /// The uids of Clusters by identity: normally one.
    by_identity: BTreeMap<String, BTreeSet<String>>,
}

impl Pins {
    pub(super) fn get(&self, cluster: &str) -> Option<&Pin> {
        self.by_cluster.get(cluster)
    }

    pub(super) fn insert(&mut self, cluster: String, pin: Pin) {
        self.remove(&cluster);
        let held = self.by_identity.entry(pin.identity.clone()).or_default();
        held.insert(cluster.clone());
        self.by_cluster.insert(cluster, pin);
    }

    pub(super) fn remove(&mut self, cluster: &str) -> Option<Pin> {
        let pin = self.by_cluster.remove(cluster)?;
        if let Some(held) = self.by_identity.get_mut(&pin.identity) {
            held.remove(cluster);
            if held.is_empty() {
                self.by_identity.remove(&pin.identity);
            }
        }
        Some(pin)
    }

    /// Uids of other Clusters that are pinned to this identity.
    pub(super) fn others(&self, identity: &str, cluster: &str) -> BTreeSet<&str> {
        let held = self.by_identity.get(identity).into_iter().flatten();
        held.map(String::as_str)
            .filter(|other| *other != cluster)
            .collect()
    }
}

/// Reads all records.
pub(super) async fn load(client: Client, namespace: String) -> Result<Pins, CallError> {
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let mut page = ListParams::default().labels(label::IDENTITY).limit(PAGE);
    let mut pins = Pins::default();
    loop {
        let what = format!("listing the identities of clusters in {namespace}");
        let list = call(what, api.list(&page)).await?;
        for (cluster, pin) in list.items.iter().filter_map(|record| read(&namespace, record)) {
            pins.insert(cluster, pin);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(pins),
        }
    }
}

/// Writes a record: creates it, or replaces exactly the version that was read. Returns the present record, which
/// differs if another writer recorded one first (or this process did, and the response was lost).
pub(super) async fn write_pin(
    client: Client,
    namespace: String,
    facts: Facts,
    pin: Pin,
) -> Result<Pin, CallError> {
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let by = PostParams {
        field_manager: Some(manager::CONTROLLER.to_owned()),
        ..PostParams::default()
    };
    let record = record(&namespace, &facts, &pin);
    let name = record.name_any();
    let what = format!(
        "recording the identity of Cluster {} in ConfigMap {namespace}/{name}",
        facts.name
    );
    let written = match pin.version {
        None => match call(what, api.create(&by, &record)).await {
            Err(there) if there.is_conflict() => {
                let what = format!("reading ConfigMap {namespace}/{name}");
                let found = call(what, api.get(&name)).await?;
                return read(&namespace, &found).map(|(_, pin)| pin).ok_or(there);
            }
            created => created?,
        },
        Some(_) => call(what, api.replace(&name, &by, &record)).await?,
    };
    Ok(Pin {
        version: written.resource_version(),
        ..pin
    })
}

fn record(namespace: &str, facts: &Facts, pin: &Pin) -> ConfigMap {
    let owner = OwnerReference {
        api_version: facts.api_version.clone(),
        kind: "Cluster".to_owned(),
        name: facts.name.clone(),
        uid: facts.uid.clone(),
        ..OwnerReference::default()
    };
    let data = [
        (CLUSTER, &facts.name),
        (CLUSTER_UID, &facts.uid),
        (IDENTITY, &pin.identity),
    ];
    let labels = [(label::IDENTITY, ""), (label::MANAGED_BY, MUSTER)];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(names::cluster_identity(namespace, &facts.name, &facts.uid)),
            namespace: Some(namespace.to_owned()),
            resource_version: pin.version.clone(),
            labels: Some(
                labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(data.map(|(key, value)| (key.to_owned(), value.clone())).into()),
        ..ConfigMap::default()
    }
}

/// Parses a record whose name matches its content: a copy under another name is ignored.
fn read(namespace: &str, record: &ConfigMap) -> Option<(String, Pin)> {
    let value = |key: &str| record.data.as_ref()?.get(key).filter(|text| !text.is_empty());
    let pin = value(CLUSTER)
        .zip(value(CLUSTER_UID))
        .filter(|(cluster, uid)| record.name_any() == names::cluster_identity(namespace, cluster, uid))
        .zip(value(IDENTITY))
        .map(|((_, uid), identity)| {
            let pin = Pin {
                identity: identity.clone(),
                version: record.resource_version(),
            };
            (uid.clone(), pin)
        });
    if pin.is_none() {
        warn!(
            config_map = record.name_any(),
            "a record of a cluster's identity cannot be read"
        );
    }
    pin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(identity: &str) -> Pin {
        Pin {
            identity: identity.to_owned(),
            version: None,
        }
    }

    #[test]
    fn clusters_pinned_to_an_identity_are_found_by_it() {
        let mut pins = Pins::default();
        for (cluster, identity) in [("a", "1"), ("b", "2"), ("c", "1")] {
            pins.insert(cluster.to_owned(), pin(identity));
        }
        let others = |pins: &Pins, identity: &str, cluster: &str| {
            pins.others(identity, cluster).into_iter().collect::<String>()
        };
        assert_eq!(others(&pins, "1", "a"), "c");
        assert_eq!(others(&pins, "1", "new"), "ac");
        assert_eq!(others(&pins, "2", "b"), "");
        pins.insert("a".to_owned(), pin("2"));
        assert_eq!(
            (others(&pins, "1", "c"), others(&pins, "2", "b")),
            (String::new(), "a".to_owned())
        );
        assert_eq!(pins.remove("a"), Some(pin("2")));
        assert_eq!((others(&pins, "2", "b"), pins.remove("a")), (String::new(), None));
    }
}
