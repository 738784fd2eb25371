//! A management cluster with Machines, and simulated updaters.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::Method;
use muster_api::{UpdatePlan, update_plan::MachineUpdate};
use muster_apiserver::{ApiServer, send};
use muster_controllers::{
    admission::server::WebhookRequest,
    machines::{
        config::{self, Updater},
        hooks::Hooks,
        run::{self, Setup},
        updaters::{Call, Called},
    },
    registry::Connect,
    runtime::{Clock, Jitter, Shutdown},
};
use muster_machines::{GROUP_VERSION, Hook};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::kubeconfig_secret::create_kubeconfig;

pub(crate) const NAMESPACE: &str = "fleet";
/// The namespace of the Machines.
pub(crate) const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/machines";
const START: &str = "2026-11-28T12:00:00Z";

/// The behavior of simulated updaters, and the requests they got.
#[derive(Default)]
pub(crate) struct SimulatedUpdaters {
    /// What each updater covers: object, path in its spec, and the value.
    pub covers: Mutex<BTreeMap<String, Vec<(String, String)>>>,
    /// The responses of each to `UpdateMachine`, the last one repeatedly; `{digest}` is the digest that was sent.
    pub answers: Mutex<BTreeMap<String, VecDeque<Value>>>,
    /// After how many seconds each responds to `UpdateMachine`; at once by default.
    pub delays: Mutex<BTreeMap<String, u64>>,
    /// The digests that each was called with, by machine.
    pub calls: Mutex<Vec<(String, String, String)>>,
}

#[async_trait]
impl Call for SimulatedUpdaters {
    async fn call(&self, updater: &Updater, hook: Hook, request: &Value, _: Duration) -> Called {
        let delay = self.delays.lock().get(&updater.name).copied();
        let answer = match hook {
            Hook::UpdateMachine => {
                let answer = self.updated(updater, request);
                pass(delay.unwrap_or_default()).await;
                answer
            }
            Hook::CanUpdateMachine | Hook::CanUpdateMachineSet => self.can(updater, hook, request),
        };
        match answer {
            Value::String(problem) => Err(problem),
            answer => Ok((200, Bytes::from(answer.to_string()))),
        }
    }
}

