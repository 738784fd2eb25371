//! A cluster can move between Flux and the built-in sync without an object being deleted, and without a removed field
//! surviving.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::{Request, header::CONTENT_TYPE};
use kube::client::Body;
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use muster_sync::{
    apply::{
        self, ApplyOutcome, HandedOver, Heir,
        preview::{self, Ownership},
    },
    inventory::ObjectId,
};
use serde_json::{Value, json};

use crate::support::{Bed, config_map, hooked, pass, widget_definition};

const FLUX: &str = "kustomize-controller";
const CONFIG: &str = "/api/v1/namespaces/default/configmaps/a";
const ID: &str = "ConfigMap/default/a";

/// A ConfigMap `a` as Flux applies it for the test Kustomization.
fn by_flux(data: &Value) -> Value {
    labelled(config_map("a", data), "app")
}

fn labelled(mut object: Value, kustomization: &str) -> Value {
    object["metadata"]["labels"] = json!({
        "kustomize.toolkit.fluxcd.io/name": kustomization, "kustomize.toolkit.fluxcd.io/namespace": "flux",
    });
    object
}

fn patches(bed: &Bed) -> usize {
    bed.writes()
        .iter()
        .filter(|write| write.starts_with("PATCH"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn what_flux_applied_goes_with_the_revision_that_drops_it() {
    let bed = Bed::new();
    let made = bed
        .apply_as(FLUX, CONFIG, &by_flux(&json!({"x": "1", "y": "1"})))
        .await;
    bed.edit_as("autoscaler", CONFIG, json!({"data": {"theirs": "1"}}))
        .await;
    let wanted = [config_map("a", &json!({"x": "1"}))];
    assert_eq!(bed.applied(&wanted).await[ID], ApplyOutcome::Configured);
    let live = bed.read(CONFIG).await.unwrap();
    assert_eq!(live["data"], json!({"x": "1", "theirs": "1"}));
    assert_eq!(live["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(
        bed.managers(CONFIG).await,
        ["muster-sync Apply", "autoscaler Update"]
    );
    bed.api.recorder().clear();
    assert_eq!(bed.applied(&wanted).await[ID], ApplyOutcome::Unchanged);
    assert_eq!(bed.writes(), Vec::<String>::new());
}

/// An object that is up to date except for its manager costs one write, and then none.
#[tokio::test(start_paused = true)]
async fn equal_content_is_handed_over_by_one_write() {
    let bed = Bed::new();
    let wanted = json!({"x": "1"});
    bed.apply_as(FLUX, CONFIG, &by_flux(&wanted)).await;
    let wanted = [config_map("a", &wanted)];
    let before = bed.read(CONFIG).await.unwrap();
    for (outcome, writes) in [(ApplyOutcome::Configured, 2), (ApplyOutcome::Unchanged, 1)] {
        bed.api.recorder().clear();
        assert_eq!(bed.applied(&wanted).await[ID], outcome);
        let dry = bed.api.recorder().requests().into_iter();
        let sent = dry.filter(|request| request.method == "PATCH").count();
        assert_eq!(sent, writes, "the handover and the dry run, or the dry run alone");
    }
    let after = bed.read(CONFIG).await.unwrap();
    assert_eq!(after["data"], before["data"]);
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(bed.managers(CONFIG).await, ["muster-sync Apply"]);
}

/// A field that conflicts with the manifest and is owned only by Flux is removed before the dry run.
#[tokio::test(start_paused = true)]
async fn a_field_that_excludes_another_one_is_no_obstacle() {
    const WIDGET: &str = "/apis/example.org/v1/namespaces/default/widgets/w";
    let bed = Bed::new();
    let mut definition = widget_definition("Namespaced");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "!has(self.x) || !has(self.y)", "message": "x excludes y"}]});
    bed.applied(&[definition]).await;
    let widget = |spec: Value| json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, "spec": spec});
    bed.apply_as(FLUX, WIDGET, &labelled(widget(json!({"y": 1})), "app"))
        .await;
    bed.applied(&[widget(json!({"x": 1}))]).await;
    assert_eq!(bed.read(WIDGET).await.unwrap()["spec"], json!({"x": 1}));
}

