//! Server-side apply by list and map type.

use serde_json::{Value, json};

use crate::harness::{Cx, owners, widgets};

/// Applies the specs one after the other, each by its manager, and returns the last response.
async fn applied(steps: &[(&str, Value)]) -> Value {
    let (_cx, widgets) = widgets().await;
    let mut last = Value::Null;
    for (manager, spec) in steps {
        let reply = widgets.apply(manager, spec).await;
        assert!(reply.code < 300, "{}", reply.text);
        last = reply.body;
    }
    last
}

#[tokio::test]
async fn list_maps_merge_by_key() {
    let object = applied(&[
        ("x", json!({"items": [{"name": "i", "a": 1}]})),
        (
            "y",
            json!({"items": [{"name": "k", "b": 1}, {"name": "i", "b": 2}]}),
        ),
    ])
    .await;
    assert_eq!(
        object["spec"]["items"],
        json!([{"name": "k", "b": 1}, {"name": "i", "a": 1, "b": 2}])
    );
}

#[tokio::test]
async fn list_map_items_are_owned_by_key() {
    let object = applied(&[("x", json!({"items": [{"name": "i", "a": 1}]}))]).await;
    assert_eq!(
        owners(&object),
        [r#"x Apply - {"f:spec":{"f:items":{"k:{\"name\":\"i\"}":{".":{},"f:a":{},"f:name":{}}}}}"#,]
    );
}

#[tokio::test]
async fn an_item_goes_with_its_last_owner() {
    let object = applied(&[
        (
            "x",
            json!({"items": [{"name": "i", "a": 1}, {"name": "j", "a": 1}]}),
        ),
        ("y", json!({"items": [{"name": "j", "b": 2}]})),
        ("x", json!({})),
    ])
    .await;
    assert_eq!(object["spec"]["items"], json!([{"name": "j", "b": 2}]));
}

#[tokio::test]
async fn sets_merge_by_value() {
    let object = applied(&[
        ("x", json!({"tags": ["a", "b"]})),
        ("y", json!({"tags": ["c", "a"]})),
    ])
    .await;
    assert_eq!(object["spec"]["tags"], json!(["c", "a", "b"]));
}

#[tokio::test]
async fn a_set_value_goes_with_its_last_owner() {
    let object = applied(&[
        ("x", json!({"tags": ["a", "b"]})),
        ("y", json!({"tags": ["a"]})),
        ("x", json!({"tags": []})),
    ])
    .await;
    assert_eq!(object["spec"]["tags"], json!(["a"]));
}

#[tokio::test]
async fn granular_maps_are_owned_by_key() {
    let object = applied(&[
        ("x", json!({"labels": {"a": "1"}})),
        ("y", json!({"labels": {"b": "2"}})),
        ("x", json!({})),
    ])
    .await;
    assert_eq!(object["spec"]["labels"], json!({"b": "2"}));
}

#[tokio::test]
async fn atomic_lists_conflict_as_a_whole() {
    let (_cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"order": ["1"]})).await.is(201);
    let reply = widgets.apply("y", &json!({"order": ["1", "2"]})).await;
    reply.refuses(409, "Conflict", "conflict with \"x\": .spec.order");
}

#[tokio::test]
async fn atomic_maps_conflict_and_are_replaced_as_a_whole() {
    let (cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"whole": {"k": "v"}})).await.is(201);
    let object = widgets.object("a", &json!({"whole": {"l": "w"}}));
    cx.apply("y", &widgets.at("a"), &object).await.refuses(
        409,
        "Conflict",
        "conflict with \"x\": .spec.whole",
    );
    let forced = cx
        .apply("y", &format!("{}?force=true", widgets.at("a")), &object)
        .await
        .is(200);
    assert_eq!(forced["spec"]["whole"], json!({"l": "w"}));
    assert_eq!(owners(&forced), [r#"y Apply - {"f:spec":{"f:whole":{}}}"#]);
}

#[tokio::test]
async fn service_ports_merge_by_port_and_protocol() {
    let cx = Cx::new().await;
    let path = format!("{}/a", cx.core("services"));
    let service = |ports: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"clusterIP": "None", "selector": {"app": "a"}, "ports": ports},
        })
    };
    cx.apply("x", &path, &service(json!([{"name": "http", "port": 80}])))
        .await
        .is(201);
    let both = cx
        .apply(
            "y",
            &path,
            &service(json!([{"name": "quic", "port": 80, "protocol": "UDP"}])),
        )
        .await
        .is(200);
    let ports: Vec<&Value> = both["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| &port["name"])
        .collect();
    assert_eq!(ports, ["http", "quic"]);
}

#[tokio::test]
async fn containers_and_env_merge_by_name() {
    let cx = Cx::new().await;
    let path = format!("{}/a", cx.deployments());
    let deployment = |containers: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": {
                "metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers},
            }},
        })
    };
    let first = deployment(json!([{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]));
    cx.apply("x", &path, &first).await.is(201);
    let second = deployment(
        json!([{"name": "c", "image": "i", "env": [{"name": "B", "value": "2"}]}, {"name": "d", "image": "i"}]),
    );
    let both = cx.apply("y", &path, &second).await.is(200);
    let containers = &both["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().unwrap().len(), 2);
    assert_eq!(
        containers[0]["env"],
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    );
    let third = cx
        .apply("x", &path, &deployment(json!([{"name": "c", "image": "i"}])))
        .await
        .is(200);
    assert_eq!(
        third["spec"]["template"]["spec"]["containers"][0]["env"],
        json!([{"name": "B", "value": "2"}])
    );
}

#[tokio::test]
async fn finalizers_are_a_set_and_owner_references_a_map_by_uid() {
    let cx = Cx::new().await;
    let owner = cx.new_cm("owner").await;
    let path = format!("{}/a", cx.cm());
    let cm = |metadata: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        object["metadata"]["name"] = json!("a");
        object
    };
    cx.apply("x", &path, &cm(json!({"finalizers": ["e.example/x"]})))
        .await
        .is(201);
    let reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let both = cm(json!({"finalizers": ["e.example/y"], "ownerReferences": [reference]}));
    let both = cx.apply("y", &path, &both).await.is(200);
    assert_eq!(
        both["metadata"]["finalizers"],
        json!(["e.example/x", "e.example/y"])
    );
    let owner_fields = &both["metadata"]["managedFields"];
    let key = format!("k:{{\"uid\":{}}}", owner["metadata"]["uid"]);
    assert!(
        owner_fields.to_string().contains(&Value::from(key).to_string()),
        "{owner_fields}"
    );
    let one = cx.apply("x", &path, &cm(json!({}))).await.is(200);
    assert_eq!(one["metadata"]["finalizers"], json!(["e.example/y"]));
    cx.apply("y", &path, &cm(json!({}))).await.is(200);
}
