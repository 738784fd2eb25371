//! Promise: a source that Flux reads is read and verified once, in the management cluster; that version is pinned, and
//! clusters get nothing else.

use std::time::Duration;

use kube::{
    Api, CustomResourceExt, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use muster_api::{Assemblage, Module, crds, flux::OciRepository, module::ModuleKind, names};
use muster_controllers::reconcile::SyncMode;
use serde_json::{Value, json};

use crate::bed::*;

const DIGEST: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const COMMIT: &str = "cccccccccccccccccccccccccccccccccccccccc";
/// How long nothing must happen.
const WATCHED: Duration = Duration::from_mins(20);

/// A fleet with `--sync flux`. Flux is simulated: the test writes the status of Flux's controllers.
async fn bed(controller: SyncMode) -> Bed {
    let kinds = |_: &str| {
        let mut kinds = crds::downstream();
        kinds.push(OciRepository::crd());
        kinds
    };
    let mut bed = Bed::with_kinds(&CLUSTERS, kinds).await;
    let definitions: Api<_> = Api::all(bed.management.client_as("test"));
    definitions
        .create(&PostParams::default(), &OciRepository::crd())
        .await
        .unwrap();
    bed.sync = SyncMode::Flux;
    for cluster in CLUSTERS {
        bed.crash_agent(cluster);
        bed.start_agent(cluster);
    }
    bed.sync = controller;
    bed.start_controller();
    bed
}

fn oci(tag: &str) -> Value {
    json!({"ociRepository": {
        "url": "oci://registry.test/shop",
        "ref": {"tag": tag},
        "secretRef": {"name": "registry"},
        "verify": {"provider": "cosign", "secretRef": {"name": "cosign"}},
    }})
}

fn git(tag: &str, mode: &str) -> Value {
    json!({"gitRepository": {
        "url": "https://git.test/shop",
        "ref": {"tag": tag},
        "verify": {"mode": mode, "secretRef": {"name": "keys"}},
    }})
}

/// A module whose source Flux reads, on all clusters at once.
fn module_of(source: &Value) -> Value {
    let mut object = module("web", "one", json!({"rollout": {"maxUnreadyClusters": 10}}));
    object["spec"]["sync"]["source"] = json!({"flux": source});
    object
}

fn sources(bed: &Bed, kind: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("source.toolkit.fluxcd.io", "v1", kind));
    Api::namespaced_with(bed.management.client_as("test"), NS, &kind)
}

fn source_name() -> String {
    names::module_source(ModuleKind::Module, NS, "web")
}

async fn source(bed: &Bed, kind: &str) -> Value {
    let api = sources(bed, kind);
    let object = bed
        .until(&format!("{kind} is there"), || async {
            api.get_opt(&source_name()).await.unwrap()
        })
        .await;
    serde_json::to_value(object).unwrap()
}

/// Writes the status of Flux's source-controller for the present object.
async fn set_source_status(bed: &Bed, kind: &str, ready: (&str, &str, &str), revision: Option<&str>) {
    let (status, reason, message) = ready;
    let api = sources(bed, kind);
    let generation = api.get(&source_name()).await.unwrap().metadata.generation;
    let mut source_status = json!({"conditions": [{
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "observedGeneration": generation, "lastTransitionTime": "1970-01-01T00:01:00Z",
    }]});
    if let Some(revision) = revision {
        source_status["observedGeneration"] = json!(generation);
        source_status["artifact"] =
            json!({"revision": revision, "lastUpdateTime": "1970-01-01T00:01:00Z", "path": "", "url": ""});
    }
    let patch = Patch::Merge(json!({"status": source_status}));
    api.patch_status(&source_name(), &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn stored(bed: &Bed, kind: &str, revision: &str) {
    set_source_status(
        bed,
        kind,
        ("True", "Succeeded", "stored artifact"),
        Some(revision),
    )
    .await;
}

async fn until_rows(bed: &Bed, commit: &str) {
    for cluster in CLUSTERS {
        bed.until(&format!("the row of {cluster} has {commit}"), || async {
            (bed.row(cluster, "web").await?["commit"] == commit).then_some(())
        })
        .await;
    }
}

/// Flux's source objects in a cluster.
async fn in_cluster(bed: &Bed, cluster: &str, kind: &str) -> Vec<Value> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("source.toolkit.fluxcd.io", "v1", kind));
    let api: Api<DynamicObject> =
        Api::namespaced_with(bed.clusters[cluster].client_as("test"), SYSTEM, &kind);
    let all = api.list(&ListParams::default()).await.unwrap();
    all.items
        .into_iter()
        .map(|object| serde_json::to_value(object).unwrap())
        .collect()
}

