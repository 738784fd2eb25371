//! The management cluster before and after an enrollment: its objects, and which modules select the new cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Client, ResourceExt, api::ListParams, core::DynamicObject};
use muster_api::{
    BootstrapModule, Module,
    cluster::Version,
    labels::{MUSTER, annotation, label},
    module::ModuleObject,
    selector::Matcher,
};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call_within};
use muster_fleet as fleet;
use muster_fleet::apply::DEADLINE;

use crate::steps::{Step, StepRefusal};

/// Its name in messages.
pub(crate) const PLACE: &str = "the management cluster";

/// The management cluster of an enrollment.
pub(crate) struct Plane {
    /// A client with the user's credential.
    pub client: Client,
    /// Namespace of modules and clusters.
    pub namespace: String,
    /// Served version of Cluster.
    pub version: Version,
}

impl Plane {
    /// Checks whether a cluster can be enrolled there.
    pub(crate) async fn read(client: Client, namespace: String) -> Step<Self> {
        let served = match tokio::time::timeout(DEADLINE, fleet::served(&client)).await {
            Ok(served) => {
                served.map_err(|error| StepRefusal::unknown(format!("{PLACE} does not answer: {error:#}")))
            }
            Err(_elapsed) => Err(StepRefusal::unknown(format!(
                "{PLACE} does not answer within {} s",
                DEADLINE.as_secs()
            ))),
        };
        let version = served
            .map_err(|refusal| refusal.remedy("name another with --kubeconfig or --context"))?
            .ok_or_else(|| {
                StepRefusal::failed(format!("{PLACE} has no kind Cluster"))
                    .remedy("muster crds --management --cluster-api | kubectl apply --server-side -f -")
            })?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let what = format!("reading namespace {namespace}");
        match call_within(DEADLINE, what, namespaces.get_opt(&namespace)).await {
            Ok(Some(_)) => {}
            // A user without the right to read may still be allowed to write.
            Err(error) if error.code() == Some(403) => {}
            Ok(None) => {
                return Err(
                    StepRefusal::failed(format!("there is no namespace {namespace} in {PLACE}")).remedy(
                        format!("kubectl create namespace {namespace}, or name another with -n"),
                    ),
                );
            }
            Err(error) => return Err(StepRefusal::of_call(PLACE, &error)),
        }
        Ok(Self {
            client,
            namespace,
            version,
        })
    }

    fn clusters(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &self.version.api_resource())
    }

    /// Reads a Cluster by name.
    pub(crate) async fn cluster(&self, name: &str) -> Result<Option<DynamicObject>, CallError> {
        let what = format!("reading Cluster {}/{name}", self.namespace);
        call_within(DEADLINE, what, self.clusters().get_opt(name)).await
    }

    /// Reads a Cluster by name; fails if it exists and was not enrolled.
    pub(crate) async fn enrolled(&self, name: &str) -> Step<Option<DynamicObject>> {
        let found = self
            .cluster(name)
            .await
            .map_err(|error| StepRefusal::of_call(PLACE, &error))?;
        let manager =
            |cluster: &DynamicObject| cluster.annotations().get(annotation::CAPI_MANAGED_BY).cloned();
        match found {
            Some(cluster) if manager(&cluster).as_deref() != Some(MUSTER) => {
                Err(StepRefusal::failed(format!(
                    "Cluster {}/{name} was not enrolled: something else manages it",
                    self.namespace
                ))
                .remedy("choose another name, or leave it to what manages it"))
            }
            found => Ok(found),
        }
    }

    /// Another Cluster of the fleet that refers to the cluster with this kube-system uid, from the controller's record.
    pub(crate) async fn other_of(&self, identity: &str, name: &str) -> Step<Option<String>> {
        let records: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let labelled = ListParams::default().labels(label::IDENTITY);
        let listed = call_within(
            DEADLINE,
            "listing the identities of clusters",
            records.list(&labelled),
        )
        .await;
        let listed = match listed {
            Ok(list) => list.items,
            // Then the controller detects it, and reports it.
            Err(error) if error.code() == Some(403) => Vec::new(),
            Err(error) => return Err(StepRefusal::of_call(PLACE, &error)),
        };
        let of = |record: &ConfigMap, key: &str| record.data.as_ref().and_then(|data| data.get(key).cloned());
        let others = listed
            .iter()
            .filter(|record| of(record, "kubeSystemUid").as_deref() == Some(identity));
        let mut others = others
            .filter_map(|record| of(record, "cluster"))
            .filter(|other| other != name);
        Ok(others.next())
    }

    /// The modules that select a cluster with these labels, as `podinfo v1.4.0`.
    pub(crate) async fn selecting(&self, labels: &BTreeMap<String, String>) -> anyhow::Result<Vec<String>> {
        let (modules, bootstrap) = tokio::try_join!(
            fleet::list_all::<Module>(&self.client, &self.namespace),
            fleet::list_all::<BootstrapModule>(&self.client, &self.namespace)
        )?;
        let mut names: Vec<String> = modules
            .iter()
            .filter_map(|module| selects(module, labels))
            .collect();
        names.extend(bootstrap.iter().filter_map(|module| selects(module, labels)));
        Ok(names)
    }
}

/// The name of a module, if it selects a cluster with these labels.
fn selects<M: ModuleObject>(module: &M, labels: &BTreeMap<String, String>) -> Option<String> {
    // A selector that cannot be parsed selects nothing.
    let matcher = Matcher::new(module.spec().selector.as_ref()).ok()?;
    let name = module.meta().name.clone().unwrap_or_default();
    let bootstrap = match M::KIND {
        muster_api::module::ModuleKind::Module => "",
        muster_api::module::ModuleKind::BootstrapModule => " (bootstrap)",
    };
    matcher.matches(labels).then(|| format!("{name}{bootstrap}"))
}
