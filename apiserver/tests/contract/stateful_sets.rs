//! StatefulSets: revisions, update strategies, order, and the counts in their status.

use serde_json::{Value, json};

use crate::harness::{Cx, MERGE, STRATEGIC, generation, names, uid};

/// A set `db` with the fields of `more` in its spec.
fn set(replicas: i64, more: &Value) -> Value {
    let mut set = json!({"metadata": {"name": "db", "annotations": {"a": "b"}}, "spec": {
        "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": "db:1"}]}},
    }});
    for (field, value) in more.as_object().unwrap() {
        set["spec"][field] = value.clone();
    }
    set
}

fn on_delete() -> Value {
    json!({"updateStrategy": {"type": "OnDelete"}})
}

struct Sets<'a>(&'a Cx);

impl Sets<'_> {
    fn path(&self) -> String {
        format!("{}/db", self.0.stateful_sets())
    }

    /// Creates the set and waits until all its pods are ready.
    async fn make(&self, replicas: i64, more: &Value) -> Value {
        let path = self.0.stateful_sets();
        self.0.post(&path, &set(replicas, more)).await.is(201);
        self.until_ready(replicas).await
    }

    async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let is_observed = |set: &Value| set["status"]["observedGeneration"] == set["metadata"]["generation"];
        self.0
            .until_it(what, &self.path(), |set| is_observed(set) && holds(set))
            .await
    }

    async fn until_ready(&self, replicas: i64) -> Value {
        let what = format!("{replicas} pods are ready");
        self.until(&what, |set| {
            let number = |field: &str| set["status"][field].as_i64().unwrap_or_default();
            number("replicas") == replicas && number("availableReplicas") == replicas
        })
        .await
    }

    /// Waits until the update revision has changed.
    async fn until_update(&self, before: &str) -> Value {
        self.until("the new revision is in the status", |set| {
            revision(set, "updateRevision") != before
        })
        .await
    }

    async fn image(&self, image: &str) {
        let patch =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
        self.0.patch(STRATEGIC, &self.path(), &patch).await.is(200);
    }

    async fn patch(&self, patch: &Value) -> Value {
        self.0.patch(MERGE, &self.path(), patch).await.is(200)
    }

    fn pod_path(&self, number: usize) -> String {
        format!("{}/db-{number}", self.0.core("pods"))
    }

    /// Deletes a pod and waits until a new one with its name is ready.
    async fn renew(&self, number: usize) -> Value {
        let path = self.pod_path(number);
        let old = self.0.get(&path).await.is(200);
        self.0.delete(&path).await.is(200);
        let is_ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let mut ready = conditions
                .into_iter()
                .filter(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            ready.next().is_some() && uid(pod) != uid(&old)
        };
        self.0.until_it("the pod is there again", &path, is_ready).await
    }

    /// `NAME IMAGE REVISION` of all pods.
    async fn pods(&self) -> Vec<String> {
        let list = self.0.get(&self.0.core("pods")).await.is(200);
        let text = |pod: &Value| {
            let revision = pod["metadata"]["labels"]["controller-revision-hash"].as_str();
            format!(
                "{} {} {}",
                pod["metadata"]["name"].as_str().unwrap(),
                pod["spec"]["containers"][0]["image"].as_str().unwrap(),
                revision.unwrap_or("-")
            )
        };
        list["items"].as_array().unwrap().iter().map(text).collect()
    }

    /// `NUMBER NAME` of all revisions, by number.
    async fn revisions(&self) -> Vec<(i64, String)> {
        let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", self.0.ns);
        let list = self.0.get(&path).await.is(200);
        let one = |revision: &Value| {
            let name = revision["metadata"]["name"].as_str().unwrap().to_owned();
            (revision["revision"].as_i64().unwrap(), name)
        };
        let mut all: Vec<_> = list["items"].as_array().unwrap().iter().map(one).collect();
        all.sort();
        all
    }
}

/// The revision of the template with image `db:1`: a hash of its JSON.
const FIRST: &str = "db-6bd9546c99";

fn revision<'a>(set: &'a Value, which: &str) -> &'a str {
    set["status"][which].as_str().unwrap()
}

#[tokio::test]
async fn a_revision_is_named_by_a_hash_of_the_template_and_keeps_it() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    let made = sets.make(2, &json!({})).await;
    assert_eq!(
        made["status"],
        json!({
            "observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 2,
            "updatedReplicas": 2, "collisionCount": 0, "currentRevision": FIRST, "updateRevision": FIRST,
        })
    );
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{FIRST}", cx.ns);
    let kept = cx.get(&path).await.is(200);
    let metadata = &kept["metadata"];
    assert_eq!(kept["revision"], 1);
    assert_eq!(
        metadata["labels"],
        json!({"app": "db", "controller.kubernetes.io/hash": "6bd9546c99"})
    );
    assert_eq!(metadata["annotations"], json!({"a": "b"}));
    let owner = &metadata["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"], &owner["uid"]),
        (&json!("StatefulSet"), &json!(true), &made["metadata"]["uid"])
    );
    let mut template = made["spec"]["template"].clone();
    template["$patch"] = json!("replace");
    assert_eq!(kept["data"], json!({"spec": {"template": template}}));
}

