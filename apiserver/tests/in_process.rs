//! In-process access with kube-rs clients: objects, watches, definitions, paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::too_many_lines,
    clippy::used_underscore_binding,
    reason = "a helper that fails fails its test, and a table of cases is as long as its cases"
)]

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::runtime::wait::{await_condition, conditions};
use muster_apiserver::{ApiServer, StartError, send};
use serde_json::json;

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": value}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_read_changed_and_deleted() {
    let api = ApiServer::in_process().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(api.client());
    let made = maps
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    assert!(made.metadata.uid.is_some() && made.metadata.creation_timestamp.is_some());
    let twice = maps
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap_err();
    assert!(
        twice.to_string().contains("configmaps \"a\" already exists"),
        "{twice}"
    );
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data.unwrap()["k"], "2");
    let again = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(again.metadata.resource_version, patched.metadata.resource_version);
    let stale = maps
        .replace("a", &PostParams::default(), &made)
        .await
        .unwrap_err();
    assert!(
        stale.to_string().contains("the object has been modified"),
        "{stale}"
    );
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_what_comes_goes_and_leaves_the_selection() {
    let api = ApiServer::in_process().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(api.client());
    let version = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let mut events = Box::pin(
        maps.watch(&WatchParams::default().labels("on=yes"), &version)
            .await
            .unwrap(),
    );
    maps.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    for on in ["yes", "yes", "no"] {
        let patch = Patch::Merge(
            json!({"metadata": {"labels": {"on": on}}, "data": {"k": on.to_owned() + &version}}),
        );
        maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        let patch = Patch::Merge(json!({"data": {"k": "x"}}));
        maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    let mut received = Vec::new();
    while received.last() != Some(&"deleted") {
        received.push(match events.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Bookmark(_) => "bookmark",
            WatchEvent::Error(error) => panic!("{error:?}"),
        });
    }
    assert_eq!(received, ["added", "modified", "modified", "modified", "deleted"]);
}

/// Each merge patch of a large object keeps a version: 75 MB here without the bound in bytes.
#[tokio::test(start_paused = true)]
async fn a_thousand_versions_of_a_large_object_stay_within_the_bound() {
    const BOUND: usize = 32 << 20;
    const SIZE: usize = 75_000;
    let api = ApiServer::builder().log_limit(0).in_process().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(api.client());
    let large = config_map("a", &"x".repeat(SIZE));
    let made = maps.create(&PostParams::default(), &large).await.unwrap();
    let first = made.metadata.resource_version.unwrap();
    let objects = api.footprint().objects;
    let mut awake = Box::pin(maps.watch(&WatchParams::default(), &first).await.unwrap());
    for number in 0..1_000 {
        let patch = Patch::Merge(json!({"data": {"n": number.to_string()}}));
        let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        let Some(WatchEvent::Modified(modified)) = awake.try_next().await.unwrap() else {
            panic!("a watch that is read misses change {number}");
        };
        assert_eq!(
            modified.metadata.resource_version,
            patched.metadata.resource_version
        );
    }
    let held = api.footprint();
    assert!(held.history <= BOUND, "{held:?}");
    assert!(held.history > BOUND - 2 * SIZE, "{held:?}");
    assert!(held.objects < objects + 1_000, "{held:?}, before {objects}");
    let mut late = Box::pin(maps.watch(&WatchParams::default(), &first).await.unwrap());
    let event = late.try_next().await.unwrap().unwrap();
    assert!(
        matches!(&event, WatchEvent::Error(status) if status.code == 410),
        "{event:?}"
    );
    let past = ListParams::default()
        .at(&first)
        .matching(kube::api::VersionMatch::Exact);
    let refusal = maps.list(&past).await.unwrap_err();
    assert!(
        matches!(&refusal, kube::Error::Api(status) if status.code == 410),
        "{refusal}"
    );
}

