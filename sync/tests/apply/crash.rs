//! A crash at any write: nothing is lost, nothing exists that the inventory does not contain, and the result is the
//! same.
//!
//! A plan that exercises everything is applied once without a crash, and its requests other than reads are numbered.
//! Then, for each number and in each of four ways, it is applied up to that request, and again until it is done. The
//! inventory is an object on the same server, so its writes are numbered as well, and the order of all events is known.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kube::Client;
use muster_apiserver::{
    ApiServer, ChangeKind, Verb,
    fault::{Fault, Match, Rule},
    record::EventRecord,
};
use muster_sync::{
    apply::{self, Cluster, Ledger, LedgerError, Owner},
    inventory::{Inventory, ObjectId},
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{
    Answer, Bed, DEADLINE, config_map, deployment, hooked, namespace, pass, widget, widget_definition,
};

const LEDGER: &str = "/api/v1/namespaces/default/configmaps/ledger";

/// How often a plan is applied until it is done; deletions take a few runs.
const ROUNDS: usize = 10;

/// What happens to a write request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// The process dies before the request is sent.
    Before,
    /// The process dies after the request took effect.
    After,
    /// The request has no effect, the connection breaks, and the process continues.
    Refused,
    /// The request took effect, the connection breaks, and the process continues.
    Lost,
}

/// A process that dies at a given write.
#[derive(Default)]
struct Process {
    writes: AtomicUsize,
    dead: AtomicBool,
    died: Notify,
}

impl Process {
    /// The client of a process that dies at write number `at`, counted from 0.
    fn client(self: &Arc<Self>, client: Client, at: usize, mode: Mode) -> Client {
        let process = Arc::clone(self);
        hooked(client, move |request, client| {
            let process = Arc::clone(&process);
            async move {
                let is_read = request.method() == http::Method::GET;
                if !is_read && process.writes.fetch_add(1, Ordering::Relaxed) == at {
                    return match mode {
                        Mode::Before => process.die().await,
                        Mode::After => {
                            pass(request, client).await?;
                            process.die().await
                        }
                        Mode::Refused | Mode::Lost => pass(request, client).await,
                    };
                }
                if process.dead.load(Ordering::Relaxed) {
                    return std::future::pending().await;
                }
                pass(request, client).await
            }
        })
    }

    async fn die(&self) -> Answer {
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_one();
        std::future::pending().await
    }
}

/// The inventory as an object in the cluster: one key for each id.
struct Record(Client);

