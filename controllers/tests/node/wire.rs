//! Promise: the writes of a pass reach an API server in order, whichever process is killed when, and at rest nothing is
//! written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node, events::v1::Event};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use muster_api::{
    crds,
    node::{
        NodeAssemblage, NodeBudget, NodeModule, NodeRevision,
        assemblage::{NodeAgent, NodePhase, NodeRowState},
        revision,
    },
    revision::Verdict,
};
use muster_apiserver::{
    ApiServer, Verb,
    fault::{Failure, Fault, Match, Rule},
};
use muster_controllers::{
    bindings::{Kinds, Objects},
    metrics::Metrics,
    node::{configured::StartupTaint, facts::AssemblageFacts, run},
    reconcile::Base,
    runtime::{Clock, Events, Jitter, Shutdown},
};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

const START: &str = "2026-12-01T12:00:00Z";
/// How long to wait for a state, in virtual time.
const PATIENCE: Duration = Duration::from_hours(2);

/// Which nodes have a change that is started and not ended, and the most at once.
#[derive(Default)]
struct Journal {
    changing: BTreeSet<String>,
    most: usize,
}

struct Bed {
    api: ApiServer,
    clock: Clock,
    journal: Arc<Mutex<Journal>>,
    agents: BTreeMap<String, AbortOnDropHandle<()>>,
    controller: Option<AbortOnDropHandle<()>>,
    metrics: Metrics,
}

impl Bed {
    async fn of(nodes: &[&str]) -> Self {
        let api = ApiServer::builder()
            .clock(muster_apiserver::Clock::starting_at(START.parse().unwrap()))
            .namespace(run::NAMESPACE)
            .with(crds::nodes())
            .in_process()
            .unwrap();
        let mut bed = Self {
            api,
            clock: Clock::starting_at(START.parse().unwrap()),
            journal: Arc::default(),
            agents: BTreeMap::new(),
            controller: None,
            metrics: Metrics::default(),
        };
        for node in nodes {
            bed.join(node).await;
        }
        bed.start();
        bed
    }

    /// The API server's client of a user.
    fn client(&self) -> Client {
        self.api.client_as("person")
    }

