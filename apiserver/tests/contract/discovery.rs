//! Discovery and the other paths that clients read at startup.

use serde_json::json;

use crate::harness::{Cx, widgets};

#[tokio::test]
async fn the_version_is_served() {
    let cx = Cx::new().await;
    let version = cx.get("/version").await.is(200);
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&json!("1"), &json!("36"))
    );
}

#[tokio::test]
async fn health_is_ok() {
    let cx = Cx::new().await;
    for path in ["/readyz", "/livez", "/healthz"] {
        let reply = cx.get(path).await;
        assert_eq!((reply.code, reply.text.as_str()), (200, "ok"), "{path}");
    }
}

#[tokio::test]
async fn the_core_group_is_listed() {
    let cx = Cx::new().await;
    assert_eq!(cx.get("/api").await.is(200)["versions"], json!(["v1"]));
    let list = cx.get("/api/v1").await.is(200);
    let resources = list["resources"].as_array().unwrap();
    let pods = resources
        .iter()
        .find(|resource| resource["name"] == "pods")
        .unwrap();
    assert_eq!(
        (&pods["kind"], &pods["shortNames"], &pods["namespaced"]),
        (&json!("Pod"), &json!(["po"]), &json!(true))
    );
    for verb in [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ] {
        assert!(pods["verbs"].as_array().unwrap().contains(&json!(verb)), "{verb}");
    }
}

#[tokio::test]
async fn groups_are_listed() {
    let cx = Cx::new().await;
    let list = cx.get("/apis").await.is(200);
    let groups: Vec<&str> = list["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    for group in [
        "apps",
        "batch",
        "apiextensions.k8s.io",
        "rbac.authorization.k8s.io",
        "coordination.k8s.io",
    ] {
        assert!(groups.contains(&group), "{group} is not in {groups:?}");
    }
}

#[tokio::test]
async fn discovery_is_aggregated_on_request() {
    let (cx, widgets) = widgets().await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let core = cx.get_as("/api", accept).await.is(200);
    assert_eq!(
        (&core["kind"], &core["apiVersion"]),
        (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
    );
    cx.until("the group of the CRD is there", || async {
        let list = cx.get_as("/apis", accept).await.is(200);
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|group| group["metadata"]["name"] == widgets.group.as_str())
    })
    .await;
    let list = cx.get_as("/apis", accept).await.is(200);
    let group = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|group| group["metadata"]["name"] == widgets.group.as_str());
    let resource = &group.unwrap()["versions"][0]["resources"][0];
    assert_eq!(resource["resource"], "widgets");
    assert_eq!(resource["responseKind"]["kind"], "Widget");
    assert_eq!(resource["scope"], "Namespaced");
    assert_eq!(resource["subresources"][0]["subresource"], "status");
}

#[tokio::test]
async fn openapi_v3_has_the_schema_of_a_crd() {
    let (cx, widgets) = widgets().await;
    let path = format!("apis/{}/v1", widgets.group);
    cx.until("its document is published", || async {
        cx.get("/openapi/v3").await.is(200)["paths"].get(&path).is_some()
    })
    .await;
    let index = cx.get("/openapi/v3").await.is(200);
    let url = index["paths"][&path]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned();
    let document = cx.get(&url).await.is(200);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let widget = schemas.values().find(|schema| {
        schema["x-kubernetes-group-version-kind"][0]["kind"] == "Widget"
            && schema["properties"].get("spec").is_some()
    });
    assert_eq!(
        widget.unwrap()["properties"]["spec"]["properties"]["num"]["type"],
        "integer"
    );
}

#[tokio::test]
async fn the_old_openapi_document_is_there() {
    let cx = Cx::new().await;
    let document = cx.get("/openapi/v2").await.is(200);
    assert_eq!(document["swagger"], "2.0");
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = cx.get_as("/openapi/v2", protobuf).await;
    assert_eq!(answer.code, 200);
    // The requested type with `@` is not a media type, the returned one is.
    let media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!(answer.headers["content-type"], media);
    // The first field: `swagger`, of three bytes.
    assert!(
        answer.text.starts_with("\n\u{3}2.0"),
        "{:?}",
        answer.text.get(..20)
    );
}

#[tokio::test]
async fn the_old_openapi_document_is_json_unless_protobuf_is_asked_for() {
    let cx = Cx::new().await;
    for accept in ["*/*", "application/json", "application/json, */*"] {
        let answer = cx.get_as("/openapi/v2", accept).await;
        assert_eq!(answer.headers["content-type"], "application/json", "{accept}");
        assert_eq!(answer.is(200)["swagger"], "2.0", "{accept}");
    }
    let answer = cx.get("/openapi/v2").await;
    assert_eq!(answer.headers["content-type"], "application/json");
}
