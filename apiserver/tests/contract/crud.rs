//! Create, read, replace, delete.

use serde_json::json;

use crate::harness::{Cx, generation, rv, uid, widgets};

#[tokio::test]
async fn a_created_object_gets_uid_version_and_time() {
    let cx = Cx::new().await;
    let cm = cx.new_cm("a").await;
    assert_eq!(
        (cm["kind"].as_str(), cm["apiVersion"].as_str()),
        (Some("ConfigMap"), Some("v1"))
    );
    assert_eq!(cm["metadata"]["namespace"], cx.ns.as_str());
    assert_eq!(uid(&cm).len(), 36);
    assert!(rv(&cm).parse::<u64>().unwrap() > 0);
    assert!(
        cm["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    assert_eq!(cx.get(&format!("{}/a", cx.cm())).await.is(200), cm);
}

#[tokio::test]
async fn generate_name_makes_a_name() {
    let cx = Cx::new().await;
    let cm = cx
        .post(&cx.cm(), &json!({"metadata": {"generateName": "g-"}}))
        .await
        .is(201);
    let name = cm["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("g-") && name.len() == 7, "{name}");
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

#[tokio::test]
async fn names_of_rbac_have_any_characters_of_a_path_and_are_encoded_in_it() {
    let cx = Cx::new().await;
    let (short, long) = (format!("{} my", cx.id), format!("{} my?role=1#2", cx.id));
    for name in [&short, &long] {
        let made = cx.post(ROLES, &json!({"metadata": {"name": name}})).await.is(201);
        assert_eq!(made["metadata"]["name"], name.as_str());
    }
    let of_short = format!("{ROLES}/{}%20my", cx.id);
    let of_long = format!("{of_short}%3Frole=1%232");
    let merged = cx
        .merge(&of_long, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    assert_eq!(merged.is(200)["metadata"]["name"], long.as_str());
    cx.get(&format!("{of_long}3"))
        .await
        .refuses(404, "NotFound", &format!("{long}3"));
    cx.delete(&of_long).await.is(200);
    cx.get(&of_long).await.refuses(404, "NotFound", &long);
    assert_eq!(
        cx.get(&of_short).await.is(200)["metadata"]["name"],
        short.as_str()
    );
    cx.delete(&of_short).await.is(200);
}

#[tokio::test]
async fn an_encoded_slash_is_a_slash() {
    let cx = Cx::new().await;
    let cm = cx.new_cm("a").await;
    assert_eq!(cx.get(&format!("{}%2Fa", cx.cm())).await.is(200), cm);
}

#[tokio::test]
async fn an_unknown_path_is_plain_text() {
    let cx = Cx::new().await;
    let reply = cx.get("/apis/no.such.group/v1/things").await;
    assert_eq!((reply.code, reply.text.trim()), (404, "404 page not found"));
}

#[tokio::test]
async fn a_put_replaces_and_raises_the_version() {
    let cx = Cx::new().await;
    let mut cm = cx.new_cm("a").await;
    let before = rv(&cm).to_owned();
    cm["data"] = json!({"x": "y"});
    let put = cx.put(&format!("{}/a", cx.cm()), &cm).await.is(200);
    assert_eq!(put["data"], json!({"x": "y"}));
    assert!(rv(&put).parse::<u64>().unwrap() > before.parse().unwrap());
    assert_eq!(uid(&put), uid(&cm));
}

#[tokio::test]
async fn a_put_of_what_was_read_changes_nothing() {
    let (cx, widgets) = widgets().await;
    let made = widgets.post("a", &json!({"num": 1})).await.is(201);
    let put = cx.put(&widgets.at("a"), &made).await.is(200);
    assert_eq!(put, made);
}

#[tokio::test]
async fn a_put_creates_a_lease_and_neither_a_configmap_nor_a_custom_resource() {
    let cx = Cx::new().await;
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/a", cx.ns);
    cx.put(&lease, &json!({"metadata": {"name": "a"}})).await.is(201);
    let cm = format!("{}/a", cx.cm());
    cx.put(&cm, &json!({"metadata": {"name": "a"}})).await.refuses(
        404,
        "NotFound",
        "configmaps \"a\" not found",
    );
    let widgets = cx.widgets().await;
    let mut object = widgets.object("a", &json!({}));
    object["metadata"]["resourceVersion"] = json!("1");
    cx.put(&widgets.at("a"), &object)
        .await
        .refuses(404, "NotFound", "\"a\" not found");
}

#[tokio::test]
async fn deleting_answers_with_a_status_and_the_object_is_gone() {
    let cx = Cx::new().await;
    let cm = cx.new_cm("a").await;
    let path = format!("{}/a", cx.cm());
    let status = cx.delete(&path).await.is(200);
    assert_eq!(
        (status["kind"].as_str(), status["status"].as_str()),
        (Some("Status"), Some("Success"))
    );
    assert_eq!(status["details"]["uid"], cm["metadata"]["uid"]);
    cx.get(&path).await.refuses(404, "NotFound", "");
    cx.delete(&path).await.refuses(404, "NotFound", "");
}

#[tokio::test]
async fn yaml_bodies_are_understood() {
    let cx = Cx::new().await;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n".to_owned();
    let reply = cx
        .send(
            http::Method::POST,
            &cx.cm(),
            &[("content-type", "application/yaml")],
            Some(body),
        )
        .await;
    assert_eq!(reply.is(201)["data"], json!({"k": "v"}));
}

#[tokio::test]
async fn a_dry_run_shows_what_would_be_and_keeps_nothing() {
    let cx = Cx::new().await;
    let made = cx
        .post(
            &format!("{}?dryRun=All", cx.cm()),
            &json!({"metadata": {"name": "a"}}),
        )
        .await
        .is(201);
    assert_eq!(uid(&made).len(), 36);
    cx.get(&format!("{}/a", cx.cm()))
        .await
        .refuses(404, "NotFound", "");
    let cm = cx.new_cm("b").await;
    let path = format!("{}/b", cx.cm());
    let patched = cx
        .merge(&format!("{path}?dryRun=All"), &json!({"data": {"k": "w"}}))
        .await
        .is(200);
    assert_eq!(patched["data"]["k"], "w");
    cx.delete(&format!("{path}?dryRun=All")).await.is(200);
    assert_eq!(cx.get(&path).await.is(200), cm);
}

#[tokio::test]
async fn a_delete_with_a_body_ignores_the_query() {
    let cx = Cx::new().await;
    cx.new_cm("a").await;
    let path = format!("{}/a", cx.cm());
    cx.delete_with(
        &format!("{path}?dryRun=All"),
        &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
    )
    .await
    .is(200);
    cx.get(&path).await.refuses(404, "NotFound", "");
}

#[tokio::test]
async fn the_generation_counts_changes_of_the_spec() {
    let (_cx, widgets) = widgets().await;
    let made = widgets.post("a", &json!({"num": 1})).await.is(201);
    assert_eq!(generation(&made), 1);
    let labelled = widgets
        .merge(&json!({"metadata": {"labels": {"l": "1"}}}))
        .await
        .is(200);
    assert_eq!(generation(&labelled), 1);
    let changed = widgets.merge(&json!({"spec": {"num": 2}})).await.is(200);
    assert_eq!(generation(&changed), 2);
}

#[tokio::test]
async fn system_fields_of_a_create_are_overwritten() {
    let (cx, widgets) = widgets().await;
    let mut object = widgets.object("a", &json!({}));
    object["metadata"]["uid"] = json!("mine");
    object["metadata"]["generation"] = json!(7);
    object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    let made = cx.post(&widgets.path, &object).await.is(201);
    assert_ne!(uid(&made), "mine");
    assert_eq!(generation(&made), 1);
    assert_ne!(made["metadata"]["creationTimestamp"], "2001-01-01T00:00:00Z");
}

#[tokio::test]
async fn secrets_take_plain_text_and_give_base64() {
    let cx = Cx::new().await;
    let body = json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}});
    let secret = cx.post(&cx.core("secrets"), &body).await.is(201);
    assert_eq!(
        (&secret["data"], &secret["type"]),
        (&json!({"k": "dg=="}), &json!("Opaque"))
    );
    assert_eq!(secret.get("stringData"), None);
}
