//! The Machines by uid, with their MachineSets and owners: indexes filled by watches.

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

/// The indexed facts of a Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineRow {
    /// The uid of the Machine.
    pub uid: String,
    /// Its controller owner.
    pub owner: Option<OwnerReference>,
    /// The Cluster that it belongs to.
    pub cluster: Option<String>,
    /// Its Node in that Cluster, once known.
    pub node: Option<String>,
}

impl MachineRow {
    /// The MachineSet that currently owns it.
    pub fn machine_set(&self) -> Option<&str> {
        let owner = self.owner.as_ref()?;
        (owner.kind == "MachineSet").then_some(&owner.name)
    }
}

/// The Machines of the management cluster.
pub type MachineIndex = Index<DynamicObject, MachineRow>;

/// The resource of Machines.
pub fn machine_resource() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: "v1beta2".to_owned(),
        api_version: format!("{GROUP}/v1beta2"),
        kind: "Machine".to_owned(),
        plural: "machines".to_owned(),
    }
}

/// An index that [`machine_changes`] fills.
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

/// The keys of Machines that changed, once the index has them.
pub fn machine_changes(client: Client, index: Arc<MachineIndex>) -> impl Stream<Item = Key> + Send + use<> {
    let api: Api<Guard<DynamicObject>> = Api::all_with(client, &machine_resource());
    let events = watch::watch_api(api, watcher::Config::default(), "Machine".to_owned());
    watch::watch_rows(events, index)
}