impl Record {
    async fn read(&self) -> Result<Inventory, String> {
        let request = http::Request::get(LEDGER).body(Vec::new()).unwrap();
        let object: Value = match self.0.request(request).await {
            Ok(object) => object,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Inventory::default()),
            Err(error) => return Err(error.to_string()),
        };
        Ok(recorded(&object)
            .into_iter()
            .map(|id| (id, "v1".to_owned()))
            .collect())
    }

    async fn write(&self, inventory: &Inventory) -> Result<(), String> {
        if self.read().await? == *inventory {
            return Ok(());
        }
        let data: BTreeMap<String, String> = inventory
            .iter()
            .map(|(id, version)| (id.encode(), version.to_owned()))
            .collect();
        let body = config_map("ledger", &json!(data)).to_string().into_bytes();
        let request = http::Request::patch(format!("{LEDGER}?fieldManager=ledger&force=true"))
            .header("content-type", "application/apply-patch+yaml")
            .body(body)
            .unwrap();
        let written: Result<Value, _> = self.0.request(request).await;
        written.map(drop).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Ledger for Record {
    async fn record(&self, planned: &Inventory) -> Result<(), LedgerError> {
        let before = self.read().await.map_err(|error| LedgerError(error.into()))?;
        let merged = before.merged(planned);
        self.write(&merged)
            .await
            .map_err(|error| LedgerError(error.into()))
    }
}

fn recorded(ledger: &Value) -> BTreeSet<ObjectId> {
    let data = ledger["data"].as_object().into_iter().flatten();
    data.map(|(id, _)| id.parse().unwrap()).collect()
}

/// One run, as in a controller: plan, record, apply, prune, and remove pruned objects from the inventory.
async fn round(client: Client, bed: &Bed, manifests: &[Value]) -> Result<(), String> {
    let cluster = Cluster::new(client.clone(), DEADLINE);
    let record = Record(client);
    let before = record.read().await?;
    let plan = apply::plan(&cluster, manifests.to_vec(), bed.options.clone())
        .await
        .map_err(|error| error.to_string())?;
    apply::run(&cluster, &plan, &record, &apply::Alone)
        .await
        .map_err(|error| error.to_string())?;
    let wanted = plan.inventory();
    let unwanted = before.pruned_by(&wanted);
    let pruned = apply::prune(&cluster, &bed.options.owner, &unwanted, &apply::Alone).await;
    let mut after = before.merged(&wanted);
    for id in pruned.settled() {
        after.remove(id);
    }
    record.write(&after).await?;
    if pruned.is_complete() {
        Ok(())
    } else {
        Err(format!("{pruned:?}"))
    }
}

/// Runs until nothing is left to do.
async fn settle(client: &Client, bed: &Bed, manifests: &[Value]) {
    let mut last = String::new();
    for _ in 0..ROUNDS {
        match round(client.clone(), bed, manifests).await {
            Ok(()) => return,
            Err(error) => last = error,
        }
        // Longer than a definition or a namespace takes to be gone.
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    panic!("not done after {ROUNDS} rounds: {last}");
}

fn within(namespace: &str, mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn role(name: &str, verb: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]})
}

fn class(name: &str, value: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name,
        "annotations": {"note": value}}, "provisioner": "example.org/disks"})
}

fn gadget_definition() -> Value {
    let text = widget_definition("Cluster").to_string();
    serde_json::from_str(&text.replace("widget", "gadget").replace("Widget", "Gadget")).unwrap()
}

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

fn before() -> Vec<Value> {
    vec![
        namespace("stays"),
        namespace("goes"),
        gadget_definition(),
        gadget("goes"),
        role("stays", "get"),
        role("goes", "get"),
        class("stays", "one"),
        class("goes", "one"),
        within("stays", config_map("stays", &json!({"k": "one"}))),
        within("stays", config_map("same", &json!({"k": "one"}))),
        within("stays", config_map("edited", &json!({"k": "one"}))),
        within("goes", config_map("goes", &json!({"k": "one"}))),
        deployment("forced", "nginx"),
        deployment("goes", "nginx"),
    ]
}

