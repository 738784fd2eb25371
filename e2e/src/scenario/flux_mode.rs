//! Promise: with `source.flux` and `package.flux` muster rolls out what Flux fetches and builds, at a revision that is
//! pinned once: neither a tag that moves nor a version that Flux does not verify changes any cluster.

use std::time::Duration;

use base64::Engine as _;
use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::CLUSTERS;
use crate::{
    bed::{Bed, Cosign, Ground, Registry, Signer, kinds},
    fleet::{APPS, Quality, ROLLED, condition, manifests, status_text, workload},
    sops,
};

/// The repository of the module's artifacts.
const REPOSITORY: &str = "fleet/web";
/// Maximum time of a version over all clusters, with two fetches and a health check each.
const FLUX: Duration = Duration::from_mins(2);

/// An artifact given by its tag is in every cluster by its digest; when the tag moves, even to another media type, this
/// is only reported; the next tag rolls out.
pub async fn an_oci_tag_is_pinned(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    let registry = bed.registry().await;
    give_all(&bed, &registry.certificate_secret("registry")).await;
    let first = push(&registry, "web-v1", "web-v1");
    create(&bed, &artifact(&registry, "web-v1"), "web-v1").await;
    bed.until_ready_within(kinds::MODULE, "web", "web-v1", FLUX).await;
    assert_eq!(bed.order(&workload("web"), "web-v1"), CLUSTERS);
    assert_eq!(digests(&bed).await, vec![first.clone(); CLUSTERS.len()]);

    // The tag now points at a chart, which has another media type.
    let chart = manifests("web", "web-moved", Quality::Good);
    let (group, name) = REPOSITORY.split_once('/').unwrap();
    let moved = registry.push_chart(group, name, "web-v1", &[("templates/all.yaml", &chart)]);
    assert_ne!(moved, first);
    let digits = moved.trim_start_matches("sha256:").get(..8).unwrap().to_owned();
    let poll = async || {
        let module = bed.module("web").await;
        let message = condition(&module, "TagMoved").and_then(|moved| moved["message"].as_str());
        if message.is_some_and(|message| message.contains(&digits)) {
            Ok(())
        } else {
            Err(status_text(&module))
        }
    };
    // Flux resolves the tag again every minute.
    bed.wait_until("the module reports that the tag moved", FLUX, poll)
        .await;
    assert_eq!(digests(&bed).await, vec![first; CLUSTERS.len()]);

    let second = push(&registry, "web-v2", "web-v2");
    retarget(&bed, json!({"ociRepository": {"ref": {"tag": "web-v2"}}})).await;
    bed.until_ready_within(kinds::MODULE, "web", "web-v2", FLUX).await;
    assert_eq!(bed.order(&workload("web"), "web-v2"), CLUSTERS);
    assert!(digests(&bed).await.iter().all(|digest| *digest == second));
    assert_eq!(bed.order(&workload("web"), "web-moved"), <[&str; 0]>::default());
    assert_eq!(bed.most_changing(&workload("web")), 1);
    let premature = bed.premature_claims("web");
    assert!(premature.is_empty(), "{premature:#?}");
}

