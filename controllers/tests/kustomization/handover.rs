//! A cluster migrates from the built-in sync to Flux and back: no object is deleted, and no field survives the revision
//! that drops it.

use std::{collections::BTreeMap, time::Duration};

use muster_apiserver::{
    ApiServer,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::{Value, json};

use crate::support::{
    Bed, NS, config, ids, kubeconfig, kustomization, managers, message, ready, repository, until,
};

const FLUX: &str = "kustomize-controller";
/// The field manager of Flux's status writes.
const FLUX_STATUS: &str = "gotk-kustomize-controller";
const BY_US: &str = "muster-sync Apply";
const BY_FLUX: &str = "kustomize-controller Apply";

/// A manifest of a ConfigMap with these keys.
fn yaml(name: &str, keys: &[&str]) -> String {
    let data: Vec<String> = keys.iter().map(|key| format!("{key}: v")).collect();
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{{}}}\n",
        data.join(", ")
    )
}

/// The same as Flux applies it for a Kustomization.
fn by_flux(name: &str, keys: &[&str], owner: &str) -> Value {
    let data: serde_json::Map<String, Value> = keys.iter().map(|key| ((*key).into(), "v".into())).collect();
    let labels =
        json!({"kustomize.toolkit.fluxcd.io/name": owner, "kustomize.toolkit.fluxcd.io/namespace": NS});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": name, "namespace": "default", "labels": labels}})
}

/// The requests of muster to ConfigMaps since the recorder was cleared, as `<method> <name>`.
fn requests(api: &ApiServer) -> Vec<String> {
    let all = api.recorder().requests();
    let ours = all.iter().filter(|request| request.client == "muster");
    ours.filter_map(|request| {
        let (_, name) = request.path.split_once("/configmaps/")?;
        Some(format!("{} {name}", request.method))
    })
    .collect()
}

/// The notes of the events with this reason since the recorder was cleared, whether they still exist or not.
fn events(bed: &Bed, reason: &str) -> Vec<String> {
    let all: BTreeMap<String, String> = bed
        .api
        .recorder()
        .events()
        .iter()
        .map(muster_apiserver::record::EventRecord::object)
        .filter(|object| object["kind"] == "Event" && object["reason"] == reason)
        .map(|event| {
            [&event["metadata"]["name"], &event["message"]].map(|text| text.as_str().unwrap().to_owned())
        })
        .map(|[name, note]| (name, note))
        .collect();
    all.into_values().collect()
}

/// A bed in which the built-in sync has applied these ConfigMaps, each with two keys, and was ended.
async fn applied(names: &[&str], extra: Value) -> Bed {
    let mut bed = Bed::new();
    let files: Vec<(String, String)> = names
        .iter()
        .map(|name| (format!("app/{name}.yaml"), yaml(name, &["kept", "dropped"])))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let commit = bed.commit(&files);
    bed.deploy(extra).await;
    bed.until_at("app", &commit).await;
    bed.crash();
    bed.pass(Duration::from_secs(1)).await; // events at the same time would have the same name
    bed.api.recorder().clear();
    bed
}

