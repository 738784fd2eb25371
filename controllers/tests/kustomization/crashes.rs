//! Promise: killed at any moment, nothing is lost and nothing is left behind.
//!
//! A scenario runs once without a crash: a first revision, a second one that adds, changes and removes objects and
//! moves a definition to another file, and the deletion of the Kustomization. Every request that may write is numbered.
//! Then it runs again for each number: crashed just before the request reaches the server, just after it had its
//! effect, and with its response lost.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Method;
use kube::Client;
use muster_apiserver::ChangeKind;
use muster_sync::inventory::ObjectId;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::{BoxError, Service, service_fn};

use crate::support::{Bed, NS, config_yaml, ids, kustomization, words};

/// What happens at the request with a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Blow {
    /// The process ends before the request reaches the server.
    Before,
    /// The request has its effect, then the process ends.
    After,
    /// The request has its effect, and the connection breaks before the response. The process continues.
    AnswerLost,
}

/// Numbers the requests of a process that may write, and ends it at one of them.
#[derive(Default)]
pub(crate) struct Fate {
    blow: Option<(usize, Blow)>,
    pub count: AtomicUsize,
    /// The number of processes that have ended.
    deaths: AtomicU32,
    death: Notify,
}

impl Fate {
    pub(crate) fn new(blow: Option<(usize, Blow)>) -> Arc<Self> {
        Arc::new(Self {
            blow,
            ..Self::default()
        })
    }

    /// Runs a scenario while the controllers run, and restarts them after each crash.
    pub(crate) async fn under<T>(self: &Arc<Self>, bed: &Bed, story: impl Future<Output = T>) -> T {
        let lives = async {
            loop {
                let life = bed.controllers(self.door(bed));
                self.death.notified().await;
                drop(life);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            result = story => result,
            () = lives => unreachable!("it does not end"),
        }
    }

    /// The client of one process.
    fn door(self: &Arc<Self>, bed: &Bed) -> Client {
        let (fate, inner) = (Arc::clone(self), bed.api.service_as("muster"));
        let life = self.deaths.load(Ordering::Relaxed);
        let service = service_fn(move |request: http::Request<kube::client::Body>| {
            let (fate, mut inner) = (Arc::clone(&fate), inner.clone());
            async move {
                fate.pass(life, false).await;
                let number =
                    (request.method() != Method::GET).then(|| fate.count.fetch_add(1, Ordering::Relaxed));
                let blow = fate
                    .blow
                    .filter(|(at, _)| number == Some(*at))
                    .map(|(_, blow)| blow);
                fate.pass(life, blow == Some(Blow::Before)).await;
                let answer = inner.call(request).await.map_err(BoxError::from);
                fate.pass(life, blow == Some(Blow::After)).await;
                if blow == Some(Blow::AnswerLost) {
                    return Err("the connection was closed before the answer".into());
                }
                answer
            }
        });
        Client::new(service, NS)
    }

    /// Returns when the process is alive.
    async fn pass(&self, life: u32, deadly: bool) {
        if deadly {
            self.deaths.fetch_add(1, Ordering::Relaxed);
            self.death.notify_one();
        }
        if self.deaths.load(Ordering::Relaxed) != life {
            std::future::pending::<()>().await;
        }
    }
}

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.org}\n\
                   spec:\n  group: example.org\n  scope: Namespaced\n  names: {kind: Widget, plural: widgets, singular: widget}\n  \
                   versions:\n  - name: v1\n    served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object, \
                   x-kubernetes-preserve-unknown-fields: true}}\n";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org";
const TEAM: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n";

fn widget(size: u32) -> String {
    format!(
        "apiVersion: example.org/v1\nkind: Widget\nmetadata: {{name: w, namespace: team}}\nspec: {{size: {size}}}\n"
    )
}

/// The scenario; returns the state after each of its phases.
async fn story(bed: &Bed) -> Vec<String> {
    let mut worlds = Vec::new();
    let first = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "one")),
        ("app/b.yaml", &config_yaml("b", "one")),
        ("app/crd.yaml", CRD),
        ("app/team.yaml", TEAM),
        (
            "app/team-t.yaml",
            &config_yaml("t", "one").replace("default", "team"),
        ),
        ("app/w.yaml", &widget(1)),
    ]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &first).await;
    worlds.push(world(bed).await);
    let second = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "two")),
        ("app/c.yaml", &config_yaml("c", "two")),
        ("app/definitions/crd.yaml", CRD),
        ("app/team.yaml", TEAM),
        ("app/w.yaml", &widget(2)),
    ]);
    bed.fetch("now").await;
    bed.until_at("app", &second).await;
    worlds.push(world(bed).await);
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&kustomization("app")).await;
    // This may take a moment longer: by its policy the Kustomization does not wait for it.
    bed.until_gone("/api/v1/namespaces/team").await;
    bed.until_gone(DEFINITION).await;
    worlds.push(world(bed).await);
    worlds
}

