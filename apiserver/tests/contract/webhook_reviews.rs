//! Content of the reviews that webhooks receive.

use serde_json::{Value, json};

use crate::harness::{Cx, uid};
use crate::hooks::{HookServer, Kind};

fn deployment(replicas: i64) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {
        "replicas": replicas, "paused": true, "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

/// A server with one validating webhook at `/hook`.
async fn validating(cx: &Cx, more: Value) -> HookServer {
    let server = HookServer::start().await;
    let hook = server.hook(cx, "/hook", more);
    server.configure(cx, Kind::Validating, "v", &[hook]).await;
    server
}

fn rule(groups: &str, resources: &[&str]) -> Value {
    json!({"rules": [{"operations": ["*"], "apiGroups": [groups], "apiVersions": ["*"], "resources": resources}]})
}

/// `OPERATION NAME` of each review.
fn reviewed(server: &HookServer) -> Vec<String> {
    let requests = server.review_requests("/hook");
    let text = |request: &Value, field: &str| request[field].as_str().unwrap_or("-").to_owned();
    requests
        .iter()
        .map(|request| format!("{} {}", text(request, "operation"), text(request, "name")))
        .collect()
}

#[tokio::test]
async fn a_review_contains_the_user_operation_and_object() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let path = format!("{}?fieldManager=m&fieldValidation=Strict", cx.cm());
    let made = cx.post(&path, &body).await.is(201);
    let request = server.review_requests("/hook").remove(0);
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!(request["uid"].as_str().unwrap().len(), 36);
    assert_eq!((&request["kind"], &request["requestKind"]), (&kind, &kind));
    assert_eq!(
        (&request["resource"], &request["requestResource"]),
        (&resource, &resource)
    );
    assert_eq!(
        (&request["name"], &request["namespace"]),
        (&json!("a"), &json!(cx.ns))
    );
    assert_eq!(
        (&request["operation"], &request["dryRun"]),
        (&json!("CREATE"), &json!(false))
    );
    assert_eq!(
        (request.get("subResource"), &request["oldObject"]),
        (None, &Value::Null)
    );
    assert_eq!(
        request["options"],
        json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "m", "fieldValidation": "Strict"})
    );
    assert!(!request["userInfo"]["username"].as_str().unwrap().is_empty());
    let groups = request["userInfo"]["groups"].as_array().unwrap();
    assert!(groups.contains(&json!("system:authenticated")), "{groups:?}");
    let object = &request["object"];
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    assert_eq!((uid(object), &object["data"]), (uid(&made), &json!({"k": "v"})));
}

#[tokio::test]
async fn a_mutating_webhook_sees_a_new_object_before_the_server_completes_it() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let hook = server.hook(&cx, "/hook", json!({}));
    server.configure(&cx, Kind::Mutating, "m", &[hook]).await;
    let body = json!({"metadata": {"generateName": "a-"}, "data": {"k": "v"}});
    cx.post(&cx.cm(), &body).await.is(201);
    let request = server.review_requests("/hook").remove(0);
    assert_eq!(request.get("name"), None);
    let metadata = &request["object"]["metadata"];
    assert_eq!(
        (metadata.get("uid"), metadata.get("name"), &metadata["namespace"]),
        (None, None, &json!(cx.ns))
    );
    assert_eq!(metadata["managedFields"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn updates_have_the_object_before_and_after() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    let mut object = cx.new_cm("a").await;
    object["data"]["k"] = json!("put");
    cx.put(&format!("{}/a", cx.cm()), &object).await.is(200);
    cx.merge(&format!("{}/a", cx.cm()), &json!({"data": {"k": "merge"}}))
        .await
        .is(200);
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "apply"}});
    cx.apply("x", &format!("{}/a?force=true", cx.cm()), &applied)
        .await
        .is(200);
    let requests = server.review_requests("/hook");
    let data: Vec<_> = requests
        .iter()
        .map(|request| {
            let data = |object: &str| request[object]["data"]["k"].as_str().unwrap_or("-").to_owned();
            (data("oldObject"), data("object"))
        })
        .collect();
    let expect = [("-", "v"), ("v", "put"), ("put", "merge"), ("merge", "apply")];
    assert_eq!(data, expect.map(|(old, new)| (old.to_owned(), new.to_owned())));
    assert_eq!(requests[3]["operation"], "UPDATE");
    assert_eq!(
        requests[3]["options"],
        json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "x"})
    );
}

