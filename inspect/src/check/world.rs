//! Reads the state for all checks once. Nothing is written; kubeconfigs are inspected here and not passed on.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Client, ResourceExt, api::ListParams};
use muster_api::{
    cluster::{self, cluster_of_secret},
    labels::{CAPI_SECRET_TYPE, KUBECONFIG_KEY, MUSTER, SYSTEM_NAMESPACE, label, manager},
};
use muster_controllers::runtime::Api;
use muster_controllers::{
    registry::kubeconfig,
    runtime::{CallError, Clock, call::error_chain, call_within},
};
use muster_fleet::{
    apply::DEADLINE,
    definitions,
    lists::{self, Live},
};
use muster_operate::install::{deployment_arguments, works_in};

use super::{
    Read, expiry, flux,
    machines::{self, Machines},
    rights::{self, Right},
};

/// The state of an installation.
pub(crate) struct World {
    /// Namespace of modules and clusters.
    pub namespace: String,
    /// Time of the reads.
    pub now: Timestamp,
    /// Version of the API server.
    pub version: String,
    /// The relevant definitions that are installed.
    pub definitions: Read<BTreeMap<String, CustomResourceDefinition>>,
    /// Deployments of controllers.
    pub deployments: Read<Vec<Deployment>>,
    /// Flux's kustomize-controllers, if any.
    pub flux: Read<Vec<Deployment>>,
    /// Lease of the controller.
    pub lease: Read<Option<Lease>>,
    /// The rights that the controller's account lacks; `None` if no controller is deployed.
    pub rights: Read<Option<BTreeSet<Right>>>,
    /// Modules, clusters, assemblages.
    pub live: Read<Live>,
    /// The kubeconfigs, by cluster.
    pub kubeconfigs: Read<BTreeMap<String, Kubeconfig>>,
    /// The recorded uid of kube-system of each Cluster, by the Cluster's uid.
    pub identities: Read<BTreeMap<String, String>>,
    /// The state of in-place updates.
    pub machines: Machines,
}

/// A kubeconfig in its Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kubeconfig {
    /// Whether it is from an enrollment: labelled, and not of Cluster API's type.
    pub enrolled: bool,
    /// The expiry of its credential, if stated; or why it is invalid.
    pub ends: Result<Option<Timestamp>, String>,
}

/// Reads the state. Only an API server that does not answer at all is an error.
pub(crate) async fn read(client: &Client, namespace: &str) -> anyhow::Result<World> {
    let asking = client.apiserver_version();
    let version = call_within(DEADLINE, "asking the API server for its version", asking).await;
    let version = version
        .map_err(|error| anyhow::anyhow!(error_chain(&error)))
        .context("the management cluster gave an unexpected answer (choose another with --kubeconfig or --context)")?;
    let (definitions, deployments, flux, lease, live, kubeconfigs, identities, machines) = tokio::join!(
        read_definitions(client),
        read_deployments(client),
        flux::read(client),
        read_lease(client, namespace),
        read_live(client, namespace),
        read_kubeconfigs(client, namespace),
        read_identities(client, namespace),
        machines::read(client, namespace),
    );
    let deployment = deployments
        .iter()
        .flatten()
        .find(|deployment| works_in(deployment) == namespace);
    let rights = match deployment {
        Some(deployment) => {
            let (account, arguments) = (account(deployment), deployment_arguments(deployment));
            let missing = rights::missing(client, namespace, &account, &arguments).await;
            missing.map(Some)
        }
        None => Ok(None),
    };
    Ok(World {
        namespace: namespace.to_owned(),
        now: Clock::system().now(),
        version: version.git_version,
        definitions,
        deployments,
        flux: or_explained(flux),
        lease,
        rights,
        live,
        kubeconfigs,
        identities,
        machines,
    })
}

/// The user name of a Deployment's pods.
fn account(deployment: &Deployment) -> String {
    let spec = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let account = spec
        .and_then(|spec| spec.service_account_name.as_deref())
        .unwrap_or("default");
    let namespace = deployment
        .namespace()
        .unwrap_or_else(|| SYSTEM_NAMESPACE.to_owned());
    format!("system:serviceaccount:{namespace}:{account}")
}

