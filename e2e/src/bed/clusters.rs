//! Clusters: API servers with simulated workloads, how they join the fleet, and the obstacles that keep muster out of
//! them.

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use muster_api::{
    labels::{CAPI_SECRET_TYPE, KUBECONFIG_KEY},
    names,
};
use muster_apiserver::{
    ApiServer, Clock,
    fault::{Fault, Match, Rule, RuleId},
    player::Speeds,
};
use muster_real::Certificate;
use serde_json::{Value, json};

use super::{Bed, CONTROLLER, Ground, install, kinds, process, real::Planes, server::Server};
use crate::app::APPS;

/// A downstream cluster.
pub(crate) struct Cluster {
    pub api: Server,
    /// The rule that makes it unreachable.
    away: Option<Away>,
}

/// How a cluster is unreachable.
enum Away {
    /// By this fault rule.
    Refused(RuleId),
    /// Its API server is stopped.
    Stopped,
}

/// Why nothing can be rolled out to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its control plane is not initialized.
    ControlPlane,
    /// Its kubeconfig Secret does not exist.
    Kubeconfig,
    /// The kind Assemblage, its namespace and the agent do not exist.
    Kind,
    /// The Cluster is paused.
    Paused,
    /// Its API server refuses all connections of the controller.
    Unreachable,
}

impl Obstacle {
    /// All obstacles, in the order in which a provider removes them.
    pub const ALL: [Self; 5] = [
        Self::Kind,
        Self::Paused,
        Self::Unreachable,
        Self::Kubeconfig,
        Self::ControlPlane,
    ];

    /// The reason that muster reports for it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ControlPlane => "ControlPlaneNotReady",
            Self::Kubeconfig => "NoKubeconfig",
            Self::Kind => "KindMissing",
            Self::Paused => "ClusterPaused",
            Self::Unreachable => "Unreachable",
        }
    }
}

impl Bed {
    /// Creates a cluster that joins the fleet, as a cluster provider does, except for what `obstacles` leave out.
    pub async fn join(&mut self, name: &str, labels: &[(&str, &str)], obstacles: &[Obstacle]) {
        let wrong = self.clocks.get(name).copied().unwrap_or_default();
        let now = self.clock.now() + wrong;
        let api = serve(self.ground, self.planes.as_ref(), name, now).await;
        match &api {
            Server::Real(server) => install::enrol(server).await,
            Server::Embedded(server) if self.is_virtual() => {
                let door = server.service_as(CONTROLLER);
                self.doors.lock().insert(address(name), door);
            }
            Server::Embedded(_) => {}
        }
        self.clusters.insert(name.to_owned(), Cluster { api, away: None });
        let labels: std::collections::BTreeMap<_, _> = labels.iter().copied().collect();
        // Cluster API rejects a Cluster with an empty spec.
        let spec = json!({"controlPlaneEndpoint": {"host": format!("{name}.test"), "port": 6443}});
        let cluster = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        self.fleet().create(kinds::CLUSTER, cluster).await;
        // Until the last obstacle, the control plane, is gone, muster touches nothing.
        for obstacle in Obstacle::ALL {
            if obstacles.contains(&obstacle) {
                self.obstruct(name, obstacle).await;
            } else {
                self.clear(name, obstacle).await;
            }
        }
    }

    /// The same, with an embedded API server whose clock is off by this much.
    pub async fn join_with_clock(&mut self, name: &str, wrong: SignedDuration) {
        self.clocks.insert(name.to_owned(), wrong);
        self.join(name, &[("env", "prod")], &[]).await;
    }

    /// Adds an obstacle to a cluster; a missing Assemblage kind is possible only from the start.
    pub async fn obstruct(&mut self, name: &str, obstacle: Obstacle) {
        match obstacle {
            Obstacle::ControlPlane => self.set_control_plane(name, false).await,
            Obstacle::Kubeconfig => {
                self.fleet()
                    .delete(kinds::SECRET, &names::kubeconfig_secret(name))
                    .await;
            }
            Obstacle::Kind => assert!(
                !self.agents.contains_key(name),
                "a cluster only begins without the kind"
            ),
            Obstacle::Paused => self.pause_cluster(name, true).await,
            Obstacle::Unreachable => {
                let away = match &self.clusters[name].api {
                    Server::Embedded(api) => {
                        let refused = Rule::always(Match::client(CONTROLLER), Fault::Refuse);
                        let refused = api.faults().add(refused);
                        api.faults().close_watches(Match::client(CONTROLLER));
                        Away::Refused(refused)
                    }
                    Server::Real(server) => {
                        server.set_running(false).await;
                        Away::Stopped
                    }
                };
                self.clusters.get_mut(name).unwrap().away = Some(away);
            }
        }
    }

