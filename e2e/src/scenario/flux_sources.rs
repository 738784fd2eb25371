//! Tests of the bed itself: Flux fetches what the bed serves (git over ssh, signed tags, OCI artifacts, encrypted
//! Secrets), and rejects what it must. Without muster: these are Flux objects in the management cluster.

use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::{
    bed::{Bed, GitOverSsh, Ground, Kind, Signer, kinds},
    fleet::{condition, is_current, status_text},
    sops,
};

/// Timeout of source-controller; a second is usual.
const READ: Duration = Duration::from_secs(30);

/// Git over ssh with a signed tag, an artifact whose tag moves, and an encrypted Secret in it.
pub async fn are_read(ground: Ground) {
    let bed = Bed::new(ground).await;
    let fleet = bed.fleet();
    if let Some((ssh, signer)) = bed.git_over_ssh().zip(Signer::new("Ann")) {
        let commit = bed.git.commit(&[("a.yaml", "a: 1\n")]);
        bed.git.tag_signed(&signer, "v1");
        fleet
            .create(kinds::SECRET, ssh.secret("ssh", &ssh.known_hosts()))
            .await;
        fleet.create(kinds::SECRET, signer.secret("signers")).await;
        fleet.create(kinds::GIT_REPOSITORY, signed(&ssh, "v1")).await;
        let ready = until(&bed, kinds::GIT_REPOSITORY, "ssh", "True").await;
        assert_eq!(
            ready["status"]["artifact"]["revision"],
            format!("v1@sha1:{commit}")
        );
        assert_eq!(condition(&ready, "SourceVerified").unwrap()["status"], "True");
    }

    let registry = bed.registry().await;
    fleet
        .create(kinds::SECRET, registry.certificate_secret("registry"))
        .await;
    let first = registry.push_files("fleet/web", "stable", &[("secret.yaml", sops::SECRET)]);
    fleet
        .create(kinds::OCI_REPOSITORY, artifact(registry.host(), "registry"))
        .await;
    let ready = until(&bed, kinds::OCI_REPOSITORY, "web", "True").await;
    assert_eq!(revision(&ready), format!("stable@{first}"));

    // Decrypted with the key from its Secret.
    fleet.create(kinds::SECRET, sops::key_secret("age")).await;
    fleet.create(kinds::KUSTOMIZATION, decrypted()).await;
    until(&bed, kinds::KUSTOMIZATION, "web", "True").await;
    let secret = fleet.get(kinds::SECRET, sops::NAME).await.unwrap();
    let value = secret["data"][sops::KEY].as_str().unwrap();
    let value = base64::engine::general_purpose::STANDARD.decode(value).unwrap();
    assert_eq!(String::from_utf8(value).unwrap(), sops::PLAIN);

    // The tag moves, and moves back.
    let second = registry.push_files("fleet/web", "stable", &[("config.yaml", CONFIG)]);
    assert_ne!(first, second);
    assert_eq!(registry.digest("fleet/web", "stable"), Some(second.clone()));
    until_revision(&bed, &format!("stable@{second}")).await;
    registry.tag("fleet/web", "stable", &first);
    until_revision(&bed, &format!("stable@{first}")).await;
}

