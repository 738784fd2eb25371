//! Promise: gates stop a rollout until they pass; whatever the host, Secret or address of a gate is like, nothing
//! behind it changes, the reason is shown, and no other module is affected.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use muster_api::{Module, validate::InsecureSources};
use muster_apiserver::{ApiServer, Login};
use muster_controllers::{
    gates::{Access, Ask, Credentials, Fetch, FetchError, Web},
    hosts::Hosts,
    registry::kubeconfig,
};
use muster_sync::proxy::Proxies;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::bed::*;

const TOKEN: &str = "hunter2-of-the-gate";
/// The timeout of every wait for real I/O.
const REAL: Duration = Duration::from_mins(2);

/// A bed whose canary is eu-1; the controller may query these hosts with this client, also over plain HTTP.
async fn bed(hosts: &[&str], fetch: Arc<dyn Fetch>) -> Bed {
    let mut bed = Bed::without_controller(&["eu-1", "eu-2"]).await;
    bed.patch_cluster("eu-1", json!({"metadata": {"labels": {"canary": "yes"}}}))
        .await;
    bed.gates = Access {
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect::<Hosts>(),
        insecure: InsecureSources::Allowed,
        fetch,
    };
    bed.start_controller();
    bed
}

/// The rollout settings of a module whose canary has these gates.
fn gated(gates: Value) -> Value {
    let selector = json!({"matchLabels": {"canary": "yes"}});
    json!({"rollout": {"stages": [{"name": "canary", "selector": selector, "gates": gates}]}})
}

fn http(url: &str, path: &str, op: &str, value: &str) -> Value {
    let http = json!({"url": url, "jsonPath": path, "op": op, "value": value});
    json!({"http": http, "interval": "1s", "timeout": "1s"})
}

/// The message about eu-2, which waits.
async fn attention_of_eu_2(bed: &Bed, module: &str) -> Option<String> {
    let module = bed.module(module).await?;
    let attention = module["status"]["attention"].as_array()?.clone();
    let entry = attention.into_iter().find(|entry| entry["cluster"] == "eu-2")?;
    let word = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{}: {}", word("reason"), word("message")))
}

async fn until_said(bed: &Bed, module: &str, words: &str) -> String {
    bed.until(&format!("{module} says {words}"), || async {
        attention_of_eu_2(bed, module)
            .await
            .filter(|text| text.contains(words))
    })
    .await
}

/// The requests to a real host, by path.
#[derive(Default)]
struct Asked {
    counts: Mutex<BTreeMap<String, usize>>,
    sent: AtomicUsize,
}

type Shared = Arc<Asked>;

/// A host with several behaviors, and another one that must not be reached.
struct Host {
    address: String,
    requests: Shared,
    elsewhere: Shared,
    _servers: Vec<AbortOnDropHandle<()>>,
}

impl Host {
    async fn new() -> Self {
        let (elsewhere, requests) = (Shared::default(), Shared::default());
        let (other, first) = serve(&elsewhere, "").await;
        let (address, second) = serve(&requests, &other).await;
        Self {
            address,
            requests,
            elsewhere,
            _servers: vec![first, second],
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}?query=up", self.address)
    }

    fn times(&self, path: &str) -> usize {
        let counts = self.requests.counts.lock();
        counts.get(&format!("/{path}")).copied().unwrap_or_default()
    }
}

async fn serve(asked: &Shared, other: &str) -> (String, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let state = (Arc::clone(asked), other.to_owned());
    let router = Router::new().fallback(answer).with_state(state);
    let server = async move { axum::serve(listener, router).await.unwrap() };
    (address, AbortOnDropHandle::new(tokio::spawn(server)))
}

