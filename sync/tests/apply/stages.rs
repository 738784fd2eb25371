//! Dependencies are applied first, and ids are recorded before objects are created.

use std::time::Duration;

use muster_sync::apply::ApplyOutcome;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Bed, altered, config_map, hooked, namespace, pass, widget, widget_definition};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org";

#[tokio::test(start_paused = true)]
async fn namespaces_and_definitions_come_first_whatever_the_order() {
    let bed = Bed::new();
    let mut inside = config_map("inside", &json!({"a": "b"}));
    inside["metadata"]["namespace"] = json!("made");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let outcomes = bed
        .applied(&[
            widget("w", 3),
            inside,
            role,
            widget_definition("Namespaced"),
            namespace("made"),
        ])
        .await;
    assert!(
        outcomes.values().all(|outcome| *outcome == ApplyOutcome::Created),
        "{outcomes:?}"
    );
    assert_eq!(
        bed.writes(),
        [
            "PATCH /api/v1/namespaces/made",
            "PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org",
            "PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/reader",
            "PATCH /api/v1/namespaces/made/configmaps/inside",
            "PATCH /apis/example.org/v1/namespaces/default/widgets/w",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn scope_is_the_servers_and_not_the_texts() {
    let bed = Bed::new();
    let mut cluster_wide = namespace("made");
    cluster_wide["metadata"]["namespace"] = json!("nonsense");
    bed.applied(&[cluster_wide, widget_definition("Cluster"), widget("w", 1)])
        .await;
    assert!(bed.read("/apis/example.org/v1/widgets/w").await.is_some());
    let ids: Vec<String> = bed
        .ledger
        .recorded
        .lock()
        .iter()
        .map(|(id, _)| id.encode())
        .collect();
    assert_eq!(
        ids,
        [
            "_made__Namespace",
            "_w_example.org_Widget",
            "_widgets.example.org_apiextensions.k8s.io_CustomResourceDefinition"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_target_namespace_overrules() {
    let mut bed = Bed::new();
    bed.options.target_namespace = Some("elsewhere".into());
    let mut homeless = config_map("homeless", &json!({}));
    homeless["metadata"].as_object_mut().unwrap().remove("namespace");
    bed.applied(&[namespace("elsewhere"), config_map("moved", &json!({})), homeless])
        .await;
    for name in ["moved", "homeless"] {
        assert!(
            bed.read(&format!("/api/v1/namespaces/elsewhere/configmaps/{name}"))
                .await
                .is_some(),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_that_is_not_on_record() {
    let bed = Bed::new();
    *bed.ledger.refuses.lock() = true;
    let error = bed.apply(&[config_map("a", &json!({}))]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the inventory cannot be written, so nothing is applied: no"
    );
    assert_eq!(bed.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn every_object_carries_the_labels_of_its_owner() {
    let bed = Bed::new();
    let mut own = config_map("a", &json!({}));
    own["metadata"]["labels"] = json!({"mine": "too"});
    bed.applied(&[own]).await;
    let live: Value = bed.read("/api/v1/namespaces/default/configmaps/a").await.unwrap();
    assert_eq!(
        live["metadata"]["labels"],
        json!({"mine": "too", "kustomize.toolkit.fluxcd.io/name": "app", "kustomize.toolkit.fluxcd.io/namespace": "flux"})
    );
}

/// A definition whose names are refused is never established: objects that need it are not tried.
#[tokio::test(start_paused = true)]
async fn a_definition_that_is_not_established_ends_the_run_in_time() {
    let mut bed = Bed::new();
    bed.options.timeout = Duration::from_secs(30);
    bed.applied(&[widget_definition("Namespaced")]).await;
    let mut other = widget_definition("Namespaced");
    other["metadata"]["name"] = json!("gadgets.example.org");
    other["spec"]["names"]["plural"] = json!("gadgets");
    other["spec"]["names"]["singular"] = json!("gadget");
    let started = Instant::now();
    let error = bed
        .apply(&[other, config_map("later", &json!({}))])
        .await
        .unwrap_err();
    insta::assert_snapshot!(error);
    assert!(started.elapsed() <= bed.options.timeout);
    assert!(
        bed.read("/api/v1/namespaces/default/configmaps/later")
            .await
            .is_none()
    );
}

/// On a real server a definition is established some time after it was created, and its kind is in discovery a moment
/// after that.
#[tokio::test(start_paused = true)]
async fn custom_resources_wait_for_their_kind() {
    let bed = Bed::new();
    let started = Instant::now();
    let client = hooked(bed.api.client(), move |request, client| async move {
        let path = request.uri().path().to_owned();
        let since = started.elapsed().as_secs();
        let answer = pass(request, client).await?;
        match path.as_str() {
            _ if !answer.status().is_success() => Ok(answer),
            DEFINITION if since < 3 => altered(answer, |definition| definition["status"] = json!({})).await,
            "/apis/example.org/v1" if since < 5 => {
                altered(answer, |list| list["resources"] = json!([])).await
            }
            _ => Ok(answer),
        }
    });
    let bed = bed.through(client);
    let outcomes = bed
        .applied(&[widget_definition("Namespaced"), widget("w", 1)])
        .await;
    assert_eq!(outcomes["Widget/default/w"], ApplyOutcome::Created);
    let requests = bed.api.recorder().requests();
    let widget = requests
        .iter()
        .find(|request| request.path.ends_with("/widgets/w"));
    assert!(widget.unwrap().at >= Duration::from_secs(5));
}

/// The definition exists already; the version that the custom resource needs is added in the same path.
#[tokio::test(start_paused = true)]
async fn custom_resources_wait_for_their_version() {
    let bed = Bed::new();
    bed.applied(&[widget_definition("Namespaced"), widget("w", 1)])
        .await;
    let mut definition = widget_definition("Namespaced");
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(second);
    let mut newer = widget("w", 2);
    newer["apiVersion"] = json!("example.org/v2");
    let outcomes = bed.applied(&[newer, definition]).await;
    assert!(
        outcomes
            .values()
            .all(|outcome| *outcome == ApplyOutcome::Configured),
        "{outcomes:?}"
    );
    assert_eq!(bed.ledger.recorded.lock().len(), 2, "it is the same object");
}

/// Unchanged definitions cost one read each, and their kinds stay cached.
#[tokio::test(start_paused = true)]
async fn a_second_time_nothing_is_discovered() {
    let bed = Bed::new();
    let all = [widget_definition("Namespaced"), widget("w", 1)];
    bed.applied(&all).await;
    bed.api.recorder().clear();
    bed.applied(&all).await;
    let requests = bed.api.recorder().requests();
    let calls: Vec<String> = requests
        .iter()
        .map(|request| format!("{} {}", request.method, request.path))
        .collect();
    let widget = "/apis/example.org/v1/namespaces/default/widgets/w";
    assert_eq!(
        calls,
        [
            format!("GET {DEFINITION}"),
            format!("PATCH {DEFINITION}"),
            format!("GET {DEFINITION}"),
            format!("GET {widget}"),
            format!("PATCH {widget}"),
        ]
    );
}

/// A definition that is re-created with another scope is looked up again, despite the cache.
#[tokio::test(start_paused = true)]
async fn another_scope_is_noticed() {
    let bed = Bed::new();
    bed.applied(&[widget_definition("Namespaced"), widget("w", 1)])
        .await;
    bed.send("DELETE", DEFINITION, None).await.unwrap();
    bed.until_gone(DEFINITION).await;
    bed.applied(&[widget_definition("Cluster"), widget("w", 1)]).await;
    assert!(bed.read("/apis/example.org/v1/widgets/w").await.is_some());
}

/// A thousand objects of a kind that does not exist cost one request.
#[tokio::test(start_paused = true)]
async fn each_kind_is_asked_for_once() {
    let bed = Bed::new();
    let widgets: Vec<Value> = (0..1_000).map(|n| widget(&format!("w{n}"), 1)).collect();
    let plan = bed.plan(&widgets).await;
    assert!(!plan.is_empty());
    assert_eq!(bed.api.recorder().requests().len(), 1);
}