    /// Removes an obstacle; no error if it is absent.
    pub async fn clear(&mut self, name: &str, obstacle: Obstacle) {
        match obstacle {
            Obstacle::ControlPlane => self.set_control_plane(name, true).await,
            Obstacle::Kubeconfig => self.give_kubeconfig(name, &self.kubeconfig(name)).await,
            Obstacle::Kind => {
                install::downstream(&self.clusters[name].api, self.ground).await;
                self.start_agent(name);
            }
            Obstacle::Paused => self.pause_cluster(name, false).await,
            Obstacle::Unreachable => {
                let cluster = self.clusters.get_mut(name).unwrap();
                match (&cluster.api, cluster.away.take()) {
                    (_, None) => {}
                    (api, Some(Away::Refused(rule))) => api.embedded().faults().remove(rule),
                    (Server::Real(server), Some(Away::Stopped)) => server.set_running(true).await,
                    (Server::Embedded(_), Some(Away::Stopped)) => panic!("an embedded server always runs"),
                }
            }
        }
    }

    /// Writes a kubeconfig into the cluster's Secret, as Cluster API does.
    pub async fn give_kubeconfig(&self, name: &str, text: &str) {
        let (secret, fleet) = (names::kubeconfig_secret(name), self.fleet());
        let content = json!({"stringData": {KUBECONFIG_KEY: text}});
        if fleet.get(kinds::SECRET, &secret).await.is_some() {
            fleet.patch(kinds::SECRET, &secret, content).await;
        } else {
            let whole = json!({"metadata": {"name": secret}, "type": CAPI_SECRET_TYPE, "stringData": content["stringData"]});
            fleet.create(kinds::SECRET, whole).await;
        }
    }

    /// Grants the management cluster permission to apply anything in the clusters that have joined; BootstrapModules
    /// need it.
    pub async fn let_bootstrap(&self) {
        for cluster in self.clusters.values() {
            if let Server::Real(server) = &cluster.api {
                install::let_bootstrap(server).await;
            }
        }
    }

    /// Applies manifests in a cluster as its administrator; on real control planes only.
    pub async fn administer(&self, name: &str, manifests: &str) {
        match &self.clusters[name].api {
            Server::Real(server) => server.apply(manifests).await,
            Server::Embedded(_) => panic!("an embedded server is not administered by kubectl"),
        }
    }

    /// Restarts the API server of a cluster with another certificate. Returns a kubeconfig that trusts it.
    pub async fn show_certificate(&self, name: &str, certificate: Certificate) -> String {
        let mut kubeconfig: Value = serde_json::from_str(&self.kubeconfig(name)).unwrap();
        let Server::Real(server) = &self.clusters[name].api else {
            panic!("an embedded server has one certificate");
        };
        let authority = server.show(certificate).await;
        kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"] =
            json!(base64::engine::general_purpose::STANDARD.encode(authority));
        kubeconfig.to_string()
    }

    /// Installs Flux in a real cluster, with the Deployment by which it is detected, or removes it.
    pub async fn set_flux(&self, name: &str, there: bool) {
        let server = self.real(name);
        let objects = super::Objects::new(server.client(), APPS);
        if there {
            // The pod of the Deployment is simulated; Flux itself is a process.
            objects.create(kinds::DEPLOYMENT, sign_of_flux()).await;
            server.start_flux("").await;
        } else {
            server.stop_flux().await;
            objects.delete(kinds::DEPLOYMENT, "kustomize-controller").await;
        }
    }

