//! Which Machine has which uid, which MachineSet it is of, and what its owner is: rows of watched metadata.

use std::sync::Arc;

use futures::Stream;
use kube::{
    Client, ResourceExt as _,
    core::{ApiResource, DynamicObject},
    runtime::watcher,
};
use muster_api::cluster::GROUP;

use crate::runtime::{Api, Guard, Index, Key, watch};

/// A Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRow {
    /// Its uid.
    pub uid: String,
    /// What controls it: apiVersion, kind, name.
    pub owner: Option<(String, String, String)>,
}

impl MachineRow {
    /// The MachineSet that it is of now.
    pub fn machine_set(&self) -> Option<&str> {
        let (_, kind, name) = self.owner.as_ref()?;
        (kind == "MachineSet").then_some(name)
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
            Some(MachineRow {
                uid: machine.uid().unwrap_or_default(),
                owner: controller
                    .map(|owner| (owner.api_version.clone(), owner.kind.clone(), owner.name.clone())),
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