/// Nothing is taken over before an object has the labels of its owner.
#[tokio::test(start_paused = true)]
async fn what_flux_applied_for_another_kustomization_is_not_taken_over() {
    let bed = Bed::new();
    let theirs = labelled(config_map("a", &json!({"x": "1", "theirs": "1"})), "other");
    bed.apply_as(FLUX, CONFIG, &theirs).await;
    bed.applied(&[config_map("a", &json!({"x": "1"}))]).await;
    let live = bed.read(CONFIG).await.unwrap();
    assert_eq!(live["data"], json!({"x": "1", "theirs": "1"}));
    assert!(
        bed.managers(CONFIG)
            .await
            .contains(&"kustomize-controller Apply".to_owned())
    );
}

/// An object that is removed from git in the same revision as the move is pruned, by its labels, whichever manager
/// applied it.
#[tokio::test(start_paused = true)]
async fn what_flux_applied_is_pruned() {
    let bed = Bed::new();
    bed.apply_as(FLUX, CONFIG, &by_flux(&json!({"x": "1"}))).await;
    let id: ObjectId = "default_a__ConfigMap".parse().unwrap();
    let unwanted = [(id.clone(), "v1".to_owned())];
    let pruned = apply::prune(&bed.cluster, &bed.options.owner, &unwanted, &apply::Alone).await;
    assert_eq!(pruned.gone, [id]);
}

#[tokio::test(start_paused = true)]
async fn a_preview_foretells_what_a_handover_removes() {
    let bed = Bed::new();
    bed.apply_as(FLUX, CONFIG, &by_flux(&json!({"x": "1", "y": "1"})))
        .await;
    for (wanted, changes) in [(json!({"x": "1"}), 1), (json!({"x": "1", "y": "1"}), 0)] {
        let plan = bed.plan(&[config_map("a", &wanted)]).await;
        for ownership in [Ownership::OfPlan, Ownership::AsItIs] {
            bed.api.recorder().clear();
            let preview = preview::preview(&bed.cluster, &plan, ownership, &[]).await;
            assert_eq!(bed.writes(), Vec::<String>::new());
            assert_eq!(preview.failures, []);
            assert_eq!(preview.changes.len(), changes, "{ownership:?}");
            assert_eq!(preview.owned.len(), 1 - changes, "{ownership:?}");
            let after = preview.changes.into_iter().next();
            if let Some(after) = after.and_then(|change| change.after) {
                assert_eq!(after["data"], wanted);
            }
        }
    }
}

/// The objects of the test Kustomization, by name.
fn inventory_entries(names: &[&str]) -> Vec<(ObjectId, String)> {
    let id = |name: &&str| format!("default_{name}__ConfigMap").parse().unwrap();
    names.iter().map(|name| (id(name), "v1".to_owned())).collect()
}

async fn to_flux(bed: &Bed, objects: &[(ObjectId, String)]) -> HandedOver {
    apply::hand_over(&bed.cluster, &bed.options.owner, objects, Heir::Flux).await
}

#[tokio::test(start_paused = true)]
async fn what_we_applied_becomes_fluxs_by_one_write() {
    let bed = Bed::new();
    bed.applied(&[config_map("a", &json!({"x": "1", "y": "1"}))])
        .await;
    bed.edit_as("autoscaler", CONFIG, json!({"data": {"theirs": "1"}}))
        .await;
    let before = bed.read(CONFIG).await.unwrap();
    bed.api.recorder().clear();
    let handed = to_flux(&bed, &inventory_entries(&["a"])).await;
    assert_eq!((handed.objects.len(), handed.failures), (1, Vec::new()));
    assert_eq!(patches(&bed), 1);
    assert_eq!(
        bed.managers(CONFIG).await,
        ["kustomize-controller Apply", "autoscaler Update"]
    );
    let mut after = bed.read(CONFIG).await.unwrap();
    for field in ["managedFields", "resourceVersion"] {
        assert_ne!(after["metadata"][field], before["metadata"][field]);
        after["metadata"][field] = before["metadata"][field].clone();
    }
    assert_eq!(after, before, "nothing else changes");

    bed.api.recorder().clear();
    assert_eq!(
        to_flux(&bed, &inventory_entries(&["a"])).await,
        HandedOver::default()
    );
    assert_eq!(patches(&bed), 0, "there is nothing more to hand over");
    bed.apply_as(FLUX, CONFIG, &by_flux(&json!({"x": "1"}))).await;
    let live = bed.read(CONFIG).await.unwrap();
    assert_eq!(live["data"], json!({"x": "1", "theirs": "1"}));
}