#[tokio::test]
async fn an_apply_of_an_absent_object_creates() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    cx.apply("x", &format!("{}/a", cx.cm()), &applied).await.is(201);
    assert_eq!(reviewed(&server), ["CREATE a"]);
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_asked_about_too() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    let object = cx.new_cm("a").await;
    cx.put(&format!("{}/a", cx.cm()), &object).await.is(200);
    assert_eq!(reviewed(&server), ["CREATE a", "UPDATE a"]);
}

#[tokio::test]
async fn deletions_have_the_old_object_and_their_options() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    let made = cx.new_cm("a").await;
    let options = json!({"preconditions": {"uid": uid(&made)}, "propagationPolicy": "Background"});
    cx.delete_with(&format!("{}/a", cx.cm()), &options).await.is(200);
    let request = server.review_requests("/hook").remove(1);
    assert_eq!(
        (&request["operation"], &request["object"]),
        (&json!("DELETE"), &Value::Null)
    );
    assert_eq!(uid(&request["oldObject"]), uid(&made));
    assert_eq!(
        request["options"],
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "preconditions": {"uid": uid(&made)},
            "propagationPolicy": "Background"})
    );
}

#[tokio::test]
async fn of_a_collection_each_object_is_asked_about() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    for name in ["a", "b"] {
        let body = json!({"metadata": {"name": name, "labels": {"mine": "1"}}});
        cx.post(&cx.cm(), &body).await.is(201);
    }
    cx.delete(&format!("{}?labelSelector=mine", cx.cm()))
        .await
        .is(200);
    assert_eq!(reviewed(&server)[2..], ["DELETE -", "DELETE -"]);
    let requests = server.review_requests("/hook");
    let mut old: Vec<_> = requests[2..]
        .iter()
        .map(|request| &request["oldObject"]["metadata"]["name"])
        .collect();
    old.sort_by_key(ToString::to_string);
    assert_eq!(old, ["a", "b"]);
}

#[tokio::test]
async fn a_stale_write_is_shown_to_mutating_webhooks_before_it_is_refused() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let (mutating, validating) = (
        server.hook(&cx, "/m", json!({})),
        server.hook(&cx, "/v", json!({})),
    );
    server.configure(&cx, Kind::Mutating, "m", &[mutating]).await;
    server.configure(&cx, Kind::Validating, "v", &[validating]).await;
    let stale = cx.new_cm("a").await;
    cx.merge(&format!("{}/a", cx.cm()), &json!({"data": {"k": "w"}}))
        .await
        .is(200);
    server.take_paths();
    cx.put(&format!("{}/a", cx.cm()), &stale)
        .await
        .refuses(409, "Conflict", "the object has been modified");
    // A real server may first try with an older object from its cache, for which both are called.
    let paths = server.take_paths();
    assert_eq!(paths.last().map(String::as_str), Some("/m"), "{paths:?}");
}

#[tokio::test]
async fn a_dry_run_is_called_one() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({"sideEffects": "NoneOnDryRun"})).await;
    let body = json!({"metadata": {"name": "a"}});
    cx.post(&format!("{}?dryRun=All", cx.cm()), &body).await.is(201);
    let request = server.review_requests("/hook").remove(0);
    assert_eq!(
        (&request["dryRun"], &request["options"]["dryRun"]),
        (&json!(true), &json!(["All"]))
    );
}

