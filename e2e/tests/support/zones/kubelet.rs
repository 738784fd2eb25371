//! Simulates nodes and network for the Deployment of `muster zones`: its pods are processes of this machine, with the
//! arguments and names of the pods, and its two Services are addresses of this machine, which forward to the processes
//! that the Services would select.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use muster_api::labels::label::ZONES_LEADER;
use muster_e2e::bed::muster;
use serde_json::Value;

use super::kubectl::{Kubectl, Process};

/// The grace period of a process after SIGTERM, as for pods.
const GRACE: Duration = Duration::from_secs(30);

/// Runs the pods of the Deployment until it is dropped.
pub(super) struct Kubelet {
    pods: Pods,
    _watch: Process,
}

/// The running pods, by name; `None` once stopped.
type Pods = Arc<Mutex<Option<BTreeMap<String, Pod>>>>;

struct Pod {
    process: Process,
    webhooks: u16,
    metrics: u16,
    is_leader: bool,
}

/// The addresses of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub webhooks: u16,
    pub metrics: u16,
}

/// The settings for all processes.
#[derive(Clone)]
pub(super) struct Start {
    /// Flags in addition to those of the pod.
    pub flags: Vec<String>,
    /// The directory for logs, one per pod.
    pub directory: PathBuf,
}

impl Kubelet {
    pub(super) fn new(kubectl: &Kubectl, start: Start) -> Self {
        let (watch, events) = kubectl.watch("app.kubernetes.io/component=zones");
        let pods: Pods = Arc::new(Mutex::new(Some(BTreeMap::new())));
        let running = Arc::clone(&pods);
        thread::spawn(move || {
            // The stream ends when the watch is stopped.
            let events = serde_json::Deserializer::from_reader(events).into_iter::<Value>();
            for event in events.map_while(Result::ok) {
                handle_pod_event(&running, &start, &event);
            }
        });
        Self { pods, _watch: watch }
    }

    /// The running pods, and whether they are labelled as the leader.
    pub(super) fn pods(&self) -> BTreeMap<String, bool> {
        let pods = self.pods.lock().unwrap();
        pods.iter()
            .flatten()
            .map(|(name, pod)| (name.clone(), pod.is_leader))
            .collect()
    }

    /// The address of the leader, if there is one that is ready.
    pub(super) fn leader(&self) -> Option<Ports> {
        selected(&self.pods, true)
    }

    /// Crashes the process of a pod; it is not restarted.
    pub(super) fn crash(&self, pod: &str) {
        let mut pods = self.pods.lock().unwrap();
        let pod = pods.as_mut().and_then(|pods| pods.get_mut(pod)).unwrap();
        pod.process.0.kill().unwrap();
        pod.process.0.wait().unwrap();
    }

    /// An address that forwards to the ready pods, or to the one that is the leader.
    pub(super) fn service(&self, of_leader: bool) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pods = Arc::clone(&self.pods);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let pods = Arc::clone(&pods);
                thread::spawn(move || lead(&stream.unwrap(), selected(&pods, of_leader)));
            }
        });
        port
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        // Errors are ignored: a process may be starting, and a panic has failed the test already.
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        *pods = None;
    }
}

/// The first pod that a Service with this selector would select.
fn selected(pods: &Pods, of_leader: bool) -> Option<Ports> {
    let candidates: Vec<Ports> = {
        let pods = pods.lock().unwrap();
        let fit = pods
            .iter()
            .flat_map(BTreeMap::values)
            .filter(|pod| pod.is_leader || !of_leader);
        fit.map(|pod| Ports {
            webhooks: pod.webhooks,
            metrics: pod.metrics,
        })
        .collect()
    };
    let is_ready = |ports: &Ports| {
        probe(ports.metrics, "/ready").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    };
    candidates.into_iter().find(is_ready)
}

/// Copies bytes both ways; without an endpoint the connection is closed.
fn lead(from: &TcpStream, to: Option<Ports>) {
    let Some(to) = to.and_then(|ports| TcpStream::connect(("127.0.0.1", ports.webhooks)).ok()) else {
        return;
    };
    thread::scope(|scope| {
        scope.spawn(|| copy(from, &to));
        copy(&to, from);
    });
}

/// Until one side has closed; data that is undelivered then is lost, as with any connection.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// Starts and stops processes as pods are created and deleted.
fn handle_pod_event(pods: &Pods, start: &Start, event: &Value) {
    let pod = &event["object"];
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let mut pods = pods.lock().unwrap();
    let Some(pods) = pods.as_mut() else {
        return;
    };
    if event["type"] == "DELETED" || !pod["metadata"]["deletionTimestamp"].is_null() {
        if let Some(pod) = pods.remove(name) {
            thread::spawn(move || end(pod.process));
        }
    } else if pod["spec"]["nodeName"].is_string() {
        let running = pods
            .entry(name.to_owned())
            .or_insert_with(|| run(start, name, pod));
        running.is_leader = pod["metadata"]["labels"][ZONES_LEADER] == "true";
    }
}

/// A process with the arguments of the pod's container.
fn run(start: &Start, name: &str, pod: &Value) -> Pod {
    let (webhooks, metrics) = (free_port(), free_port());
    let arguments = pod["spec"]["containers"][0]["args"]
        .as_array()
        .into_iter()
        .flatten();
    let log = std::fs::File::create(start.directory.join(format!("{name}.log"))).unwrap();
    let child = Command::new(muster())
        .args(arguments.filter_map(Value::as_str))
        .args(&start.flags)
        .args([
            format!("-server-tls.port={webhooks}"),
            format!("-server.port={metrics}"),
        ])
        .env("HOSTNAME", name)
        .stderr(log)
        .spawn()
        .unwrap();
    Pod {
        process: Process(child),
        webhooks,
        metrics,
        is_leader: false,
    }
}

/// SIGTERM; a process that has not exited in time is killed on drop.
fn end(mut process: Process) {
    let pid = process.0.id().to_string();
    let _ = Command::new("kill").args(["-TERM", &pid]).status();
    let began = Instant::now();
    while began.elapsed() < GRACE && matches!(process.0.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(50));
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The response on a path of the probes.
pub(super) fn probe(port: u16, path: &str) -> Option<String> {
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
