//! Lists: selectors, pages, versions.

use serde_json::json;

use crate::harness::{Cx, names, rv, widgets};

async fn three(cx: &Cx) {
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let body = json!({"metadata": {"name": name, "labels": {"l": label, format!("only-{name}"): ""}}});
        cx.post(&cx.cm(), &body).await.is(201);
    }
}

async fn listed(cx: &Cx, query: &str) -> Vec<String> {
    let list = cx.get(&format!("{}?{query}", cx.cm())).await.is(200);
    names(&list)
        .into_iter()
        .filter(|name| name != "kube-root-ca.crt")
        .collect()
}

#[tokio::test]
async fn a_list_has_a_kind_and_a_version() {
    let cx = Cx::new().await;
    three(&cx).await;
    let list = cx.get(&cx.cm()).await.is(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("ConfigMapList"), &json!("v1"))
    );
    assert!(rv(&list).parse::<u64>().unwrap() > 0);
    let items = list["items"].as_array().unwrap();
    assert!(
        items
            .iter()
            .all(|item| item.get("kind").is_none() && item.get("apiVersion").is_none())
    );
}

#[tokio::test]
async fn items_of_custom_lists_carry_their_kind() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let list = cx.get(&widgets.path).await.is(200);
    assert_eq!(list["kind"], "WidgetList");
    assert_eq!(
        (&list["items"][0]["kind"], &list["items"][0]["apiVersion"]),
        (&json!("Widget"), &json!(widgets.api_version))
    );
}

#[tokio::test]
async fn label_selectors() {
    let cx = Cx::new().await;
    three(&cx).await;
    assert_eq!(listed(&cx, "labelSelector=l%3Dx").await, ["a", "c"]);
    assert_eq!(listed(&cx, "labelSelector=l!%3Dx").await, ["b"]);
    assert_eq!(listed(&cx, "labelSelector=l%20in%20(x,y),only-b").await, ["b"]);
    assert_eq!(listed(&cx, "labelSelector=l%20notin%20(x)").await, ["b"]);
    assert_eq!(listed(&cx, "labelSelector=!only-a").await, ["b", "c"]);
    cx.get(&format!("{}?labelSelector=a%20odd%20b", cx.cm()))
        .await
        .refuses(400, "BadRequest", "");
}

#[tokio::test]
async fn field_selectors() {
    let cx = Cx::new().await;
    three(&cx).await;
    assert_eq!(listed(&cx, "fieldSelector=metadata.name%3Db").await, ["b"]);
    assert_eq!(listed(&cx, "fieldSelector=metadata.name!%3Db").await, ["a", "c"]);
    let reply = cx.get(&format!("{}?fieldSelector=data.k%3Dv", cx.cm())).await;
    reply.refuses(
        400,
        "BadRequest",
        "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    );
}

#[tokio::test]
async fn selectable_fields_of_secrets_and_pods() {
    let cx = Cx::new().await;
    cx.post(
        &cx.core("secrets"),
        &json!({"metadata": {"name": "a"}, "type": "e.example/x"}),
    )
    .await
    .is(201);
    cx.post(&cx.core("secrets"), &json!({"metadata": {"name": "b"}}))
        .await
        .is(201);
    let list = cx
        .get(&format!(
            "{}?fieldSelector=type%3De.example/x",
            cx.core("secrets")
        ))
        .await
        .is(200);
    assert_eq!(names(&list), ["a"]);
}

#[tokio::test]
async fn pages_continue_and_show_one_instant() {
    let (cx, widgets) = widgets().await;
    for name in ["a", "b", "c", "d", "e"] {
        widgets.post(name, &json!({})).await.is(201);
    }
    let first = cx.get(&format!("{}?limit=2", widgets.path)).await.is(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    widgets.post("bb", &json!({})).await.is(201);
    cx.delete(&widgets.at("d")).await.is(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = cx
        .get(&format!("{}?limit=9&continue={token}", widgets.path))
        .await
        .is(200);
    assert_eq!(names(&second), ["c", "d", "e"]);
    assert_eq!(rv(&second), rv(&first));
    assert_eq!(second["metadata"]["continue"].as_str().unwrap_or_default(), "");
}

#[tokio::test]
async fn all_namespaces_are_listed_together() {
    let (cx, widgets) = widgets().await;
    let other = format!("z{}", cx.ns);
    cx.post("/api/v1/namespaces", &json!({"metadata": {"name": other}}))
        .await
        .is(201);
    widgets.post("a", &json!({})).await.is(201);
    let elsewhere = format!("/apis/{}/v1/namespaces/{other}/widgets", widgets.group);
    cx.post(&elsewhere, &widgets.object("b", &json!({})))
        .await
        .is(201);
    let all = cx
        .get(&format!("/apis/{}/v1/widgets", widgets.group))
        .await
        .is(200);
    assert_eq!(names(&all), ["a", "b"]);
    assert_eq!(names(&cx.get(&widgets.path).await.is(200)), ["a"]);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let cx = Cx::new().await;
    three(&cx).await;
    cx.delete(&format!("{}?labelSelector=l%3Dx", cx.cm()))
        .await
        .is(200);
    assert_eq!(listed(&cx, "").await, ["b"]);
}

#[tokio::test]
async fn a_list_of_a_future_version_times_out() {
    let cx = Cx::new().await;
    let list = cx.get(&cx.cm()).await.is(200);
    let future = rv(&list).parse::<u64>().unwrap() + 1_000_000;
    let reply = cx
        .get(&format!(
            "{}?resourceVersion={future}&resourceVersionMatch=NotOlderThan",
            cx.cm()
        ))
        .await;
    assert_eq!((reply.code, reply.reason()), (504, "Timeout"), "{}", reply.text);
    assert_eq!(
        reply.body["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(reply.body["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn partial_metadata_lists() {
    let cx = Cx::new().await;
    three(&cx).await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = cx
        .get_as(&format!("{}?labelSelector=only-a", cx.cm()), accept)
        .await
        .is(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    assert_eq!(list["items"][0].get("data"), None);
}

#[tokio::test]
async fn an_exact_list_shows_what_was_there_then() {
    let (cx, widgets) = widgets().await;
    let first = widgets.post("a", &json!({"num": 1})).await.is(201);
    widgets.merge(&json!({"spec": {"num": 2}})).await.is(200);
    widgets.post("b", &json!({})).await.is(201);
    let path = format!(
        "{}?resourceVersion={}&resourceVersionMatch=Exact",
        widgets.path,
        rv(&first)
    );
    let list = cx.get(&path).await.is(200);
    assert_eq!((names(&list), rv(&list)), (vec!["a".to_owned()], rv(&first)));
    assert_eq!(list["items"][0]["spec"]["num"], 1);
}

#[tokio::test]
async fn an_exact_list_and_a_get_of_a_future_version_time_out_too() {
    let cx = Cx::new().await;
    cx.new_cm("a").await;
    let list = cx.get(&cx.cm()).await.is(200);
    let future = rv(&list).parse::<u64>().unwrap() + 1_000_000;
    let exact = format!("{}?resourceVersion={future}&resourceVersionMatch=Exact", cx.cm());
    let one = format!("{}/a?resourceVersion={future}", cx.cm());
    let (exact, one) = tokio::join!(cx.get(&exact), cx.get(&one));
    for reply in [exact, one] {
        reply.refuses(504, "Timeout", "Too large resource version");
        assert_eq!(
            reply.body["details"]["causes"][0]["reason"],
            "ResourceVersionTooLarge"
        );
        assert_eq!(reply.body["details"]["retryAfterSeconds"], 1);
    }
}
