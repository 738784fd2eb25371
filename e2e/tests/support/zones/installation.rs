//! What `muster install --export --zones` installs, in a dedicated cluster.

use std::{
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use muster_e2e::bed::muster;
use muster_real::{Fleet, Plan};
use serde_json::{Value, json};

use super::{
    NS, ZONES,
    kubectl::Kubectl,
    kubelet::{Kubelet, Start},
};

/// The Secret with the webhooks' certificate.
pub(super) const CERTIFICATE: &str = "rollout-operator-self-signed-certificate";
const WEBHOOKS: &str = "validatingwebhookconfigurations,mutatingwebhookconfigurations";

/// A cluster with `muster zones`. Fields are dropped in order; the directory belongs to the fleet.
pub(super) struct Installation {
    pub kubelet: Kubelet,
    pub kubectl: Kubectl,
    /// The port on which all pods of zones answer.
    pub pods: u16,
    requests: Arc<Mutex<Vec<String>>>,
    pub fleet: Fleet,
    directory: tempfile::TempDir,
}

/// The contents of the certificate Secret, each in base64.
pub(super) struct Certificates {
    pub authorities: String,
    pub certificate: String,
    /// The `caBundle` of each webhook.
    pub bundles: Vec<String>,
}

impl Installation {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan {
            kwok: true,
            ..Plan::default()
        };
        let mut fleet = Fleet::start(&directory.path().join("real"), plan).unwrap();
        fleet.add(&["c1".to_owned()]).unwrap();
        let kubectl = Kubectl(fleet.plane("c1").unwrap().kubeconfig());
        kubectl.run(&["create", "namespace", NS], "");
        kubectl.run(&["create", "serviceaccount", "muster-zones"], "");
        let start = start(&fleet, &kubectl, directory.path());
        let kubelet = Kubelet::new(&kubectl, start);
        let (all, leader) = (kubelet.service(false), kubelet.service(true));
        install(&kubectl, |service| {
            if service == "muster-zones-leader" {
                leader
            } else {
                all
            }
        });
        kubectl.until("the replicas", |_| {
            let pods = kubelet.pods();
            (pods.len() == 2 && kubelet.leader().is_some()).then_some(())
        });
        kubectl.until("caBundle", |kubectl| {
            let has = |bundle: &String| !bundle.is_empty();
            bundles(kubectl).iter().all(has).then_some(())
        });
        let (pods, requests) = pods_that_prepare();
        Self {
            kubelet,
            kubectl,
            pods,
            requests,
            fleet,
            directory,
        }
    }

    /// The requests to pods of zones, in order: method and pod.
    pub(super) fn pod_requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// The pod that is labelled as the leader.
    pub(super) fn leader(&self) -> String {
        self.kubectl.until("one leader", |_| {
            let pods = self.kubelet.pods();
            let mut leaders = pods.into_iter().filter(|(_, leads)| *leads);
            leaders
                .next()
                .filter(|_| leaders.next().is_none())
                .map(|(name, _)| name)
        })
    }

    pub(super) fn certificates(&self) -> Certificates {
        let secret = self.kubectl.get(&["secret", CERTIFICATE]);
        let field = |key: &str| secret["data"][key].as_str().unwrap_or_default().to_owned();
        Certificates {
            authorities: field("ca"),
            certificate: field("cert"),
            bundles: bundles(&self.kubectl),
        }
    }

    /// The logs of the processes.
    pub(super) fn logs(&self) -> String {
        let files = std::fs::read_dir(self.directory.path()).unwrap().flatten();
        let logs = files.filter(|file| file.path().extension().is_some_and(|end| end == "log"));
        logs.map(|log| std::fs::read_to_string(log.path()).unwrap())
            .collect()
    }
}

fn bundles(kubectl: &Kubectl) -> Vec<String> {
    let all = kubectl.get(&[WEBHOOKS]);
    let webhooks = all["items"].as_array().unwrap().iter();
    let webhooks = webhooks.flat_map(|one| one["webhooks"].as_array().unwrap());
    let bundle = |webhook: &Value| {
        webhook["clientConfig"]["caBundle"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    webhooks.map(bundle).collect()
}

/// Installs the objects; the webhooks are called at addresses of this machine, because Services are not routed here.
fn install(kubectl: &Kubectl, port: impl Fn(&str) -> u16) {
    let arguments = ["install", "--export", "--zones", "--crds", "-n", NS];
    let manifests = Command::new(muster()).args(arguments).output().unwrap();
    assert!(
        manifests.status.success(),
        "{}",
        String::from_utf8_lossy(&manifests.stderr)
    );
    let manifests = String::from_utf8(manifests.stdout).unwrap();
    let (definitions, objects): (Vec<&str>, Vec<&str>) = manifests
        .split("---\n")
        .filter(|object| !object.trim().is_empty())
        .partition(|object| object.contains("kind: CustomResourceDefinition\n"));
    kubectl.apply(&definitions.join("---\n"));
    kubectl.run(&["wait", "--for=condition=Established", "crd", "--all"], "");
    let flags = ["create", "--dry-run=client", "-o", "json", "-f", "-"];
    let objects = kubectl.run(&flags, &objects.join("---\n"));
    for object in serde_json::Deserializer::from_str(&objects).into_iter::<Value>() {
        let mut object = object.unwrap();
        for webhook in object
            .get_mut("webhooks")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let service = &webhook["clientConfig"]["service"];
            let text = |field: &str| service[field].as_str().unwrap();
            let url = format!("https://localhost:{}{}", port(text("name")), text("path"));
            webhook["clientConfig"] = json!({"url": url});
        }
        kubectl.apply(&object.to_string());
    }
}

/// Flags of the processes beyond those of the installation: names and addresses of this machine, and shorter timeouts.
fn start(fleet: &Fleet, kubectl: &Kubectl, directory: &Path) -> Start {
    let plane = fleet.plane("c1").unwrap();
    let token = kubectl.run(&["create", "token", "muster-zones"], "");
    let kubeconfig = directory.join("zones.kubeconfig");
    std::fs::write(&kubeconfig, plane.kubeconfig_by_token("zones", &token)).unwrap();
    let hosts = directory.join("hosts");
    let name = |zone: &str, ordinal: u8| {
        format!(
            "127.0.0.1 {zone}-{ordinal}.ingester.{NS}.svc.cluster.local. {zone}-{ordinal}.ingester.{NS}.svc.cluster.local\n"
        )
    };
    let names = ZONES
        .iter()
        .flat_map(|zone| (0..5).map(move |ordinal| name(zone, ordinal)));
    std::fs::write(&hosts, names.collect::<String>()).unwrap();
    Start {
        flags: vec![
            format!("-kubernetes.api-url={}", plane.url),
            format!("-kubernetes.config-file={}", kubeconfig.display()),
            "-server-tls.self-signed-cert.dns-name=localhost".to_owned(),
            "-reconcile.interval=500ms".to_owned(),
            format!("-pod-hosts={}", hosts.display()),
        ],
        directory: directory.to_owned(),
    }
}

/// Serves the responses of all pods at one address; the Host header identifies the pod.
fn pods_that_prepare() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let known = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let method = head.split(' ').next().unwrap_or_default().to_owned();
            let host = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("host: ").map(str::to_owned));
            let pod = host
                .unwrap_or_default()
                .split('.')
                .next()
                .unwrap_or_default()
                .to_owned();
            known.lock().unwrap().push(format!("{method} {pod}"));
            // A client that disconnects needs no response.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (port, requests)
}