/// Each stage has a new, a changed and a removed object; plus a change of an immutable field, and an object edited with
/// kubectl.
fn after() -> Vec<Value> {
    let mut forced = deployment("forced", "nginx");
    forced["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    forced["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    let mut stays = namespace("stays");
    stays["metadata"]["labels"] = json!({"changed": "yes"});
    vec![
        stays,
        namespace("new"),
        widget_definition("Namespaced"),
        within("new", widget("new", 1)),
        role("stays", "list"),
        role("new", "get"),
        class("stays", "two"),
        class("new", "one"),
        within("stays", config_map("stays", &json!({"k": "two"}))),
        within("stays", config_map("same", &json!({"k": "one"}))),
        within("stays", config_map("edited", &json!({"k": "one"}))),
        within("new", config_map("new", &json!({"k": "one"}))),
        forced,
        deployment("new", "nginx"),
    ]
}

/// A cluster in which `before` is applied, and then edited manually.
async fn prepared() -> Bed {
    let mut bed = Bed::new();
    bed.options.force = true;
    settle(&bed.api.client_as("muster"), &bed, &before()).await;
    bed.edit(
        "/api/v1/namespaces/stays/configmaps/edited",
        json!({"data": {"by-hand": "x"}}),
    )
    .await;
    bed
}

/// Checks the history: no object ever exists that is not in the inventory, and no desired object is deleted. Returns
/// the final state, without what differs between runs.
fn audit(api: &ApiServer, owner: &Owner, what: &str) -> BTreeMap<String, Value> {
    assert_eq!(api.recorder().dropped(), (0, 0));
    let forced = "Deployment/default/forced";
    let wanted_all_along: BTreeSet<String> = ["stays", "same", "edited"].map(str::to_owned).into();
    let mut record = BTreeSet::new();
    let mut there = BTreeMap::new();
    for event in api.recorder().events() {
        let object = event.object();
        if object["kind"] == "ConfigMap" && object["metadata"]["name"] == "ledger" {
            record = recorded(object);
            for (name, (id, _)) in &there {
                assert!(record.contains(id), "{what}: {name} is there and left the record");
            }
            continue;
        }
        let id = identity(&event);
        let name = id.to_string();
        if event.kind() == ChangeKind::Deleted {
            let lost = wanted_all_along.contains(&id.name) && name != forced;
            assert!(!lost, "{what}: {name} was deleted");
            there.remove(&name);
        } else if owner.owns(object) {
            assert!(record.contains(&id), "{what}: {name} is there and not on record");
            there.insert(name, (id, object.clone()));
        }
    }
    there
        .into_iter()
        .map(|(name, (_, object))| (name, lasting(object)))
        .collect()
}

fn identity(event: &EventRecord) -> ObjectId {
    let text = |pointer: &str| {
        let text = event.object().pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let api_version = text("/apiVersion");
    ObjectId {
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        group: api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
            .to_owned(),
        kind: text("/kind"),
    }
}

fn lasting(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        metadata.remove(field);
    }
    for entry in metadata["managedFields"].as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("time");
    }
    object
}

/// The run without a crash: the number of write requests, and the final state.
async fn undisturbed() -> (usize, BTreeMap<String, Value>) {
    let bed = prepared().await;
    let earlier = bed.api.recorder().requests().len();
    let process = Arc::new(Process::default());
    let client = process.client(bed.api.client_as("muster"), usize::MAX, Mode::Before);
    settle(&client, &bed, &after()).await;
    let writes = process.writes.load(Ordering::Relaxed);
    let requests = bed.api.recorder().requests();
    let observed = requests[earlier..]
        .iter()
        .filter(|request| request.client == "muster" && request.method != "GET")
        .count();
    assert_eq!(writes, observed, "all that the server saw are numbered");
    (writes, audit(&bed.api, &bed.options.owner, "undisturbed"))
}

async fn disturbed(at: usize, mode: Mode) -> BTreeMap<String, Value> {
    let bed = prepared().await;
    let process = Arc::new(Process::default());
    let client = process.client(bed.api.client_as("muster"), at, mode);
    if let Some(fault) = match mode {
        Mode::Before | Mode::After => None,
        Mode::Refused => Some(Fault::Refuse),
        Mode::Lost => Some(Fault::DropResponse),
    } {
        let matching = Match {
            verbs: vec![Verb::Create, Verb::Update, Verb::Patch, Verb::Delete],
            ..Match::client("muster")
        };
        bed.api.faults().add(Rule {
            after: u32::try_from(at).unwrap(),
            ..Rule::times(matching, fault, 1)
        });
    }
    let wanted = after();
    tokio::select! {
        biased;
        () = process.died.notified() => {}
        () = settle(&client, &bed, &wanted) => {}
    }
    // A new process, without any state.
    settle(&bed.api.client_as("muster"), &bed, &wanted).await;
    audit(&bed.api, &bed.options.owner, &format!("{mode:?} {at}"))
}

async fn check(mode: Mode) {
    let (writes, expected) = undisturbed().await;
    println!("{mode:?}: {writes} points");
    assert!(writes >= 30, "{writes}");
    assert_eq!(expected.len(), after().len());
    for at in 0..writes {
        let end = disturbed(at, mode).await;
        assert_eq!(end, expected, "{mode:?} {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_a_write() {
    check(Mode::Before).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_a_write() {
    check(Mode::After).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused() {
    check(Mode::Refused).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost() {
    check(Mode::Lost).await;
}