/// Flux may write first: then its entry has the fields of both, and its next apply removes those that it does not have.
#[tokio::test(start_paused = true)]
async fn it_is_not_too_late_after_flux_has_applied() {
    let bed = Bed::new();
    bed.applied(&[config_map("a", &json!({"x": "1", "y": "1"}))])
        .await;
    let dropped = by_flux(&json!({"x": "1"}));
    let live = bed.apply_as(FLUX, CONFIG, &dropped).await;
    assert_eq!(live["data"], json!({"x": "1", "y": "1"}), "y is still ours");
    assert_eq!(to_flux(&bed, &inventory_entries(&["a"])).await.objects.len(), 1);
    assert_eq!(bed.managers(CONFIG).await, ["kustomize-controller Apply"]);
    let live = bed.apply_as(FLUX, CONFIG, &dropped).await;
    assert_eq!(live["data"], json!({"x": "1"}));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_foreign_absent_or_forbidden_holds_up_no_other() {
    let bed = Bed::new();
    let all = ["a", "foreign", "forbidden", "last"];
    let manifests = all.map(|name| config_map(name, &json!({"x": "1"})));
    bed.applied(&manifests).await;
    let foreign = "/api/v1/namespaces/default/configmaps/foreign";
    bed.edit(
        foreign,
        json!({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "other"}}}),
    )
    .await;
    let before = bed.read(foreign).await;
    let forbid = Match {
        verbs: vec![Verb::Patch],
        path: Some("/configmaps/forbidden".to_owned()),
        ..Match::default()
    };
    bed.api
        .faults()
        .add(Rule::always(forbid, Fault::Status(Failure::Forbidden)));
    let mut objects = inventory_entries(&["absent", "forbidden", "foreign", "a", "last"]);
    objects.insert(0, ("default_w_gone.org_Widget".parse().unwrap(), "v1".to_owned()));
    let handed = to_flux(&bed, &objects).await;
    let names: Vec<&str> = handed.objects.iter().map(|id| id.name.as_str()).collect();
    assert_eq!(names, ["a", "last"]);
    assert_eq!(bed.read(foreign).await, before);
    let [failure] = handed.failures.as_slice() else {
        panic!("{:?}", handed.failures)
    };
    insta::assert_snapshot!(failure, @"ConfigMap/default/forbidden handing it over failed (Forbidden): forbidden by a fault rule");
}

/// A client for which the object changes before each of the first `times` handovers.
fn contested(bed: &Bed, times: usize) -> (kube::Client, Arc<AtomicUsize>) {
    let tries = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&tries);
    let client = hooked(bed.api.client(), move |request: Request<Body>, client| {
        let counter = Arc::clone(&counter);
        async move {
            let handover = request
                .headers()
                .get(CONTENT_TYPE)
                .is_some_and(|kind| kind == "application/json-patch+json");
            if handover && counter.fetch_add(1, Ordering::Relaxed) < times {
                let edit = json!({"data": {"n": counter.load(Ordering::Relaxed).to_string()}});
                let edit = http::Request::patch(format!("{CONFIG}?fieldManager=autoscaler"))
                    .header(CONTENT_TYPE, "application/merge-patch+json")
                    .body(edit.to_string().into_bytes())
                    .unwrap();
                client.request::<Value>(edit).await?;
            }
            pass(request, client).await
        }
    });
    (client, tries)
}

#[tokio::test(start_paused = true)]
async fn a_handover_that_loses_a_race_reads_again_in_either_direction() {
    for heir in [Heir::Flux, Heir::Builtin] {
        let bed = Bed::new();
        let wanted = [config_map("a", &json!({"x": "1"}))];
        match heir {
            Heir::Flux => drop(bed.applied(&wanted).await),
            Heir::Builtin => drop(bed.apply_as(FLUX, CONFIG, &by_flux(&json!({"x": "1"}))).await),
        }
        let (client, tries) = contested(&bed, 2);
        let bed = bed.through(client);
        let to = match heir {
            Heir::Flux => {
                assert_eq!(to_flux(&bed, &inventory_entries(&["a"])).await.objects.len(), 1);
                "kustomize-controller Apply"
            }
            Heir::Builtin => {
                assert_eq!(bed.applied(&wanted).await[ID], ApplyOutcome::Configured);
                "muster-sync Apply"
            }
        };
        assert_eq!(tries.load(Ordering::Relaxed), 3);
        assert_eq!(bed.managers(CONFIG).await, [to, "autoscaler Update"]);
        let live = bed.read(CONFIG).await.unwrap();
        assert_eq!(
            live["data"],
            json!({"x": "1", "n": "2"}),
            "what was written between stays"
        );
    }
}
