//! Promise: beside a real kube-apiserver and its StatefulSet controller `muster zones` rolls, scales and guards the zones of `examples/zones`, with
//! the rights, webhooks and flags of `muster install --export --zones`.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use muster_e2e::bed::{keep_uses, muster};
use muster_real::{Fleet, Plan};
use serde_json::{Value, json};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(3);
const NS: &str = "mimir";
/// The image of the example, and another one.
const OLD: &str = "grafana/mimir:2.16.0";
const NEW: &str = "grafana/mimir:2.17.0";
const ZONES: [&str; 3] = ["ingester-zone-a", "ingester-zone-b", "ingester-zone-c"];

/// The administrator's kubectl.
struct Kubectl(PathBuf);

impl Kubectl {
    fn output(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new("kubectl")
            .args(["-n", NS])
            .args(arguments)
            .env("KUBECONFIG", &self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn run(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn get(&self, what: &[&str]) -> Value {
        let text = self.run(&[&["get", "-o", "json"], what].concat(), "");
        serde_json::from_str(&text).unwrap()
    }

    fn apply(&self, manifests: &str) {
        self.run(&["apply", "--server-side", "-f", "-"], manifests);
    }

    /// Waits until something is found.
    #[track_caller]
    fn until<T>(&self, what: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            if began.elapsed() > PATIENCE {
                let rollouts = self.output(&["get", "zr", "-o", "yaml"], "").stdout;
                panic!("{what} did not come: {}", String::from_utf8_lossy(&rollouts));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until each zone has so many Ready pods of this image, and no others.
    #[track_caller]
    fn all_ready(&self, image: &str, replicas: usize) {
        self.until(&format!("{replicas} pods of {image} in each zone"), |kubectl| {
            let pods = kubectl.get(&["pods", "-l", "rollout-group=ingester"]);
            let pods = pods["items"].as_array().unwrap();
            let is_new = |pod: &&Value| is_ready(pod) && pod["spec"]["containers"][0]["image"] == image;
            let of = |zone: &str| {
                pods.iter()
                    .filter(|pod| zone_of(pod) == zone)
                    .filter(is_new)
                    .count()
            };
            let whole = ZONES.iter().all(|zone| of(zone) == replicas);
            (whole && pods.len() == 3 * replicas).then_some(())
        });
    }

    /// Waits until the ZoneRollout is Ready, as `kubectl wait` does.
    fn until_done(&self) {
        self.run(
            &["wait", "--for=condition=Ready", "zr", "--all", "--timeout=3m"],
            "",
        );
    }
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn zone_of(pod: &Value) -> &str {
    pod["metadata"]["labels"]["name"].as_str().unwrap_or_default()
}

/// The pods of the zones as a watch shows them, so that none is missed that is away for a moment.
struct Watch {
    seen: Arc<Mutex<Seen>>,
    _process: Process,
}

#[derive(Default)]
struct Seen {
    ready: BTreeMap<String, (String, bool)>,
    /// How many pods a zone is to have.
    replicas: usize,
    /// In how many zones some were missing at once.
    most: usize,
}

impl Watch {
    fn new(kubectl: &Kubectl) -> Self {
        let mut child = Command::new("kubectl")
            .args(["-n", NS, "get", "pods", "-l", "rollout-group=ingester"])
            .args(["--watch", "--output-watch-events", "-o", "json"])
            .env("KUBECONFIG", &kubectl.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = child.stdout.take().unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let known = Arc::clone(&seen);
        std::thread::spawn(move || {
            // It breaks off when the process is ended.
            let events = serde_json::Deserializer::from_reader(events).into_iter::<Value>();
            for event in events.map_while(Result::ok) {
                known.lock().unwrap().note(&event);
            }
        });
        Self {
            seen,
            _process: Process(child),
        }
    }

    /// Counts anew, with so many pods in each zone.
    fn begin(&self, replicas: usize) {
        let mut seen = self.seen.lock().unwrap();
        (seen.replicas, seen.most) = (replicas, 0);
    }

    /// In how many zones pods were missing at once since it began.
    fn most(&self) -> usize {
        self.seen.lock().unwrap().most
    }
}

impl Seen {
    fn note(&mut self, event: &Value) {
        let pod = &event["object"];
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if event["type"] == "DELETED" {
            self.ready.remove(&name);
        } else {
            self.ready.insert(name, (zone_of(pod).to_owned(), is_ready(pod)));
        }
        let ready = |zone: &str| {
            let of_zone = self.ready.values().filter(|(of, _)| of == zone);
            of_zone.filter(|(_, ready)| *ready).count()
        };
        let missing = ZONES.iter().filter(|zone| ready(zone) < self.replicas).count();
        self.most = self.most.max(missing);
    }
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has shown then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the pods answer: all of them at one address, told apart by the name that they are asked by.
fn pods_that_prepare() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let known = Arc::clone(&asked);
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
            // One that hangs up needs no answer.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (port, asked)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Everything but what runs on nodes, and the process outside of the cluster: nothing routes the addresses of Services here.
fn install(kubectl: &Kubectl, webhooks: u16) {
    let arguments = ["install", "--export", "--zones", "--crds", "-n", NS];
    let manifests = Command::new(muster()).args(arguments).output().unwrap();
    assert!(
        manifests.status.success(),
        "{}",
        String::from_utf8_lossy(&manifests.stderr)
    );
    let manifests = String::from_utf8(manifests.stdout).unwrap();
    kubectl.run(&["create", "namespace", NS], "");
    let (definitions, objects): (Vec<&str>, Vec<&str>) = manifests
        .split("---\n")
        .filter(|object| !object.trim().is_empty() && !object.contains("kind: Deployment\n"))
        .partition(|object| object.contains("kind: CustomResourceDefinition\n"));
    kubectl.apply(&definitions.join("---\n"));
    kubectl.run(&["wait", "--for=condition=Established", "crd", "--all"], "");
    kubectl.apply(&objects.join("---\n"));
    for kind in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        let mut all = kubectl.get(&[kind]);
        for configuration in all["items"].as_array_mut().unwrap() {
            for webhook in configuration["webhooks"].as_array_mut().unwrap() {
                let path = webhook["clientConfig"]["service"]["path"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                webhook["clientConfig"] = json!({"url": format!("https://localhost:{webhooks}{path}")});
            }
        }
        kubectl.run(&["replace", "-f", "-"], &all.to_string());
    }
}

/// The flags of the installation, with ports and names of this machine.
fn start(fleet: &Fleet, kubectl: &Kubectl, folder: &Path, (webhooks, metrics): (u16, u16)) -> Process {
    let plane = fleet.plane("c1").unwrap();
    let token = kubectl.run(&["create", "token", "muster-zones"], "");
    let kubeconfig = folder.join("zones.kubeconfig");
    std::fs::write(&kubeconfig, plane.kubeconfig_by_token("zones", &token)).unwrap();
    let hosts = folder.join("hosts");
    let name = |zone: &str, ordinal: u8| {
        format!(
            "127.0.0.1 {zone}-{ordinal}.ingester.{NS}.svc.cluster.local. {zone}-{ordinal}.ingester.{NS}.svc.cluster.local\n"
        )
    };
    let names = ZONES
        .iter()
        .flat_map(|zone| (0..5).map(move |ordinal| name(zone, ordinal)));
    std::fs::write(&hosts, names.collect::<String>()).unwrap();
    let log = std::fs::File::create(folder.join("zones.log")).unwrap();
    let child = Command::new(muster())
        .arg("zones")
        .args([
            &format!("-kubernetes.namespace={NS}"),
            &format!("-kubernetes.api-url={}", plane.url),
            &format!("-kubernetes.config-file={}", kubeconfig.display()),
            "-server-tls.enabled=true",
            "-server-tls.self-signed-cert.dns-name=localhost",
            "-use-zone-tracker=true",
            "-reconcile.interval=500ms",
            &format!("-server-tls.port={webhooks}"),
            &format!("-server.port={metrics}"),
            &format!("-pod-hosts={}", hosts.display()),
        ])
        .stderr(log)
        .spawn()
        .unwrap();
    Process(child)
}

/// What a path of the probes answers.
fn probe(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Everything of the installation, and the group of the example, whole. What is named first ends first: the folder is the fleet's.
struct Bed {
    watch: Watch,
    _process: Process,
    kubectl: Kubectl,
    asked: Arc<Mutex<Vec<String>>>,
    metrics: u16,
    fleet: Fleet,
    folder: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            kwok: true,
            ..Plan::default()
        };
        let mut fleet = Fleet::start(&folder.path().join("real"), plan).unwrap();
        fleet.add(&["c1".to_owned()]).unwrap();
        let kubectl = Kubectl(fleet.plane("c1").unwrap().kubeconfig());
        let (webhooks, metrics) = (free_port(), free_port());
        let (pods, asked) = pods_that_prepare();
        install(&kubectl, webhooks);
        let process = start(&fleet, &kubectl, folder.path(), (webhooks, metrics));
        kubectl.until("the process", |_| {
            probe(metrics, "/ready").filter(|answer| answer.starts_with("HTTP/1.1 200"))
        });
        kubectl.until("caBundle", |kubectl| {
            let all = kubectl.get(&["validatingwebhookconfigurations,mutatingwebhookconfigurations"]);
            let all = all["items"].as_array().unwrap();
            let has = |one: &Value| one["webhooks"][0]["clientConfig"]["caBundle"].is_string();
            all.iter().all(has).then_some(())
        });
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/zones");
        for file in ["ingester.yaml", "budget.yaml", "replicas.yaml"] {
            let text = std::fs::read_to_string(example.join(file)).unwrap();
            let text = text
                .replace("http-port: \"8080\"", &format!("http-port: \"{pods}\""))
                .replace("zones-downscale: 1m", "zones-downscale: 1s");
            kubectl.apply(&text);
        }
        kubectl.all_ready(OLD, 3);
        kubectl.until_done();
        Self {
            watch: Watch::new(&kubectl),
            folder,
            fleet,
            kubectl,
            asked,
            metrics,
            _process: process,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("zones.log")).unwrap()
    }

    fn roll(&self) {
        self.kubectl.until("the watch", |_| {
            (self.watch.seen.lock().unwrap().ready.len() == 9).then_some(())
        });
        self.watch.begin(3);
        for zone in ZONES {
            let set = format!("statefulset/{zone}");
            self.kubectl
                .run(&["set", "image", &set, &format!("ingester={NEW}")], "");
        }
        self.kubectl.all_ready(NEW, 3);
        self.kubectl.until_done();
        assert_eq!(self.watch.most(), 1, "zones that were disturbed at once");
    }

    /// Zone a is scaled by its reference, the others follow; each pod that leaves was asked.
    fn scale_down(&self) {
        let kubectl = &self.kubectl;
        let dry = [
            "scale",
            "statefulset/ingester-zone-b",
            "--replicas=1",
            "--dry-run=server",
        ];
        kubectl.run(&dry, "");
        assert!(self.asked.lock().unwrap().is_empty(), "a dry run asks nothing");
        kubectl.run(&["scale", "replicatemplate/ingester", "--replicas=2"], "");
        kubectl.all_ready(NEW, 2);
        kubectl.until_done();
        let prepared = self.asked.lock().unwrap().clone();
        let expect: Vec<String> = ZONES.iter().map(|zone| format!("POST {zone}-2")).collect();
        assert_eq!(prepared, expect, "{}", self.log());
        let template = kubectl.get(&["replicatemplate/ingester"]);
        assert_eq!(template["status"]["replicas"], 2);
        let tracker = kubectl.get(&["configmap/rollout-operator-zone-tracker"]);
        for zone in ZONES {
            assert!(tracker["data"][zone].is_string(), "{tracker}");
        }
    }

    /// While a pod of one zone is away, none of another one goes.
    fn drain(&self) {
        self.watch.begin(2);
        let pod = self.kubectl.get(&["pod/ingester-zone-a-0"]);
        let node = pod["spec"]["nodeName"].as_str().unwrap().to_owned();
        let drain = [
            "drain",
            &node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--timeout=150s",
        ];
        self.kubectl.run(&drain, "");
        self.kubectl.all_ready(NEW, 2);
        self.kubectl.until_done();
        assert_eq!(self.watch.most(), 1, "zones that were disturbed at once");
    }
}

#[test]
#[ignore = "real: cargo xtask real run"]
fn a_roll_a_scale_down_and_a_drain() {
    let bed = Bed::new();
    bed.roll();
    bed.scale_down();
    bed.drain();
    let counted = probe(bed.metrics, "/metrics").unwrap();
    for series in [
        "rollout_operator_group_reconciles_total{rollout_group=\"ingester\"}",
        "rollout_operator_zpdb_eviction_requests_total{reason=\"allowed\",status=\"200\"}",
        "kube_validating_webhook_failure_policy{type=\"validating\"",
    ] {
        assert!(counted.contains(series), "{series}\n{counted}");
    }
    let wrong = "apiVersion: rollout-operator.grafana.com/v1\nkind: ZoneAwarePodDisruptionBudget\nmetadata: {name: wrong}\n\
                 spec: {maxUnavailable: 1, maxUnavailablePercentage: 1, selector: {matchLabels: {a: b}}}\n";
    let refused = bed.kubectl.output(&["apply", "--server-side", "-f", "-"], wrong);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("only one of maxUnavailable"),
        "{said}"
    );
    keep_uses(&bed.fleet, "zones");
}
