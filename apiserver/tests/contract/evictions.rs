//! Evictions: deletions that a PodDisruptionBudget can deny, and the status of a budget.

use serde_json::{Value, json};

use crate::harness::{Cx, uid};
use crate::hooks::{HookServer, Kind, deny};

const OTHER: &str = "00000000-0000-0000-0000-000000000000";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn pod_path(cx: &Cx, name: &str) -> String {
    format!("{}/{name}", cx.core("pods"))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// A running and ready pod with a finalizer: once deleted it remains terminating.
async fn held_pod(cx: &Cx, name: &str) -> Value {
    let mut body = pod(name);
    body["metadata"]["finalizers"] = json!(["test.example/held"]);
    cx.post(&cx.core("pods"), &body).await.is(201);
    cx.until_it("the pod is ready", &pod_path(cx, name), is_ready)
        .await
}

/// A budget of all pods, observed by its controller with these numbers: expected, healthy, desired, allowed.
async fn budget(cx: &Cx, spec: Value, numbers: [i64; 4]) -> Value {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "a"}});
    cx.post(&cx.budgets(), &json!({"metadata": {"name": "b"}, "spec": spec}))
        .await
        .is(201);
    until_budget(cx, numbers).await
}

async fn until_budget(cx: &Cx, numbers: [i64; 4]) -> Value {
    let path = format!("{}/b", cx.budgets());
    let what = format!("expected, healthy, desired, allowed are {numbers:?}");
    cx.until_it(&what, &path, |budget| {
        let status = &budget["status"];
        let fields = [
            "expectedPods",
            "currentHealthy",
            "desiredHealthy",
            "disruptionsAllowed",
        ];
        status["observedGeneration"] == budget["metadata"]["generation"]
            && fields.map(|field| status[field].as_i64().unwrap_or(-1)) == numbers
    })
    .await
}

async fn evict(cx: &Cx, name: &str, more: &Value) -> crate::harness::Reply {
    evict_at(cx, name, "", more).await
}

async fn evict_at(cx: &Cx, name: &str, query: &str, more: &Value) -> crate::harness::Reply {
    let mut body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": cx.ns}});
    for (field, value) in more.as_object().unwrap() {
        body[field] = value.clone();
    }
    cx.post(&format!("{}/eviction{query}", pod_path(cx, name)), &body)
        .await
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

#[tokio::test]
async fn pods_have_the_subresource() {
    let cx = Cx::new().await;
    let list = cx.get("/api/v1").await.is(200);
    let entries = list["resources"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["name"] == "pods/eviction");
    assert_eq!(
        entry.unwrap(),
        &json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
            "kind": "Eviction", "verbs": ["create"]})
    );
}

#[tokio::test]
async fn an_eviction_deletes_the_pod_and_says_so_in_its_status() {
    let cx = Cx::with_workloads().await;
    held_pod(&cx, "a").await;
    let status = evict(&cx, "a", &json!({})).await.is(201);
    assert_eq!(
        status,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
    );
    let pod = cx.get(&pod_path(&cx, "a")).await.is(200);
    assert!(is_terminating(&pod), "{pod:#}");
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let target = conditions
        .iter()
        .find(|condition| condition["type"] == "DisruptionTarget")
        .unwrap();
    assert_eq!(
        (&target["status"], &target["reason"], &target["message"]),
        (
            &json!("True"),
            &json!("EvictionByEvictionAPI"),
            &json!("Eviction API: evicting")
        )
    );
}

#[tokio::test]
async fn what_is_not_there_or_not_meant_is_not_evicted() {
    let cx = Cx::with_workloads().await;
    evict(&cx, "nope", &json!({}))
        .await
        .refuses(404, "NotFound", "pods \"nope\" not found");
    let pod = held_pod(&cx, "a").await;
    let other = json!({"metadata": {"name": "b", "namespace": cx.ns}});
    evict(&cx, "a", &other).await.refuses(
        400,
        "BadRequest",
        "name in URL does not match name in Eviction object",
    );
    let options = json!({"deleteOptions": {"preconditions": {"uid": OTHER}}});
    let reply = evict(&cx, "a", &options).await;
    reply.refuses(
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on Pod \"a\": the UID in the precondition ({OTHER}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            uid(&pod)
        ),
    );
    assert_eq!(reply.body["details"], json!({"name": "a", "kind": "Pod"}));
    assert_eq!(cx.get(&pod_path(&cx, "a")).await.is(200), pod);
    let options = json!({"deleteOptions": {"preconditions": {"uid": uid(&pod)}}});
    evict(&cx, "a", &options).await.is(201);
}

