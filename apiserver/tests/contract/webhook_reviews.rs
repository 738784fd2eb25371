//! Which requests webhooks are asked about, and what they are told.

use serde_json::{Value, json};

use crate::harness::{Cx, rv, uid};
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
fn told(server: &HookServer) -> Vec<String> {
    let asked = server.asked("/hook");
    let text = |request: &Value, field: &str| request[field].as_str().unwrap_or("-").to_owned();
    asked
        .iter()
        .map(|request| format!("{} {}", text(request, "operation"), text(request, "name")))
        .collect()
}

#[tokio::test]
async fn a_review_says_who_does_what_to_which_object() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let path = format!("{}?fieldManager=m&fieldValidation=Strict", cx.cm());
    let made = cx.post(&path, &body).await.is(201);
    let request = server.asked("/hook").remove(0);
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
    let request = server.asked("/hook").remove(0);
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
    let asked = server.asked("/hook");
    let data: Vec<_> = asked
        .iter()
        .map(|request| {
            let data = |object: &str| request[object]["data"]["k"].as_str().unwrap_or("-").to_owned();
            (data("oldObject"), data("object"))
        })
        .collect();
    let expect = [("-", "v"), ("v", "put"), ("put", "merge"), ("merge", "apply")];
    assert_eq!(data, expect.map(|(old, new)| (old.to_owned(), new.to_owned())));
    assert_eq!(asked[3]["operation"], "UPDATE");
    assert_eq!(
        asked[3]["options"],
        json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "x"})
    );
}

#[tokio::test]
async fn an_apply_of_an_absent_object_creates() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    cx.apply("x", &format!("{}/a", cx.cm()), &applied).await.is(201);
    assert_eq!(told(&server), ["CREATE a"]);
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_asked_about_too() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    let object = cx.new_cm("a").await;
    cx.put(&format!("{}/a", cx.cm()), &object).await.is(200);
    assert_eq!(told(&server), ["CREATE a", "UPDATE a"]);
}

#[tokio::test]
async fn deletions_have_the_old_object_and_their_options() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({})).await;
    let made = cx.new_cm("a").await;
    let options = json!({"preconditions": {"uid": uid(&made)}, "propagationPolicy": "Background"});
    cx.delete_with(&format!("{}/a", cx.cm()), &options).await.is(200);
    let request = server.asked("/hook").remove(1);
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
    assert_eq!(told(&server)[2..], ["DELETE -", "DELETE -"]);
    let asked = server.asked("/hook");
    let mut old: Vec<_> = asked[2..]
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
    assert_eq!(server.take_paths(), ["/m"]);
}

