//! Clusters: API servers with a workload player, how they join the fleet, and what keeps muster away from them.

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
    /// What makes it unreachable.
    away: Option<Away>,
}

/// How a cluster is away.
enum Away {
    /// By this rule.
    Refused(RuleId),
    /// It does not run.
    Stopped,
}

/// Why nothing can be rolled to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its control plane is not initialized.
    ControlPlane,
    /// Its kubeconfig Secret is not there.
    Kubeconfig,
    /// The kind Assemblage, its namespace and the agent are not there.
    Kind,
    /// The Cluster is paused.
    Paused,
    /// Its API server refuses every connection of the controller.
    Unreachable,
}

impl Obstacle {
    /// All of them, in the order in which a provider gets them out of the way.
    pub const ALL: [Self; 5] = [
        Self::Kind,
        Self::Paused,
        Self::Unreachable,
        Self::Kubeconfig,
        Self::ControlPlane,
    ];

    /// The word that muster has for it.
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
    /// A cluster is made and joins, as a cluster provider does it, but for what `obstacles` say.
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
        // Cluster API refuses a Cluster of which nothing is wanted.
        let spec = json!({"controlPlaneEndpoint": {"host": format!("{name}.test"), "port": 6443}});
        let cluster = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        self.fleet().create(kinds::CLUSTER, cluster).await;
        // Until the last of them, its control plane, there is nothing that muster would touch.
        for obstacle in Obstacle::ALL {
            if obstacles.contains(&obstacle) {
                self.obstruct(name, obstacle).await;
            } else {
                self.clear(name, obstacle).await;
            }
        }
    }

    /// The same, with an embedded API server whose clock is wrong by so much.
    pub async fn join_with_clock(&mut self, name: &str, wrong: SignedDuration) {
        self.clocks.insert(name.to_owned(), wrong);
        self.join(name, &[("env", "prod")], &[]).await;
    }

    /// Puts an obstacle in the way of a cluster; of the kind Assemblage it only can be there from the beginning.
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

    /// Takes an obstacle away; it is as well if it is not there.
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

    /// Puts a kubeconfig into the cluster's Secret, as Cluster API does.
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

    /// Gives the management cluster the right to apply anything in the clusters that have joined; BootstrapModules need it.
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

    /// Starts the API server of a cluster again with another certificate; a kubeconfig that trusts it.
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

    /// Flux comes into a real cluster, with the Deployment by which it is known, or it goes.
    pub async fn set_flux(&self, name: &str, there: bool) {
        let server = self.real(name);
        let objects = super::Objects::new(server.client(), APPS);
        if there {
            // A pod of it is played; what works is a process.
            objects.create(kinds::DEPLOYMENT, sign_of_flux()).await;
            server.start_flux("").await;
        } else {
            server.stop_flux().await;
            objects.delete(kinds::DEPLOYMENT, "kustomize-controller").await;
        }
    }

    /// Flux of a real cluster ends, and comes back with these feature gates of its kustomize-controller.
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

    /// Ends the API server of a cluster and starts it again, as an upgrade does; `None` is the management cluster's.
    pub async fn restart_server(&self, name: Option<&str>) {
        let server = name.map_or(&self.management, |name| &self.clusters[name].api);
        if let Server::Real(server) = server {
            server.set_running(false).await;
            server.set_running(true).await;
        }
    }

    /// From now on it is as well if something is denied to muster: the scenario takes rights away.
    pub fn excuse_denials(&self) {
        if let Some(planes) = &self.planes {
            planes.excuse_denials();
        }
    }

    /// From then until now it is as well if something was denied to muster: it had too few rights, or the scenario tried its account.
    pub fn excuse_denials_since(&self, began: Timestamp) {
        if let Some(planes) = &self.planes {
            planes.excuse_denials_since(began);
        }
    }

    /// A kubeconfig with a new credential; on real control planes the old one is good for nothing any more.
    pub async fn renew_credential(&self, name: &str) -> String {
        if let Server::Real(server) = &self.clusters[name].api {
            install::revoke(server).await;
            install::enrol(server).await;
        }
        self.kubeconfig(name)
    }

    /// The kubeconfig that leads the controller to a cluster.
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

    /// Changes the labels of a Cluster; `null` takes one away.
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

/// The address of a cluster on paused time. A label of a host has 63 characters at most; that of a Cluster's name may be longer.
fn address(name: &str) -> String {
    let labels = name.split('.').flat_map(|label| label.as_bytes().chunks(60));
    let labels: Vec<_> = labels.map(String::from_utf8_lossy).collect();
    format!("https://{}.test", labels.join("."))
}

/// An API server of which all is known that happens in it; with a player of workloads.
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
