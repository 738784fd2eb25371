//! The management plane of a demo: an embedded API server and the real controller, which syncs `modules/` itself.

use std::collections::BTreeMap;

use anyhow::Context as _;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Client,
    api::{Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use muster_api::{
    cluster::Version,
    crds,
    flux::{GitRepository, Kustomization},
    labels::{CAPI_SECRET_TYPE, KUBECONFIG_KEY, manager},
    names,
};
use muster_apiserver::ApiServer;
use muster_controllers::process::{self, ProcessError};
use muster_controllers::runtime::Api;
use serde_json::json;
use tokio::sync::watch;

use super::{
    Ground, Pace,
    cluster::{Cluster, setup},
    log_limit,
};

/// The namespace of modules and clusters: kubectl's default.
pub(crate) const NAMESPACE: &str = "default";
/// The user name of the controller at the API server.
pub(crate) const CONTROLLER: &str = "muster-controller";
/// The name of the sync of `modules/`.
const FLEET: &str = "fleet";

/// A running management plane; dropping it stops it.
pub(crate) struct Plane {
    api: ApiServer,
    ended: watch::Receiver<Option<String>>,
}

impl Plane {
    /// Starts the API server and the controller; with `keeps_log` all writes are logged for the observer.
    pub(crate) async fn start(ground: &Ground, keeps_log: bool) -> anyhow::Result<Self> {
        let api = ApiServer::builder()
            .name("management")
            .with(crds::management())
            .with(crds::flux())
            .with([crds::cluster_api()])
            .event_log(keeps_log)
            .log_limit(log_limit(keeps_log))
            .start()
            .await?;
        let setup = setup(&api, CONTROLLER, NAMESPACE, "management", ground)?;
        let (sender, ended) = watch::channel(None);
        api.attach(async move {
            let result = process::controller(setup)
                .await
                .map_err(|error: ProcessError| error.to_string());
            // Without a receiver it no longer matters.
            let _ = sender.send(result.err());
        });
        Ok(Self { api, ended })
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> anyhow::Result<String> {
        self.api.kubeconfig().context("the HTTPS listener is not open")
    }

    /// A client for reading.
    pub(crate) fn client(&self) -> Client {
        self.api.client()
    }

    /// A client that the server's log knows by a name.
    pub(crate) fn client_as(&self, user: &str) -> Client {
        self.api.client_as(user)
    }

    /// The API server, to read its log.
    pub(crate) const fn server(&self) -> &ApiServer {
        &self.api
    }

    /// Acts as a cluster provider: creates a Cluster and its kubeconfig, and then makes its control plane ready.
    pub(crate) async fn enrol(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let client = self.api.client_as("cluster-provider");
        let name = cluster.name.to_string();
        let labels: BTreeMap<&str, &str> = cluster.name.labels().into();
        let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
        let mut secret = Secret {
            type_: Some(CAPI_SECRET_TYPE.to_owned()),
            ..Secret::default()
        };
        secret.metadata.name = Some(names::kubeconfig_secret(&name));
        secret.data = Some(
            [(
                KUBECONFIG_KEY.to_owned(),
                ByteString(cluster.kubeconfig()?.into_bytes()),
            )]
            .into(),
        );
        secrets.create(&PostParams::default(), &secret).await?;
        let version = Version::V1Beta2;
        let clusters: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &version.api_resource());
        let object = json!({"apiVersion": version.api_resource().api_version, "kind": "Cluster", "metadata": {"name": name, "labels": labels}, "spec": {}});
        clusters
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        let status = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
        clusters
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// GitOps end to end: branch `main` of the repository, directory `modules`, by the built-in sync of this plane.
    pub(crate) async fn sync(&self, repository: &str, pace: Pace) -> anyhow::Result<()> {
        let client = self.api.client_as("installer");
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": FLEET},
            "spec": {"url": repository, "interval": pace.interval, "ref": {"branch": "main"}},
        });
        let sync = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": FLEET},
            "spec": {
                "sourceRef": {"kind": "GitRepository", "name": FLEET}, "path": "modules", "targetNamespace": NAMESPACE,
                "interval": "1m", "retryInterval": pace.interval, "prune": true,
                "postBuild": {"substitute": {"FLEET_URL": repository}},
            },
        });
        let parameters = PostParams {
            field_manager: Some(manager::CLI.to_owned()),
            ..PostParams::default()
        };
        let sources: Api<GitRepository> = Api::namespaced(client.clone(), NAMESPACE);
        sources
            .create(&parameters, &serde_json::from_value(source)?)
            .await?;
        let syncs: Api<Kustomization> = Api::namespaced(client, NAMESPACE);
        syncs.create(&parameters, &serde_json::from_value(sync)?).await?;
        Ok(())
    }

    /// Returns when the controller ended on its own.
    pub(crate) async fn ended(&self) -> anyhow::Result<()> {
        let mut ended = self.ended.clone();
        let reason = ended.wait_for(Option::is_some).await.map(|reason| reason.clone());
        match reason {
            Ok(reason) => anyhow::bail!(reason.unwrap_or_default()),
            // The controller ended as requested.
            Err(_closed) => std::future::pending().await,
        }
    }
}