async fn answer(State((asked, other)): State<(Shared, String)>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    *asked.counts.lock().entry(path.clone()).or_default() += 1;
    let sent = move |bytes: usize| {
        asked.sent.fetch_add(bytes, Ordering::SeqCst);
    };
    match path.as_str() {
        "/silent" => std::future::pending().await,
        "/announced" => vec![b' '; 10 << 20].into_response(),
        "/endless" => {
            let chunk = stream::repeat_with(move || {
                sent(64 << 10);
                Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 64 << 10]))
            });
            Body::from_stream(chunk).into_response()
        }
        "/drips" => {
            let drops = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(b" ")));
            let drops = drops.then(|drop| async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                drop
            });
            Body::from_stream(drops).into_response()
        }
        "/leads" => {
            let to = format!("http://{other}/value?{TOKEN}");
            (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
        }
        "/broken" => (StatusCode::SERVICE_UNAVAILABLE, r#"{"v": 1}"#).into_response(),
        "/page" => "<html>1</html>".into_response(),
        "/undefined" => r#"{"v": "NaN"}"#.into_response(),
        "/mirror" => {
            let login = request.headers().get(header::AUTHORIZATION);
            let login = login.map(|login| login.to_str().unwrap()).unwrap_or_default();
            json!({"login": login, "v": 1}).to_string().into_response()
        }
        _ => r#"{"v": 1}"#.into_response(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_bad_input_on_the_wire() {
    let host = Host::new().await;
    let bed = bed(&[&host.address], Arc::new(Web::default())).await;
    let usual = |path: &str| http(&host.url(path), "$.v", "==", "1");
    let with_secret = |path: &str, name: &str| {
        let mut gate = usual(path);
        gate["http"]["secretRef"] = json!({"name": name});
        gate
    };
    bed.create::<Secret>(json!({"metadata": {"name": "odd"}, "stringData": {"key": TOKEN}}))
        .await;
    let mut condition = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "type": "Ready"});
    let absent = json!({"condition": condition.clone(), "interval": "1s"});
    condition["kind"] = json!("Pod");
    let refused = json!({"condition": condition, "interval": "1s"});
    let cases = [
        ("silent", usual("silent"), "no complete response within 1 s"),
        ("drips", usual("drips"), "no complete response within 1 s"),
        ("announced", usual("announced"), "longer than 64 KiB"),
        ("endless", usual("endless"), "longer than 64 KiB"),
        ("leads", usual("leads"), "redirects to 127.0.0.1:"),
        ("broken", usual("broken"), "the host answered 503"),
        ("page", usual("page"), "is not JSON"),
        ("undefined", usual("undefined"), "the value at $.v is NaN"),
        (
            "path",
            http(&host.url("value"), "$.w", "==", "1"),
            "nothing at $.w",
        ),
        (
            "below",
            http(&host.url("value"), "$.v", "<", "1"),
            "it read 1, which is not < 1",
        ),
        (
            "host",
            http("http://127.0.0.1:9/x", "$.v", "==", "1"),
            "--gate-hosts 127.0.0.1:9 ",
        ),
        (
            "nosecret",
            with_secret("value", "none"),
            "Secret none (secretRef) does not exist",
        ),
        (
            "odd",
            with_secret("value", "odd"),
            "Secret odd: it has neither token nor username",
        ),
        ("absent", absent, "ConfigMap none does not exist"),
        ("kind", refused, "--binding-kinds v1/Pod"),
    ];
    let names: Vec<&str> = cases.iter().map(|(name, ..)| *name).chain(["good"]).collect();
    bed.release("one", &names, "one");
    for (name, gate, _) in &cases {
        bed.create::<Module>(module(name, "one", gated(json!([gate]))))
            .await;
    }
    bed.create::<Module>(module("good", "one", gated(json!([usual("value")]))))
        .await;
    let checks = async {
        bed.until_ready("good").await;
        for (name, _, words) in &cases {
            let text = until_said(&bed, name, words).await;
            assert!(
                text.starts_with("WaitingGate: one waits for gate 1 of stage canary"),
                "{text}"
            );
            assert!(!text.contains(TOKEN), "{text}");
        }
        bed.until("each is asked again", || async {
            let again = |name: &str| host.times(name) >= 3;
            ["silent", "announced", "endless", "leads", "page"]
                .into_iter()
                .all(again)
                .then_some(())
        })
        .await;
        for (name, ..) in &cases {
            assert!(bed.row("eu-2", name).await.is_none(), "{name} moved on");
            assert!(bed.row("eu-1", name).await.is_some(), "{name} has its canary");
        }
    };
    tokio::time::timeout(REAL, checks).await.expect("in time");
    assert!(host.elsewhere.counts.lock().is_empty(), "no redirect is followed");
    let (times, sent) = (host.times("endless"), host.requests.sent.load(Ordering::SeqCst));
    assert!(
        sent < times * (16 << 20),
        "{sent} bytes were read in {times} times"
    );
    let notes = bed.event_notes("GateNotPassed").await;
    for (_, _, words) in &cases {
        let times = notes.iter().filter(|note| note.contains(words)).count();
        assert!((1..=2).contains(&times), "{words}: {notes:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_read_each_time_and_shown_nowhere() {
    let host = Host::new().await;
    let bed = bed(&[&host.address], Arc::new(Web::default())).await;
    let mut gate = http(&host.url("mirror"), "$.login", "==", "open sesame");
    gate["http"]["secretRef"] = json!({"name": "monitoring"});
    bed.release("one", &["web"], "one");
    let steps = async {
        bed.create::<Module>(module("web", "one", gated(json!([gate]))))
            .await;
        until_said(&bed, "web", "Secret monitoring (secretRef) does not exist").await;
        let secret = json!({"metadata": {"name": "monitoring"}, "stringData": {"token": TOKEN}});
        bed.create::<Secret>(secret).await;
        until_said(&bed, "web", "it read Bearer ***, which is not ==").await;
        bed.patch("web", json!({"spec": {"rollout": {"stages": null}}}))
            .await;
        bed.until_ready("web").await;
    };
    tokio::time::timeout(REAL, steps).await.expect("in time");
    for event in bed.management.recorder().events() {
        let object = event.object();
        let is_secret = event.resource.resource == "secrets";
        assert!(is_secret || !object.to_string().contains(TOKEN), "{object}");
    }
}

/// The host has a name that only the proxy knows; the proxy is the host itself, which answers under any name.
#[tokio::test]
async fn through_the_proxy_of_the_process() {
    let host = self::Host::new().await;
    let proxy = |name: &str| (name == "HTTP_PROXY").then(|| format!("http://{}", host.address));
    let get = async |proxies: Proxies| {
        let request = Ask {
            url: "http://metrics.test/value".parse().unwrap(),
            credentials: Credentials::default(),
        };
        Web::through(proxies).get(&request).await
    };
    let answer = get(Proxies::from_variables(proxy).unwrap()).await.unwrap();
    assert_eq!(answer, r#"{"v": 1}"#);
    let gone = |name: &str| (name == "HTTP_PROXY").then(|| "http://127.0.0.1:9".to_owned());
    let error = get(Proxies::from_variables(gone).unwrap())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("the host cannot be reached: "), "{error}");
    assert!(error.ends_with(" (through proxy http://127.0.0.1:9)"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_of_an_authority_of_its_own() {
    let api = ApiServer::start().await.unwrap();
    let identity = api.issue("gate").unwrap();
    let config = api.kubeconfig_of(&identity, Login::Token).unwrap();
    let access = kubeconfig::parse_kubeconfig(config.as_bytes()).unwrap();
    let host = access.server.strip_prefix("https://").unwrap().to_owned();
    let bed = bed(&[&host], Arc::new(Web::default())).await;
    bed.release("one", &["web", "strange"], "one");
    let authority = String::from_utf8(access.certificate_authority).unwrap();
    let token = access.token.unwrap().expose().to_owned();
    for (name, data) in [
        ("ours", json!({"token": token, "ca.crt": authority})),
        ("strange", json!({"token": token})),
    ] {
        bed.create::<Secret>(json!({"metadata": {"name": name}, "stringData": data}))
            .await;
    }
    let gate = |secret: &str| {
        let url = format!("{}/api/v1/namespaces/default", access.server);
        let mut gate = http(&url, "$.metadata.name", "==", "default");
        gate["http"]["secretRef"] = json!({"name": secret});
        gate["timeout"] = json!("10s");
        gate
    };
    let steps = async {
        bed.create::<Module>(module("web", "one", gated(json!([gate("ours")]))))
            .await;
        bed.create::<Module>(module("strange", "one", gated(json!([gate("strange")]))))
            .await;
        bed.until_ready("web").await;
        until_said(&bed, "strange", "the host cannot be reached").await;
        assert!(bed.row("eu-2", "strange").await.is_none());
    };
    tokio::time::timeout(REAL, steps).await.expect("in time");
}

/// A host on paused time: each answer takes a while, and the time of each request is recorded.
struct Slow {
    takes: Duration,
    value: Mutex<Value>,
    instants: Mutex<Vec<tokio::time::Instant>>,
}

impl Slow {
    fn new(takes: Duration, value: Value) -> Arc<Self> {
        Arc::new(Self {
            takes,
            value: Mutex::new(value),
            instants: Mutex::default(),
        })
    }

    /// The seconds between requests.
    fn spans(&self) -> Vec<u64> {
        let instants = self.instants.lock();
        instants
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs())
            .collect()
    }
}

#[async_trait]
impl Fetch for Slow {
    async fn get(&self, _ask: &Ask) -> Result<Bytes, FetchError> {
        self.instants.lock().push(tokio::time::Instant::now());
        tokio::time::sleep(self.takes).await;
        Ok(json!({"v": *self.value.lock()}).to_string().into())
    }
}

fn each_minute(passes: u32) -> Value {
    let mut gate = http("https://a.test/value", "$.v", "<", "5");
    gate["interval"] = json!("1m");
    gate["timeout"] = json!("30s");
    gate["passes"] = json!(passes);
    gate
}

#[tokio::test(start_paused = true)]
async fn it_has_to_hold_so_many_times_in_a_row_over_a_restart() {
    let host = Slow::new(Duration::from_secs(20), json!(1));
    let mut bed = bed(&["a.test"], host.clone()).await;
    bed.release("one", &["web"], "one");
    bed.create::<Module>(module("web", "one", gated(json!([each_minute(3)]))))
        .await;
    let text = until_said(&bed, "web", "passed 1 of 3 times").await;
    assert!(
        text.contains("it passed: it read 1, which is < 5; it is read again at 1970-"),
        "{text}"
    );
    assert!(text.ends_with("[a.test/value $.v < 5]"), "{text}");
    bed.crash_controller();
    bed.start_controller();
    // The result is remembered as far as it counts; its message is not, and nothing is read early.
    until_said(&bed, "web", "it passed; it is read again").await;
    until_said(&bed, "web", "passed 2 of 3 times").await;
    *host.value.lock() = json!(9);
    until_said(&bed, "web", "passed 0 of 3 times").await;
    assert_eq!(bed.event_notes("GateNotPassed").await.len(), 1);
    *host.value.lock() = json!(2);
    bed.until_ready("web").await;
    assert_eq!(host.spans(), [60; 5], "from begin to begin, and once each");
}

#[tokio::test(start_paused = true)]
async fn a_new_gate_question_is_not_answered_by_an_old_reading() {
    let host = Slow::new(Duration::from_secs(20), json!(1));
    let bed = bed(&["a.test"], host.clone()).await;
    for tag in ["one", "two"] {
        bed.release(tag, &["web"], tag);
    }
    bed.create::<Module>(module("web", "one", gated(json!([each_minute(1)]))))
        .await;
    bed.until_ready("web").await;
    let asked = || host.instants.lock().len();
    let before = asked();
    bed.patch("web", version("two")).await;
    bed.until("it is asked", || async { (asked() > before).then_some(()) })
        .await;
    // The query changes while the answer is on its way: the old answer would have passed.
    let mut other = each_minute(1);
    other["http"]["value"] = json!("0.5");
    bed.patch("web", json!({"spec": gated(json!([other]))})).await;
    let text = until_said(&bed, "web", "did not pass: it read 1, which is not < 0.5").await;
    assert!(text.contains("passed 0 of 1 times"), "{text}");
    pass(Duration::from_mins(5)).await;
    assert_eq!(bed.text("eu-2", "web").await.as_deref(), Some("one"));
    // A new version, while it waits, needs its own reading.
    *host.value.lock() = json!(0);
    bed.until_ready("web").await;
    assert_eq!(bed.text("eu-2", "web").await.as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn no_data_is_waited_for_or_is_as_bad_as_a_failure() {
    let host = Slow::new(Duration::ZERO, json!(1));
    let bed = bed(&["a.test"], host.clone()).await;
    bed.release("one", &["waits", "fails"], "one");
    for (name, wish) in [("waits", "Wait"), ("fails", "Fail")] {
        let mut gate = each_minute(3);
        gate["onNoData"] = json!(wish);
        bed.create::<Module>(module(name, "one", gated(json!([gate]))))
            .await;
    }
    for name in ["waits", "fails"] {
        until_said(&bed, name, "passed 1 of 3 times").await;
    }
    *host.value.lock() = Value::Null;
    for (name, passes) in [("waits", 1), ("fails", 0)] {
        let text = until_said(&bed, name, "was inconclusive: there is null at $.v").await;
        assert!(text.contains(&format!("passed {passes} of 3 times")), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn gates_with_no_waiting_clusters_are_reported_before_the_rollout_ends() {
    let host = Slow::new(Duration::ZERO, json!(9));
    let bed = bed(&["a.test"], host.clone()).await;
    bed.release("one", &["web"], "one");
    let selector = json!({"matchLabels": {"env": "prod"}});
    let stages = json!([{"name": "all", "selector": selector, "gates": [each_minute(1)]}]);
    bed.create::<Module>(module("web", "one", json!({"rollout": {"stages": stages}})))
        .await;
    let words = "one is ready on 2 of 2 clusters; the rollout completes when it passes gate 1 of stage all";
    let message = bed.until_said("web", "Ready", "True Succeeded").await;
    assert!(message.starts_with(words), "{message}");
    assert!(bed.event_notes("RolloutFinished").await.is_empty());
    *host.value.lock() = json!(1);
    bed.until("it is over", || async {
        (!bed.event_notes("RolloutFinished").await.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn over_http_only_where_the_controller_allows_it() {
    let mut bed = bed(&["a.test"], Slow::new(Duration::ZERO, json!(1))).await;
    bed.crash_controller();
    bed.gates.insecure = InsecureSources::Refused;
    bed.start_controller();
    bed.release("one", &["web"], "one");
    let gate = http("http://a.test/value", "$.v", "==", "1");
    bed.create::<Module>(module("web", "one", gated(json!([gate]))))
        .await;
    let message = bed.until_said("web", "Ready", "False InvalidSpec").await;
    assert!(
        message.starts_with("spec.rollout.stages[0].gates[0].http.url: http is insecure"),
        "{message}"
    );
    assert!(bed.row("eu-1", "web").await.is_none(), "no cluster changes");
}
