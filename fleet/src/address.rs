//! Objects that a command controls, and the error if one does not exist.

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Client, ResourceExt as _,
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use muster_api::{UpdatePlan, ZoneRollout, module::ModuleKind, names, path};
use muster_controllers::runtime::Api;

use crate::{
    name::ModuleName,
    near, nodes,
    read::{SEE, no_cluster, no_module, resource, served},
};

/// An object that a command controls: a module of either kind, a Cluster, a Node, a ZoneRollout or an UpdatePlan.
pub struct ObjectAddress {
    /// Resource and API group, such as `module.fleet.muster.dev`.
    pub api: Api<DynamicObject>,
    /// Resource and API group as kubectl prints them: `module.fleet.muster.dev`.
    pub resource: String,
    /// Name of the object.
    pub name: String,
    namespace: String,
    client: Client,
    what: AddressKind,
}

/// The kind of object.
enum AddressKind {
    Module(ModuleName),
    /// A Cluster; with the verb that takes a module as well, and the arguments that follow the module.
    Cluster((&'static str, &'static str)),
    ZoneRollout,
    UpdatePlan,
    Node,
}

impl ObjectAddress {
    /// The address of a module.
    pub fn of(client: &Client, namespace: &str, module: &ModuleName) -> Self {
        let what = AddressKind::Module(module.clone());
        Self::at(client, namespace, &resource(module.kind), &module.name, what)
    }

    /// The address of a Cluster.
    pub async fn of_cluster(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Self> {
        let version = served(client)
            .await?
            .context("Clusters are not served here (muster crds --management --cluster-api)")?;
        let what = AddressKind::Cluster(SEE);
        Ok(Self::at(client, namespace, &version.api_resource(), name, what))
    }

    /// The address of a Node.
    pub fn of_node(client: &Client, name: &str) -> Self {
        Self::at(
            client,
            "",
            &ApiResource::erase::<Node>(&()),
            name,
            AddressKind::Node,
        )
    }

    /// The address of a ZoneRollout, by its name or by its group.
    pub async fn of_zones(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Self> {
        path::check(name).with_context(|| format!("{name:?} cannot be the name of a ZoneRollout"))?;
        let resource = ApiResource::erase::<ZoneRollout>(&());
        let at = |name: &str| Self::at(client, namespace, &resource, name, AddressKind::ZoneRollout);
        let of_group = at(&names::zone_rollout_name(name));
        if of_group.find().await?.is_some() {
            return Ok(of_group);
        }
        Ok(at(name))
    }

    /// The address of an UpdatePlan.
    pub fn of_update_plan(client: &Client, namespace: &str, name: &str) -> Self {
        Self::at(
            client,
            namespace,
            &ApiResource::erase::<UpdatePlan>(&()),
            name,
            AddressKind::UpdatePlan,
        )
    }

    /// For a verb that takes a module as well: if the Cluster does not exist but a module has its name, the error
    /// suggests that command.
    #[must_use]
    pub fn or_module(mut self, verb: &'static str, rest: &'static str) -> Self {
        if matches!(self.what, AddressKind::Cluster(_)) {
            self.what = AddressKind::Cluster((verb, rest));
        }
        self
    }

    fn at(client: &Client, namespace: &str, resource: &ApiResource, name: &str, what: AddressKind) -> Self {
        let is_of_cluster = matches!(what, AddressKind::Node)
            || matches!(&what, AddressKind::Module(module) if module.is_of_nodes());
        let kind = resource.kind.to_lowercase();
        Self {
            api: if is_of_cluster {
                Api::all_with(client.clone(), resource)
            } else {
                Api::namespaced_with(client.clone(), namespace, resource)
            },
            resource: if resource.group.is_empty() {
                kind
            } else {
                format!("{kind}.{}", resource.group)
            },
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            client: client.clone(),
            what,
        }
    }

    /// Reads the object; `None` if it does not exist.
    pub async fn find(&self) -> anyhow::Result<Option<DynamicObject>> {
        let found = self.api.get_opt(&self.name).await;
        let of_nodes = matches!(&self.what, AddressKind::Module(module) if module.is_of_nodes());
        if let (true, Err(kube::Error::Api(status))) = (of_nodes, &found)
            && status.code == 404
        {
            bail!(nodes::NodeError::NotServed);
        }
        found.with_context(|| format!("reading {}", self.name))
    }

    /// Reads the object; if it does not exist, the error lists similar names.
    pub async fn get(&self) -> anyhow::Result<DynamicObject> {
        if let Some(found) = self.find().await? {
            return Ok(found);
        }
        // Without the right to list them, none are offered.
        let there = self.api.list_metadata(&ListParams::default()).await;
        let names: Vec<String> = there
            .into_iter()
            .flatten()
            .map(|object| object.name_any())
            .collect();
        let names = names.iter().map(String::as_str);
        let (client, namespace, name) = (&self.client, &self.namespace, &self.name);
        match &self.what {
            AddressKind::Node => {
                let (name, near) = (name.clone(), near::offer(name, names));
                bail!(nodes::NodeError::NoNode { name, near })
            }
            AddressKind::Module(module) if module.is_of_nodes() => {
                nodes::check_served(client).await?;
                let (name, near) = (name.clone(), near::offer(name, names));
                bail!(nodes::NodeError::NoModule { name, near })
            }
            AddressKind::Module(module) => {
                let is_cluster = match Self::of_cluster(client, namespace, name).await {
                    Ok(cluster) => matches!(cluster.find().await, Ok(Some(_))),
                    Err(_none_is_served) => false,
                };
                let mut twin = None;
                if let Some(of_kind) = module.twin()
                    && matches!(Self::of(client, namespace, &of_kind).find().await, Ok(Some(_)))
                {
                    twin = Some(of_kind);
                }
                bail!(no_module(module, namespace, names, twin, is_cluster))
            }
            AddressKind::UpdatePlan => bail!(
                "there is no updateplan/{name} in namespace {namespace}{}",
                near::offer(name, names)
            ),
            AddressKind::ZoneRollout => bail!(
                "there is no zonerollout/{name} in namespace {namespace}{}",
                near::offer(name, names)
            ),
            AddressKind::Cluster(verb) => {
                let mut module = None;
                for kind in [ModuleKind::BootstrapModule, ModuleKind::Module] {
                    let name = name.clone();
                    let kind = kind.into();
                    let of_kind = ModuleName { kind, name };
                    if matches!(Self::of(client, namespace, &of_kind).find().await, Ok(Some(_))) {
                        module = Some((of_kind, *verb));
                    }
                }
                bail!(no_cluster(name, namespace, names, module))
            }
        }
    }
}
