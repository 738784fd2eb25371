//! Owner references and garbage collection.

use serde_json::{Value, json};

use crate::harness::{Cx, uid, widgets};

fn owned(name: &str, owners: &[&Value], block: bool) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": uid(owner),
                "blockOwnerDeletion": block,
            })
        })
        .collect();
    json!({"metadata": {"name": name, "ownerReferences": references}})
}

#[tokio::test]
async fn a_dependent_goes_with_its_owner() {
    let cx = Cx::new().await;
    let owner = cx.new_cm("owner").await;
    cx.post(&cx.cm(), &owned("a", &[&owner], false)).await.is(201);
    cx.delete(&format!("{}/owner", cx.cm())).await.is(200);
    cx.until_gone(&format!("{}/a", cx.cm())).await;
}

#[tokio::test]
async fn a_dependent_of_an_absent_owner_goes() {
    let cx = Cx::new().await;
    let absent = json!({"metadata": {"name": "never", "uid": "00000000-0000-0000-0000-000000000001"}});
    cx.post(&cx.cm(), &owned("a", &[&absent], false)).await.is(201);
    cx.until_gone(&format!("{}/a", cx.cm())).await;
}

#[tokio::test]
async fn an_owner_of_another_uid_is_absent() {
    let cx = Cx::new().await;
    let mut owner = cx.new_cm("owner").await;
    owner["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000001");
    cx.post(&cx.cm(), &owned("a", &[&owner], false)).await.is(201);
    cx.until_gone(&format!("{}/a", cx.cm())).await;
    cx.get(&format!("{}/owner", cx.cm())).await.is(200);
}

#[tokio::test]
async fn one_owner_is_enough_and_absent_ones_are_forgotten() {
    let cx = Cx::new().await;
    let one = cx.new_cm("one").await;
    let two = cx.new_cm("two").await;
    cx.post(&cx.cm(), &owned("a", &[&one, &two], false)).await.is(201);
    cx.delete(&format!("{}/one", cx.cm())).await.is(200);
    let path = format!("{}/a", cx.cm());
    cx.until("the absent owner is forgotten", || async {
        let object = cx.get(&path).await.is(200);
        object["metadata"]["ownerReferences"].as_array().unwrap().len() == 1
    })
    .await;
    assert_eq!(
        cx.get(&path).await.is(200)["metadata"]["ownerReferences"][0]["name"],
        "two"
    );
}

#[tokio::test]
async fn orphans_stay_and_lose_the_reference() {
    let cx = Cx::new().await;
    let owner = cx.new_cm("owner").await;
    cx.post(&cx.cm(), &owned("a", &[&owner], false)).await.is(201);
    cx.delete_with(
        &format!("{}/owner", cx.cm()),
        &json!({"propagationPolicy": "Orphan"}),
    )
    .await
    .is(200);
    cx.until_gone(&format!("{}/owner", cx.cm())).await;
    let orphan = cx.get(&format!("{}/a", cx.cm())).await.is(200);
    assert_eq!(orphan["metadata"].get("ownerReferences"), None);
}