/// Patches, images, labels and decryption of `package.flux` are in every cluster; a changed patch alone is a new
/// revision that rolls out cluster by cluster.
pub async fn patched_and_decrypted(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    for cluster in CLUSTERS {
        bed.inside(cluster, SYSTEM_NAMESPACE)
            .create(kinds::SECRET, sops::key_secret("age"))
            .await;
    }
    bed.git.commit(&[
        ("apps/web/all.yaml", &manifests("web", "base", Quality::Good)),
        ("apps/web/secret.yaml", sops::SECRET),
    ]);
    bed.git.tag("web-v1");
    let mut spec = bed.spec("web", "web-v1");
    spec["sync"]["package"]["targetNamespace"] = json!(APPS);
    spec["sync"]["package"]["flux"] = with_replicas(2);
    bed.fleet()
        .create(kinds::MODULE, json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
    bed.until_ready_within(kinds::MODULE, "web", "web-v1", FLUX).await;
    for cluster in CLUSTERS {
        let inside = bed.inside(cluster, APPS);
        let deployment = inside.get(kinds::DEPLOYMENT, "web").await.unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "example.com/mirror:web-v1", "{cluster}");
        assert_eq!(deployment["spec"]["replicas"], 2, "{cluster}");
        assert_eq!(deployment["metadata"]["labels"]["team"], "web", "{cluster}");
        let secret = inside.get(kinds::SECRET, sops::NAME).await.unwrap();
        let value = secret["data"][sops::KEY].as_str().unwrap();
        let value = base64::engine::general_purpose::STANDARD.decode(value).unwrap();
        assert_eq!(String::from_utf8(value).unwrap(), sops::PLAIN, "{cluster}");
    }

    let before = bed.module("web").await["status"]["revision"].clone();
    let patch = json!({"spec": {"sync": {"package": {"flux": with_replicas(3)}}}});
    bed.fleet().patch(kinds::MODULE, "web", patch).await;
    let poll = async || {
        let module = bed.module("web").await;
        let mut clusters = Vec::new();
        for cluster in CLUSTERS {
            let deployment = bed
                .inside(cluster, APPS)
                .get(kinds::DEPLOYMENT, "web")
                .await
                .unwrap();
            clusters.push(deployment["status"]["readyReplicas"].clone());
        }
        let done = module["status"]["revision"] != before
            && condition(&module, "Ready").is_some_and(|ready| ready["status"] == "True")
            && clusters == [json!(3), json!(3), json!(3)];
        if done {
            Ok(())
        } else {
            Err(format!("{clusters:?} {}", status_text(&module)))
        }
    };
    bed.wait_until("three replicas are everywhere", FLUX, poll).await;
    assert_eq!(bed.most_changing(&workload("web")), 1);
}

/// Over ssh, with signed tags: version 2 is not signed and changes no cluster; version 3 is signed, and rolls out.
pub async fn a_signature_that_fails_moves_nothing(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    let Some((ssh, signer)) = bed.git_over_ssh().zip(Signer::new("Ann")) else {
        return;
    };
    give_all(&bed, &ssh.secret("ssh", &ssh.known_hosts())).await;
    // The trusted keys are only where versions are pinned.
    bed.fleet().create(kinds::SECRET, signer.secret("signers")).await;
    let commit = |version: &str| {
        let text = manifests("web", version, Quality::Good);
        bed.git.commit(&[("apps/web/all.yaml", &text)])
    };
    commit("web-v1");
    bed.git.tag_signed(&signer, "web-v1");
    let source = json!({"gitRepository": {
        "url": ssh.url(), "ref": {"tag": "web-v1"}, "secretRef": {"name": "ssh"},
        "verify": {"mode": "Tag", "secretRef": {"name": "signers"}},
    }});
    create(&bed, &source, "web-v1").await;
    bed.until_ready_within(kinds::MODULE, "web", "web-v1", FLUX).await;
    assert_eq!(bed.order(&workload("web"), "web-v1"), CLUSTERS);

    commit("web-v2");
    bed.git.tag("web-v2");
    retarget(&bed, json!({"gitRepository": {"ref": {"tag": "web-v2"}}})).await;
    until_refused(&bed, "signature").await;
    assert_eq!(bed.module("web").await["status"]["source"]["tag"], "web-v1");

    commit("web-v3");
    bed.git.tag_signed(&signer, "web-v3");
    retarget(&bed, json!({"gitRepository": {"ref": {"tag": "web-v3"}}})).await;
    bed.until_ready_within(kinds::MODULE, "web", "web-v3", FLUX).await;
    assert_eq!(bed.order(&workload("web"), "web-v3"), CLUSTERS);
    assert_eq!(bed.order(&workload("web"), "web-v2"), <[&str; 0]>::default());
}

/// An artifact is verified where it is pinned and again in each cluster: version 2, signed by an untrusted key, changes
/// no cluster; version 3 rolls out.
pub async fn an_artifact_is_verified_by_cosign(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    let registry = bed.registry().await;
    let (trusted, another) = (Cosign::default(), Cosign::default());
    give_all(&bed, &registry.certificate_secret("registry")).await;
    give_all(&bed, &trusted.secret("signers")).await;
    let first = push(&registry, "web-v1", "web-v1");
    registry.sign(REPOSITORY, &first, &trusted);
    let mut source = artifact(&registry, "web-v1");
    source["ociRepository"]["verify"] = json!({"provider": "cosign", "secretRef": {"name": "signers"}});
    create(&bed, &source, "web-v1").await;
    bed.until_ready_within(kinds::MODULE, "web", "web-v1", FLUX).await;
    assert_eq!(bed.order(&workload("web"), "web-v1"), CLUSTERS);
    assert_eq!(verified(&bed).await, [true; CLUSTERS.len()]);

    let second = push(&registry, "web-v2", "web-v2");
    registry.sign(REPOSITORY, &second, &another);
    retarget(&bed, json!({"ociRepository": {"ref": {"tag": "web-v2"}}})).await;
    until_refused(&bed, "no matching signatures").await;
    assert_eq!(digests(&bed).await, vec![first; CLUSTERS.len()]);

    let third = push(&registry, "web-v3", "web-v3");
    registry.sign(REPOSITORY, &third, &trusted);
    retarget(&bed, json!({"ociRepository": {"ref": {"tag": "web-v3"}}})).await;
    bed.until_ready_within(kinds::MODULE, "web", "web-v3", FLUX).await;
    assert_eq!(bed.order(&workload("web"), "web-v3"), CLUSTERS);
    assert_eq!(bed.order(&workload("web"), "web-v2"), <[&str; 0]>::default());
    assert_eq!(verified(&bed).await, [true; CLUSTERS.len()]);
}