    /// Restarts the Flux of a real cluster with these feature gates of kustomize-controller.
    pub async fn restart_flux(&self, name: &str, gates: &str) {
        let server = self.real(name);
        server.stop_flux().await;
        server.start_flux(gates).await;
    }

    fn real(&self, name: &str) -> &super::real::Server {
        match &self.clusters[name].api {
            Server::Real(server) => server,
            Server::Embedded(_) => panic!("Flux runs in real clusters only"),
        }
    }

    /// Restarts the API server of a cluster, as an upgrade does; `None` is the management cluster.
    pub async fn restart_server(&self, name: Option<&str>) {
        let server = name.map_or(&self.management, |name| &self.clusters[name].api);
        if let Server::Real(server) = server {
            server.set_running(false).await;
            server.set_running(true).await;
        }
    }

    /// Denied requests of muster are accepted after this call: the scenario removes permissions.
    pub fn excuse_denials(&self) {
        if let Some(planes) = &self.planes {
            planes.excuse_denials();
        }
    }

    /// Denied requests of muster are accepted for the period from `began` to now: it had too few permissions, or the
    /// scenario used its account.
    pub fn excuse_denials_since(&self, began: Timestamp) {
        if let Some(planes) = &self.planes {
            planes.excuse_denials_since(began);
        }
    }

    /// A kubeconfig with a new credential; on real control planes the old one is no longer valid.
    pub async fn renew_credential(&self, name: &str) -> String {
        if let Server::Real(server) = &self.clusters[name].api {
            install::revoke(server).await;
            install::enrol(server).await;
        }
        self.kubeconfig(name)
    }

    /// The kubeconfig with which the controller reaches a cluster.
    pub fn kubeconfig(&self, name: &str) -> String {
        match self.ground {
            Ground::Wire | Ground::Real | Ground::Flux => self.clusters[name].api.kubeconfig_of(CONTROLLER),
            Ground::Virtual => json!({
                "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": address(name), "certificate-authority-data": "Q0E="}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            })
            .to_string(),
        }
    }

    /// Changes the labels of a Cluster; `null` removes one.
    pub async fn label_cluster(&self, name: &str, labels: Value) {
        self.fleet()
            .patch(kinds::CLUSTER, name, json!({"metadata": {"labels": labels}}))
            .await;
    }

    async fn set_control_plane(&self, name: &str, ready: bool) {
        let status = json!({"status": {"initialization": {"controlPlaneInitialized": ready}}});
        self.fleet().patch_status(kinds::CLUSTER, name, status).await;
    }

    async fn pause_cluster(&self, name: &str, paused: bool) {
        self.fleet()
            .patch(kinds::CLUSTER, name, json!({"spec": {"paused": paused}}))
            .await;
    }
}

fn sign_of_flux() -> Value {
    json!({
        "metadata": {"name": "kustomize-controller", "labels": {"app.kubernetes.io/part-of": "flux"}},
        "spec": {
            "selector": {"matchLabels": {"app": "kustomize-controller"}},
            "template": {
                "metadata": {"labels": {"app": "kustomize-controller"}},
                "spec": {"containers": [{"name": "manager", "image": "example.com/flux:1"}]},
            },
        },
    })
}

/// The address of a cluster on paused time. A host label has at most 63 characters; the name of a Cluster may be
/// longer.
fn address(name: &str) -> String {
    let labels = name.split('.').flat_map(|label| label.as_bytes().chunks(60));
    let labels: Vec<_> = labels.map(String::from_utf8_lossy).collect();
    format!("https://{}.test", labels.join("."))
}

/// An API server that records all requests and events, with simulated workloads.
pub(crate) async fn serve(ground: Ground, planes: Option<&Planes>, name: &str, now: Timestamp) -> Server {
    if let Some(planes) = planes {
        return Server::Real(planes.server(name).await);
    }
    let server = ApiServer::builder()
        .name(name)
        .event_log(true)
        .seed(process::seed_of(name))
        .clock(Clock::starting_at(now))
        .workloads(Speeds::default());
    Server::Embedded(match ground {
        Ground::Virtual => server.in_process().unwrap(),
        Ground::Wire | Ground::Real | Ground::Flux => server.start().await.unwrap(),
    })
}