#[tokio::test]
async fn a_dry_run_evicts_nothing() {
    let cx = Cx::with_workloads().await;
    let pod = held_pod(&cx, "a").await;
    let before = budget(&cx, json!({"minAvailable": 0}), [1, 1, 0, 1]).await;
    evict_at(&cx, "a", "?dryRun=All", &json!({})).await.is(201);
    evict(&cx, "a", &json!({"deleteOptions": {"dryRun": ["All"]}}))
        .await
        .is(201);
    assert_eq!(cx.get(&pod_path(&cx, "a")).await.is(200), pod);
    assert_eq!(cx.get(&format!("{}/b", cx.budgets())).await.is(200), before);
}

#[tokio::test]
async fn a_budget_that_is_used_up_refuses() {
    let cx = Cx::with_workloads().await;
    let pod = held_pod(&cx, "a").await;
    budget(&cx, json!({"minAvailable": 1}), [1, 1, 1, 0]).await;
    for query in ["", "?dryRun=All"] {
        let reply = evict_at(&cx, "a", query, &json!({})).await;
        reply.refuses(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
        );
        assert_eq!(
            reply.body["details"],
            json!({"causes": [{"reason": "DisruptionBudget",
                "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}]})
        );
        assert_eq!(reply.headers.get("retry-after"), None);
    }
    assert_eq!(cx.get(&pod_path(&cx, "a")).await.is(200), pod);
    // A deletion ignores budgets.
    cx.delete(&pod_path(&cx, "a")).await.is(200);
}

#[tokio::test]
async fn a_budget_lets_as_many_go_as_it_can_spare() {
    let cx = Cx::with_workloads().await;
    for name in ["x", "y", "z"] {
        held_pod(&cx, name).await;
    }
    let spare = budget(&cx, json!({"minAvailable": 2}), [3, 3, 2, 1]).await;
    let condition = &spare["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (
            &json!("DisruptionAllowed"),
            &json!("True"),
            &json!("SufficientPods")
        )
    );
    evict(&cx, "x", &json!({})).await.is(201);
    evict(&cx, "y", &json!({}))
        .await
        .refuses(429, "TooManyRequests", "disruption budget");
    let used = until_budget(&cx, [3, 2, 2, 0]).await;
    let condition = &used["status"]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("InsufficientPods"))
    );
    // A terminating pod is not checked again.
    evict(&cx, "x", &json!({})).await.is(201);
}

#[tokio::test]
async fn a_share_is_one_of_what_the_controllers_want() {
    let cx = Cx::with_workloads().await;
    let set = json!({"metadata": {"name": "s"}, "spec": {
        "replicas": 3, "serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "podManagementPolicy": "Parallel",
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    cx.post(&cx.stateful_sets(), &set).await.is(201);
    budget(&cx, json!({"maxUnavailable": "50%"}), [3, 3, 1, 2]).await;
    let patch = json!({"spec": {"maxUnavailable": null, "minAvailable": "50%"}});
    cx.merge(&format!("{}/b", cx.budgets()), &patch).await.is(200);
    until_budget(&cx, [3, 3, 2, 1]).await;
}

#[tokio::test]
async fn a_pod_that_does_not_run_goes_whatever_the_budget_says() {
    let cx = Cx::with_workloads().await;
    let mut body = pod("a");
    body["spec"]["nodeSelector"] = json!({"no": "such"});
    cx.post(&cx.core("pods"), &body).await.is(201);
    budget(&cx, json!({"minAvailable": 1}), [1, 0, 1, 0]).await;
    evict(&cx, "a", &json!({})).await.is(201);
    cx.until_gone(&pod_path(&cx, "a")).await;
}

#[tokio::test]
async fn a_pod_that_runs_and_is_not_ready_goes_if_the_budget_says_so_or_is_met_without_it() {
    let cx = Cx::with_workloads().await;
    for name in ["ill", "sick"] {
        let mut body = pod(name);
        body["metadata"]["finalizers"] = json!(["test.example/held"]);
        // The workload player reads the annotation; kwok keeps what is written to the status.
        body["metadata"]["annotations"] = json!({"player.muster-apiserver.dev/fail": "unready"});
        cx.post(&cx.core("pods"), &body).await.is(201);
        let path = pod_path(&cx, name);
        cx.until_it("it runs", &path, |pod| pod["status"]["phase"] == "Running")
            .await;
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        cx.patch(crate::harness::STRATEGIC, &format!("{path}/status"), &status)
            .await
            .is(200);
    }
    budget(&cx, json!({"minAvailable": 1}), [2, 0, 1, 0]).await;
    evict(&cx, "ill", &json!({}))
        .await
        .refuses(429, "TooManyRequests", "");
    let path = format!("{}/b", cx.budgets());
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    cx.merge(&path, &always).await.is(200);
    evict(&cx, "ill", &json!({})).await.is(201);
    let usual = json!({"spec": {"unhealthyPodEvictionPolicy": null}});
    cx.merge(&path, &usual).await.is(200);
    held_pod(&cx, "well").await;
    until_budget(&cx, [3, 1, 1, 0]).await;
    evict(&cx, "sick", &json!({})).await.is(201);
    evict(&cx, "well", &json!({}))
        .await
        .refuses(429, "TooManyRequests", "");
}

#[tokio::test]
async fn two_budgets_are_one_too_many() {
    let cx = Cx::with_workloads().await;
    held_pod(&cx, "a").await;
    for name in ["b", "c"] {
        let spec = json!({"minAvailable": 0, "selector": {"matchLabels": {"app": "a"}}});
        cx.post(&cx.budgets(), &json!({"metadata": {"name": name}, "spec": spec}))
            .await
            .is(201);
    }
    until_budget(&cx, [1, 1, 0, 1]).await;
    let reply = evict(&cx, "a", &json!({})).await;
    reply.refuses(
        500,
        "",
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    );
}

#[tokio::test]
async fn a_webhook_is_asked_about_an_eviction_as_one() {
    let cx = Cx::with_workloads().await;
    let server = HookServer::start().await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"]}]);
    let hook = server.hook(&cx, "/hook", json!({"rules": rules}));
    server.configure(&cx, Kind::Validating, "v", &[hook]).await;
    held_pod(&cx, "a").await;
    server.answers(
        "/hook",
        deny(json!({"message": "not now", "code": 429, "reason": "TooManyRequests"})),
    );
    evict_at(&cx, "a", "?dryRun=All", &json!({})).await.refuses(
        429,
        "TooManyRequests",
        "denied the request: not now",
    );
    let request = server.review_requests("/hook").remove(0);
    assert_eq!(
        request["kind"],
        json!({"group": "policy", "version": "v1", "kind": "Eviction"})
    );
    assert_eq!(
        request["resource"],
        json!({"group": "", "version": "v1", "resource": "pods"})
    );
    assert_eq!(
        (
            &request["operation"],
            &request["subResource"],
            &request["name"],
            &request["namespace"]
        ),
        (&json!("CREATE"), &json!("eviction"), &json!("a"), &json!(cx.ns))
    );
    assert_eq!(
        (&request["dryRun"], &request["oldObject"]),
        (&json!(true), &Value::Null)
    );
    let object = &request["object"];
    assert_eq!(
        (
            &object["kind"],
            &object["apiVersion"],
            &object["metadata"]["name"]
        ),
        (&json!("Eviction"), &json!("policy/v1"), &json!("a"))
    );
    assert!(!is_terminating(&cx.get(&pod_path(&cx, "a")).await.is(200)));
}
