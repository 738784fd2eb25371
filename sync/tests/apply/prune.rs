//! Objects that are no longer in the manifests are deleted, last stage first, and only if they are ours.

use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
    send,
};
use muster_sync::apply::Pruned;
use serde_json::{Value, json};

use crate::support::{Bed, config_map, hooked, namespace, pass, widget, widget_definition};

const CONFIG: &str = "/api/v1/namespaces/default/configmaps/a";

fn names(pruned: &Pruned) -> Value {
    let names =
        |ids: &[muster_sync::inventory::ObjectId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "gone": names(&pruned.gone),
        "released": names(&pruned.released),
        "waiting": names(&pruned.waiting),
        "blocked": names(&pruned.blocked),
        "failures": pruned.failures.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

#[track_caller]
fn check(pruned: &Pruned, expect: Value) {
    let mut all = json!({"gone": [], "released": [], "waiting": [], "blocked": [], "failures": []});
    all.as_object_mut()
        .unwrap()
        .extend(expect.as_object().unwrap().clone());
    assert_eq!(names(pruned), all);
}

#[tokio::test(start_paused = true)]
async fn the_last_stage_goes_first() {
    let bed = Bed::new();
    bed.applied(&[
        widget_definition("Namespaced"),
        widget("w", 1),
        config_map("stays", &json!({})),
    ])
    .await;
    bed.api.recorder().clear();
    let pruned = bed.prune(&[config_map("stays", &json!({}))]).await;
    let definition = "CustomResourceDefinition/widgets.example.org";
    // A definition is deleted after the server has checked for objects of its kind.
    check(
        &pruned,
        json!({"gone": ["Widget/default/w"], "waiting": [definition]}),
    );
    assert_eq!(
        bed.writes(),
        [
            "DELETE /apis/example.org/v1/namespaces/default/widgets/w",
            "DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org",
        ]
    );
    assert!(
        bed.read("/api/v1/namespaces/default/configmaps/stays")
            .await
            .is_some()
    );
    bed.until_gone("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org")
        .await;
    let pruned = bed.prune(&[config_map("stays", &json!({}))]).await;
    check(&pruned, json!({"gone": ["Widget/default/w", definition]}));
}

#[tokio::test(start_paused = true)]
async fn what_is_held_keeps_its_place_and_blocks_what_it_needs() {
    let bed = Bed::new();
    let mut held = config_map("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    bed.applied(&[namespace("made"), held]).await;
    let pruned = bed.prune(&[]).await;
    check(
        &pruned,
        json!({"waiting": ["ConfigMap/default/held"], "blocked": ["Namespace/made"]}),
    );
    bed.edit(
        "/api/v1/namespaces/default/configmaps/held",
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    let pruned = bed.prune(&[]).await;
    assert_eq!(names(&pruned)["gone"][0], "ConfigMap/default/held");
    assert_eq!(names(&pruned)["blocked"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn only_what_carries_our_labels_is_deleted() {
    let bed = Bed::new();
    bed.applied(&[config_map("taken", &json!({})), config_map("copied", &json!({}))])
        .await;
    let label = |name: &str| json!({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": name}}});
    bed.edit("/api/v1/namespaces/default/configmaps/taken", label("another"))
        .await;
    bed.edit(
        "/api/v1/namespaces/default/configmaps/copied",
        json!({"metadata": {"labels": null}}),
    )
    .await;
    check(
        &bed.prune(&[]).await,
        json!({"released": ["ConfigMap/default/taken", "ConfigMap/default/copied"]}),
    );
    assert!(
        bed.read("/api/v1/namespaces/default/configmaps/taken")
            .await
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn what_asks_to_stay_stays() {
    let bed = Bed::new();
    let asking = |name: &str, key: &str| {
        let mut object = config_map(name, &json!({}));
        object["metadata"]["annotations"] = json!({format!("kustomize.toolkit.fluxcd.io/{key}"): "disabled"});
        object
    };
    bed.applied(&[asking("a", "prune")]).await;
    check(
        &bed.prune(&[]).await,
        json!({"released": ["ConfigMap/default/a"]}),
    );
    assert!(bed.read(CONFIG).await.is_some());
}

/// An object that was annotated in the cluster later, so that it is left alone.
#[tokio::test(start_paused = true)]
async fn what_is_marked_in_the_cluster_stays() {
    for (key, value) in [
        ("reconcile", "disabled"),
        ("ssa", "Ignore"),
        ("prune", "disabled"),
    ] {
        let bed = Bed::new();
        bed.applied(&[config_map("a", &json!({}))]).await;
        let mark = json!({format!("kustomize.toolkit.fluxcd.io/{key}"): value});
        bed.edit(CONFIG, json!({"metadata": {"annotations": mark}})).await;
        check(
            &bed.prune(&[]).await,
            json!({"released": ["ConfigMap/default/a"]}),
        );
        assert!(bed.read(CONFIG).await.is_some(), "{key}: {value}");
    }
}

/// Another client deletes the object and creates one with the same name, between our read and our delete.
#[tokio::test(start_paused = true)]
async fn a_namesake_is_not_deleted() {
    let bed = Bed::new();
    bed.applied(&[config_map("a", &json!({"k": "ours"}))]).await;
    let client = hooked(bed.api.client(), |request, client| async move {
        if request.method() == http::Method::DELETE {
            send(&client, "DELETE", CONFIG, None).await.unwrap();
            let theirs = config_map("a", &json!({"k": "theirs"}));
            let path = "/api/v1/namespaces/default/configmaps";
            send(&client, "POST", path, Some(theirs)).await.unwrap();
        }
        pass(request, client).await
    });
    let bed = bed.through(client);
    check(
        &bed.prune(&[]).await,
        json!({"released": ["ConfigMap/default/a"]}),
    );
    assert_eq!(bed.read(CONFIG).await.unwrap()["data"]["k"], "theirs");
    let deleted = bed.api.recorder().requests();
    let refused = deleted.iter().filter(|request| request.code() == 409).count();
    assert_eq!(refused, 1, "by the uid");
}

/// When a Kustomization is deleted: everything in the inventory is deleted, and progress is reported until it is gone.
#[tokio::test(start_paused = true)]
async fn everything_goes_from_the_last_stage_to_the_first() {
    let bed = Bed::new();
    let mut inside = config_map("inside", &json!({}));
    inside["metadata"]["namespace"] = json!("made");
    bed.applied(&[
        namespace("made"),
        widget_definition("Namespaced"),
        widget("w", 1),
        inside,
    ])
    .await;
    let mut rounds = 0;
    while !bed.prune(&[]).await.is_complete() {
        rounds += 1;
        assert!(rounds < 10);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    let deletes: Vec<String> = bed
        .writes()
        .into_iter()
        .filter_map(|write| Some(write.strip_prefix("DELETE ")?.to_owned()))
        .collect();
    assert_eq!(
        deletes,
        [
            "/apis/example.org/v1/namespaces/default/widgets/w",
            "/api/v1/namespaces/made/configmaps/inside",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org",
            "/api/v1/namespaces/made",
        ]
    );
    assert!(bed.read("/api/v1/namespaces/made").await.is_none());
}

/// The recorded version is no longer served, but the object still exists.
#[tokio::test(start_paused = true)]
async fn an_object_is_found_in_another_version() {
    let bed = Bed::new();
    bed.applied(&[widget_definition("Namespaced"), widget("w", 1)])
        .await;
    let id = "default_w_example.org_Widget".parse().unwrap();
    let pruned = muster_sync::apply::prune(
        &bed.cluster,
        &bed.options.owner,
        &[(id, "v1alpha1".into())],
        &muster_sync::apply::Alone,
    )
    .await;
    check(&pruned, json!({"gone": ["Widget/default/w"]}));
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_already_is_gone() {
    let bed = Bed::new();
    bed.applied(&[
        widget_definition("Namespaced"),
        widget("w", 1),
        config_map("a", &json!({})),
    ])
    .await;
    bed.send("DELETE", "/api/v1/namespaces/default/configmaps/a", None)
        .await
        .unwrap();
    bed.send(
        "DELETE",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org",
        None,
    )
    .await
    .unwrap();
    bed.until_gone("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org")
        .await;
    let pruned = bed.prune(&[]).await;
    assert!(pruned.is_complete(), "{pruned:?}");
    assert_eq!(pruned.gone.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_reported_and_the_object_is_kept() {
    let bed = Bed::new();
    bed.applied(&[config_map("a", &json!({})), config_map("b", &json!({}))])
        .await;
    let matching = Match {
        verbs: vec![Verb::Delete],
        path: Some("configmaps/a".into()),
        ..Match::default()
    };
    bed.api
        .faults()
        .add(Rule::always(matching, Fault::Status(Failure::Forbidden)));
    let pruned = bed.prune(&[]).await;
    assert_eq!(names(&pruned)["gone"], json!(["ConfigMap/default/b"]));
    assert_eq!(pruned.failures[0].reason, "Forbidden");
}

/// A read that fails proves nothing.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_read_loses_nothing() {
    let bed = Bed::new();
    bed.applied(&[config_map("a", &json!({}))]).await;
    let unwanted = bed
        .ledger
        .recorded
        .lock()
        .pruned_by(&muster_sync::inventory::Inventory::default());
    let rule = bed.api.faults().add(Rule::always(
        Match::default(),
        Fault::Status(Failure::Unavailable),
    ));
    let pruned = muster_sync::apply::prune(
        &bed.cluster,
        &bed.options.owner,
        &unwanted,
        &muster_sync::apply::Alone,
    )
    .await;
    assert_eq!(pruned.settled().count(), 0);
    bed.api.faults().remove(rule);
    assert!(
        bed.read("/api/v1/namespaces/default/configmaps/a")
            .await
            .is_some()
    );
}