impl SimulatedUpdaters {
    /// A patch of each field that the updater covers, to the desired value.
    fn can(&self, updater: &Updater, hook: Hook, request: &Value) -> Value {
        let mut answer = json!({"status": "Success"});
        let covers = self.covers.lock();
        for (object, path) in covers.get(&updater.name).into_iter().flatten() {
            let (object, scope) = match hook {
                Hook::CanUpdateMachineSet if object == "machine" => {
                    ("machineSet".to_owned(), "/spec/template/spec")
                }
                Hook::CanUpdateMachineSet => (format!("{object}Template"), "/spec/template/spec"),
                _ => (object.clone(), "/spec"),
            };
            let pointer = format!("{scope}{path}");
            let value = request["desired"][&object]
                .pointer(&pointer)
                .cloned()
                .unwrap_or_default();
            let patch = json!([{"op": "replace", "path": pointer, "value": value}]).to_string();
            answer[format!("{object}Patch")] =
                json!({"patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(patch)});
        }
        answer
    }

    fn updated(&self, updater: &Updater, request: &Value) -> Value {
        let digest = request["settings"]["muster.dev/digest"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let machine = request["desired"]["machine"]["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.calls
            .lock()
            .push((updater.name.clone(), machine, digest.clone()));
        let mut answers = self.answers.lock();
        let queue = answers.entry(updater.name.clone()).or_default();
        let answer = match queue.len() {
            0 => json!({"status": "Success", "retryAfterSeconds": 0, "message": "digest={digest}"}),
            1 => queue[0].clone(),
            _ => queue.pop_front().unwrap_or_default(),
        };
        match answer["message"].as_str() {
            Some(message) => {
                let message = message.replace("{digest}", &digest);
                let mut answer = answer.clone();
                answer["message"] = json!(message);
                answer
            }
            None => answer,
        }
    }
}

pub(crate) struct Bed {
    pub api: ApiServer,
    pub updaters: Arc<SimulatedUpdaters>,
    pub clock: Clock,
    pub config: String,
    running: Option<(Arc<Hooks>, AbortOnDropHandle<()>)>,
}

/// Two updaters: `kubelet` covers versions, `image` the field `hello` of the infrastructure.
const CONFIG: &str = "updaters:\n- {name: image, order: 2, clientConfig: {url: 'https://image'}}\n\
                      - {name: kubelet, order: 1, clientConfig: {url: 'https://kubelet'}, deadline: 10m}\n";

impl Bed {
    pub(crate) fn new() -> Self {
        let api = ApiServer::builder()
            .clock(muster_apiserver::Clock::starting_at(START.parse().unwrap()))
            .event_log(true)
            .namespace(NAMESPACE)
            .with(muster_api::crds::machines())
            .with([
                definition("cluster.x-k8s.io", "Machine", "machines"),
                definition("cluster.x-k8s.io", "MachineDeployment", "machinedeployments"),
                definition(
                    "controlplane.cluster.x-k8s.io",
                    "KubeadmControlPlane",
                    "kubeadmcontrolplanes",
                ),
            ])
            .in_process()
            .unwrap();
        let played = SimulatedUpdaters::default();
        for (updater, object, path) in [
            ("kubelet", "machine", "/version"),
            ("image", "infrastructureMachine", "/hello"),
        ] {
            let entry = (object.to_owned(), path.to_owned());
            played.covers.lock().insert(updater.to_owned(), vec![entry]);
        }
        Self {
            api,
            updaters: Arc::new(played),
            clock: Clock::starting_at(START.parse().unwrap()),
            config: CONFIG.to_owned(),
            running: None,
        }
    }

    /// Starts the process; if it runs already, restarts it without its memory.
    pub(crate) async fn start(&mut self) {
        self.running = None;
        let setup = Setup {
            client: self.api.client_as("machines"),
            updaters: config::read(self.config.as_bytes()).unwrap(),
            call: Arc::clone(&self.updaters) as Arc<dyn Call>,
            connect: self.connect(),
            namespace: NAMESPACE.to_owned(),
            jitter: Jitter::seeded(1),
            instance: "machines-0".to_owned(),
            clock: self.clock.clone(),
            shutdown: Shutdown::new(),
        };
        let (hooks, running) = run::start(setup);
        let handle = AbortOnDropHandle::new(tokio::spawn(running));
        for _ in 0..600 {
            if hooks.machines.is_synced() && hooks.plans.is_synced() {
                break;
            }
            pass(1).await;
        }
        self.running = Some((hooks, handle));
    }

    /// Each kubeconfig leads to the only API server.
    pub(crate) fn connect(&self) -> Connect {
        let client = self.api.client_as("nodes");
        Arc::new(move |_| Ok(client.clone()))
    }

    /// The kubeconfig Secret of a Cluster, as created by Cluster API.
    pub(crate) async fn workload(&self, cluster: &str) {
        let client = self.api.client_as("test");
        create_kubeconfig(&client, NAMESPACE, cluster, "https://c1.example.org:6443").await;
    }

    /// As `kubectl patch --type merge`.
    pub(crate) async fn merge(&self, path: &str, fields: &Value) {
        self.sent("PATCH", path, Some(fields.clone())).await.unwrap();
    }

    pub(crate) fn hooks(&self) -> Arc<Hooks> {
        Arc::clone(&self.running.as_ref().unwrap().0)
    }

    pub(crate) async fn sent(&self, method: &str, path: &str, body: Option<Value>) -> kube::Result<Value> {
        send(&self.api.client_as("test"), method, path, body).await
    }

    pub(crate) async fn read(&self, path: &str) -> Value {
        self.sent("GET", path, None).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        self.sent("POST", path, Some(body.clone())).await.unwrap()
    }

    /// Creates a Machine of a MachineSet; returns its uid.
    pub(crate) async fn machine(&self, name: &str, set: &str) -> String {
        let owner =
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": set, "uid": "u"});
        self.machine_of(name, owner).await
    }

    /// The owner must exist, if its kind is served: otherwise the Machine is garbage-collected.
    pub(crate) async fn machine_of(&self, name: &str, mut owner: Value) -> String {
        owner["controller"] = json!(true);
        let body = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]}, "spec": {}});
        let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/machines");
        let made = self.post(&path, &body).await;
        pass(1).await;
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Creates Machine `NAME-0` of KubeadmControlPlane `NAME`; returns the uids of both.
    pub(crate) async fn control_plane(&self, name: &str, annotations: &Value) -> (String, String) {
        let group = "controlplane.cluster.x-k8s.io/v1beta2";
        let path = format!("/apis/{group}/namespaces/{NAMESPACE}/kubeadmcontrolplanes");
        let metadata = json!({"name": name, "namespace": NAMESPACE, "annotations": annotations});
        let body = json!({"apiVersion": group, "kind": "KubeadmControlPlane", "metadata": metadata});
        let uid = self.post(&path, &body).await["metadata"]["uid"]
            .as_str()
            .unwrap()
            .to_owned();
        let owner = json!({"apiVersion": group, "kind": "KubeadmControlPlane", "name": name, "uid": uid});
        (self.machine_of(&format!("{name}-0"), owner).await, uid)
    }

    /// The response to Cluster API.
    pub(crate) async fn call(&self, hook: Hook, request: &Value) -> Value {
        let name = hook.as_str().to_ascii_lowercase();
        let webhook_request = WebhookRequest {
            method: Method::POST,
            path: format!("/{GROUP_VERSION}/{name}/{name}"),
            content_type: String::new(),
            body: Bytes::from(request.to_string()),
        };
        let answer = self.hooks().answer(webhook_request).await;
        assert_eq!(answer.status, 200);
        serde_json::from_slice(&answer.body).unwrap()
    }

    pub(crate) async fn can(&self, from: (&str, &str), to: (&str, &str), annotations: Value) -> Value {
        let request =
            json!({"current": set("old", from, &json!({})), "desired": set("new", to, &annotations)});
        self.call(Hook::CanUpdateMachineSet, &request).await
    }

    pub(crate) async fn update(&self, machine: &str, desired: (&str, &str)) -> Value {
        self.call(
            Hook::UpdateMachine,
            &json!({"desired": objects(machine, desired)}),
        )
        .await
    }

    /// Repeats the query, as Cluster API does, until the update ends.
    pub(crate) async fn until_done(&self, machine: &str, desired: (&str, &str)) {
        for _ in 0..100 {
            let response = self.update(machine, desired).await;
            if response["status"] == "Success" && response["retryAfterSeconds"] == 0 {
                return;
            }
            pass(1).await;
        }
        panic!("{}", self.update(machine, desired).await);
    }

    pub(crate) async fn plans(&self) -> Vec<UpdatePlan> {
        let api: kube::Api<UpdatePlan> = kube::Api::namespaced(self.api.client_as("test"), NAMESPACE);
        api.list(&kube::api::ListParams::default()).await.unwrap().items
    }

    /// The entry of a Machine in the plan that names it.
    pub(crate) async fn entry(&self, uid: &str) -> MachineUpdate {
        let plans = self.plans().await;
        let entries = plans
            .into_iter()
            .flat_map(|plan| plan.status.unwrap_or_default().machines);
        let mut of_uid = entries.filter(|machine| machine.uid == uid);
        let entry = of_uid.next().unwrap();
        assert_eq!(of_uid.next(), None, "a Machine is in one plan");
        entry
    }

    /// Annotates the only plan, as a user does; `value` is written as JSON, or as is if it is a text; null removes it.
    pub(crate) async fn annotate(&self, key: &str, value: Value) {
        let [plan] = &self.plans().await[..] else { panic!() };
        let text = match &value {
            Value::String(_) | Value::Null => value.clone(),
            control => json!(control.to_string()),
        };
        let patch = json!({"metadata": {"annotations": {key: text}}});
        let api: kube::Api<UpdatePlan> = kube::Api::namespaced(self.api.client_as("test"), NAMESPACE);
        let name = plan.metadata.name.as_deref().unwrap();
        api.patch(
            name,
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(patch),
        )
        .await
        .unwrap();
        pass(2).await;
    }

    pub(crate) fn calls(&self, updater: &str, machine: &str) -> usize {
        let calls = self.updaters.calls.lock();
        calls
            .iter()
            .filter(|(by, of, _)| by == updater && of == machine)
            .count()
    }

    pub(crate) fn answers(&self, updater: &str, answers: &[Value]) {
        self.updaters
            .answers
            .lock()
            .insert(updater.to_owned(), answers.iter().cloned().collect());
    }
}

/// Advances time by this number of seconds; the tasks run meanwhile.
pub(crate) async fn pass(seconds: u64) {
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

pub(crate) fn set(name: &str, (version, hello): (&str, &str), annotations: &Value) -> Value {
    json!({
        "machineSet": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
                       "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations,
                                    "labels": {"cluster.x-k8s.io/deployment-name": "web"}},
                       "spec": {"template": {"spec": {"version": version}}}},
        "infrastructureMachineTemplate": {"kind": "TestMachineTemplate", "metadata": {"name": name, "namespace": NAMESPACE},
                       "spec": {"template": {"spec": {"hello": hello}}}},
    })
}

pub(crate) fn objects(machine: &str, (version, hello): (&str, &str)) -> Value {
    json!({
        "machine": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": machine, "namespace": NAMESPACE},
                    "spec": {"clusterName": "c1", "version": version}},
        "infrastructureMachine": {"kind": "TestMachine", "metadata": {"name": machine, "namespace": NAMESPACE},
                    "spec": {"hello": hello, "providerID": "test://1"}},
    })
}

pub(crate) const OLD: (&str, &str) = ("v1.33.0", "a");
pub(crate) const NEW: (&str, &str) = ("v1.34.0", "b");

pub(crate) fn definition(group: &str, kind: &str, plural: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1beta2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}