#[tokio::test]
async fn a_pod_says_its_number_its_set_and_its_revision() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    sets.make(1, &json!({})).await;
    let pod = cx.get(&sets.pod_path(0)).await.is(200);
    let metadata = &pod["metadata"];
    assert_eq!(
        metadata["labels"],
        json!({
            "app": "db", "controller-revision-hash": FIRST, "statefulset.kubernetes.io/pod-name": "db-0",
            "apps.kubernetes.io/pod-index": "0",
        })
    );
    assert_eq!(metadata["generateName"], "db-");
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("db-0"), &json!("db"))
    );
}

#[tokio::test]
async fn with_on_delete_pods_are_renewed_by_their_deletion_alone_and_the_current_revision_stays() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    sets.make(2, &on_delete()).await;
    sets.image("db:2").await;
    let changed = sets.until_update(FIRST).await;
    let second = revision(&changed, "updateRevision").to_owned();
    let counts = |set: &Value| {
        let status = &set["status"];
        (
            revision(set, "currentRevision").to_owned(),
            status["currentReplicas"].as_i64(),
            status["updatedReplicas"].as_i64(),
        )
    };
    assert_eq!(counts(&changed), (FIRST.to_owned(), Some(2), None));
    let last = sets.renew(1).await;
    assert_eq!(
        last["metadata"]["labels"]["controller-revision-hash"],
        json!(second)
    );
    let one = sets
        .until("one is updated", |set| set["status"]["updatedReplicas"] == 1)
        .await;
    assert_eq!(counts(&one), (FIRST.to_owned(), Some(1), Some(1)));
    assert_eq!(
        sets.pods().await,
        [format!("db-0 db:1 {FIRST}"), format!("db-1 db:2 {second}")]
    );
    sets.renew(0).await;
    let both = sets
        .until("both are updated", |set| set["status"]["updatedReplicas"] == 2)
        .await;
    assert_eq!(counts(&both), (FIRST.to_owned(), None, Some(2)));
}

#[tokio::test]
async fn a_current_revision_that_a_client_writes_stays_if_there_is_such_a_revision() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    sets.make(1, &on_delete()).await;
    sets.image("db:2").await;
    let changed = sets.until_update(FIRST).await;
    let second = revision(&changed, "updateRevision").to_owned();
    let status = format!("{}/status", sets.path());
    let write = async |revision: &str| {
        let patch = json!({"status": {"currentRevision": revision}});
        cx.merge(&status, &patch).await.is(200);
    };
    write(&second).await;
    let kept = sets
        .until("the counts follow", |set| {
            set["status"]["currentReplicas"].is_null()
        })
        .await;
    assert_eq!(revision(&kept, "currentRevision"), second);
    write(FIRST).await;
    let kept = sets
        .until("the counts follow", |set| set["status"]["currentReplicas"] == 1)
        .await;
    assert_eq!(revision(&kept, "currentRevision"), FIRST);
    write("db-nothing").await;
    sets.until("it is the update revision", |set| {
        revision(set, "currentRevision") == second
    })
    .await;
}

#[tokio::test]
async fn a_rolling_update_moves_the_current_revision_when_it_is_done() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    sets.make(2, &json!({})).await;
    sets.image("db:2").await;
    let done = sets
        .until("the rollout is done", |set| {
            let (current, update) = (revision(set, "currentRevision"), revision(set, "updateRevision"));
            current == update && update != FIRST
        })
        .await;
    let second = revision(&done, "updateRevision").to_owned();
    assert_eq!(
        (
            &done["status"]["currentReplicas"],
            &done["status"]["updatedReplicas"]
        ),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        sets.pods().await,
        [format!("db-0 db:2 {second}"), format!("db-1 db:2 {second}")]
    );
    // A template that is changed back gets its old revision, with a new number.
    sets.image("db:1").await;
    sets.until("it is back", |set| revision(set, "currentRevision") == FIRST)
        .await;
    assert_eq!(sets.revisions().await, [(2, second), (3, FIRST.to_owned())]);
}

