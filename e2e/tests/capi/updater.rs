//! An external updater: it implements Cluster API's hooks, covers some fields, and updates a Machine once the test
//! allows it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::FutureExt as _;
use http::StatusCode;
use muster_controllers::{
    admission::server::{Answer, Server, Shown, WebhookRequest, certified_key},
    machines::hooks::ANSWERED_WITHIN,
    runtime::Shutdown,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::certificate::Certificate;

const GROUP_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
const HOOKS: [&str; 3] = ["CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine"];
/// How long Cluster API waits before it polls a Machine that is being updated, in seconds.
const AGAIN: u32 = 1;

/// The fields of a Machine's objects that it covers: of the Machine and of the bootstrap config.
#[derive(Clone, Copy)]
pub(crate) struct Covers {
    pub machine: &'static [&'static str],
    pub bootstrap: &'static [&'static str],
    /// What it requires for the Node first, `Cordon` or `Drain`.
    pub prepares: Option<&'static str>,
}

/// One call of UpdateMachine, and whether the response was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub updater: &'static str,
    pub machine: String,
    pub digest: String,
    pub is_done: bool,
}

/// The calls of all updaters in one list, to assert their order.
pub(crate) type Calls = Arc<Mutex<Vec<Call>>>;

pub(crate) struct Updater {
    pub name: &'static str,
    url: String,
    bundle: String,
    state: Arc<State>,
    _serving: AbortOnDropHandle<()>,
}

struct State {
    name: &'static str,
    covers: Covers,
    calls: Calls,
    /// Whether an update of a Machine may complete.
    may_end: Mutex<bool>,
    /// Number of calls that ask what it covers.
    coverage_requests: AtomicUsize,
}

impl Updater {
    pub(crate) async fn start(name: &'static str, covers: Covers, calls: &Calls) -> Self {
        let certificate = Certificate::of_loopback();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let shows = Shown::default();
        shows.change(certified_key(&certificate.chain, &certificate.key).unwrap());
        let state = Arc::new(State {
            name,
            covers,
            calls: Arc::clone(calls),
            may_end: Mutex::new(false),
            coverage_requests: AtomicUsize::new(0),
        });
        let asked = Arc::clone(&state);
        let server = Server {
            listener,
            shown: shows,
            answers: Arc::new(move |request: WebhookRequest| {
                let body = asked.answer(&request);
                async move {
                    Answer {
                        status: StatusCode::OK,
                        content_type: "application/json",
                        body: body.to_string().into_bytes(),
                    }
                }
                .boxed()
            }),
            deadline: ANSWERED_WITHIN,
            shutdown: Shutdown::new(),
        };
        let serving = tokio::spawn(async move { server.run().await.unwrap() });
        Self {
            name,
            url,
            bundle: certificate.bundle(),
            state,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    /// Its entry in the updaters file.
    pub(crate) fn entry(&self, order: i32) -> Value {
        json!({
            "name": self.name,
            "order": order,
            "clientConfig": {"url": self.url, "caBundle": self.bundle},
            "deadline": "10m",
            "prepareNode": self.state.covers.prepares,
        })
    }

    /// Number of calls so far that ask what it covers.
    pub(crate) fn coverage_request_count(&self) -> usize {
        self.state.coverage_requests.load(Ordering::Relaxed)
    }

    /// Whether a Machine is done at the second call; with false, it never is.
    pub(crate) fn may_end(&self, may_end: bool) {
        *self.state.may_end.lock() = may_end;
    }
}

impl State {
    fn answer(&self, request: &WebhookRequest) -> Value {
        let rest = request.path.strip_prefix(&format!("/{GROUP_VERSION}/"));
        let hook = rest.unwrap().split('/').next().unwrap();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        match hook {
            "discovery" => json!({
                "apiVersion": GROUP_VERSION, "kind": "DiscoveryResponse", "status": "Success",
                "handlers": HOOKS.map(|hook| json!({
                    "name": hook.to_ascii_lowercase(),
                    "requestHook": {"apiVersion": GROUP_VERSION, "hook": hook},
                    "timeoutSeconds": 10,
                    "failurePolicy": "Fail",
                })),
            }),
            "canupdatemachine" => {
                self.covered("CanUpdateMachine", &body, ["machine", "bootstrapConfig"], &[])
            }
            "canupdatemachineset" => self.covered(
                "CanUpdateMachineSet",
                &body,
                ["machineSet", "bootstrapConfigTemplate"],
                &["template", "spec"],
            ),
            "updatemachine" => self.update(&body),
            other => panic!("{}: hook {other} is not known", self.name),
        }
    }

    /// The covered fields of the desired objects, as merge patches of the current ones.
    fn covered(&self, hook: &str, body: &Value, objects: [&str; 2], within: &[&str]) -> Value {
        self.coverage_requests.fetch_add(1, Ordering::Relaxed);
        let mut answer = json!({
            "apiVersion": GROUP_VERSION, "kind": format!("{hook}Response"), "status": "Success", "message": "",
        });
        for (object, fields) in objects
            .into_iter()
            .zip([self.covers.machine, self.covers.bootstrap])
        {
            let spec = |side: &str| {
                let spec = &body[side][object]["spec"];
                within.iter().fold(spec.clone(), |spec, name| spec[name].clone())
            };
            let (current, desired) = (spec("current"), spec("desired"));
            let changed: BTreeMap<&str, Value> = fields
                .iter()
                .filter(|field| current[**field] != desired[**field])
                .map(|field| (*field, desired[*field].clone()))
                .collect();
            if changed.is_empty() {
                continue;
            }
            let patch = within
                .iter()
                .rev()
                .fold(json!(changed), |patch, name| json!({*name: patch}));
            let patch = json!({"spec": patch}).to_string();
            answer[format!("{object}Patch")] =
                json!({"patchType": "JSONMergePatch", "patch": BASE64_STANDARD.encode(patch)});
        }
        answer
    }

    fn update(&self, body: &Value) -> Value {
        let machine = body["desired"]["machine"]["metadata"]["name"].as_str().unwrap();
        let digest = body["settings"]["muster.dev/digest"].as_str().unwrap();
        let mut calls = self.calls.lock();
        let is_of =
            |call: &Call| call.updater == self.name && call.machine == machine && call.digest == digest;
        let is_done = *self.may_end.lock() && calls.iter().any(is_of);
        calls.push(Call {
            updater: self.name,
            machine: machine.to_owned(),
            digest: digest.to_owned(),
            is_done,
        });
        let (after, message) = if is_done {
            (0, format!("the machine runs it: digest={digest}"))
        } else {
            (AGAIN, "at work".to_owned())
        };
        json!({
            "apiVersion": GROUP_VERSION, "kind": "UpdateMachineResponse",
            "status": "Success", "message": message, "retryAfterSeconds": after,
        })
    }
}
