//! Fields added with kubectl are removed, unless git declares them or the object asks to keep them; fields owned by
//! controllers are kept.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::{Request, header::CONTENT_TYPE};
use kube::client::Body;
use muster_sync::apply::{
    ApplyError, ApplyOutcome,
    preview::{self, Ownership},
};
use serde_json::{Value, json};

use crate::support::{Bed, config_map, deployment, hooked, pass};

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIG: &str = "/api/v1/namespaces/default/configmaps/a";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ID: &str = "ConfigMap/default/a";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn wanted() -> [Value; 1] {
    [config_map("a", &json!({"k": "v"}))]
}

async fn data(bed: &Bed) -> Value {
    bed.read(CONFIG).await.unwrap()["data"].clone()
}

#[tokio::test(start_paused = true)]
async fn what_kubectl_edit_added_goes_and_then_nothing_is_written() {
    let bed = Bed::new();
    bed.applied(&wanted()).await;
    let theirs = json!({"data": {"k": "other", "theirs": "x"}, "metadata": {"labels": {"theirs": "x"}}});
    bed.edit(CONFIG, theirs).await;
    assert_eq!(bed.applied(&wanted()).await[ID], ApplyOutcome::Configured);
    let live = bed.read(CONFIG).await.unwrap();
    assert_eq!(live["data"], json!({"k": "v"}));
    assert_eq!(live["metadata"]["labels"].get("theirs"), None);
    assert_eq!(bed.managers(CONFIG).await, ["muster-sync Apply"]);
    bed.api.recorder().clear();
    assert_eq!(bed.applied(&wanted()).await[ID], ApplyOutcome::Unchanged);
    assert_eq!(bed.writes(), Vec::<String>::new());
}

