//! Owner references and garbage collection.

use serde_json::{Value, json};

use crate::harness::{Cx, uid};

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
    // The collector must know of the dependent before the owner goes.
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
    let cx = Cx::new().await;
    let widgets = cx.widgets().await;
    let owner = cx
        .post(&widgets.path, &widgets.object("owner", &json!({})))
        .await
        .is(201);
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