    async fn create<K>(&self, api: &Api<K>, object: Value)
    where
        K: Resource + Clone + Debug + Serialize + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn join(&mut self, name: &str) {
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}},
            "spec": {"taints": [{"key": "example.com/startup", "effect": "NoSchedule"}, {"key": "other", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let nodes = Api::<Node>::all(self.client());
        self.create(&nodes, node.clone()).await;
        let patch = Patch::Merge(json!({"status": node["status"]}));
        nodes
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        let agent = agent(
            self.api.client_as("agent"),
            name.to_owned(),
            Arc::clone(&self.journal),
        );
        self.agents
            .insert(name.to_owned(), AbortOnDropHandle::new(tokio::spawn(agent)));
    }

    /// Starts the controller; if it runs already, restarts it without its memory, as after a crash.
    fn start(&mut self) {
        self.controller = None;
        let client = self.api.client_as("controller");
        let setup = run::Setup {
            base: Base {
                client: client.clone(),
                namespace: run::NAMESPACE.to_owned(),
                jitter: Jitter::seeded(1),
                metrics: self.metrics.clone(),
                shutdown: Shutdown::new(),
            },
            clock: self.clock.clone(),
            objects: Objects::new(client.clone(), run::NAMESPACE, Kinds::default()),
            gap: Duration::ZERO,
            events: Events::new(client.clone(), "nodemodule", "bed", self.clock.clone()),
            startup_taints: StartupTaint::parse("example.com/startup=:NoSchedule")
                .into_iter()
                .collect(),
        };
        self.controller = Some(AbortOnDropHandle::new(tokio::spawn(run::run(setup))));
    }

    async fn apply(&self, content: &str, rollout: Value) {
        let modules: Api<NodeModule> = Api::all(self.client());
        let object = json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "NodeModule", "metadata": {"name": "fabric"},
            "spec": {"selector": {}, "parts": [{"files": [{"path": "/etc/fabric", "content": content}]}], "rollout": rollout},
        });
        let parameters = PatchParams::apply("person").force();
        modules
            .patch("fabric", &parameters, &Patch::Apply(object))
            .await
            .unwrap();
    }

    /// Status and reason of the condition of a Node, and the keys of its taints.
    async fn configured(&self, node: &str) -> (String, String, String) {
        let node = Api::<Node>::all(self.client()).get(node).await.unwrap();
        let conditions = node.status.unwrap_or_default().conditions.unwrap_or_default();
        let mut conditions = conditions.into_iter();
        let condition = conditions.find(|condition| condition.type_ == "fleet.muster.dev/NodeConfigured");
        let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
        let taints: Vec<String> = taints.into_iter().map(|taint| taint.key).collect();
        let condition = condition.map(|condition| (condition.status, condition.reason.unwrap_or_default()));
        let (status, reason) = condition.unwrap_or_default();
        (status, reason, taints.join(","))
    }

    /// The events: object, reason, note.
    async fn events(&self) -> Vec<(String, String, String)> {
        let events: Api<Event> = Api::namespaced(self.client(), "default");
        let all = events
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .into_iter();
        let of = |event: Event| {
            let about = event.regarding.unwrap_or_default();
            let object = format!(
                "{}/{}",
                about.kind.unwrap_or_default(),
                about.name.unwrap_or_default()
            );
            (
                object,
                event.reason.unwrap_or_default(),
                event.note.unwrap_or_default(),
            )
        };
        all.map(of).collect()
    }

    async fn until(&self, what: &str, holds: impl Fn(&NodeModule, &[NodeAssemblage]) -> bool) {
        let client = self.client();
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let module = Api::<NodeModule>::all(client.clone())
                    .get_opt("fabric")
                    .await
                    .unwrap();
                let rows = Api::<NodeAssemblage>::all(client.clone())
                    .list(&ListParams::default())
                    .await
                    .unwrap()
                    .items;
                if module.is_some_and(|module| holds(&module, &rows)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        if waited.await.is_err() {
            let module = Api::<NodeModule>::all(client).get_opt("fabric").await.unwrap();
            panic!("not {what}: {}", serde_json::to_string_pretty(&module).unwrap());
        }
    }

    /// Waits until these verdicts are recorded for the revisions with these contents.
    async fn until_on_record(&self, verdicts: &[(&str, Verdict)]) {
        let revisions = Api::<NodeRevision>::all(self.client());
        let on_record = async {
            loop {
                let all = revisions.list(&ListParams::default()).await.unwrap().items;
                let has_verdict = |content: &str, verdict: Verdict| {
                    let mut all = all.iter();
                    all.any(|revision| {
                        let text = revision.spec.content.parts[0].files[0].content.as_deref();
                        let recorded = revision.status.as_ref().and_then(|status| status.verdict);
                        text == Some(content) && recorded == Some(verdict)
                    })
                };
                if verdicts
                    .iter()
                    .all(|(content, verdict)| has_verdict(content, *verdict))
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, on_record).await;
        assert!(came.is_ok(), "not on record: {verdicts:?}");
    }

    async fn until_ready(&self, content: &str) {
        let client = self.client();
        let revisions = Api::<NodeRevision>::all(client);
        self.until(content, |module, _| {
            let status = module.status.clone().unwrap_or_default();
            let ready = status
                .conditions
                .iter()
                .find(|condition| condition.type_ == "Ready");
            status.observed_generation == module.metadata.generation
                && ready.is_some_and(|ready| ready.status == "True")
        })
        .await;
        let all = revisions.list(&ListParams::default()).await.unwrap().items;
        let texts = all
            .iter()
            .filter_map(|revision| revision.spec.content.parts[0].files[0].content.clone());
        assert!(texts.into_iter().any(|text| text == content), "it is on record");
    }
}

/// The agent of a node: it renews its Lease, and applies rows, a second for each step.
async fn agent(client: Client, node: String, journal: Arc<Mutex<Journal>>) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), run::NAMESPACE);
    let assemblages: Api<NodeAssemblage> = Api::all(client);
    let parameters = PatchParams::apply("agent").force();
    for renewal in 0_u64.. {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node},
            "spec": {"holderIdentity": format!("{node}-{renewal}")},
        });
        if renewal % 10 == 0 {
            leases
                .patch(&node, &parameters, &Patch::Apply(lease))
                .await
                .unwrap();
        }
        if let Some(found) = assemblages.get_opt(&node).await.unwrap() {
            act(&assemblages, &found, &journal).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn act(assemblages: &Api<NodeAssemblage>, found: &NodeAssemblage, journal: &Mutex<Journal>) {
    let node = found.name_any();
    let facts = AssemblageFacts::of(found);
    let Some(row) = facts.rows.iter().find(|row| !row.is_settled()) else {
        return;
    };
    let leaves = row.row.withdraw.is_some();
    let mut state = NodeRowState {
        name: row.row.name.clone(),
        digest: row.row.digest.clone(),
        token: row.row.token,
        ..NodeRowState::default()
    };
    {
        let mut journal = journal.lock();
        state.state = match (row.report().is_some(), leaves) {
            (false, true) => NodePhase::Withdrawing,
            (false, false) => NodePhase::Updating,
            (true, true) => NodePhase::Withdrawn,
            (true, false) => NodePhase::Confirmed,
        };
        if row.report().is_some() {
            journal.changing.remove(&node);
            state.confirmed = state.digest.clone().filter(|_| !leaves);
        } else {
            journal.changing.insert(node.clone());
            journal.most = journal.most.max(journal.changing.len());
        }
    }
    let mut status = found.status.clone().unwrap_or_default();
    status.agent = Some(NodeAgent {
        version: "0.1.0".to_owned(),
        ..NodeAgent::default()
    });
    status.rows.retain(|known| known.name != state.name);
    status.rows.push(state);
    let body = json!({"status": status});
    assemblages
        .patch_status(&node, &PatchParams::default(), &Patch::Merge(body))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_rolls_node_by_node_and_at_rest_nothing_is_written() {
    let bed = Bed::of(&["n1", "n2", "n3", "n4", "n5", "n6"]).await;
    bed.apply("one", json!({"maxUnreadyNodes": 2})).await;
    bed.until_ready("one").await;
    assert_eq!(bed.journal.lock().most, 2);
    bed.apply("two", json!({"maxUnreadyNodes": 1})).await;
    bed.journal.lock().most = 0;
    bed.until_ready("two").await;
    assert_eq!(bed.journal.lock().most, 1);
    bed.until_on_record(&[("one", Verdict::Good), ("two", Verdict::Good)])
        .await;
    let budget = Api::<NodeBudget>::all(bed.client()).get("nodes").await.unwrap();
    assert_eq!(budget.status.unwrap_or_default().claims, []);
    let versions = || async {
        let client = bed.client();
        let module = Api::<NodeModule>::all(client.clone())
            .get("fabric")
            .await
            .unwrap()
            .resource_version();
        let rows = Api::<NodeAssemblage>::all(client.clone())
            .list(&ListParams::default())
            .await
            .unwrap();
        let rows: Vec<_> = rows.items.iter().map(ResourceExt::resource_version).collect();
        let budget = Api::<NodeBudget>::all(client.clone())
            .get("nodes")
            .await
            .unwrap()
            .resource_version();
        let revisions = Api::<NodeRevision>::all(client)
            .list(&ListParams::default())
            .await
            .unwrap();
        let revisions: Vec<_> = revisions
            .items
            .iter()
            .map(ResourceExt::resource_version)
            .collect();
        let nodes = Api::<Node>::all(bed.client()).list(&ListParams::default()).await;
        let nodes: Vec<_> = nodes
            .unwrap()
            .items
            .iter()
            .map(ResourceExt::resource_version)
            .collect();
        let events = bed.events().await.len();
        (module, rows, budget, revisions, nodes, events)
    };
    let before = versions().await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(versions().await, before);
}

/// A Node whose condition is rejected, for example by a webhook, blocks neither claims nor the end of a NodeModule.
#[tokio::test(start_paused = true)]
async fn a_node_with_an_unwritable_condition_keeps_no_claim() {
    let bed = Bed::of(&["n1", "n2"]).await;
    let statuses = Match {
        verbs: vec![Verb::Patch],
        path: Some("/api/v1/nodes/".to_owned()),
        ..Match::client("controller")
    };
    let refused = Fault::Status(Failure::Forbidden);
    bed.api.faults().add(Rule::always(statuses, refused));
    bed.apply("one", json!({"maxUnreadyNodes": 1})).await;
    bed.until_ready("one").await;
    let claims = async || {
        let budget = Api::<NodeBudget>::all(bed.client()).get("nodes").await.unwrap();
        budget.status.unwrap_or_default().claims.len()
    };
    let given_up = async {
        while claims().await > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, given_up).await.unwrap();
    assert_eq!(bed.configured("n1").await.0, "", "it was refused");
    let modules = Api::<NodeModule>::all(bed.client());
    modules.delete("fabric", &DeleteParams::default()).await.unwrap();
    let gone = async {
        while modules.get_opt("fabric").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}

/// Each Node has a condition that shows whether it is configured, and events of its own.
#[tokio::test(start_paused = true)]
async fn a_node_says_whether_it_is_configured_and_loses_its_startup_taint_then() {
    let bed = Bed::of(&["n1", "n2"]).await;
    bed.apply("one", json!({"maxUnreadyNodes": 1})).await;
    bed.until("n1 is changing", |_, rows| {
        rows.iter().any(|row| row.status.is_some())
    })
    .await;
    let (status, reason, taints) = bed.configured("n1").await;
    assert_eq!(
        (&*status, &*reason, &*taints),
        ("Unknown", "Updating", "example.com/startup,other")
    );
    bed.until_ready("one").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    for node in ["n1", "n2"] {
        let (status, reason, taints) = bed.configured(node).await;
        assert_eq!(
            (&*status, &*reason, &*taints),
            ("True", "Succeeded", "other"),
            "{node}"
        );
    }
    let ready = Api::<Node>::all(bed.client())
        .get("n1")
        .await
        .unwrap()
        .status
        .unwrap();
    let ready = ready.conditions.unwrap_or_default();
    assert!(
        ready
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        "the kubelet's own stay"
    );
    let events = bed.events().await;
    let note_of = |object: &str, reason: &str| {
        let note = events
            .iter()
            .find(|(about, word, _)| about == object && word == reason);
        note.map(|(.., note)| note.as_str()).unwrap_or_default()
    };
    assert!(
        note_of("NodeModule/fabric", "RolloutStarted").contains("to 2 nodes"),
        "{events:?}"
    );
    assert!(
        note_of("NodeModule/fabric", "RolloutFinished").contains("is ready on 2/2 nodes"),
        "{events:?}"
    );
    assert!(
        note_of("NodeModule/fabric", "NodeUpdated").starts_with("n1: ready at revision"),
        "{events:?}"
    );
    assert!(
        note_of("Node/n2", "NodeChanging").starts_with("NodeModule fabric: a change to revision"),
        "{events:?}"
    );
    assert!(
        note_of("Node/n2", "NodeUpdated").starts_with("NodeModule fabric: ready at revision"),
        "{events:?}"
    );
    let scraped = bed.metrics.scrape().unwrap();
    for line in [
        "muster_nodemodule_nodes{name=\"fabric\",state=\"updated\"} 2.0",
        "muster_nodemodule_reason_nodes{name=\"fabric\",reason=\"UpToDate\"} 2.0",
        "muster_nodemodule_restore_failed_nodes{name=\"fabric\"} 0.0",
        "muster_condition{kind=\"NodeModule\",name=\"fabric\",type=\"Ready\",status=\"True\",reason=\"Succeeded\"} 1.0",
    ] {
        assert!(scraped.contains(line), "{line}: {scraped}");
    }
    // A deletion is reported for nodes, too.
    let modules: Api<NodeModule> = Api::all(bed.client());
    modules.delete("fabric", &DeleteParams::default()).await.unwrap();
    let gone = tokio::time::timeout(PATIENCE, async {
        while bed.configured("n2").await.1 != "Excluded" {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    gone.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_killed_again_and_again_never_exceeds_the_limit() {
    let mut bed = Bed::of(&["n1", "n2", "n3", "n4", "n5", "n6"]).await;
    bed.apply("one", json!({"maxUnreadyNodes": 1})).await;
    bed.until_ready("one").await;
    bed.apply("two", json!({"maxUnreadyNodes": 1})).await;
    for kill in 0_u64..20 {
        tokio::time::sleep(Duration::from_millis(150 + 97 * kill)).await;
        bed.start();
    }
    bed.until_ready("two").await;
    assert_eq!(bed.journal.lock().most, 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_an_agent_is_named_and_one_that_joins_gets_what_the_others_have() {
    let mut bed = Bed::of(&["n1", "n2"]).await;
    bed.agents.remove("n2");
    tokio::time::sleep(Duration::from_mins(2)).await;
    bed.apply("one", json!({"maxUnreadyNodes": 2})).await;
    bed.until("n2 is named", |module, _| {
        let status = module.status.clone().unwrap_or_default();
        let missing = status.reasons.iter().find(|group| group.reason == "AgentMissing");
        missing.is_some_and(|group| group.nodes == "n2")
    })
    .await;
    bed.join("n3").await;
    bed.until("n3 has it", |_, rows| {
        let n3 = rows.iter().find(|assemblage| assemblage.name_any() == "n3");
        n3.is_some_and(|assemblage| {
            AssemblageFacts::of(assemblage)
                .rows
                .iter()
                .any(|row| row.is_settled())
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_withdrawn_and_then_gone() {
    let bed = Bed::of(&["n1", "n2", "n3"]).await;
    bed.apply("one", json!({})).await;
    bed.until_ready("one").await;
    let client = bed.client();
    let modules: Api<NodeModule> = Api::all(client.clone());
    modules.delete("fabric", &DeleteParams::default()).await.unwrap();
    let gone = tokio::time::timeout(PATIENCE, async {
        while modules.get_opt("fabric").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    gone.await.unwrap();
    let rows = Api::<NodeAssemblage>::all(client)
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(
        rows.items
            .iter()
            .all(|assemblage| assemblage.spec.rows.is_empty())
    );
    assert_eq!(bed.journal.lock().most, 1);
}

/// DX20: names have only a part of the hash. An object with the name of another revision stays as it is, and nothing is
/// assigned that is not recorded.
#[tokio::test(start_paused = true)]
async fn a_revision_with_a_taken_name_replaces_nothing() {
    let mut bed = Bed::of(&["n1"]).await;
    bed.controller = None;
    // New CRDs are served a moment after their creation.
    tokio::time::sleep(Duration::from_secs(1)).await;
    bed.apply("one", json!({})).await;
    let client = bed.client();
    let module = Api::<NodeModule>::all(client.clone())
        .get("fabric")
        .await
        .unwrap();
    let (uid, revision) = (
        module.uid().unwrap(),
        revision::content_revision(&module.spec.content),
    );
    let name = muster_api::names::node_revision_name("fabric", &uid, &revision);
    let other = "0".repeat(64);
    let object = json!({
        "metadata": {"name": name},
        "spec": {"module": "fabric", "uid": uid, "revision": other, "content": {"parts": []}},
    });
    let revisions = Api::<NodeRevision>::all(client.clone());
    bed.create(&revisions, object).await;
    bed.start();
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(revisions.get(&name).await.unwrap().spec.revision, other);
    let rows = Api::<NodeAssemblage>::all(client)
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(rows.items.len(), 0);
}