/// A host with another key, a tag without a signature, a registry with an unknown authority, a digest that was deleted.
pub async fn are_refused(ground: Ground) {
    let bed = Bed::new(ground).await;
    let fleet = bed.fleet();
    if let Some((ssh, signer)) = bed.git_over_ssh().zip(Signer::new("Ann")) {
        bed.git.commit(&[("a.yaml", "a: 1\n")]);
        bed.git.tag("v1");
        bed.git.tag_signed(&signer, "v2");
        let wrong = ssh.secret("ssh", &ssh.known_hosts_of_another());
        fleet.create(kinds::SECRET, wrong).await;
        fleet.create(kinds::SECRET, signer.secret("signers")).await;
        fleet.create(kinds::GIT_REPOSITORY, signed(&ssh, "v1")).await;
        until_not_ready(&bed, kinds::GIT_REPOSITORY, "ssh", "knownhosts: key mismatch").await;
        let known = ssh.secret("ssh", &ssh.known_hosts());
        fleet.apply(kinds::SECRET, known).await;
        request_reconcile(&bed, kinds::GIT_REPOSITORY, "ssh").await;
        until_not_ready(&bed, kinds::GIT_REPOSITORY, "ssh", "signature").await;
        // The same with a signature.
        let signed = json!({"spec": {"ref": {"tag": "v2"}}});
        fleet.patch(kinds::GIT_REPOSITORY, "ssh", signed).await;
        until(&bed, kinds::GIT_REPOSITORY, "ssh", "True").await;
    }

    let registry = bed.registry().await;
    let digest = registry.push_files("fleet/web", "stable", &[("config.yaml", CONFIG)]);
    fleet
        .create(kinds::SECRET, registry.certificate_secret_of_another("registry"))
        .await;
    fleet
        .create(kinds::OCI_REPOSITORY, artifact(registry.host(), "registry"))
        .await;
    until_not_ready(&bed, kinds::OCI_REPOSITORY, "web", "x509").await;
    fleet
        .apply(kinds::SECRET, registry.certificate_secret("registry"))
        .await;
    registry.delete("fleet/web", &digest);
    assert_eq!(registry.digest("fleet/web", "stable"), None);
    request_reconcile(&bed, kinds::OCI_REPOSITORY, "web").await;
    until_not_ready(&bed, kinds::OCI_REPOSITORY, "web", "MANIFEST_UNKNOWN").await;
}

const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n";

fn signed(ssh: &GitOverSsh, tag: &str) -> Value {
    json!({
        "metadata": {"name": "ssh"},
        "spec": {
            "url": ssh.url(), "interval": "1m", "ref": {"tag": tag}, "secretRef": {"name": "ssh"},
            "verify": {"mode": "Tag", "secretRef": {"name": "signers"}},
        },
    })
}

fn artifact(host: &str, secret: &str) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "url": format!("oci://{host}/fleet/web"), "interval": "1m", "ref": {"tag": "stable"},
            "certSecretRef": {"name": secret},
        },
    })
}

fn decrypted() -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "interval": "10m", "prune": true, "path": "./", "targetNamespace": crate::bed::FLEET,
            "sourceRef": {"kind": "OCIRepository", "name": "web"},
            "decryption": {"provider": "sops", "secretRef": {"name": "age"}},
        },
    })
}

fn revision(object: &Value) -> &str {
    object["status"]["artifact"]["revision"]
        .as_str()
        .unwrap_or_default()
}

/// Waits until the Ready condition of the current generation has this status.
async fn until(bed: &Bed, kind: Kind, name: &str, status: &str) -> Value {
    let check = async || {
        let object = bed.fleet().get(kind, name).await.ok_or("it does not exist")?;
        let found = is_current(&object)
            && condition(&object, "Ready").is_some_and(|ready| {
                ready["status"] == status && ready["observedGeneration"] == object["metadata"]["generation"]
            });
        if found {
            Ok(object)
        } else {
            Err(status_text(&object))
        }
    };
    bed.wait_until(&format!("{name} is ready: {status}"), READ, check)
        .await
        .1
}

/// Waits until the Ready condition is false with this text.
async fn until_not_ready(bed: &Bed, kind: Kind, name: &str, words: &str) {
    let check = async || {
        let object = bed.fleet().get(kind, name).await.ok_or("it does not exist")?;
        let ready = condition(&object, "Ready").filter(|ready| ready["status"] == "False");
        let message = ready.and_then(|ready| ready["message"].as_str());
        if message.is_some_and(|message| message.contains(words)) {
            Ok(())
        } else {
            Err(status_text(&object))
        }
    };
    bed.wait_until(&format!("{name} says {words:?}"), READ, check)
        .await;
}

/// `flux reconcile source`.
async fn request_reconcile(bed: &Bed, kind: Kind, name: &str) {
    let now = bed.now().to_string();
    let annotation = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": now}}});
    bed.fleet().patch(kind, name, annotation).await;
}

async fn until_revision(bed: &Bed, wanted: &str) {
    request_reconcile(bed, kinds::OCI_REPOSITORY, "web").await;
    let poll = async || {
        let object = bed.fleet().get(kinds::OCI_REPOSITORY, "web").await.unwrap();
        if revision(&object) == wanted {
            Ok(())
        } else {
            Err(status_text(&object))
        }
    };
    bed.wait_until(&format!("web is at {wanted}"), READ, poll).await;
}
