//! Promise: of two controllers on real sockets one is active; killed, terminated or suspended, it is followed by the
//! other one, and when it resumes it exits without a write. The released binary, HTTPS, a lease of four seconds (a busy
//! machine needs them). Times are printed.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use std::{
    fs::{self, File},
    net::SocketAddr,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Resource, ResourceExt, api::PostParams};
use muster_api::{Module, crds};
use muster_apiserver::{
    ApiServer, Login, Verb,
    fault::{Fault, Match, Rule},
};
use muster_e2e::bed::muster;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
};

const NS: &str = "fleet";
/// Timeout of every wait, ample on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// An API server, and the candidates for the lease.
struct Bed {
    api: ApiServer,
    directory: TempDir,
}

/// A controller; the API server identifies it by its name.
struct Controller {
    name: &'static str,
    door: SocketAddr,
    child: Child,
}

impl Bed {
    async fn new() -> Self {
        // Only a second call could fail, because the provider is already set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let api = ApiServer::builder()
            .namespace(NS)
            .with(crds::management())
            .with(crds::flux())
            .with([crds::cluster_api()]);
        let api = api.start().await.unwrap();
        Self {
            api,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn start(&self, name: &'static str) -> Controller {
        let identity = self.api.issue(name).unwrap();
        let kubeconfig = self.directory.path().join(format!("{name}.kubeconfig"));
        fs::write(
            &kubeconfig,
            self.api.kubeconfig_of(&identity, Login::Certificate).unwrap(),
        )
        .unwrap();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log(name))
            .unwrap();
        let door = free_address();
        let child = Command::new(muster())
            .args([
                "controller",
                "--namespace",
                NS,
                "--allow-insecure-sources",
                "--lease-duration=4s",
            ])
            .args(["--metrics-addr", &door.to_string()])
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .arg("--data-dir")
            .arg(self.directory.path().join(name))
            .env("HOSTNAME", name)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Controller { name, door, child }
    }

    fn log(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(format!("{name}.log"))
    }

    /// The holder of the lease.
    async fn holder(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.api.client_as("person"), NS);
        let lease = leases.get_opt("muster-controller").await.unwrap()?;
        let holder = lease.spec?.holder_identity?;
        Some(holder.split('_').next().unwrap().to_owned())
    }

    /// Waits until a controller leads. Returns the elapsed time.
    async fn until_leads(&self, who: &[&str]) -> (Duration, String) {
        let started = Instant::now();
        let what = format!("one of {who:?} leads");
        let holder = until(&what, async || {
            self.holder()
                .await
                .filter(|holder| who.contains(&holder.as_str()))
        });
        let holder = holder.await;
        (started.elapsed(), holder)
    }

    /// Creates modules whose source does not exist: the leader reports this in their status.
    async fn create_modules(&self, prefix: &str, count: usize) {
        for number in 0..count {
            self.create_module(&format!("{prefix}-{number}")).await;
        }
        let modules = self.modules();
        until(&format!("{prefix} is acted on"), async || {
            let all = modules.list(&kube::api::ListParams::default()).await.unwrap();
            let ours = all.iter().filter(|module| module.name_any().starts_with(prefix));
            (ours.filter(|module| module.status.is_some()).count() == count).then_some(())
        })
        .await;
    }

    async fn create_module(&self, name: &str) {
        let git = json!({"url": "file:///nowhere/fleet.git", "version": {"tag": "v1"}});
        let module = json!({
            "apiVersion": Module::api_version(&()), "kind": Module::kind(&()), "metadata": {"name": name},
            "spec": {"selector": {}, "sync": {"source": {"git": git}, "package": {"path": "."}}},
        });
        let module = serde_json::from_value(module).unwrap();
        self.modules()
            .create(&PostParams::default(), &module)
            .await
            .unwrap();
    }

    fn modules(&self) -> Api<Module> {
        Api::namespaced(self.api.client_as("person"), NS)
    }

    /// The number of writes other than to the lease.
    fn writes(&self, name: &str) -> usize {
        let writes = self.api.recorder().writes(name);
        writes.iter().filter(|write| !write.contains("/leases")).count()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["one", "two"] {
                println!(
                    "--- {name}\n{}",
                    fs::read_to_string(self.log(name)).unwrap_or_default()
                );
            }
        }
    }
}