/// Each way in which kubectl becomes the owner of fields.
#[tokio::test(start_paused = true)]
async fn an_object_that_kubectl_made_becomes_ours() {
    for manager in [
        "kubectl",
        "kubectl-create",
        "kubectl-client-side-apply",
        "before-first-apply",
    ] {
        let bed = Bed::new();
        let mut theirs = config_map("a", &json!({"k": "old", "dropped": "x"}));
        theirs["metadata"]["annotations"] = json!({LAST_APPLIED: "{}", "dropped": "x"});
        bed.create_as(manager, CONFIGS, &theirs).await;
        assert_eq!(
            bed.applied(&wanted()).await[ID],
            ApplyOutcome::Configured,
            "{manager}"
        );
        let live = bed.read(CONFIG).await.unwrap();
        assert_eq!(live["data"], json!({"k": "v"}), "{manager}");
        assert_eq!(live["metadata"].get("annotations"), None, "{manager}");
        assert_eq!(bed.managers(CONFIG).await, ["muster-sync Apply"], "{manager}");
        assert_eq!(
            bed.applied(&wanted()).await[ID],
            ApplyOutcome::Unchanged,
            "{manager}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_kubectl_applied_server_side_goes() {
    let bed = Bed::new();
    bed.applied(&wanted()).await;
    let theirs = config_map("a", &json!({"k": "other", "theirs": "x"}));
    bed.apply_as("kubectl", CONFIG, &theirs).await;
    assert_eq!(bed.managers(CONFIG).await.len(), 2);
    assert_eq!(bed.applied(&wanted()).await[ID], ApplyOutcome::Configured);
    assert_eq!(data(&bed).await, json!({"k": "v"}));
    assert_eq!(bed.managers(CONFIG).await, ["muster-sync Apply"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_controller_owns_stays_its_own() {
    let bed = Bed::new();
    bed.applied(&wanted()).await;
    bed.edit_as("autoscaler", CONFIG, json!({"data": {"theirs": "x"}}))
        .await;
    bed.edit(CONFIG, json!({"data": {"by-hand": "x"}})).await;
    assert_eq!(bed.applied(&wanted()).await[ID], ApplyOutcome::Configured);
    assert_eq!(data(&bed).await, json!({"k": "v", "theirs": "x"}));
    assert_eq!(
        bed.managers(CONFIG).await,
        ["muster-sync Apply", "autoscaler Update"]
    );
}

/// A status is not ours to write, whichever client writes it.
#[tokio::test(start_paused = true)]
async fn a_status_is_left_to_its_writer() {
    const PATH: &str = "/apis/apps/v1/namespaces/default/deployments/d";
    let bed = Bed::new();
    let wanted = [deployment("d", "nginx")];
    bed.applied(&wanted).await;
    bed.edit(&format!("{PATH}/status"), json!({"status": {"replicas": 1}}))
        .await;
    assert_eq!(
        bed.applied(&wanted).await["Deployment/default/d"],
        ApplyOutcome::Unchanged
    );
    assert_eq!(
        bed.managers(PATH).await,
        ["muster-sync Apply", "kubectl-edit Update"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_merge_annotation_keeps_fields_added_by_others() {
    let merge = json!({"kustomize.toolkit.fluxcd.io/ssa": "Merge"});
    let mut asking = config_map("a", &json!({"k": "v"}));
    asking["metadata"]["annotations"] = merge.clone();
    let by_hand = json!({"data": {"k": "other", "theirs": "stays"}});
    let by_hand_with_annotation =
        json!({"data": {"k": "other", "theirs": "stays"}, "metadata": {"annotations": merge}});
    let plain = config_map("a", &json!({"k": "v"}));
    for (manifest, edit) in [(asking, by_hand), (plain, by_hand_with_annotation)] {
        let bed = Bed::new();
        bed.applied(std::slice::from_ref(&manifest)).await;
        bed.edit(CONFIG, edit).await;
        assert_eq!(
            bed.applied(std::slice::from_ref(&manifest)).await[ID],
            ApplyOutcome::Configured
        );
        assert_eq!(data(&bed).await, json!({"k": "v", "theirs": "stays"}));
        assert_eq!(bed.applied(&[manifest]).await[ID], ApplyOutcome::Unchanged);
    }
}

/// A client for which the object changes before each of the first `times` takeovers.
fn contested(bed: &Bed, times: usize) -> (kube::Client, Arc<AtomicUsize>) {
    let takeovers = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&takeovers);
    let client = hooked(bed.api.client(), move |request: Request<Body>, client| {
        let counter = Arc::clone(&counter);
        async move {
            let takeover = request
                .headers()
                .get(CONTENT_TYPE)
                .is_some_and(|kind| kind == "application/json-patch+json");
            if takeover && counter.fetch_add(1, Ordering::Relaxed) < times {
                let edit = json!({"data": {"n": counter.load(Ordering::Relaxed).to_string()}});
                let edit = http::Request::patch(format!("{CONFIG}?fieldManager=kubectl-edit"))
                    .header(CONTENT_TYPE, "application/merge-patch+json")
                    .body(edit.to_string().into_bytes())
                    .unwrap();
                client.request::<Value>(edit).await?;
            }
            pass(request, client).await
        }
    });
    (client, takeovers)
}

#[tokio::test(start_paused = true)]
async fn a_takeover_that_loses_a_race_reads_again() {
    let bed = Bed::new();
    bed.applied(&wanted()).await;
    bed.edit(CONFIG, json!({"data": {"theirs": "x"}})).await;
    let (client, takeovers) = contested(&bed, 2);
    let bed = bed.through(client);
    assert_eq!(bed.applied(&wanted()).await[ID], ApplyOutcome::Configured);
    assert_eq!(takeovers.load(Ordering::Relaxed), 3);
    assert_eq!(data(&bed).await, json!({"k": "v"}));
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_always_wins_the_race_is_reported() {
    let bed = Bed::new();
    bed.applied(&wanted()).await;
    bed.edit(CONFIG, json!({"data": {"theirs": "x"}})).await;
    let (client, _) = contested(&bed, usize::MAX);
    let bed = bed.through(client);
    let error = bed.apply(&wanted()).await.unwrap_err();
    insta::assert_snapshot!(error, @"ConfigMap/default/a was changed by another client each time that its fields were about to be taken over; retrying");
    let ApplyError::Objects { failures, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(failures[0].reason, "Conflict");
}

/// A refused object keeps its content. Field ownership is settled before: a later manifest removes what was added
/// manually.
#[tokio::test(start_paused = true)]
async fn a_refused_object_keeps_its_content() {
    let bed = Bed::new();
    let wanted = deployment("d", "nginx");
    bed.applied(std::slice::from_ref(&wanted)).await;
    bed.edit(DEPLOYMENT, json!({"metadata": {"labels": {"theirs": "x"}}}))
        .await;
    let before = bed.read(DEPLOYMENT).await.unwrap();
    let mut invalid = wanted.clone();
    invalid["spec"]["replicas"] = json!(-1);
    bed.apply(&[invalid]).await.unwrap_err();
    let after = bed.read(DEPLOYMENT).await.unwrap();
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    bed.applied(&[wanted]).await;
    let labels = &bed.read(DEPLOYMENT).await.unwrap()["metadata"]["labels"];
    assert_eq!(labels.get("theirs"), None);
}

/// The predicted and the actual state of an object.
async fn foretold(bed: &Bed, path: &str, wanted: &Value) -> (Value, Value) {
    let plan = bed.plan(std::slice::from_ref(wanted)).await;
    bed.api.recorder().clear();
    let preview = preview::preview(&bed.cluster, &plan, Ownership::OfPlan, &[]).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
    assert_eq!(preview.failures, []);
    let after = preview.changes.into_iter().next().and_then(|change| change.after);
    bed.applied(std::slice::from_ref(wanted)).await;
    let mut came = bed.read(path).await.unwrap();
    came.as_object_mut().unwrap().remove("status");
    let metadata = came["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| matches!(field.as_str(), "name" | "namespace" | "labels" | "annotations"));
    (after.unwrap_or_default(), came)
}

/// A preview includes takeovers, defaults that the server sets again, and items of lists.
#[tokio::test(start_paused = true)]
async fn a_preview_foretells_what_a_takeover_removes() {
    let wanted = deployment("d", "nginx");
    for manager in ["kubectl-edit", "operator"] {
        let bed = Bed::new();
        bed.applied(std::slice::from_ref(&wanted)).await;
        let edit = json!({"metadata": {"annotations": {"theirs": "x"}}, "spec": {"paused": true, "replicas": 3,
        "template": {"spec": {"containers": [
            {"name": "main", "image": "nginx", "env": [{"name": "A", "value": "x"}]},
            {"name": "sidecar", "image": "envoy", "ports": [{"containerPort": 80}]},
        ]}}}});
        bed.edit_as(manager, DEPLOYMENT, edit).await;
        let (foretold, came) = foretold(&bed, DEPLOYMENT, &wanted).await;
        if manager == "operator" {
            assert_eq!(foretold, Value::Null, "nothing is to be done");
        } else {
            assert_eq!(foretold, came);
            assert_eq!(came["spec"]["replicas"], 1);
            assert_eq!(came["spec"].get("paused"), None);
            let containers = came["spec"]["template"]["spec"]["containers"].as_array().unwrap();
            assert_eq!(containers.len(), 1);
            assert_eq!(containers[0].get("env"), None);
        }
    }
    // Created by kubectl: kubectl owns its defaults.
    let bed = Bed::new();
    let mut made = deployment("d", "nginx:old");
    made["metadata"]["labels"] = json!({"dropped": "x"});
    made["metadata"]["annotations"] = json!({LAST_APPLIED: "{}"});
    bed.create_as("kubectl-client-side-apply", DEPLOYMENTS, &made)
        .await;
    let (foretold, came) = foretold(&bed, DEPLOYMENT, &wanted).await;
    assert_eq!(foretold, came);
}

/// A Deployment whose only container also has these fields.
fn with_container(more: &Value) -> Value {
    let mut object = deployment("d", "nginx");
    let container = &mut object["spec"]["template"]["spec"]["containers"][0];
    container
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    object
}

fn with_volume(source: Value) -> Value {
    let mut object = deployment("d", "nginx");
    let mut volume = json!({"name": "v"});
    volume
        .as_object_mut()
        .unwrap()
        .extend(source.as_object().unwrap().clone());
    object["spec"]["template"]["spec"]["volumes"] = json!([volume]);
    object
}

fn with_strategy(kind: &str, field: &str, strategy: &str) -> Value {
    let mut object = deployment("d", "nginx");
    object["kind"] = kind.into();
    if !strategy.is_empty() {
        object["spec"][field] = json!({ "type": strategy });
    }
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = "d".into();
    }
    object
}

fn service(port: i64) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "d"}, "ports": [{"name": "http", "port": port}]}})
}

/// Objects as kubectl created them, and as git declares them: the expected value at a pointer afterwards. Both together
/// are invalid.
fn contradictions() -> Vec<(&'static str, Value, Value, &'static str, Value)> {
    let port = |number: i64| with_container(&json!({"ports": [{"name": "http", "containerPort": number}]}));
    let variable = |with: Value| {
        let mut variable = json!({"name": "A"});
        variable
            .as_object_mut()
            .unwrap()
            .extend(with.as_object().unwrap().clone());
        with_container(&json!({"env": [variable]}))
    };
    let source = json!({"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
    vec![
        (
            SERVICES,
            service(80),
            service(8080),
            "/spec/ports",
            json!([{"name": "http", "port": 8080, "protocol": "TCP", "targetPort": 8080}]),
        ),
        (
            DEPLOYMENTS,
            port(80),
            port(8080),
            "/spec/template/spec/containers/0/ports",
            json!([{"name": "http", "containerPort": 8080, "protocol": "TCP"}]),
        ),
        (
            DEPLOYMENTS,
            with_volume(json!({"emptyDir": {}})),
            with_volume(json!({"configMap": {"name": "c"}})),
            "/spec/template/spec/volumes",
            json!([{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}]),
        ),
        (
            DEPLOYMENTS,
            variable(json!({"value": "x"})),
            variable(source.clone()),
            "/spec/template/spec/containers/0/env",
            json!([{"name": "A", "valueFrom": source["valueFrom"]}]),
        ),
        (
            DEPLOYMENTS,
            with_strategy("Deployment", "strategy", ""),
            with_strategy("Deployment", "strategy", "Recreate"),
            "/spec/strategy",
            json!({"type": "Recreate"}),
        ),
    ]
}

/// An object created by kubectl changes in one run, even if the old and the new fields conflict; and a preview predicts
/// it.
#[tokio::test(start_paused = true)]
async fn what_kubectl_made_is_changed_as_kubectl_changes_it() {
    for (list, made, wanted, pointer, expect) in contradictions() {
        // The last two by `kubectl apply --server-side` and by `kubectl apply --field-manager=ci`.
        for manager in ["kubectl-client-side-apply", "kubectl-create", "kubectl", "ci"] {
            let bed = Bed::new();
            let mut made = made.clone();
            let path = format!("{list}/{}", made["metadata"]["name"].as_str().unwrap());
            if matches!(manager, "kubectl-client-side-apply" | "ci") {
                made["metadata"]["annotations"] = json!({LAST_APPLIED: "{}"});
            }
            if manager == "kubectl" {
                bed.apply_as(manager, &path, &made).await;
            } else {
                bed.create_as(manager, list, &made).await;
            }
            let (foretold, came) = foretold(&bed, &path, &wanted).await;
            assert_eq!(came.pointer(pointer), Some(&expect), "{manager} {pointer}");
            assert_eq!(foretold, came, "{manager} {pointer}");
            assert_eq!(
                bed.managers(&path).await,
                ["muster-sync Apply"],
                "{manager} {pointer}"
            );
            bed.api.recorder().clear();
            bed.applied(std::slice::from_ref(&wanted)).await;
            assert_eq!(bed.writes(), Vec::<String>::new(), "{manager} {pointer}");
        }
    }
}

/// Objects from before the server tracked field ownership, or whose `managedFields` were dropped.
#[tokio::test(start_paused = true)]
async fn what_has_no_account_of_fields_is_changed_as_kubectl_changes_it() {
    for (list, made, wanted, pointer, expect) in contradictions() {
        let bed = Bed::new();
        let path = format!("{list}/{}", made["metadata"]["name"].as_str().unwrap());
        bed.create_as("kubectl-create", list, &made).await;
        bed.edit(&path, json!({"metadata": {"managedFields": [{}]}}))
            .await;
        assert_eq!(
            bed.read(&path).await.unwrap()["metadata"].get("managedFields"),
            None
        );
        let (foretold, came) = foretold(&bed, &path, &wanted).await;
        assert_eq!(came.pointer(pointer), Some(&expect), "{pointer}");
        assert_eq!(foretold, came, "{pointer}");
        assert_eq!(bed.managers(&path).await, ["muster-sync Apply"], "{pointer}");
    }
}

/// Defaults that the server filled in and no manager owns: server-side apply would keep them.
#[tokio::test(start_paused = true)]
async fn a_default_goes_that_the_strategy_rules_out() {
    for (kind, field, strategy) in [
        ("Deployment", "strategy", "Recreate"),
        ("StatefulSet", "updateStrategy", "OnDelete"),
        ("DaemonSet", "updateStrategy", "OnDelete"),
    ] {
        for before in ["", "RollingUpdate"] {
            let bed = Bed::new();
            let path = format!("/apis/apps/v1/namespaces/default/{}s/d", kind.to_lowercase());
            bed.applied(&[with_strategy(kind, field, before)]).await;
            let live = bed.read(&path).await.unwrap();
            assert!(live["spec"][field]["rollingUpdate"].is_object());
            let wanted = with_strategy(kind, field, strategy);
            let (foretold, came) = foretold(&bed, &path, &wanted).await;
            assert_eq!(came["spec"][field]["type"], strategy);
            assert_eq!(foretold, came, "{kind}");
            bed.api.recorder().clear();
            bed.applied(&[wanted]).await;
            assert_eq!(bed.writes(), Vec::<String>::new(), "{kind}");
            // And back.
            bed.applied(&[with_strategy(kind, field, "RollingUpdate")]).await;
            let live = bed.read(&path).await.unwrap();
            assert!(live["spec"][field]["rollingUpdate"].is_object());
        }
    }
}

/// Fields set by another manager are kept, and the refusal says what helps; the test checks that it does.
#[tokio::test(start_paused = true)]
async fn a_strategy_that_another_manager_holds_is_refused_with_what_helps() {
    let bed = Bed::new();
    bed.applied(&[with_strategy("Deployment", "strategy", "")]).await;
    let theirs = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}});
    bed.edit_as("operator", DEPLOYMENT, theirs).await;
    let wanted = [with_strategy("Deployment", "strategy", "Recreate")];
    let error = bed.apply(&wanted).await.unwrap_err();
    insta::assert_snapshot!(error, @r#"Deployment/default/d dry-run failed (Invalid): Deployment.apps "d" is invalid: spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'; spec.strategy.rollingUpdate belongs to operator: remove it there, or once by kubectl patch deployment d -n default --type=json -p '[{"op":"replace","path":"/spec/strategy","value":{"type":"Recreate"}}]'"#);
    let plan = bed.plan(&wanted).await;
    let preview = preview::preview(&bed.cluster, &plan, Ownership::OfPlan, &[]).await;
    assert_eq!(preview.failures[0].to_string(), error.to_string());
    let patch = json!([{"op": "replace", "path": "/spec/strategy", "value": {"type": "Recreate"}}]);
    let patch = Request::patch(format!("{DEPLOYMENT}?fieldManager=kubectl-patch"))
        .header(CONTENT_TYPE, "application/json-patch+json")
        .body(patch.to_string().into_bytes());
    bed.api
        .client_as("somebody")
        .request::<Value>(patch.unwrap())
        .await
        .unwrap();
    bed.applied(&wanted).await;
    let live = bed.read(DEPLOYMENT).await.unwrap();
    assert_eq!(live["spec"]["strategy"], json!({"type": "Recreate"}));
}
