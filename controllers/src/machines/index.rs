//! Which Machine has which uid, which MachineSet it is of, and what its owner is: rows of what is watched.

use std::sync::Arc;

use futures::Stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Client, ResourceExt as _,
    core::{ApiResource, DynamicObject},
    runtime::watcher,
};
use muster_api::cluster::GROUP;

use crate::runtime::{Api, Guard, Index, Key, watch};

/// A Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineRow {
    /// Its uid.
    pub uid: String,
    /// What controls it.
    pub owner: Option<OwnerReference>,
    /// The Cluster that it is of.
    pub cluster: Option<String>,
    /// Its Node in that Cluster, once it is there.
    pub node: Option<String>,
}

impl MachineRow {
    /// The MachineSet that it is of now.
    pub fn machine_set(&self) -> Option<&str> {
        let owner = self.owner.as_ref()?;
        (owner.kind == "MachineSet").then_some(&owner.name)
    }
}

/// The Machines of the management cluster.
pub type MachineIndex = Index<DynamicObject, MachineRow>;

/// How Machines are asked for.
pub fn machines() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: "v1beta2".to_owned(),
        api_version: format!("{GROUP}/v1beta2"),
        kind: "Machine".to_owned(),
        plural: "machines".to_owned(),
    }
}

/// An index that [`watched`] fills.
pub fn machine_index() -> MachineIndex {
    Index::new(
        |machine: &DynamicObject| {
            let mut owners = machine.owner_references().iter();
            let controller = owners.find(|owner| owner.controller == Some(true));
            let text = |pointer: &str| machine.data.pointer(pointer)?.as_str().map(str::to_owned);
            Some(MachineRow {
                uid: machine.uid().unwrap_or_default(),
                owner: controller.cloned(),
                cluster: text("/spec/clusterName"),
                node: text("/status/nodeRef/name"),
            })
        },
        |key, _| vec![key.clone()],
    )
}

/// The keys of Machines that changed, as the index has taken them.
pub fn watched(client: Client, index: Arc<MachineIndex>) -> impl Stream<Item = Key> + Send + use<> {
    let api: Api<Guard<DynamicObject>> = Api::all_with(client, &machines());
    let events = watch::watch_api(api, watcher::Config::default(), "Machine".to_owned());
    watch::rows(events, index)
}
