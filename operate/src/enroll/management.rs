//! The management cluster before and after an enrolment: what stands there, and what modules make of a new cluster.

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

use crate::steps::{Refusal, Step};

/// What it is called in messages.
pub(crate) const PLACE: &str = "the management cluster";

/// What stands there.
pub(crate) struct Plane {
    /// A client with the user's credential.
    pub client: Client,
    /// The namespace of modules and clusters.
    pub namespace: String,
    /// The version of Cluster that is served.
    pub version: Version,
}

impl Plane {
    /// Looks whether a cluster can be enrolled there at all.
    pub(crate) async fn read(client: Client, namespace: String) -> Step<Self> {
        let served = match tokio::time::timeout(DEADLINE, fleet::served(&client)).await {
            Ok(served) => {
                served.map_err(|error| Refusal::unknown(format!("{PLACE} does not answer: {error:#}")))
            }
            Err(_elapsed) => Err(Refusal::unknown(format!(
                "{PLACE} does not answer within {} s",
                DEADLINE.as_secs()
            ))),
        };
        let version = served
            .map_err(|refusal| refusal.remedy("name another with --kubeconfig or --context"))?
            .ok_or_else(|| {
                Refusal::failed(format!("{PLACE} has no kind Cluster"))
                    .remedy("muster crds --management --cluster-api | kubectl apply --server-side -f -")
            })?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let what = format!("reading namespace {namespace}");
        match call_within(DEADLINE, what, namespaces.get_opt(&namespace)).await {
            Ok(Some(_)) => {}
            // Who may not look may still be allowed to write there.
            Err(error) if error.code() == Some(403) => {}
            Ok(None) => {
                return Err(
                    Refusal::failed(format!("there is no namespace {namespace} in {PLACE}")).remedy(format!(
                        "kubectl create namespace {namespace}, or name another with -n"
                    )),
                );
            }
            Err(error) => return Err(Refusal::of_call(PLACE, &error)),
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

    /// The Cluster of a name.
    pub(crate) async fn cluster(&self, name: &str) -> Result<Option<DynamicObject>, CallError> {
        let what = format!("reading Cluster {}/{name}", self.namespace);
        call_within(DEADLINE, what, self.clusters().get_opt(name)).await
    }

    /// The Cluster of a name, if it is one that was enrolled or there is none.
    pub(crate) async fn enrolled(&self, name: &str) -> Step<Option<DynamicObject>> {
        let found = self
            .cluster(name)
            .await
            .map_err(|error| Refusal::of_call(PLACE, &error))?;
        let manager =
            |cluster: &DynamicObject| cluster.annotations().get(annotation::CAPI_MANAGED_BY).cloned();
        match found {
            Some(cluster) if manager(&cluster).as_deref() != Some(MUSTER) => Err(Refusal::failed(format!(
                "Cluster {}/{name} was not enrolled: something else manages it",
                self.namespace
            ))
            .remedy("choose another name, or leave it to what manages it")),
            found => Ok(found),
        }
    }

    /// Which other Cluster of the fleet leads to the cluster whose kube-system has this uid, by the record of the controller.
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
            // Then the controller finds it out, and says so.
            Err(error) if error.code() == Some(403) => Vec::new(),
            Err(error) => return Err(Refusal::of_call(PLACE, &error)),
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
            fleet::all::<Module>(&self.client, &self.namespace),
            fleet::all::<BootstrapModule>(&self.client, &self.namespace)
        )?;
        let mut names: Vec<String> = modules
            .iter()
            .filter_map(|module| selects(module, labels))
            .collect();
        names.extend(bootstrap.iter().filter_map(|module| selects(module, labels)));
        Ok(names)
    }
}

/// What a module is called, if it selects a cluster with these labels.
fn selects<M: ModuleObject>(module: &M, labels: &BTreeMap<String, String>) -> Option<String> {
    // A selector that cannot be read selects nobody.
    let matcher = Matcher::new(module.spec().selector.as_ref()).ok()?;
    let name = module.meta().name.clone().unwrap_or_default();
    let bootstrap = match M::KIND {
        muster_api::module::ModuleKind::Module => "",
        muster_api::module::ModuleKind::BootstrapModule => " (bootstrap)",
    };
    matcher.matches(labels).then(|| format!("{name}{bootstrap}"))
}
