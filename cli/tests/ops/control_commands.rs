//! Promise: a user's control is written for exactly the object that it is meant for, and is reported as soon as it is
//! done.

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use muster_api::labels::label;
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::{Value, json};

use crate::bed::{Bed, create};

const GROUP: &str = "fleet.muster.dev/v1alpha1";
const CLUSTERS: &str = "cluster.x-k8s.io/v1beta2";

fn module(kind: &str, name: &str) -> Value {
    let source = json!({"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}});
    json!({"apiVersion": GROUP, "kind": kind, "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {}, "sync": {"source": source}}})
}

/// A module `web` with one revision, `aaaa…`, and a cluster `eu-1`.
async fn bed() -> Bed {
    let bed = Bed::new().await;
    let client = bed.management.client();
    create(&client, module("Module", "web")).await;
    create(
        &client,
        json!({"apiVersion": GROUP, "kind": "ModuleRevision",
            "metadata": {"name": "web-a", "namespace": "default", "labels": {label::MODULE: "web", label::MODULE_KIND: "Module"}},
            "spec": {"moduleRef": {"kind": "Module", "name": "web"}, "revision": "a".repeat(64), "commit": "a".repeat(40),
                "sync": {"source": {"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}}}}}),
    )
    .await;
    create(
        &client,
        json!({"apiVersion": CLUSTERS, "kind": "Cluster", "metadata": {"name": "eu-1", "namespace": "default"}}),
    )
    .await;
    bed
}

fn api(bed: &Bed, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(bed.management.client(), "default", &resource)
}

fn modules(bed: &Bed) -> Api<DynamicObject> {
    api(bed, GROUP, "Module")
}

fn clusters(bed: &Bed) -> Api<DynamicObject> {
    api(bed, CLUSTERS, "Cluster")
}

/// The value of an annotation, given without muster's prefix.
async fn annotation(objects: &Api<DynamicObject>, name: &str, key: &str) -> Option<String> {
    let object = objects.get(name).await.unwrap();
    object
        .annotations()
        .get(&format!("fleet.muster.dev/{key}"))
        .cloned()
}

async fn annotate(objects: &Api<DynamicObject>, name: &str, key: &str, text: &str) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {format!("fleet.muster.dev/{key}"): text}}}));
    objects
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

const OVER: &str = r#"{"for": "eu-1", "until": "2020-01-01T00:00:00Z"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn only_a_revision_that_there_is_is_aborted_or_tried_again() {
    let bed = bed().await;
    for (verb, key) in [("abort", "abort"), ("retry", "retry")] {
        for typo in ["ffffffff", "v1"] {
            let words = format!("rollout {verb} module/web --revision {typo}");
            let output = bed.types(&words, 2).await;
            assert!(output.contains("muster rollout history module/web"), "{output}");
        }
        assert_eq!(annotation(&modules(&bed), "web", key).await, None);
        let words = format!("rollout {verb} module/web --revision AAAAAAAA");
        let output = bed.types(&words, 0).await;
        assert!(output.contains("revision aaaaaaaaaaaaaaaa "), "{output}");
        let written = annotation(&modules(&bed), "web", key).await.unwrap();
        assert!(written.contains(r#""for":"aaaaaaaaaaaaaaaa""#), "{written}");
    }
}

/// The withdrawal that the brake holds, as the controller reports it for two clusters.
async fn holds_a_withdrawal(bed: &Bed, clusters: &[&str]) {
    let message = "2 clusters would be withdrawn at once, more than rollout.withdraw.brake allows; nothing is withdrawn until this is \
                   acknowledged: kubectl annotate --namespace default --field-manager=muster-cli module/web --overwrite \
                   fleet.muster.dev/acknowledge-withdrawal=0a1b2c3d";
    let attention: Vec<Value> = clusters
        .iter()
        .map(|cluster| json!({"cluster": cluster, "reason": "WithdrawalHeld", "message": message}))
        .collect();
    let generation = modules(bed).get("web").await.unwrap().metadata.generation;
    let ready = json!({"type": "Ready", "status": "False", "reason": "WithdrawalHeld", "message": format!("being deleted: {message}"),
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status =
        json!({"status": {"observedGeneration": generation, "conditions": [ready], "attention": attention}});
    modules(bed)
        .patch_status("web", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_held_withdrawal_is_shown_before_it_is_acknowledged() {
    const KEY: &str = "acknowledge-withdrawal";
    let bed = bed().await;
    let client = bed.management.client();
    for cluster in ["eu-2", "us-1"] {
        create(
            &client,
            json!({"apiVersion": CLUSTERS, "kind": "Cluster", "metadata": {"name": cluster, "namespace": "default"}}),
        )
        .await;
    }
    holds_a_withdrawal(&bed, &[]).await;
    let output = bed.types("rollout withdraw module/web --acknowledge", 1).await;
    assert!(
        output.contains("no withdrawal of module/web is held: nothing was written"),
        "{output}"
    );
    assert_eq!(annotation(&modules(&bed), "web", KEY).await, None);

    // It is being deleted, and waits.
    let finalizer = json!({"metadata": {"finalizers": ["fleet.muster.dev/module"]}});
    modules(&bed)
        .patch("web", &PatchParams::default(), &Patch::Merge(finalizer))
        .await
        .unwrap();
    modules(&bed)
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    let output = bed.types("rollout withdraw module/web --acknowledge", 2).await;
    assert!(
        output.contains("has not observed this change of the module yet"),
        "{output}"
    );
    holds_a_withdrawal(&bed, &["eu-1", "eu-2"]).await;

    let verb = "muster rollout withdraw module/web --acknowledge -n default";
    let output = bed.types("rollout withdraw module/web", 0).await;
    for words in [
        "module/web is being deleted; 2 of 2 clusters would lose it (eu-1, eu-2); nothing is withdrawn until you acknowledge it",
        &format!("to remove it from these clusters:\n  {verb}\n"),
        "and put the module back in git, which takes them over:\n  kubectl patch -n default module/web ",
    ] {
        assert!(output.contains(words), "{words}: {output}");
    }
    for words in ["why module/web", "tree", "rollout status module/web --no-watch"] {
        let code = i32::from(words.ends_with("--no-watch"));
        let output = bed.types(words, code).await;
        assert!(
            output.contains(verb) && !output.contains("kubectl annotate"),
            "{words}: {output}"
        );
    }
    let output = bed
        .types("rollout withdraw module/web --acknowledge --dry-run", 0)
        .await;
    assert!(
        output.contains("withdrawal from eu-1, eu-2 acknowledged (dry run)"),
        "{output}"
    );
    assert_eq!(annotation(&modules(&bed), "web", KEY).await, None);

    let words = "rollout withdraw module/web --acknowledge --reason over";
    let output = bed.types(words, 0).await;
    assert!(
        output.contains("withdrawal from eu-1, eu-2 acknowledged"),
        "{output}"
    );
    let written: Value =
        serde_json::from_str(&annotation(&modules(&bed), "web", KEY).await.unwrap()).unwrap();
    assert_eq!(
        (&written["for"], &written["reason"]),
        (&json!("0a1b2c3d"), &json!("over"))
    );
    assert!(
        written["by"].is_string() && written["at"].is_string(),
        "{written}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_result_is_reported_even_if_other_objects_cannot_be_read() {
    let bed = bed().await;
    let lists = Match {
        verbs: vec![Verb::List],
        ..Match::default()
    };
    let forbidden = Rule::always(lists, Fault::Status(Failure::Forbidden));
    bed.management.faults().add(forbidden);
    let output = bed.types("rollout pause module/web", 0).await;
    assert!(
        output.contains("module.fleet.muster.dev/web paused")
            && output.contains("warning: which clusters wait for it is not known")
            && output.contains("muster rollout resume module/web"),
        "{output}"
    );
    bed.types("hold eu-1", 0).await;
    let output = bed.types("release eu-1", 0).await;
    assert!(
        output.contains("eu-1 released")
            && output.contains("warning: whether a module still holds it is not known"),
        "{output}"
    );
    annotate(&clusters(&bed), "eu-1", "pin.gone", "aaaaaaaa").await;
    let output = bed.types("unpin eu-1 --module gone", 0).await;
    assert!(
        output.contains("eu-1 unpinned") && !output.contains("error"),
        "{output}"
    );
    assert_eq!(annotation(&clusters(&bed), "eu-1", "pin.gone").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_over_holds_and_pins_nothing() {
    let bed = bed().await;
    let (modules, clusters) = (modules(&bed), clusters(&bed));
    for (hold, is_held) in [(OVER, false), ("false", false), ("true", true), ("{broken", true)] {
        annotate(&clusters, "eu-1", "hold", hold).await;
        let output = bed.types("pin eu-1 --module web --revision aaaaaaaa", 0).await;
        assert_eq!(output.contains("It is also held"), is_held, "{hold}: {output}");
    }
    let over = OVER.replace("eu-1", "eu-1@aaaaaaaa");
    for (pin, code) in [(over.as_str(), 0), ("{broken", 0), ("eu-1@aaaaaaaa", 1)] {
        annotate(&modules, "web", "pin", pin).await;
        bed.types("unpin eu-1 --module web", code).await;
    }
    for (hold, code) in [(OVER, 0), ("{broken", 0), ("eu-1", 1)] {
        annotate(&modules, "web", "hold", hold).await;
        bed.types("release eu-1", code).await;
    }
}

/// The annotation of a Cluster does not name a kind: both modules of that name would obey it.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_pin_that_two_modules_would_obey_is_not_written() {
    let bed = bed().await;
    create(&bed.management.client(), module("BootstrapModule", "web")).await;
    let output = bed.types("pin eu-1 --module web --revision aaaaaaaa", 2).await;
    assert!(
        output.contains("module/web and bootstrapmodule/web both obey")
            && output.contains("module/web fleet.muster.dev/pin=eu-1@aaaaaaaaaaaaaaaa"),
        "{output}"
    );
    assert_eq!(annotation(&clusters(&bed), "eu-1", "pin.web").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_name_that_is_not_there_is_answered_with_those_that_are_near() {
    let bed = bed().await;
    for (words, near) in [
        ("reconcile module/wep", "(did you mean web?)"),
        ("rollout pause module/wep", "(did you mean web?)"),
        ("rollout history module/wep", "(did you mean web?)"),
        ("hold eu1", "(did you mean eu-1?)"),
        ("unpin eu1 --module web", "(did you mean eu-1?)"),
    ] {
        let output = bed.types(words, 2).await;
        assert!(output.contains(near), "{words}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_not_there_is_said_in_the_same_words_by_every_verb() {
    let bed = bed().await;
    bed.until("every kind is served", async || {
        bed.muster("get all").await.code == Some(0)
    })
    .await;
    let no_module = "there is no module/wep in namespace default: see muster get modules -n default, or name another with -n (did you mean web?)";
    let no_cluster = "there is no cluster eu-2 in namespace default (did you mean eu-1?): see muster get clusters -n default";
    let is_cluster = "there is no module/eu-1 in namespace default; eu-1 is a cluster: muster tree cluster/eu-1 -n default";
    let other_kind = "there is no bootstrapmodule/web in namespace default; there is module/web";
    let is_module = "there is no cluster web in namespace default; web is a module: ";
    for (words, expected, next) in [
        ("why wep", no_module, ""),
        ("tree wep", no_module, ""),
        ("reconcile wep", no_module, ""),
        ("rollout status module/wep", no_module, ""),
        ("rollout pause wep", no_module, ""),
        ("rollout history wep", no_module, ""),
        ("diff module/wep", no_module, ""),
        ("tree cluster/eu-2", no_cluster, ""),
        ("why web --cluster eu-2", no_cluster, ""),
        ("hold eu-2", no_cluster, ""),
        ("hold module/web --clusters eu-2", no_cluster, ""),
        ("why bootstrapmodule/web", other_kind, ""),
        ("rollout pause bootstrapmodule/web", other_kind, ""),
        ("why eu-1", is_cluster, ""),
        ("tree eu-1", is_cluster, ""),
        ("rollout pause eu-1", is_cluster, ""),
        (
            "hold web",
            is_module,
            "muster hold module/web --clusters CLUSTERS -n default",
        ),
        ("release web", is_module, "muster release module/web -n default"),
        ("tree cluster/web", is_module, "muster tree module/web -n default"),
        (
            "unpin web --module web",
            is_module,
            "muster tree module/web -n default",
        ),
    ] {
        let output = bed.types(words, 2).await;
        assert!(output.contains(&format!("{expected}{next}")), "{words}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_pin_names_a_version_and_goes_without_its_module() {
    let bed = bed().await;
    let clusters = clusters(&bed);
    let output = bed.types("pin eu-1 --module web --revision v9", 2).await;
    assert!(
        output.contains(
            "there is no revision or version v9 of module/web; there are v1 (aaaaaaaa); next: muster rollout history module/web"
        ),
        "{output}"
    );
    assert_eq!(annotation(&clusters, "eu-1", "pin.web").await, None);
    let output = bed.types("pin eu-1 --module web --revision v1", 0).await;
    assert!(
        output.contains("pinned to v1 (revision aaaaaaaa) of module/web"),
        "{output}"
    );
    let written = annotation(&clusters, "eu-1", "pin.web").await.unwrap();
    assert!(written.contains(r#""for":"aaaaaaaaaaaaaaaa""#), "{written}");

    annotate(&clusters, "eu-1", "pin.base", "aaaaaaaa").await;
    let output = bed.types("unpin eu-1", 2).await;
    assert!(
        output.contains(
            "eu-1 is pinned for base, web; next: name one, such as muster unpin eu-1 --module base"
        ),
        "{output}"
    );
    assert!(annotation(&clusters, "eu-1", "pin.web").await.is_some());
    bed.types("unpin eu-1 --module base", 0).await;
    let output = bed.types("unpin eu-1", 0).await;
    assert!(output.contains("eu-1 unpinned"), "{output}");
    assert_eq!(annotation(&clusters, "eu-1", "pin.web").await, None);
    let output = bed.types("unpin eu-1", 0).await;
    assert!(output.contains("eu-1 is not pinned"), "{output}");
    annotate(&modules(&bed), "web", "pin", "eu-1@aaaaaaaa").await;
    let output = bed.types("unpin eu-1", 1).await;
    assert!(
        output.contains("It stays pinned by the annotation fleet.muster.dev/pin of module/web"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_dry_run_asks_the_api_server_only_where_that_is_said() {
    let bed = bed().await;
    for (words, expected, is_sent) in [
        ("hold eu-1 --dry-run", "held by", false),
        ("hold eu-1 --dry-run=server", "(server dry run)", true),
        ("rollout pause module/web --dry-run", "(dry run)", false),
        (
            "rollout pause module/web --dry-run=server",
            "(server dry run)",
            true,
        ),
    ] {
        bed.management.recorder().clear();
        let output = bed.types(words, 0).await;
        assert!(output.contains(expected), "{words}: {output}");
        let requests = bed.management.recorder().requests();
        let mut patches = requests
            .iter()
            .filter(|request| request.verb == Some(Verb::Patch));
        assert_eq!(patches.next().is_some(), is_sent, "{words}");
        assert!(
            requests
                .iter()
                .all(|request| !request.is_write() || request.path.contains("selfsubject")),
            "{words}"
        );
    }
    assert_eq!(annotation(&clusters(&bed), "eu-1", "hold").await, None);
    assert_eq!(annotation(&modules(&bed), "web", "paused").await, None);
}