#[tokio::test]
async fn a_foreground_delete_waits_for_blocking_dependents() {
    let cx = Cx::new().await;
    let owner = cx.new_cm("owner").await;
    let mut held = owned("a", &[&owner], true);
    held["metadata"]["finalizers"] = json!(["e.example/hold"]);
    cx.post(&cx.cm(), &held).await.is(201);
    let path = format!("{}/owner", cx.cm());
    // The collector must know the dependent before the owner is deleted.
    cx.until("the owner waits", || async {
        cx.delete_with(&path, &json!({"propagationPolicy": "Foreground"}))
            .await;
        let owner = cx.get(&path).await;
        assert_eq!(owner.code, 200, "the owner went before its dependent");
        owner.body["metadata"]["finalizers"] == json!(["foregroundDeletion"])
    })
    .await;
    let dependent = format!("{}/a", cx.cm());
    cx.until("the dependent is terminating", || async {
        cx.get(&dependent).await.body["metadata"]
            .get("deletionTimestamp")
            .is_some()
    })
    .await;
    cx.get(&path).await.is(200);
    cx.merge(&dependent, &json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
    cx.until_gone(&dependent).await;
    cx.until_gone(&path).await;
}

#[tokio::test]
async fn custom_resources_own_and_are_owned() {
    let (cx, widgets) = widgets().await;
    let owner = widgets.post("owner", &json!({})).await.is(201);
    let mut dependent = owned("a", &[&owner], false);
    dependent["metadata"]["ownerReferences"][0]["apiVersion"] = json!(widgets.api_version);
    dependent["metadata"]["ownerReferences"][0]["kind"] = json!("Widget");
    cx.post(&cx.cm(), &dependent).await.is(201);
    cx.delete(&widgets.at("owner")).await.is(200);
    cx.until_gone(&format!("{}/a", cx.cm())).await;
}

#[tokio::test]
async fn an_owner_reference_must_be_whole() {
    let cx = Cx::new().await;
    let mut body = owned("a", &[&json!({"metadata": {"name": "n", "uid": ""}})], false);
    let reply = cx.post(&cx.cm(), &body).await;
    reply.refuses(
        422,
        "Invalid",
        "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
    );
    body["metadata"]["ownerReferences"][0] = json!({"apiVersion": "v1", "kind": "ConfigMap", "uid": "u"});
    let reply = cx.post(&cx.cm(), &body).await;
    reply.refuses(
        422,
        "Invalid",
        "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
    );
}

/// Waits for the event with which the collector reports an owner reference across namespaces.
async fn complaint(cx: &Cx, namespace: &str, dependent: &Value) -> Value {
    let path = format!(
        "/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{}",
        uid(dependent)
    );
    cx.until("the collector says so", || async {
        !cx.get(&path).await.is(200)["items"]
            .as_array()
            .unwrap()
            .is_empty()
    })
    .await;
    cx.get(&path).await.is(200)["items"][0].clone()
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_absent_and_an_event_says_so() {
    let cx = Cx::new().await;
    let other = format!("z{}", cx.ns);
    cx.post("/api/v1/namespaces", &json!({"metadata": {"name": other}}))
        .await
        .is(201);
    let elsewhere = format!("/api/v1/namespaces/{other}/configmaps");
    let owner = cx
        .post(&elsewhere, &json!({"metadata": {"name": "owner"}}))
        .await
        .is(201);
    let dependent = cx.post(&cx.cm(), &owned("a", &[&owner], false)).await.is(201);
    cx.until_gone(&format!("{}/a", cx.cm())).await;
    let event = complaint(&cx, &cx.ns, &dependent).await;
    assert_eq!(
        (&event["reason"], &event["type"]),
        (&json!("OwnerRefInvalidNamespace"), &json!("Warning"))
    );
    cx.get(&format!("{elsewhere}/owner")).await.is(200);
}

#[tokio::test]
async fn a_cluster_wide_dependent_of_a_namespaced_owner_stays_and_an_event_says_so() {
    let cx = Cx::new().await;
    let owner = cx.new_cm("owner").await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let path = format!("{roles}/{}", cx.id);
    let dependent = cx.post(roles, &owned(&cx.id, &[&owner], false)).await.is(201);
    let event = complaint(&cx, "default", &dependent).await;
    assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
    cx.delete(&format!("{}/owner", cx.cm())).await.is(200);
    // The collector is done with the owner: all dependents that it may delete are gone.
    let other = cx.post(&cx.cm(), &owned("a", &[&owner], false)).await.is(201);
    cx.until_gone(&format!("{}/a", cx.cm())).await;
    assert_ne!(uid(&other), uid(&dependent));
    let kept = cx.get(&path).await.is(200);
    assert_eq!(kept, dependent);
    cx.delete(&path).await.is(200);
}

#[tokio::test]
async fn a_foreground_delete_does_not_wait_for_dependents_that_do_not_block() {
    let cx = Cx::new().await;
    let owner = cx.new_cm("owner").await;
    for (name, block) in [("blocks", true), ("free", false)] {
        let mut held = owned(name, &[&owner], block);
        held["metadata"]["finalizers"] = json!(["e.example/hold"]);
        cx.post(&cx.cm(), &held).await.is(201);
    }
    let path = |name: &str| format!("{}/{name}", cx.cm());
    let deleted = cx
        .delete_with(&path("owner"), &json!({"propagationPolicy": "Foreground"}))
        .await
        .is(200);
    assert_eq!(deleted["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    for name in ["blocks", "free"] {
        cx.until("the dependent is terminating", || async {
            cx.get(&path(name)).await.is(200)["metadata"]
                .get("deletionTimestamp")
                .is_some()
        })
        .await;
    }
    let release = json!({"metadata": {"finalizers": null}});
    cx.merge(&path("blocks"), &release).await.is(200);
    cx.until_gone(&path("owner")).await;
    cx.get(&path("free")).await.is(200);
    cx.merge(&path("free"), &release).await.is(200);
    cx.until_gone(&path("free")).await;
}