#[tokio::test]
async fn a_dry_run_is_called_one() {
    let cx = Cx::new().await;
    let server = validating(&cx, json!({"sideEffects": "NoneOnDryRun"})).await;
    let body = json!({"metadata": {"name": "a"}});
    cx.post(&format!("{}?dryRun=All", cx.cm()), &body).await.is(201);
    let request = server.asked("/hook").remove(0);
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
    let asked = server.asked("/hook");
    let own = asked.iter().find(|request| {
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
    let request = server.asked("/hook").remove(0);
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
async fn rules_name_resources_and_subresources() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let names = [
        ("/main", "deployments"),
        ("/all", "*"),
        ("/scale", "*/scale"),
        ("/below", "deployments/*"),
        ("/everything", "*/*"),
        ("/other", "statefulsets"),
    ];
    let hooks: Vec<Value> = names
        .iter()
        .map(|(path, resources)| {
            let mut more = rule("apps", &[resources]);
            more["matchConditions"] = json!([{"name": "mine", "expression": "request.userInfo.username != 'system:serviceaccount:kube-system:deployment-controller'"}]);
            server.hook(&cx, path, more)
        })
        .collect();
    server.configure(&cx, Kind::Mutating, "m", &hooks).await;
    cx.post(&cx.deployments(), &deployment(0)).await.is(201);
    assert_eq!(server.take_paths(), ["/main", "/all", "/below", "/everything"]);
    let path = format!("{}/a/scale", cx.deployments());
    cx.merge(&path, &json!({"spec": {"replicas": 1}})).await.is(200);
    let asked = server.take_paths();
    let asked: Vec<&String> = asked
        .iter()
        .filter(|path| *path != "/main" && *path != "/all")
        .collect();
    assert!(
        asked.starts_with(&[
            &"/scale".to_owned(),
            &"/below".to_owned(),
            &"/everything".to_owned()
        ]),
        "{asked:?}"
    );
}

#[tokio::test]
async fn selectors_leave_objects_and_namespaces_out() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let labels = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    let other = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [cx.ns]},
        {"key": "guarded", "operator": "Exists"},
    ]});
    let hooks = [
        server.hook(&cx, "/labelled", json!({"objectSelector": labels("tier", "db")})),
        server.hook(&cx, "/guarded", json!({"namespaceSelector": other})),
    ];
    server.configure(&cx, Kind::Mutating, "m", &hooks).await;
    cx.new_cm("plain").await;
    assert_eq!(server.take_paths(), [""; 0]);
    let body = json!({"metadata": {"name": "a", "labels": {"tier": "db"}}});
    cx.post(&cx.cm(), &body).await.is(201);
    // The object that loses the label matched before.
    let unlabel = json!({"metadata": {"labels": {"tier": null}}});
    cx.merge(&format!("{}/a", cx.cm()), &unlabel).await.is(200);
    cx.merge(&format!("{}/a", cx.cm()), &json!({"data": {"k": "v"}}))
        .await
        .is(200);
    assert_eq!(server.take_paths(), ["/labelled", "/labelled"]);
}

#[tokio::test]
async fn a_namespace_is_selected_by_its_own_labels_and_is_cluster_scoped() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let hook = |path: &str, scope: &str| {
        let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"], "scope": scope}]);
        let selector = json!({"matchLabels": {"case": cx.id}});
        server.hook(&cx, path, json!({"rules": rules, "namespaceSelector": selector}))
    };
    let hooks = [hook("/cluster", "Cluster"), hook("/namespaced", "Namespaced")];
    server.configure(&cx, Kind::Mutating, "m", &hooks).await;
    let name = format!("{}-other", cx.id);
    let body = json!({"metadata": {"name": name, "labels": {"case": cx.id}}});
    cx.post("/api/v1/namespaces", &body).await.is(201);
    let request = server.asked("/cluster").remove(0);
    assert_eq!(
        (&request["name"], &request["namespace"]),
        (&json!(name), &json!(name))
    );
    assert_eq!(server.asked("/namespaced"), [Value::Null; 0]);
}

#[tokio::test]
async fn conditions_leave_requests_out() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let hook = |path: &str, conditions: &[&str]| {
        let conditions: Vec<Value> = conditions
            .iter()
            .enumerate()
            .map(|(index, text)| json!({"name": format!("c{index}"), "expression": text}))
            .collect();
        server.hook(&cx, path, json!({"matchConditions": conditions}))
    };
    let hooks = [
        hook("/new", &["oldObject == null", "request.operation == 'CREATE'"]),
        hook("/key", &["has(object.data) && object.data['a-b'] == 'x'"]),
        hook(
            "/mixed",
            &["object.metadata.name == 'other'", "object.nothing.there == 1"],
        ),
        hook(
            "/resource",
            &["request.resource.resource == 'configmaps' && !request.dryRun"],
        ),
    ];
    server.configure(&cx, Kind::Mutating, "m", &hooks).await;
    let body = json!({"metadata": {"name": "a"}, "data": {"a-b": "x"}});
    cx.post(&cx.cm(), &body).await.is(201);
    assert_eq!(server.take_paths(), ["/new", "/key", "/resource"]);
    cx.merge(&format!("{}/a", cx.cm()), &json!({"data": {"a-b": "y"}}))
        .await
        .is(200);
    assert_eq!(server.take_paths(), ["/resource"]);
}