impl Controller {
    async fn signal(&self, signal: &str) {
        let pid = self.child.id().expect("it has ended").to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .await
                .unwrap()
                .success()
        );
    }

    async fn ended(mut self) -> ExitStatus {
        tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .expect("it does not end")
            .unwrap()
    }

    /// Status and body of a response of its HTTP endpoint.
    async fn http_get(&self, path: &str) -> (u16, String) {
        let mut stream = until("the door is open", async || {
            TcpStream::connect(self.door).await.ok()
        })
        .await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: muster\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn until_ready(&self) {
        until(&format!("{} is ready", self.name), async || {
            (self.http_get("/readyz").await.0 == 200).then_some(())
        })
        .await;
    }
}

/// Polls until there is a value.
async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An address that had no listener a moment ago.
fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_and_is_followed() {
    let bed = Bed::new().await;
    let one = bed.start("one");
    bed.until_leads(&["one"]).await;
    let two = bed.start("two");
    bed.create_modules("first", 1).await;
    check_leader_and_standby_endpoints(&one, &two).await;
    assert_eq!(bed.writes("two"), 0, "a standby writes nothing");

    one.signal("-KILL").await;
    one.ended().await;
    let (took, _) = bed.until_leads(&["two"]).await;
    println!("killed: followed after {took:.2?}");
    bed.create_modules("second", 1).await;

    let one = bed.start("one");
    one.until_ready().await;
    two.signal("-TERM").await;
    let status = two.ended().await;
    assert_eq!(status.code(), Some(0), "was asked to end");
    let (took, _) = bed.until_leads(&["one"]).await;
    println!("terminated: followed {took:.2?} after its exit");
    bed.create_modules("third", 1).await;

    let two = bed.start("two");
    two.until_ready().await;
    one.signal("-STOP").await;
    let (took, _) = bed.until_leads(&["two"]).await;
    println!("stopped: followed after {took:.2?}");
    // All of this is new to the controller that resumes.
    bed.create_modules("fourth", 20).await;
    let (before, woken) = (bed.writes("one"), Instant::now());
    assert!(before > 0);
    one.signal("-CONT").await;
    let status = one.ended().await;
    println!("continued: exited on its own after {:.2?}", woken.elapsed());
    assert_eq!(status.code(), Some(1));
    assert_eq!(bed.writes("one"), before, "nothing was written after its lease");
    let log = fs::read_to_string(bed.log("one")).unwrap();
    // A watch that ends at the same moment may still be logged afterwards.
    let said = log.lines().filter(|line| line.starts_with("error: "));
    let said: Vec<&str> = said.collect();
    assert_eq!(said.len(), 1, "{log}");
    assert!(
        said[0].starts_with("error: Lease muster-controller was not renewed for 2.7 s"),
        "{log}"
    );
}

/// After a second signal it does not wait for requests in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_at_once() {
    let bed = Bed::new().await;
    let one = bed.start("one");
    one.until_ready().await;
    bed.until_leads(&["one"]).await;
    let slow = Match {
        verbs: vec![Verb::Patch],
        path: Some("/modules/".to_owned()),
        ..Match::client("one")
    };
    bed.api.faults().add(Rule::always(slow, Fault::Delay(PATIENCE)));
    bed.create_module("slow").await;
    until("it writes", async || (bed.writes("one") > 0).then_some(())).await;
    one.signal("-TERM").await;
    until("it is ending", async || {
        let log = fs::read_to_string(bed.log("one")).unwrap();
        log.contains("writes in flight are finished").then_some(())
    })
    .await;
    let told = Instant::now();
    one.signal("-TERM").await;
    let status = one.ended().await;
    println!("signaled twice: exited after {:.2?}", told.elapsed());
    assert_eq!(status.code(), Some(1));
    assert!(
        told.elapsed() < Duration::from_secs(15),
        "half of what is in flight may take"
    );
}

/// The HTTP responses of a leader and of a standby.
async fn check_leader_and_standby_endpoints(leader: &Controller, standby: &Controller) {
    leader.until_ready().await;
    for (controller, leads) in [(leader, 1), (standby, 0)] {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(
                controller.http_get(path).await,
                (200, "ok\n".to_owned()),
                "{} {path}",
                controller.name
            );
        }
        let (status, metrics) = controller.http_get("/metrics").await;
        assert_eq!(status, 200);
        assert!(
            metrics.contains(&format!("\nmuster_leader {leads}\n")),
            "{metrics}"
        );
        assert!(metrics.ends_with("# EOF\n"));
    }
    let (_, metrics) = leader.http_get("/metrics").await;
    let module = "muster_module_info{kind=\"Module\",name=\"first-0\",version=\"v1\"} 1";
    assert!(metrics.lines().any(|line| line.starts_with(module)), "{metrics}");
}