#[tokio::test]
async fn below_the_partition_pods_keep_the_current_revision_also_when_they_are_deleted() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    sets.make(2, &json!({"updateStrategy": strategy})).await;
    sets.image("db:2").await;
    let held = sets
        .until("the rollout is held", |set| {
            set["status"]["updatedReplicas"] == 1 && set["status"]["availableReplicas"] == 2
        })
        .await;
    let second = revision(&held, "updateRevision").to_owned();
    assert_eq!(revision(&held, "currentRevision"), FIRST);
    sets.renew(0).await;
    assert_eq!(
        sets.pods().await,
        [format!("db-0 db:1 {FIRST}"), format!("db-1 db:2 {second}")]
    );
}

#[tokio::test]
async fn an_update_that_does_not_become_ready_stops_at_its_first_pod() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    sets.make(2, &json!({})).await;
    sets.image("db:bad").await;
    let stuck = sets
        .until("the last pod is replaced", |set| {
            set["status"]["updatedReplicas"] == 1 && set["status"]["readyReplicas"] == 1
        })
        .await;
    assert_eq!(revision(&stuck, "currentRevision"), FIRST);
    assert_eq!(stuck["status"]["currentReplicas"], 1);
    // A good template does not help: the set waits until a client deletes the pod.
    sets.image("db:3").await;
    sets.until("the good template is in the status", |set| {
        set["status"]["updatedReplicas"].is_null()
    })
    .await;
    assert!(sets.pods().await[1].starts_with("db-1 db:bad "));
    cx.delete(&sets.pod_path(1)).await.is(200);
    sets.until("the rollout is done", |set| {
        revision(set, "currentRevision") == revision(set, "updateRevision")
    })
    .await;
}

#[tokio::test]
async fn an_ordered_set_waits_for_each_pod_and_a_parallel_one_does_not() {
    for (policy, expect) in [("OrderedReady", 1), ("Parallel", 3)] {
        let cx = Cx::with_workloads().await;
        let sets = Sets(&cx);
        let mut body = set(3, &json!({"podManagementPolicy": policy}));
        body["spec"]["template"]["spec"]["containers"][0]["image"] = json!("bad");
        cx.post(&cx.stateful_sets(), &body).await.is(201);
        let made = sets
            .until("pods are there", |set| set["status"]["replicas"] == expect)
            .await;
        assert_eq!(made["status"].get("readyReplicas"), None, "{policy}");
        assert_eq!(made["status"]["currentReplicas"], expect, "{policy}");
    }
}

#[tokio::test]
async fn pods_are_numbered_and_the_last_go_first() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    sets.make(3, &json!({"ordinals": {"start": 4}})).await;
    let pods = cx.get(&cx.core("pods")).await.is(200);
    assert_eq!(names(&pods), ["db-4", "db-5", "db-6"]);
    sets.patch(&json!({"spec": {"replicas": 1}})).await;
    sets.until_ready(1).await;
    let pods = cx.get(&cx.core("pods")).await.is(200);
    assert_eq!(names(&pods), ["db-4"]);
    let path = format!("{}/scale", sets.path());
    cx.merge(&path, &json!({"spec": {"replicas": 2}})).await.is(200);
    let scaled = sets.until_ready(2).await;
    assert_eq!(generation(&scaled), 3);
    let pods = cx.get(&cx.core("pods")).await.is(200);
    assert_eq!(names(&pods), ["db-4", "db-5"]);
}

#[tokio::test]
async fn a_ready_pod_is_available_after_a_while() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    cx.post(&cx.stateful_sets(), &set(2, &json!({"minReadySeconds": 3})))
        .await
        .is(201);
    let ready = sets
        .until("the first is ready", |set| set["status"]["readyReplicas"] == 1)
        .await;
    assert_eq!(
        (
            &ready["status"]["availableReplicas"],
            &ready["status"]["replicas"]
        ),
        (&json!(0), &json!(1))
    );
    sets.until_ready(2).await;
}

#[tokio::test]
async fn old_revisions_go_that_no_pod_has() {
    let cx = Cx::with_workloads().await;
    let sets = Sets(&cx);
    let mut more = on_delete();
    more["revisionHistoryLimit"] = json!(1);
    sets.make(1, &more).await;
    for image in ["db:2", "db:3", "db:4"] {
        let before = sets.until("it is at rest", |_| true).await;
        let before = revision(&before, "updateRevision").to_owned();
        sets.image(image).await;
        sets.until_update(&before).await;
    }
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", cx.ns);
    let numbers = |list: &Value| {
        let items = list["items"].as_array().unwrap();
        let mut numbers: Vec<i64> = items
            .iter()
            .map(|item| item["revision"].as_i64().unwrap())
            .collect();
        numbers.sort_unstable();
        numbers
    };
    // The current one, which the pod has; one old one; the newest.
    cx.until_it("old revisions are gone", &path, |list| numbers(list) == [1, 3, 4])
        .await;
}