#[tokio::test]
async fn a_condition_that_fails_counts_by_the_failure_policy() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let conditions = json!([{"name": "broken", "expression": "object.data.nothing == 'x'"}]);
    let hook = |path: &str, policy: &str| {
        server.hook(
            &cx,
            path,
            json!({"matchConditions": conditions, "failurePolicy": policy}),
        )
    };
    server
        .configure(&cx, Kind::Validating, "v", &[hook("/ignored", "Ignore")])
        .await;
    cx.new_cm("a").await;
    assert_eq!(server.take_paths(), [""; 0]);
    // Last, because from here on even the canary is refused.
    let body = json!({"metadata": {"name": format!("{}-f", cx.id)}, "webhooks": [hook("/failing", "Fail")]});
    cx.post(Kind::Validating.path(), &body).await.is(201);
    let refused = json!({"metadata": {"name": "b"}, "data": {"k": "v"}});
    let path = format!("{}?dryRun=All", cx.cm());
    cx.until("it is refused", || async {
        cx.post(&path, &refused).await.code == 403
    })
    .await;
    let reply = cx.post(&path, &refused).await;
    reply.refuses(
        403,
        "Forbidden",
        "configmaps \"b\" is forbidden: expression 'object.data.nothing == 'x'' resulted in error: no such key: nothing",
    );
    assert_eq!(server.take_paths(), [""; 0]);
}

#[tokio::test]
async fn another_version_of_the_resource_is_the_same_resource_unless_the_match_is_exact() {
    let cx = Cx::new().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    let kind = crate::harness::Kind::of(&cx, "widgets");
    let mut crd = kind.definition(&schema, &json!({}));
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    cx.post(crate::harness::CRDS, &crd).await.is(201);
    let v2 = kind.path.replace("/v1/", "/v2/");
    cx.until("v2 is served", || async { cx.get(&v2).await.code == 200 })
        .await;
    let server = HookServer::start().await;
    let hook = |path: &str, policy: &str| {
        let rules = json!([{"operations": ["*"], "apiGroups": [kind.group], "apiVersions": ["v1"], "resources": ["widgets"]}]);
        server.hook(&cx, path, json!({"rules": rules, "matchPolicy": policy}))
    };
    let hooks = [hook("/equivalent", "Equivalent"), hook("/exact", "Exact")];
    server.configure(&cx, Kind::Validating, "v", &hooks).await;
    let body = json!({"apiVersion": format!("{}/v2", kind.group), "kind": "Widget", "metadata": {"name": "a"}, "spec": {"n": 1}});
    let made = cx.post(&v2, &body).await.is(201);
    assert_eq!(made["apiVersion"], json!(format!("{}/v2", kind.group)));
    let request = server.asked("/equivalent").remove(0);
    assert_eq!(
        (&request["kind"]["version"], &request["requestKind"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
    assert_eq!(
        (
            &request["resource"]["version"],
            &request["requestResource"]["version"]
        ),
        (&json!("v1"), &json!("v2"))
    );
    assert_eq!(request["object"]["apiVersion"], json!(kind.api_version));
    assert_eq!(server.asked("/exact"), [Value::Null; 0]);
}

#[tokio::test]
async fn the_configurations_themselves_pass_unasked() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
    let label = json!({"matchLabels": {"case": cx.id}});
    let more = json!({"rules": rules, "namespaceSelector": {}, "objectSelector": label});
    let hook = server.hook(&cx, "/hook", more);
    server.configure(&cx, Kind::Validating, "v", &[hook]).await;
    for kind in [Kind::Mutating, Kind::Validating] {
        let name = format!("{}-more", cx.id);
        let made = cx
            .post(
                kind.path(),
                &json!({"metadata": {"name": name, "labels": {"case": cx.id}}}),
            )
            .await
            .is(201);
        assert!(!rv(&made).is_empty());
        cx.delete(&format!("{}/{name}", kind.path())).await.is(200);
    }
    assert_eq!(server.take_paths(), [""; 0]);
}