fn with_replicas(replicas: u32) -> Value {
    let patch = format!("- {{op: replace, path: /spec/replicas, value: {replicas}}}");
    json!({
        "patches": [{"patch": patch, "target": {"kind": "Deployment", "name": "web"}}],
        "images": [{"name": "example.com/web", "newName": "example.com/mirror", "newTag": "web-v1"}],
        "commonMetadata": {"labels": {"team": "web"}},
        "decryption": {"provider": "sops", "secretRef": {"name": "age"}},
    })
}

/// Waits until the module, whose last version is `web-v1`, quotes Flux on why the next one is rejected.
async fn until_refused(bed: &Bed, words: &str) {
    bed.until_reason("web", "SourceNotReady", ROLLED).await;
    let refused = async || {
        let module = bed.module("web").await;
        let message = condition(&module, "Ready").unwrap()["message"].as_str().unwrap();
        let words = [words, "clusters keep what they have (last version: web-v1"];
        if words.iter().all(|word| message.contains(word)) {
            Ok(())
        } else {
            Err(status_text(&module))
        }
    };
    bed.wait_until("it reports Flux's message", ROLLED, refused).await;
}

/// A Secret beside the module, and in each cluster.
async fn give_all(bed: &Bed, secret: &Value) {
    bed.fleet().create(kinds::SECRET, secret.clone()).await;
    for cluster in CLUSTERS {
        bed.inside(cluster, SYSTEM_NAMESPACE)
            .create(kinds::SECRET, secret.clone())
            .await;
    }
}

fn push(registry: &Registry, tag: &str, version: &str) -> String {
    let text = manifests("web", version, Quality::Good);
    registry.push_files(REPOSITORY, tag, &[("apps/web/all.yaml", &text)])
}

fn artifact(registry: &Registry, tag: &str) -> Value {
    json!({"ociRepository": {
        "url": format!("oci://{}/{REPOSITORY}", registry.host()), "ref": {"tag": tag}, "certSecretRef": {"name": "registry"},
    }})
}

async fn create(bed: &Bed, source: &Value, version: &str) {
    let mut spec = bed.spec("web", version);
    spec["sync"]["source"] = json!({ "flux": source });
    bed.fleet()
        .create(kinds::MODULE, json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
}

async fn retarget(bed: &Bed, source: Value) {
    let patch = json!({"spec": {"sync": {"source": {"flux": source}}}});
    bed.fleet().patch(kinds::MODULE, "web", patch).await;
}

/// The digest of Flux's artifact in each cluster.
async fn digests(bed: &Bed) -> Vec<String> {
    let digest = |source: &Value| {
        source["spec"]["ref"]["digest"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    sources(bed).await.iter().map(digest).collect()
}

/// Whether Flux reports in each cluster that it verified its artifact.
async fn verified(bed: &Bed) -> Vec<bool> {
    let verified = |source: &Value| {
        condition(source, "SourceVerified").is_some_and(|verified| verified["status"] == "True")
    };
    sources(bed).await.iter().map(verified).collect()
}

/// The source that the Kustomization of each cluster refers to.
async fn sources(bed: &Bed) -> Vec<Value> {
    let mut sources = Vec::new();
    for cluster in CLUSTERS {
        let inside = bed.inside(cluster, SYSTEM_NAMESPACE);
        let kustomization = inside.list(kinds::KUSTOMIZATION).await.remove(0);
        let source = kustomization["spec"]["sourceRef"]["name"].as_str().unwrap();
        sources.push(inside.get(kinds::OCI_REPOSITORY, source).await.unwrap());
    }
    sources
}