#[tokio::test(start_paused = true)]
async fn what_the_built_in_sync_applied_is_handed_over_once_and_flux_removes_what_it_drops() {
    let mut bed = applied(&["a"], json!({})).await;
    let before = bed.read(&config("a")).await.unwrap();
    assert_eq!(managers(&before), [BY_US]);
    bed.start_with_flux();
    let after = bed
        .until(&config("a"), |object| managers(object) == [BY_FLUX])
        .await;
    assert_eq!(after["data"], json!({"kept": "v", "dropped": "v"}));
    assert_eq!(requests(&bed.api), ["GET a", "PATCH a"]);

    // Flux reconciles the Kustomization hour by hour; muster does not read the objects again, let alone write.
    for hour in 0..5 {
        let status = json!({"status": {"lastHandledReconcileAt": hour.to_string()}});
        bed.edit(
            &format!("{}/status?fieldManager={FLUX_STATUS}", kustomization("app")),
            status,
        )
        .await;
        bed.pass(Duration::from_hours(1)).await;
    }
    assert_eq!(requests(&bed.api), ["GET a", "PATCH a"]);
    let rest = bed.read(&config("a")).await.unwrap();
    assert_eq!(
        rest["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
    assert_eq!(
        events(&bed, "HandedOver"),
        ["what muster-sync applied to 1 object is now owned by kustomize-controller; nothing is left"]
    );

    let dropped = bed
        .apply_as(FLUX, &config("a"), by_flux("a", &["kept"], "app"))
        .await;
    assert_eq!(dropped["data"], json!({"kept": "v"}));
    assert_eq!(dropped["metadata"]["uid"], before["metadata"]["uid"]);

    // The next start checks again, and finds nothing to do.
    bed.api.recorder().clear();
    bed.start_with_flux();
    bed.pass(Duration::from_hours(5)).await;
    assert_eq!(requests(&bed.api), ["GET a"]);
    assert_eq!(events(&bed, "HandedOver"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_elsewhere_is_handed_over_there() {
    let mut bed = Bed::new();
    let there = ApiServer::builder().in_process().unwrap();
    bed.doors
        .open("https://eu-1.test", "t", there.client_as("muster"));
    let commit = bed.commit(&[("app/a.yaml", &yaml("a", &["kept", "dropped"]))]);
    let extra = json!({"kubeConfig": {"secretRef": {"name": "eu-1"}}});
    bed.secret("eu-1", json!({"value": kubeconfig("https://eu-1.test", "t")}))
        .await;
    bed.deploy(extra).await;
    bed.until_at("app", &commit).await;
    // The cluster is unreachable when the agent starts, and recovers.
    let id = there
        .faults()
        .add(Rule::always(Match::client("muster"), Fault::Refuse));
    bed.start_with_flux();
    bed.pass(Duration::from_mins(10)).await;
    there.faults().remove(id);
    until(&there, config("a"), |object| {
        object.filter(|object| managers(object) == [BY_FLUX]).map(|_| ())
    })
    .await;
    assert_eq!(
        events(&bed, "HandoverForbidden"),
        Vec::<String>::new(),
        "an unreachable cluster is not a request to delete"
    );
}

/// An object with the labels of another owner is not muster's to hand over, even if an inventory lists it.
#[tokio::test(start_paused = true)]
async fn a_foreign_object_is_left_as_it_is() {
    let mut bed = applied(&["a", "b", "c"], json!({})).await;
    let labels = |name: Value| json!({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": name}}});
    bed.edit(&config("b"), labels(json!("other"))).await;
    bed.edit(&config("c"), labels(Value::Null)).await;
    let foreign = [bed.read(&config("b")).await, bed.read(&config("c")).await];
    bed.start_with_flux();
    bed.until(&config("a"), |object| managers(object) == [BY_FLUX])
        .await;
    bed.pass(Duration::from_hours(2)).await;
    assert_eq!(
        [bed.read(&config("b")).await, bed.read(&config("c")).await],
        foreign
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_or_gone_holds_up_nothing_and_is_said_once() {
    let mut bed = applied(&["a", "b", "c", "d"], json!({})).await;
    bed.delete(&config("a")).await;
    let forbid = Match {
        path: Some("/configmaps/b".to_owned()),
        ..Match::client("muster")
    };
    let id = bed
        .api
        .faults()
        .add(Rule::always(forbid, Fault::Status(Failure::Forbidden)));
    bed.start_with_flux();
    for name in ["c", "d"] {
        bed.until(&config(name), |object| managers(object) == [BY_FLUX])
            .await;
    }
    bed.pass(Duration::from_hours(9)).await;
    insta::assert_snapshot!(events(&bed, "HandoverForbidden").join("\n"), @"HandoverForbidden: what muster-sync applied to 1 object cannot be handed over to Flux: fields that a later revision drops will stay. Grant the permission during the migration: kubectl create clusterrole muster-handover --verb=get,patch --resource='*.*'; kubectl create clusterrolebinding muster-handover --clusterrole=muster-handover --serviceaccount=muster-system:muster-agent; it is retried automatically within an hour, and at each start. ConfigMap/default/b reading it failed (Forbidden): forbidden by a fault rule");
    assert_eq!(
        events(&bed, "HandedOver"),
        [
            "what muster-sync applied to 2 objects is now owned by kustomize-controller; 1 object left, to be retried"
        ]
    );
    let sent = requests(&bed.api);
    let count = |wanted: &str| sent.iter().filter(|request| *request == wanted).count();
    assert_eq!([count("GET a"), count("GET c"), count("PATCH c")], [1, 1, 1]);
    assert!((2..20).contains(&count("GET b")), "{sent:?}");

    // The permission is granted for the time of the migration.
    bed.api.faults().remove(id);
    bed.until(&config("b"), |object| managers(object) == [BY_FLUX])
        .await;
    bed.pass(Duration::from_mins(1)).await;
    let notes = events(&bed, "HandedOver");
    assert_eq!(
        notes[1..],
        ["what muster-sync applied to 1 object is now owned by kustomize-controller; nothing is left"]
    );
    assert_eq!(events(&bed, "HandoverForbidden").len(), 1);
}

/// In a cluster that Flux has managed from the beginning, an agent without permissions has nothing to check.
#[tokio::test(start_paused = true)]
async fn handover_checks_nothing_in_a_cluster_that_only_flux_synced() {
    let mut bed = Bed::idle();
    left_by_flux(&bed, &bed.commit(&[("app/a.yaml", &yaml("a", &["kept"]))])).await;
    bed.start_with_flux();
    bed.pass(Duration::from_hours(2)).await;
    assert_eq!(requests(&bed.api), Vec::<String>::new());
    assert_eq!(events(&bed, "HandoverForbidden"), Vec::<String>::new());
}

/// What Flux leaves behind: a source whose artifact is in its storage, a Kustomization with its finalizer and status,
/// and objects: `a` with two keys, `gone`, which is not in the repository any more, and `foreign`, which belongs to
/// another owner by now.
async fn left_by_flux(bed: &Bed, commit: &str) {
    let finalizers = json!({"metadata": {"finalizers": ["finalizers.fluxcd.io"]}});
    bed.deploy(json!({})).await;
    let revision = format!("main@sha1:{commit}");
    let conditions = |message: &str| {
        json!([{"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2026-11-20T12:00:00Z"}])
    };
    bed.edit(&repository("src"), finalizers.clone()).await;
    let path = format!("gitrepository/{NS}/src/{commit}.tar.gz");
    let artifact = json!({"revision": revision, "digest": "sha256:00", "lastUpdateTime": "2026-11-20T12:00:00Z", "size": 7,
        "path": path, "url": format!("http://source-controller.flux-system.svc.cluster.local./{path}"), "metadata": {"a": "b"}});
    let status = json!({"status": {"observedGeneration": 1, "artifact": artifact, "conditions": conditions("stored artifact")}});
    bed.edit(
        &format!("{}/status?fieldManager=gotk-source-controller", repository("src")),
        status,
    )
    .await;
    for (name, keys, owner) in [
        ("a", &["kept", "dropped"][..], "app"),
        ("gone", &["kept"], "app"),
        ("foreign", &["kept"], "other"),
    ] {
        bed.apply_as(FLUX, &config(name), by_flux(name, keys, owner))
            .await;
    }
    bed.edit(&kustomization("app"), finalizers).await;
    let entries =
        ["gone", "foreign", "a"].map(|name| json!({"id": format!("default_{name}__ConfigMap"), "v": "v1"}));
    let history = json!([{"digest": "sha256:00", "firstReconciled": "2026-11-20T12:00:00Z", "lastReconciled": "2026-11-20T12:00:00Z",
        "lastReconciledDuration": "1s", "lastReconciledStatus": "ReconciliationSucceeded", "totalReconciliations": 3}]);
    let status = json!({"status": {"observedGeneration": 1, "lastAppliedRevision": revision, "lastAttemptedRevision": revision,
        "lastHandledReconcileAt": "then", "inventory": {"entries": entries}, "history": history,
        "conditions": conditions(&format!("Applied revision: {revision}"))}});
    bed.edit(
        &format!("{}/status?fieldManager={FLUX_STATUS}", kustomization("app")),
        status,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_built_in_sync_goes_on_from_what_flux_left() {
    let mut bed = Bed::idle();
    // A force push removed the commit that Flux was at: it cannot be fetched any more.
    left_by_flux(&bed, &"0".repeat(40)).await;
    let before = bed.read(&config("a")).await.unwrap();
    let commit = bed.commit(&[("app/a.yaml", &yaml("a", &["kept"]))]);
    bed.start();
    let object = bed.until_at("app", &commit).await;
    let after = bed.read(&config("a")).await.unwrap();
    assert_eq!(after["data"], json!({"kept": "v"}), "what was dropped is gone");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(managers(&after), [BY_US]);
    assert!(bed.read(&config("gone")).await.is_none(), "and pruned");
    assert!(bed.read(&config("foreign")).await.is_some());
    assert_eq!(ids(&object), ["default_a__ConfigMap"]);
    assert_eq!(
        bed.history("app"),
        [
            "True ReconciliationSucceeded",
            "Unknown Progressing",
            "True ReconciliationSucceeded"
        ],
        "an artifact of Flux does not count as fetched: no failure is reported meanwhile"
    );
    let source = bed.read(&repository("src")).await.unwrap();
    assert_eq!(
        source["status"]["artifact"]["revision"],
        format!("main@sha1:{commit}")
    );
    assert_eq!(source["status"]["artifact"]["url"], "");

    bed.api.recorder().clear();
    bed.pass(Duration::from_hours(5)).await;
    assert_eq!(bed.writes(), Vec::<String>::new(), "at rest nothing is written");
    // The built-in sync uses the same finalizer.
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&kustomization("app")).await;
    assert!(bed.read(&config("a")).await.is_none());
    assert!(bed.read(&config("foreign")).await.is_some());
    bed.delete(&repository("src")).await;
    bed.until_gone(&repository("src")).await;
}

/// A source that a user suspended is not fetched: its last revision is applied, from git and not from Flux's storage.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_suspended_stays_where_flux_was() {
    let mut bed = Bed::idle();
    let commit = bed.commit(&[("app/a.yaml", &yaml("a", &["kept"]))]);
    left_by_flux(&bed, &commit).await;
    bed.edit(&repository("src"), json!({"spec": {"suspend": true}}))
        .await;
    bed.commit(&[("app/a.yaml", &yaml("a", &["kept", "later"]))]);
    bed.start();
    bed.until(&config("a"), |object| object["data"] == json!({"kept": "v"}))
        .await;
    bed.until_at("app", &commit).await;
}

/// While git is unreachable nothing is deleted, and the status names what is missing.
#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_be_fetched_again_is_reported_and_nothing_is_touched() {
    let mut bed = Bed::idle();
    left_by_flux(&bed, &"0".repeat(40)).await;
    let before = bed.deployed().await;
    bed.start();
    let object = bed
        .until(&kustomization("app"), |object| {
            ready(object) == "False ArtifactFailed"
        })
        .await;
    let text = message(&object, "Ready");
    assert!(
        text.starts_with(&format!("Source artifact not found: GitRepository/{NS}/src: ")),
        "{text}"
    );
    bed.pass(Duration::from_hours(1)).await;
    assert_eq!(bed.deployed().await, before);
}