async fn message(bed: &Bed, reason: &str, words: &[&str]) {
    bed.until(&format!("the module says {reason} with {words:?}"), || async {
        let text = condition(&bed.module("web").await?, "Ready")?;
        let good =
            text.starts_with(&format!("False {reason}: ")) && words.iter().all(|word| text.contains(word));
        good.then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_tag_is_pinned_to_its_digest_and_moved_tags_are_only_reported() {
    let bed = bed(SyncMode::Flux).await;
    bed.create::<Module>(module_of(&oci("v1"))).await;
    let object = source(&bed, "OCIRepository").await;
    assert_eq!(object["spec"]["ref"], json!({"tag": "v1"}));
    assert_eq!(object["spec"]["verify"]["secretRef"]["name"], "cosign");
    assert_eq!(object["metadata"]["ownerReferences"][0]["name"], "web");
    message(&bed, "SourceNotReady", &["OCIRepository", "it is being fetched"]).await;
    assert_eq!(bed.row("eu-1", "web").await, None);

    stored(&bed, "OCIRepository", &format!("v1@sha256:{DIGEST}")).await;
    until_rows(&bed, DIGEST).await;
    let status = bed.module("web").await.unwrap()["status"]["source"].clone();
    assert_eq!(
        (&status["tag"], &status["commit"]),
        (&json!("v1"), &json!(DIGEST))
    );
    for cluster in CLUSTERS {
        let what = format!("Flux has the digest in {cluster}");
        let found = bed
            .until(&what, || async {
                in_cluster(&bed, cluster, "OCIRepository").await.pop()
            })
            .await;
        assert_eq!(
            found["spec"]["ref"],
            json!({"digest": format!("sha256:{DIGEST}")})
        );
        assert_eq!(found["spec"]["verify"]["provider"], "cosign");
        assert_eq!(found["spec"]["secretRef"], json!({"name": "registry"}));
    }

    stored(&bed, "OCIRepository", &format!("v1@sha256:{OTHER}")).await;
    bed.until("the tag is said to have moved", || async {
        let text = condition(&bed.module("web").await?, "TagMoved")?;
        text.contains(&OTHER[..8]).then_some(())
    })
    .await;
    pass(WATCHED).await;
    until_rows(&bed, DIGEST).await;
}

#[tokio::test(start_paused = true)]
async fn what_flux_does_not_verify_moves_nothing() {
    let bed = bed(SyncMode::Flux).await;
    bed.create::<Module>(module_of(&git("v1", "TagAndHEAD"))).await;
    source(&bed, "GitRepository").await;
    stored(&bed, "GitRepository", &format!("v1@sha1:{COMMIT}")).await;
    until_rows(&bed, COMMIT).await;
    let row = bed.row("eu-1", "web").await.unwrap();
    let verify = &row["source"]["flux"]["gitRepository"]["verify"];
    assert_eq!(verify["mode"], "HEAD", "a pinned commit has no tag");
    let found = bed
        .until("Flux has the commit", || async {
            in_cluster(&bed, "eu-1", "GitRepository").await.pop()
        })
        .await;
    assert_eq!(found["spec"]["ref"], json!({"commit": COMMIT}));
    assert_eq!(found["spec"]["verify"]["mode"], "HEAD");

    bed.patch(
        "web",
        json!({"spec": {"sync": {"source": {"flux": git("v2", "TagAndHEAD")}}}}),
    )
    .await;
    bed.until("Flux is asked for it", || async {
        let object = source(&bed, "GitRepository").await;
        (object["spec"]["ref"]["tag"] == "v2").then_some(())
    })
    .await;
    let refused = "unable to verify Git commit: no matching keys found";
    set_source_status(
        &bed,
        "GitRepository",
        ("False", "InvalidCommitSignature", refused),
        None,
    )
    .await;
    let words = [
        "GitRepository",
        refused,
        "since 1970-01-01T00:01:00Z",
        "kubectl -n",
        "last version: v1",
    ];
    message(&bed, "SourceNotReady", &words).await;
    pass(WATCHED).await;
    until_rows(&bed, COMMIT).await;
}

/// Flux compares only the mode: it would treat what it fetched before as verified by the new keys.
#[tokio::test(start_paused = true)]
async fn where_the_trusted_keys_change_the_version_is_verified_again() {
    let bed = bed(SyncMode::Flux).await;
    bed.create::<Module>(module_of(&git("v1", "HEAD"))).await;
    let before = source(&bed, "GitRepository").await["metadata"]["uid"].clone();
    stored(&bed, "GitRepository", &format!("v1@sha1:{COMMIT}")).await;
    until_rows(&bed, COMMIT).await;
    let mut other = git("v1", "HEAD");
    other["gitRepository"]["verify"]["secretRef"]["name"] = json!("keys-2");
    bed.patch("web", json!({"spec": {"sync": {"source": {"flux": other}}}}))
        .await;
    bed.until("another object asks for it", || async {
        let object = sources(&bed, "GitRepository")
            .get_opt(&source_name())
            .await
            .unwrap()?;
        (json!(object.metadata.uid) != before).then_some(())
    })
    .await;
    message(&bed, "SourceNotReady", &["it is being fetched"]).await;
    let object = source(&bed, "GitRepository").await;
    assert_eq!(object["spec"]["verify"]["secretRef"]["name"], "keys-2");
    until_rows(&bed, COMMIT).await;
    stored(&bed, "GitRepository", &format!("v1@sha1:{COMMIT}")).await;
    bed.until("it is pinned again", || async {
        let module = bed.module("web").await?;
        (condition(&module, "Ready")?
            .contains("SourceNotReady")
            .then_some(()))
        .is_none()
        .then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_is_reported_and_not_touched() {
    let bed = bed(SyncMode::Flux).await;
    let theirs = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
        "metadata": {"name": source_name()}, "spec": {"url": "oci://registry.test/theirs", "interval": "1m"},
    });
    let theirs: DynamicObject = serde_json::from_value(theirs).unwrap();
    let api = sources(&bed, "OCIRepository");
    let theirs = api.create(&PostParams::default(), &theirs).await.unwrap();
    bed.create::<Module>(module_of(&oci("v1"))).await;
    message(
        &bed,
        "SourceNotReady",
        &["exists and is not this module's", "rename or delete it"],
    )
    .await;
    stored(&bed, "OCIRepository", &format!("v1@sha256:{DIGEST}")).await;
    pass(WATCHED).await;
    assert_eq!(
        api.get(&source_name()).await.unwrap().data["spec"],
        theirs.data["spec"]
    );
    assert_eq!(bed.row("eu-1", "web").await, None);
}

#[tokio::test(start_paused = true)]
async fn the_object_goes_with_the_source_that_needed_it_and_at_rest_nothing_is_written() {
    let bed = bed(SyncMode::Flux).await;
    bed.create::<Module>(module_of(&oci("v1"))).await;
    source(&bed, "OCIRepository").await;
    stored(&bed, "OCIRepository", &format!("sha256:{DIGEST}")).await;
    until_rows(&bed, DIGEST).await;
    let patch = json!({"spec": {"sync": {"source": {"flux": {"ociRepository": null, "gitRepository": git("v1", "HEAD")["gitRepository"]}}}}});
    bed.patch("web", patch).await;
    source(&bed, "GitRepository").await;
    bed.until("the other is gone", || async {
        let gone = sources(&bed, "OCIRepository")
            .get_opt(&source_name())
            .await
            .unwrap();
        gone.is_none().then_some(())
    })
    .await;
    stored(&bed, "GitRepository", &format!("v1@sha1:{COMMIT}")).await;
    until_rows(&bed, COMMIT).await;
    pass(Duration::from_mins(5)).await;
    let before = sources(&bed, "GitRepository").get(&source_name()).await.unwrap();
    pass(Duration::from_hours(1)).await;
    let after = sources(&bed, "GitRepository").get(&source_name()).await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
}

#[tokio::test(start_paused = true)]
async fn without_flux_it_is_said_before_anything_is_written() {
    let bed = bed(SyncMode::Builtin).await;
    bed.create::<Module>(module_of(&oci("v1"))).await;
    message(
        &bed,
        "SyncUnsupported",
        &[
            "--sync flux",
            "spec.sync.source.git",
            "nothing was rolled out yet",
        ],
    )
    .await;
    pass(WATCHED).await;
    let all = sources(&bed, "OCIRepository")
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(all.items.len(), 0);
    assert_eq!(bed.row("eu-1", "web").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_branch_a_range_and_a_field_that_is_not_handed_through_are_refused_by_name() {
    let bed = bed(SyncMode::Flux).await;
    let with = |pointer: &str, value: Value| {
        let mut source = git("v1", "HEAD");
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        source.pointer_mut(parent).unwrap()[key] = value;
        source
    };
    for (index, (source, words)) in [
        (
            with("/gitRepository/ref", json!({"tag": "v1", "branch": "main"})),
            "is not an exact state",
        ),
        (
            with("/gitRepository/ref", json!({"tag": "v1", "semver": "1.x"})),
            "is not an exact state",
        ),
        (with("/gitRepository/include", json!([])), "not pinned"),
        (
            with("/gitRepository/certSecretRef", json!({})),
            "supported fields: url, ref",
        ),
        (with("/gitRepository/interval", json!("1m")), "package.interval"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("web-{index}");
        let mut object = module_of(&source);
        object["metadata"]["name"] = json!(name);
        bed.create::<Module>(object).await;
        bed.until(&format!("{source} is refused"), || async {
            let said = condition(&bed.module(&name).await?, "Stalled")?;
            said.contains(words).then_some(())
        })
        .await;
    }
    let all = sources(&bed, "GitRepository")
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(all.items.len(), 0);
}

/// The agent of one cluster runs with Flux, and is older than `source.flux`.
#[tokio::test(start_paused = true)]
async fn an_older_agent_gets_no_such_row_until_it_is_upgraded() {
    let mut bed = bed(SyncMode::Flux).await;
    bed.release("one", &["plain"], "one");
    bed.create::<Module>(module("plain", "one", json!({}))).await;
    let mirrors: Api<Assemblage> = Api::namespaced(bed.clusters["eu-1"].client_as("test"), SYSTEM);
    let mut agent = bed
        .until("the agent reports what it can", || async {
            mirrors.get_opt("eu-1").await.unwrap()?.status?.agent
        })
        .await;
    bed.crash_agent("eu-1");
    assert!(agent.features.remove("source.flux"), "{agent:?}");
    let patch = Patch::Merge(json!({"status": {"agent": agent}}));
    mirrors
        .patch_status("eu-1", &PatchParams::default(), &patch)
        .await
        .unwrap();

    bed.create::<Module>(module_of(&oci("v1"))).await;
    source(&bed, "OCIRepository").await;
    stored(&bed, "OCIRepository", &format!("v1@sha256:{DIGEST}")).await;
    bed.until("it is named, and the others have their rows", || async {
        let reasons = bed.module("web").await?["status"]["reasons"].clone();
        let reasons = reasons.as_array()?.iter();
        let group = reasons
            .filter(|group| group["reason"] == "SyncUnsupported")
            .map(Value::to_string)
            .next()?;
        let named = group.contains("eu-1") && group.contains("source.flux");
        let others = bed.row("eu-2", "web").await.is_some() && bed.row("us-1", "web").await.is_some();
        (named && others).then_some(())
    })
    .await;
    pass(WATCHED).await;
    assert_eq!(bed.row("eu-1", "web").await, None);
    bed.start_agent("eu-1");
    until_rows(&bed, DIGEST).await;
}
