//! What people added with kubectl goes, unless git declares it or they ask for it to stay; what controllers own stays.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::{Request, header::CONTENT_TYPE};
use kube::client::Body;
use muster_sync::apply::{
    ApplyError, Outcome,
    preview::{self, Ownership},
};
use serde_json::{Value, json};

use crate::support::{Bed, config_map, deployment, hooked, pass};

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIG: &str = "/api/v1/namespaces/default/configmaps/a";
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
    assert_eq!(bed.applied(&wanted()).await[ID], Outcome::Configured);
    let live = bed.read(CONFIG).await.unwrap();
    assert_eq!(live["data"], json!({"k": "v"}));
    assert_eq!(live["metadata"]["labels"].get("theirs"), None);
    assert_eq!(bed.managers(CONFIG).await, ["muster-sync Apply"]);
    bed.api.recorder().clear();
    assert_eq!(bed.applied(&wanted()).await[ID], Outcome::Unchanged);
    assert_eq!(bed.writes(), Vec::<String>::new());
}

/// Each way in which kubectl comes to own fields.
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
        assert_eq!(bed.applied(&wanted()).await[ID], Outcome::Configured, "{manager}");
        let live = bed.read(CONFIG).await.unwrap();
        assert_eq!(live["data"], json!({"k": "v"}), "{manager}");
        assert_eq!(live["metadata"].get("annotations"), None, "{manager}");
        assert_eq!(bed.managers(CONFIG).await, ["muster-sync Apply"], "{manager}");
        assert_eq!(bed.applied(&wanted()).await[ID], Outcome::Unchanged, "{manager}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_kubectl_applied_server_side_goes() {
    let bed = Bed::new();
    bed.applied(&wanted()).await;
    let theirs = config_map("a", &json!({"k": "other", "theirs": "x"}));
    bed.apply_as("kubectl", CONFIG, &theirs).await;
    assert_eq!(bed.managers(CONFIG).await.len(), 2);
    assert_eq!(bed.applied(&wanted()).await[ID], Outcome::Configured);
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
    assert_eq!(bed.applied(&wanted()).await[ID], Outcome::Configured);
    assert_eq!(data(&bed).await, json!({"k": "v", "theirs": "x"}));
    assert_eq!(
        bed.managers(CONFIG).await,
        ["muster-sync Apply", "autoscaler Update"]
    );
}

/// A status is not ours to write, whoever writes it.
#[tokio::test(start_paused = true)]
async fn a_status_is_left_to_who_wrote_it() {
    const PATH: &str = "/apis/apps/v1/namespaces/default/deployments/d";
    let bed = Bed::new();
    let wanted = [deployment("d", "nginx")];
    bed.applied(&wanted).await;
    bed.edit(&format!("{PATH}/status"), json!({"status": {"replicas": 1}}))
        .await;
    assert_eq!(
        bed.applied(&wanted).await["Deployment/default/d"],
        Outcome::Unchanged
    );
    assert_eq!(
        bed.managers(PATH).await,
        ["muster-sync Apply", "kubectl-edit Update"]
    );
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_merge_keeps_what_they_added() {
    let merge = json!({"kustomize.toolkit.fluxcd.io/ssa": "Merge"});
    let mut asking = config_map("a", &json!({"k": "v"}));
    asking["metadata"]["annotations"] = merge.clone();
    let by_hand = json!({"data": {"k": "other", "theirs": "stays"}});
    let by_hand_with_wish =
        json!({"data": {"k": "other", "theirs": "stays"}, "metadata": {"annotations": merge}});
    let plain = config_map("a", &json!({"k": "v"}));
    for (manifest, edit) in [(asking, by_hand), (plain, by_hand_with_wish)] {
        let bed = Bed::new();
        bed.applied(std::slice::from_ref(&manifest)).await;
        bed.edit(CONFIG, edit).await;
        assert_eq!(
            bed.applied(std::slice::from_ref(&manifest)).await[ID],
            Outcome::Configured
        );
        assert_eq!(data(&bed).await, json!({"k": "v", "theirs": "stays"}));
        assert_eq!(bed.applied(&[manifest]).await[ID], Outcome::Unchanged);
    }
}

/// A client by which somebody writes to the object before each of the first `times` takeovers.
fn contested(bed: &Bed, times: usize) -> (kube::Client, Arc<AtomicUsize>) {
    let takeovers = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&takeovers);
    let client = hooked(bed.api.client(), move |request: Request<Body>, client| {
        let seen = Arc::clone(&seen);
        async move {
            let takeover = request
                .headers()
                .get(CONTENT_TYPE)
                .is_some_and(|kind| kind == "application/json-patch+json");
            if takeover && seen.fetch_add(1, Ordering::Relaxed) < times {
                let edit = json!({"data": {"n": seen.load(Ordering::Relaxed).to_string()}});
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
async fn a_takeover_that_comes_too_late_looks_again() {
    let bed = Bed::new();
    bed.applied(&wanted()).await;
    bed.edit(CONFIG, json!({"data": {"theirs": "x"}})).await;
    let (client, takeovers) = contested(&bed, 2);
    let bed = bed.through(client);
    assert_eq!(bed.applied(&wanted()).await[ID], Outcome::Configured);
    assert_eq!(takeovers.load(Ordering::Relaxed), 3);
    assert_eq!(data(&bed).await, json!({"k": "v"}));
}

#[tokio::test(start_paused = true)]
async fn who_is_always_faster_is_reported() {
    let bed = Bed::new();
    bed.applied(&wanted()).await;
    bed.edit(CONFIG, json!({"data": {"theirs": "x"}})).await;
    let (client, _) = contested(&bed, usize::MAX);
    let bed = bed.through(client);
    let error = bed.apply(&wanted()).await.unwrap_err();
    insta::assert_snapshot!(error, @"ConfigMap/default/a was changed by somebody else each time that its fields were to be taken over; it is tried again");
    let ApplyError::Objects { failures, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(failures[0].reason, "Conflict");
}

/// A refused object is not touched, not even its managers.
#[tokio::test(start_paused = true)]
async fn nothing_is_taken_over_before_the_dry_run_is_accepted() {
    let bed = Bed::new();
    bed.applied(&[deployment("d", "nginx")]).await;
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    bed.edit(path, json!({"metadata": {"labels": {"theirs": "x"}}}))
        .await;
    let before = bed.read(path).await;
    let mut invalid = deployment("d", "nginx");
    invalid["spec"]["replicas"] = json!(-1);
    bed.apply(&[invalid]).await.unwrap_err();
    assert_eq!(bed.read(path).await, before);
}

/// What a preview foretells of an object, and what comes true.
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

/// A preview knows of takeovers, defaults that the server gives anew and items of lists included.
#[tokio::test(start_paused = true)]
async fn a_preview_foretells_what_a_takeover_removes() {
    const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";
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
    // Made by kubectl: its defaults are its own.
    let bed = Bed::new();
    let mut made = deployment("d", "nginx:old");
    made["metadata"]["labels"] = json!({"dropped": "x"});
    made["metadata"]["annotations"] = json!({LAST_APPLIED: "{}"});
    let all = "/apis/apps/v1/namespaces/default/deployments";
    bed.create_as("kubectl-client-side-apply", all, &made).await;
    let (foretold, came) = foretold(&bed, DEPLOYMENT, &wanted).await;
    assert_eq!(foretold, came);
}
