//! Which requests webhooks are called for: rules, selectors, conditions, versions.

use serde_json::{Value, json};

use crate::harness::{Cx, rv};
use crate::hooks::{HookServer, Kind};

fn deployment(replicas: i64) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {
        "replicas": replicas, "paused": true, "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

fn rule(groups: &str, resources: &[&str]) -> Value {
    json!({"rules": [{"operations": ["*"], "apiGroups": [groups], "apiVersions": ["*"], "resources": resources}]})
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
    let paths = server.take_paths();
    let paths: Vec<&String> = paths
        .iter()
        .filter(|path| *path != "/main" && *path != "/all")
        .collect();
    assert!(
        paths.starts_with(&[
            &"/scale".to_owned(),
            &"/below".to_owned(),
            &"/everything".to_owned()
        ]),
        "{paths:?}"
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
    // The old object, which has the label, matched.
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
    let request = server.review_requests("/cluster").remove(0);
    assert_eq!(
        (&request["name"], &request["namespace"]),
        (&json!(name), &json!(name))
    );
    assert_eq!(server.review_requests("/namespaced"), [Value::Null; 0]);
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
    // Last, because after this even the canary is denied.
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
    let request = server.review_requests("/equivalent").remove(0);
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
    assert_eq!(server.review_requests("/exact"), [Value::Null; 0]);
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
