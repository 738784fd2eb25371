//! The API server of the bed: the embedded one, or a kube-apiserver with exactly the permissions of `muster install
//! --export --nodes`.

use std::{fs, net::SocketAddr};

use k8s_openapi::api::{authentication::v1::BoundObjectReference, core::v1::Node};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use muster_api::crds;
use muster_apiserver::{ApiServer, Login};
use muster_e2e::bed::{
    install::{bound_token, established, export, token},
    keep_uses, kubectl_apply,
};
use muster_real::{Fleet, Plan};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

/// The namespace and the ServiceAccount of the agents.
const AGENTS: (&str, &str) = ("muster-nodes", "muster-node-agent");
/// The namespace and the ServiceAccount of the controller.
const CONTROLLER: (&str, &str) = ("muster-system", "muster-agent");
/// The name of the control plane.
const PLANE: &str = "nodes";

pub(crate) enum Server {
    Embedded(ApiServer),
    Kubernetes(Kubernetes),
}

/// A control plane. Dropping it ends the processes.
pub(crate) struct Kubernetes {
    fleet: Fleet,
    client: Client,
    /// The token of the controller.
    token: String,
    _directory: TempDir,
}

impl Server {
    pub(crate) async fn embedded() -> Self {
        let server = ApiServer::builder()
            .namespace(AGENTS.0)
            .namespace(CONTROLLER.0)
            .with(crds::nodes())
            .with(crds::downstream())
            .with(crds::flux());
        let api = server.start().await.unwrap();
        Self::Embedded(api)
    }

    pub(crate) async fn kubernetes() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let within = directory.path().join("fleet");
        let fleet = spawn_blocking(move || {
            let mut fleet = Fleet::start(&within, Plan::default())?;
            fleet.add(&[PLANE.to_owned()])?;
            anyhow::Ok(fleet)
        });
        let fleet = fleet.await.unwrap().unwrap();
        let kubeconfig = fleet.plane(PLANE).unwrap().kubeconfig();
        let read = Kubeconfig::read_from(&kubeconfig).unwrap();
        let client = client_of(read).await;
        let flags = ["--nodes", "--crds"];
        kubectl_apply(&kubeconfig, &export(&flags, None).await).await;
        established(client.clone(), &[crds::nodes(), crds::downstream()].concat()).await;
        let token = token(client.clone(), CONTROLLER.0, CONTROLLER.1).await;
        Self::Kubernetes(Kubernetes {
            fleet,
            client,
            token,
            _directory: directory,
        })
    }

    /// The kubeconfig of an administrator.
    pub(crate) fn client(&self) -> Client {
        match self {
            Self::Embedded(api) => api.client_as("person"),
            Self::Kubernetes(kubernetes) => kubernetes.client.clone(),
        }
    }

    /// A client of an administrator.
    pub(crate) fn kubeconfig(&self) -> String {
        match self {
            Self::Embedded(api) => api.kubeconfig().unwrap(),
            Self::Kubernetes(kubernetes) => {
                let file = kubernetes.fleet.plane(PLANE).unwrap().kubeconfig();
                fs::read_to_string(file).unwrap()
            }
        }
    }

    pub(crate) fn kubeconfig_of_controller(&self) -> String {
        match self {
            Self::Embedded(_) => self.kubeconfig(),
            Self::Kubernetes(kubernetes) => {
                let plane = kubernetes.fleet.plane(PLANE).unwrap();
                plane.kubeconfig_by_token(CONTROLLER.1, &kubernetes.token)
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Embedded(api) => api.address().unwrap(),
            Self::Kubernetes(kubernetes) => {
                let url = &kubernetes.fleet.plane(PLANE).unwrap().url;
                url.trim_start_matches("https://").parse().unwrap()
            }
        }
    }

    /// The certificate of the authority.
    pub(crate) fn authority(&self) -> String {
        let kubeconfig = match self {
            Self::Embedded(api) => {
                let agents = api.issue(AGENTS.1).unwrap();
                api.kubeconfig_of(&agents, Login::Token).unwrap()
            }
            Self::Kubernetes(_) => self.kubeconfig(),
        };
        let parsed: Value = muster_sync::yaml::to_json(&kubeconfig).unwrap();
        let data = parsed["clusters"][0]["cluster"]["certificate-authority-data"]
            .as_str()
            .unwrap();
        let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap();
        String::from_utf8(decoded).unwrap()
    }

    /// The token of the agent of a node; on a real server it has the node claim, like that of a pod there.
    pub(crate) async fn token(&self, node: &str) -> String {
        match self {
            Self::Embedded(api) => {
                let user = format!("system:serviceaccount:{}:{}", AGENTS.0, AGENTS.1);
                api.issue(&user).unwrap().token
            }
            Self::Kubernetes(kubernetes) => {
                let client = kubernetes.client.clone();
                let nodes: Api<Node> = Api::all(client.clone());
                let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
                let by = PatchParams::apply("kubelet");
                let made = nodes.patch(node, &by, &Patch::Apply(object)).await.unwrap();
                let to = BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Node".to_owned()),
                    name: Some(node.to_owned()),
                    uid: made.uid(),
                };
                bound_token(client, AGENTS.0, AGENTS.1, Some(to)).await
            }
        }
    }

    /// Records the permissions used so far, for the test of rights.
    pub(crate) fn keep_uses(&self) {
        if let Self::Kubernetes(kubernetes) = self {
            keep_uses(&kubernetes.fleet, PLANE);
        }
    }

    /// A client with the token of the agent of a node.
    pub(crate) async fn client_of(&self, node: &str) -> Client {
        let Self::Kubernetes(kubernetes) = self else {
            panic!("the embedded server knows no rights");
        };
        let plane = kubernetes.fleet.plane(PLANE).unwrap();
        let text = plane.kubeconfig_by_token(AGENTS.1, &self.token(node).await);
        let read = Kubeconfig::from_yaml(&text).unwrap();
        client_of(read).await
    }
}

async fn client_of(kubeconfig: Kubeconfig) -> Client {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}