/// All objects with muster's labels, their content, and the inventory.
async fn world(bed: &Bed) -> String {
    let mut lines = Vec::new();
    for (path, content) in [
        ("/api/v1/configmaps", "/data"),
        ("/api/v1/namespaces", "/status/phase"),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "/spec/names/kind",
        ),
        ("/apis/example.org/v1/widgets", "/spec"),
    ] {
        let list = bed.read(path).await.unwrap_or_default();
        for object in list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|object| is_ours(object))
        {
            let content = object.pointer(content).cloned().unwrap_or_default();
            let (_, plural) = path.rsplit_once('/').unwrap();
            lines.push(format!(
                "{plural} {} {content}",
                words(&object["metadata"], ["namespace", "name"])
            ));
        }
    }
    if let Some(object) = bed.read(&kustomization("app")).await {
        lines.push(format!("inventory {}", ids(&object).join(" ")));
    }
    lines.join("\n")
}

fn is_ours(object: &Value) -> bool {
    object["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] == "app"
}

fn id(object: &Value) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let api_version = text("/apiVersion");
    let group = api_version
        .split_once('/')
        .map_or("", |(group, _)| group)
        .to_owned();
    let (namespace, name, kind) = (text("/metadata/namespace"), text("/metadata/name"), text("/kind"));
    ObjectId {
        namespace,
        name,
        group,
        kind,
    }
    .encode()
}

/// Runs the scenario; returns its states and the number of requests.
async fn run_story(blow: Option<(usize, Blow)>) -> (Vec<String>, usize) {
    let bed = Bed::idle();
    let fate = Fate::new(blow);
    let worlds = fate.under(&bed, story(&bed)).await;
    observe(&bed, blow);
    let count = fate.count.load(Ordering::Relaxed);
    let requests = bed.api.recorder().requests();
    let recorded = requests
        .iter()
        .filter(|request| request.client == "muster" && request.method != "GET");
    let unsent = usize::from(blow.is_some_and(|(_, blow)| blow == Blow::Before));
    assert_eq!(count, recorded.count() + unsent, "every write is numbered");
    let deaths = fate.deaths.load(Ordering::Relaxed);
    assert_eq!(
        deaths,
        u32::from(blow.is_some_and(|(_, blow)| blow != Blow::AnswerLost)),
        "{blow:?}"
    );
    (worlds, count)
}

/// Reads every version of every object, in order: every object with muster's labels is recorded, and nothing was
/// deleted but what the second revision removed, until the Kustomization was deleted.
fn observe(bed: &Bed, blow: Option<(usize, Blow)>) {
    let mut recorded = BTreeSet::new();
    let mut going = false;
    let mut alive: BTreeSet<String> = BTreeSet::new();
    assert_eq!(bed.api.recorder().dropped(), (0, 0), "the log is whole");
    for event in bed.api.recorder().events() {
        let object = event.object();
        let deleted = event.kind() == ChangeKind::Deleted;
        if object["kind"] == "Kustomization" {
            going |= object["metadata"]["deletionTimestamp"].is_string();
            recorded = if deleted {
                BTreeSet::new()
            } else {
                ids(object).into_iter().collect()
            };
        } else if is_ours(object) {
            let id = id(object);
            // An object that is being deleted is not needed any more.
            if deleted || object["metadata"]["deletionTimestamp"].is_string() {
                alive.remove(&id);
                let unwanted = ["default_b__ConfigMap", "team_t__ConfigMap"].contains(&id.as_str());
                assert!(going || unwanted, "{blow:?}: {id} was deleted, and is wanted");
            } else {
                alive.insert(id);
            }
        }
        let lost: Vec<&String> = alive.difference(&recorded).collect();
        assert!(lost.is_empty(), "{blow:?}: {lost:?} exist and are not on record");
    }
}

/// Runs a scenario again for each of its writes, of which there are at least this many: the states are those of the
/// scenario without a crash.
pub(crate) async fn every(
    blow: Blow,
    least: usize,
    scenario: impl AsyncFn(Option<(usize, Blow)>) -> (Vec<String>, usize),
) {
    let (expected, writes) = scenario(None).await;
    assert!(writes >= least, "the story is too short to be worth it: {writes}");
    println!("{writes} requests that may write; repeated for each of them: {blow:?}");
    for at in 0..writes {
        let (worlds, _) = scenario(Some((at, blow))).await;
        assert_eq!(worlds, expected, "{blow:?} write {at} of {writes}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_story_without_a_crash() {
    let (worlds, _) = run_story(None).await;
    insta::assert_snapshot!(worlds.join("\n\n"));
}

#[tokio::test(start_paused = true)]
async fn before_every_write() {
    every(Blow::Before, 20, run_story).await;
}

#[tokio::test(start_paused = true)]
async fn after_every_write() {
    every(Blow::After, 20, run_story).await;
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_every_write_lost() {
    every(Blow::AnswerLost, 20, run_story).await;
}