/// The managers of fields are nested slightly deeper than the fields. An object that no client could parse is not
/// stored.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_again_is_refused() {
    let deeps = definition("deeps", "Deep");
    let api = ApiServer::builder().with([deeps]).in_process().unwrap();
    let kind = ApiResource {
        group: "t.example".into(),
        version: "v1".into(),
        api_version: "t.example/v1".into(),
        kind: "Deep".into(),
        plural: "deeps".into(),
    };
    let deeps: Api<DynamicObject> = Api::default_namespaced_with(api.client(), &kind);
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"x": inner}));
    let create = async |name: &str, levels: usize| {
        let deep = DynamicObject::new(name, &kind).data(json!({"spec": nested(levels)}));
        deeps.create(&PostParams::default(), &deep).await
    };
    create("a", 100).await.unwrap();
    let refusal = create("b", 125).await.unwrap_err();
    assert!(
        matches!(&refusal, kube::Error::Api(status) if status.code == 400 && status.message.contains("levels deep")),
        "{refusal}"
    );
    let patch = Patch::Merge(json!({"spec": nested(125)}));
    let refusal = deeps
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap_err();
    assert!(
        matches!(&refusal, kube::Error::Api(status) if status.code == 400),
        "{refusal}"
    );
    let all = deeps.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].data["spec"], nested(100));
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_established_served_and_cleaned_up() {
    let api = ApiServer::in_process().unwrap();
    let client = api.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.t.example"},
        "spec": {
            "group": "t.example", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"num": {"type": "integer", "default": 3}, "text": {"type": "string"}}},
                    "status": {"type": "object", "properties": {"note": {"type": "string"}}},
                }}},
            }],
        },
    }))
    .unwrap();
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();
    await_condition(
        definitions.clone(),
        "widgets.t.example",
        conditions::is_crd_established(),
    )
    .await
    .unwrap();
    let kind = ApiResource {
        group: "t.example".into(),
        version: "v1".into(),
        api_version: "t.example/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    let widget = DynamicObject::new("a", &kind)
        .data(json!({"spec": {"text": "x", "bogus": 1}, "status": {"note": "no"}}));
    let made = widgets.create(&PostParams::default(), &widget).await.unwrap();
    assert_eq!(made.data["spec"], json!({"num": 3, "text": "x"}));
    assert!(made.data.get("status").is_none() && made.metadata.generation == Some(1));
    let status = Patch::Merge(json!({"status": {"note": "hi"}, "spec": {"num": 9}}));
    let noted = widgets
        .patch_status("a", &PatchParams::default(), &status)
        .await
        .unwrap();
    assert_eq!(
        (&noted.data["status"]["note"], noted.metadata.generation),
        (&json!("hi"), Some(1))
    );
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["t.example/hold"]}, "spec": {"num": 4}}));
    let held = widgets.patch("a", &PatchParams::default(), &hold).await.unwrap();
    assert_eq!(held.metadata.generation, Some(2));
    definitions
        .delete("widgets.t.example", &DeleteParams::default())
        .await
        .unwrap();
    let terminating = await_condition(widgets.clone(), "a", |w: Option<&DynamicObject>| {
        w.is_some_and(|w| w.metadata.deletion_timestamp.is_some())
    });
    terminating.await.unwrap();
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    widgets
        .patch("a", &PatchParams::default(), &release)
        .await
        .unwrap();
    let uid = definitions
        .get("widgets.t.example")
        .await
        .unwrap()
        .metadata
        .uid
        .unwrap();
    await_condition(
        definitions.clone(),
        "widgets.t.example",
        conditions::is_deleted(&uid),
    )
    .await
    .unwrap();
    assert!(
        widgets
            .list(&ListParams::default())
            .await
            .unwrap_err()
            .to_string()
            .contains("404")
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_furnished_and_takes_its_content_with_it() {
    let api = ApiServer::in_process().unwrap();
    let namespaces: Api<Namespace> = Api::all(api.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    let made = namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(api.client(), "team");
    let there = |map: Option<&ConfigMap>| map.is_some();
    await_condition(maps.clone(), "kube-root-ca.crt", there)
        .await
        .unwrap();
    maps.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    await_condition(
        namespaces.clone(),
        "team",
        conditions::is_deleted(&made.metadata.uid.unwrap()),
    )
    .await
    .unwrap();
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
}

fn definition(plural: &str, kind: &str) -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.t.example")},
        "spec": {
            "group": "t.example", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn gadget(namespace: &str) -> serde_json::Value {
    json!({"apiVersion": "t.example/v1", "kind": "Gadget", "metadata": {"name": "a", "namespace": namespace}})
}

#[tokio::test]
async fn objects_exist_before_the_first_request() {
    let builder = ApiServer::builder()
        .namespace("fleet")
        .with([definition("gadgets", "Gadget"), gadget("fleet")]);
    for api in [
        builder.clone().in_process().unwrap(),
        builder.start().await.unwrap(),
    ] {
        assert_eq!(api.recorder().requests().len(), 0);
        let get = async |path: &str| send(&api.client(), "GET", path, None).await;
        let account = get("/api/v1/namespaces/fleet/serviceaccounts/default").await;
        assert!(account.is_ok(), "what each namespace has: {account:?}");
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let gadgets = get(&format!("{definitions}/gadgets.t.example")).await.unwrap();
        let conditions = gadgets["status"]["conditions"].as_array().unwrap();
        let is_established = |c: &serde_json::Value| c["type"] == "Established" && c["status"] == "True";
        assert!(conditions.iter().any(is_established), "{gadgets:#}");
        let made = get("/apis/t.example/v1/namespaces/fleet/gadgets/a").await;
        assert!(made.unwrap()["metadata"]["uid"].is_string());

        api.add([definition("others", "Other")]).unwrap();
        let others = get("/apis/t.example/v1/others").await;
        assert_eq!(others.unwrap()["items"], json!([]));
        assert_eq!(api.recorder().writes_of(|_| true), Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_object_that_cannot_exist_from_the_start_is_named() {
    let check = |objects: &[serde_json::Value], expect: &str| {
        let error = ApiServer::builder().with(objects).in_process().err();
        let Some(StartError::Object(error)) = error else {
            panic!("{expect}: {error:?}")
        };
        assert_eq!(error.to_string(), expect);
    };
    check(
        &[gadget("default")],
        "Gadget a was rejected: no kind \"Gadget\" of version \"t.example/v1\" is served",
    );
    check(
        &[definition("gadgets", "Gadget"), gadget("nowhere")],
        "Gadget a was rejected: namespaces \"nowhere\" not found",
    );
    check(
        &[definition("gadgets", "Gadget"), definition("others", "Gadget")],
        "CustomResourceDefinition others.t.example was rejected: it is not established: \"Gadget\" is already in use",
    );
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "hook"},
        "webhooks": [{
            "name": "hook.t.example", "clientConfig": {"url": "https://127.0.0.1:1"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}],
        }],
    });
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map", "namespace": "default"}});
    check(
        &[hook, map],
        "ConfigMap map was rejected: it requires a webhook call",
    );
}