/// The definition of Cluster API's Cluster.
pub(crate) const CLUSTERS: &str = "clusters.cluster.x-k8s.io";

async fn read_definitions(client: &Client) -> Read<BTreeMap<String, CustomResourceDefinition>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let ours = definitions::all_definitions()
        .into_iter()
        .filter_map(|definition| definition.metadata.name);
    let mut all = BTreeMap::new();
    for name in ours.chain([CLUSTERS.to_owned()]) {
        if let Some(there) = or_explained(
            call_within(DEADLINE, format!("reading definition {name}"), api.get_opt(&name)).await,
        )? {
            all.insert(name, there);
        }
    }
    Ok(all)
}

async fn read_deployments(client: &Client) -> Read<Vec<Deployment>> {
    let of_controllers = ListParams::default().labels(&format!(
        "app.kubernetes.io/name={MUSTER},app.kubernetes.io/component=controller"
    ));
    let everywhere: Api<Deployment> = Api::all(client.clone());
    match call_within(DEADLINE, "listing Deployments", everywhere.list(&of_controllers)).await {
        // Without the right to list everywhere, list the default namespace of controllers.
        Err(error) if error.code() == Some(403) => {
            let here: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
            let what = format!("listing Deployments in {SYSTEM_NAMESPACE}");
            or_explained(call_within(DEADLINE, what, here.list(&of_controllers)).await).map(|list| list.items)
        }
        listed => or_explained(listed).map(|list| list.items),
    }
}

async fn read_lease(client: &Client, namespace: &str) -> Read<Option<Lease>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    or_explained(
        call_within(
            DEADLINE,
            "reading the controller's Lease",
            leases.get_opt(manager::CONTROLLER),
        )
        .await,
    )
}

async fn read_live(client: &Client, namespace: &str) -> Read<Live> {
    match tokio::time::timeout(DEADLINE, lists::read(client, namespace)).await {
        Ok(read) => read.map_err(|error| format!("{error:#}")),
        Err(_elapsed) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
    }
}

async fn read_kubeconfigs(client: &Client, namespace: &str) -> Read<BTreeMap<String, Kubeconfig>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let typed = ListParams::default().fields(&format!("type={CAPI_SECRET_TYPE}"));
    let labelled = ListParams::default().labels(label::KUBECONFIG);
    let mut all = BTreeMap::new();
    for (enrolled, which) in [(false, typed), (true, labelled)] {
        let list = or_explained(
            call_within(DEADLINE, "listing Secrets with kubeconfigs", secrets.list(&which)).await,
        )?;
        for secret in list.items {
            if let Some(cluster) = cluster_of_secret(&secret.name_any()) {
                let text = secret.data.as_ref().and_then(|data| data.get(KUBECONFIG_KEY));
                let ends = match text {
                    Some(text) => kubeconfig::parse_kubeconfig(&text.0)
                        .map(|access| expiry::first_expiry(&access))
                        .map_err(|error| error.to_string()),
                    None => Err(format!("key {KUBECONFIG_KEY} does not exist")),
                };
                all.insert(cluster.to_owned(), Kubeconfig { enrolled, ends });
            }
        }
    }
    Ok(all)
}

async fn read_identities(client: &Client, namespace: &str) -> Read<BTreeMap<String, String>> {
    let records: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let labelled = ListParams::default().labels(label::IDENTITY);
    let list = or_explained(
        call_within(
            DEADLINE,
            "listing the identities of clusters",
            records.list(&labelled),
        )
        .await,
    )?;
    let value_of =
        |record: &ConfigMap, key: &str| record.data.as_ref().and_then(|data| data.get(key).cloned());
    let all = list.items.iter();
    Ok(all
        .filter_map(|record| value_of(record, "clusterUid").zip(value_of(record, "kubeSystemUid")))
        .collect())
}

fn or_explained<T>(read: Result<T, CallError>) -> Read<T> {
    read.map_err(|error| error_chain(&error))
}

/// The group of Cluster API, for messages.
pub(crate) const CLUSTER_GROUP: &str = cluster::GROUP;