#[tokio::test]
async fn status_is_a_subresource_with_the_object_itself() {
    let cx = Cx::new().await;
    let server = validating(&cx, rule("apps", &["deployments/status"])).await;
    cx.post(&cx.deployments(), &deployment(0)).await.is(201);
    let path = format!("{}/a/status", cx.deployments());
    let condition = json!({"type": "Odd", "status": "True", "reason": "R", "message": "m"});
    cx.merge(&path, &json!({"status": {"conditions": [condition]}}))
        .await
        .is(200);
    let requests = server.review_requests("/hook");
    let own = requests.iter().find(|request| {
        let conditions = request["object"]["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|condition| condition["type"] == "Odd"))
    });
    let own = own.unwrap();
    assert_eq!(
        (
            &own["subResource"],
            &own["requestSubResource"],
            &own["kind"]["kind"]
        ),
        (&json!("status"), &json!("status"), &json!("Deployment"))
    );
}

#[tokio::test]
async fn scale_is_a_subresource_with_an_object_of_its_own() {
    let cx = Cx::new().await;
    let server = validating(&cx, rule("apps", &["deployments/scale"])).await;
    let made = cx.post(&cx.deployments(), &deployment(0)).await.is(201);
    let path = format!("{}/a/scale", cx.deployments());
    cx.merge(&path, &json!({"spec": {"replicas": 2}})).await.is(200);
    let request = server.review_requests("/hook").remove(0);
    assert_eq!(
        request["kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(
        request["resource"],
        json!({"group": "apps", "version": "v1", "resource": "deployments"})
    );
    assert_eq!(
        (&request["subResource"], &request["operation"]),
        (&json!("scale"), &json!("UPDATE"))
    );
    for (field, replicas) in [("oldObject", 0), ("object", 2)] {
        let object = &request[field];
        assert_eq!(
            (&object["kind"], &object["apiVersion"]),
            (&json!("Scale"), &json!("autoscaling/v1")),
            "{field}"
        );
        let shown = object["spec"]["replicas"].as_i64().unwrap_or_default();
        assert_eq!((shown, uid(object)), (replicas, uid(&made)), "{field}");
    }
}

#[tokio::test]
async fn connections_to_a_pod_are_asked_about_with_their_options() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let resources = ["pods/exec", "pods/attach", "pods/portforward"];
    let rules = json!([{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources}]);
    let hook = server.hook(&cx, "/hook", json!({"rules": rules}));
    server.configure(&cx, Kind::Validating, "v", &[hook]).await;
    let pod = json!({"metadata": {"name": "a"}, "spec": {
        "nodeSelector": {"no": "such"}, "containers": [{"name": "c", "image": "i"}],
    }});
    cx.post(&cx.core("pods"), &pod).await.is(201);
    let path = format!("{}/a", cx.core("pods"));
    for (query, kind, rest) in [
        (
            "exec?command=ls&command=-l&container=c&tty=true",
            "PodExecOptions",
            json!({"command": ["ls", "-l"], "container": "c", "tty": true}),
        ),
        (
            "attach?stdin=true&stderr=false&stdout=true",
            "PodAttachOptions",
            json!({"stdin": true, "stdout": true}),
        ),
        (
            "portforward?ports=80",
            "PodPortForwardOptions",
            json!({"ports": [80]}),
        ),
    ] {
        server.answers("/hook", crate::hooks::allow());
        let reply = cx.post(&format!("{path}/{query}"), &json!({})).await;
        reply.refuses(400, "BadRequest", "pod a does not have a host assigned");
        server.answers("/hook", crate::hooks::deny(json!({"message": "no"})));
        cx.post(&format!("{path}/{query}"), &json!({}))
            .await
            .refuses(400, "", "denied the request: no");
        let request = server.review_requests("/hook").pop().unwrap();
        assert_eq!(
            (
                &request["operation"],
                &request["kind"]["kind"],
                &request["subResource"]
            ),
            (
                &json!("CONNECT"),
                &json!(kind),
                &json!(query.split('?').next().unwrap())
            )
        );
        assert_eq!(
            (&request["name"], &request["options"], &request["oldObject"]),
            (&json!("a"), &Value::Null, &Value::Null)
        );
        let mut expect = rest;
        expect["kind"] = json!(kind);
        expect["apiVersion"] = json!("v1");
        assert_eq!(request["object"], expect);
    }
}
