//! Promise: with `verify` nothing is rolled out before the signature of a version is valid, the module shows why, and
//! it continues automatically once it is.

use std::time::Duration;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use muster_sync::source::CommitId;
use serde_json::{Value, json};
use ssh_key::{HashAlg, LineEnding, PrivateKey, private::Ed25519Keypair};

use crate::bed::*;

/// How long nothing must happen.
const WATCHED: Duration = Duration::from_mins(20);

/// A test key, generated from a seed.
fn key(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

fn line(seed: u8) -> String {
    format!("* {}", key(seed).public_key().to_openssh().unwrap())
}

/// The git object of a tag signed by the key of a seed.
fn object(tag: &str, commit: &CommitId, seed: u8) -> String {
    let payload = format!("object {commit}\ntype commit\ntag {tag}\ntagger A <a@x> 1 +0000\n\nwords\n");
    let signature = key(seed)
        .sign("git", HashAlg::Sha512, payload.as_bytes())
        .unwrap();
    format!(
        "{payload}{}\n",
        signature.to_pem(LineEnding::LF).unwrap().trim_end()
    )
}

/// Releases a version whose tag has this object.
fn release(bed: &Bed, tag: &str, object: impl FnOnce(&CommitId) -> String) {
    let files = [("web/all.yaml".to_owned(), config_map("web", tag))];
    let commit = bed.source.commit(URL, "main", files);
    bed.source.annotated_tag(URL, tag, &commit, object(&commit));
}

async fn keys(bed: &Bed, data: &[(&str, String)]) {
    let data = data.iter();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some("keys".to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(
            data.map(|(key, value)| ((*key).to_owned(), ByteString(value.clone().into_bytes())))
                .collect(),
        ),
        ..Secret::default()
    };
    bed.api::<Secret>()
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
}

fn verify(mode: &str) -> Value {
    json!({"mode": mode, "secretRef": {"name": "keys"}})
}

/// A module that verifies its version.
fn signed(tag: &str) -> Value {
    let mut object = module("web", tag, json!({}));
    object["spec"]["sync"]["source"]["git"]["verify"] = verify("Tag");
    object
}

/// Nothing of the module changes for a while, and its message is this.
async fn nothing_moves(bed: &Bed, words: &[&str]) {
    let (marks, before) = (bed.marks("web").await, bed.module("web").await.unwrap());
    bed.until(&format!("the message has {words:?}"), || async {
        let text = condition(&bed.module("web").await?, "Ready")?;
        let mut words = words.iter().chain(&["since", "clusters keep what they have"]);
        (text.starts_with("False VerificationFailed: ") && words.all(|word| text.contains(word)))
            .then_some(())
    })
    .await;
    tokio::time::sleep(WATCHED).await;
    assert_eq!(bed.marks("web").await, marks);
    let after = bed.module("web").await.unwrap();
    for field in ["source", "revision"] {
        assert_eq!(after["status"][field], before["status"][field], "{words:?}");
    }
    let reasons = after["status"]["reasons"].to_string();
    assert!(reasons.contains("VerificationFailed"), "{reasons}");
}

#[tokio::test(start_paused = true)]
async fn a_version_with_a_bad_signature_moves_nothing_and_the_next_good_one_goes_on() {
    let bed = Bed::new(&CLUSTERS).await;
    keys(&bed, &[("allowed_signers", line(1))]).await;
    release(&bed, "one", |commit| object("one", commit, 1));
    bed.create::<muster_api::Module>(signed("one")).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);
    let first = bed.module("web").await.unwrap()["status"]["source"].clone();
    assert_eq!(first["verified"]["mode"], "Tag");
    let signer = first["verified"]["signer"].as_str().unwrap();
    assert!(signer.starts_with("ssh key SHA256:"), "{signer}");

    release(&bed, "two", |commit| object("two", commit, 2));
    bed.patch("web", version("two")).await;
    nothing_moves(&bed, &["tag \"two\"", URL, "is not among the keys of the Secret"]).await;
    assert!(
        !bed.event_notes("VerificationFailed").await.is_empty(),
        "an event says so"
    );
    // An older release under a newer name, signed by the right key.
    let before: CommitId = first["commit"].as_str().unwrap().parse().unwrap();
    bed.source
        .annotated_tag(URL, "two-a", &before, object("one", &before, 1));
    bed.patch("web", version("two-a")).await;
    nothing_moves(&bed, &["it was renamed"]).await;
    bed.release("two-b", &["web"], "two-b");
    bed.patch("web", version("two-b")).await;
    nothing_moves(&bed, &["lightweight"]).await;

    release(&bed, "three", |commit| object("three", commit, 1));
    bed.patch("web", version("three")).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["three", "three", "three"]);
    for cluster in CLUSTERS {
        let story: Vec<String> = bed.story(cluster, "web").into_iter().flatten().collect();
        assert_eq!(story, ["one", "three"], "{cluster}");
        // Clusters get a commit, without `verify`, which they would have to check.
        let row = bed.row(cluster, "web").await.unwrap();
        assert_eq!(row["source"]["git"]["verify"], Value::Null, "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_verified_when_that_is_asked_for_later_and_is_not_touched_by_it() {
    let bed = Bed::new(&CLUSTERS).await;
    release(&bed, "one", |commit| object("one", commit, 1));
    bed.deploy("web", "one", json!({})).await;
    let (marks, revision) = (
        bed.marks("web").await,
        bed.module("web").await.unwrap()["status"]["revision"].clone(),
    );
    let with_verify = |verify: Value| json!({"spec": {"sync": {"source": {"git": {"verify": verify}}}}});
    bed.patch("web", with_verify(verify("Tag"))).await;
    nothing_moves(&bed, &["Secret fleet/keys does not exist", "verify.secretRef"]).await;
    keys(&bed, &[("a.pub", key(1).public_key().to_openssh().unwrap())]).await;
    let module = bed.until_ready("web").await;
    assert_eq!(module["status"]["source"]["verified"]["secret"], "keys");
    assert_eq!(
        module["status"]["revision"], revision,
        "the same revision: nothing is rolled for it"
    );
    assert_eq!(bed.marks("web").await, marks);
    // The commit itself is not signed.
    bed.patch("web", with_verify(verify("Commit"))).await;
    nothing_moves(&bed, &["commit ", "it is not signed"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_tag_that_is_moved_and_signed_by_another_is_reported_and_not_rolled() {
    let bed = Bed::new(&CLUSTERS).await;
    keys(&bed, &[("allowed_signers", line(1))]).await;
    release(&bed, "one", |commit| object("one", commit, 1));
    bed.create::<muster_api::Module>(signed("one")).await;
    bed.until_ready("web").await;
    let marks = bed.marks("web").await;
    release(&bed, "one", |commit| object("one", commit, 2));
    bed.until_said("web", "TagMoved", "True TagMoved").await;
    assert_eq!(bed.marks("web").await, marks);
    assert!(is_ready(&bed.module("web").await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_secret_without_keys_is_said_without_what_it_holds() {
    const CANARY: &str = "5up3rs3cr3t-canary";
    let bed = Bed::new(&CLUSTERS).await;
    release(&bed, "one", |commit| object("one", commit, 1));
    bed.deploy("web", "one", json!({})).await;
    keys(
        &bed,
        &[
            ("password", CANARY.to_owned()),
            ("a.pub", format!("ssh-ed25519 {CANARY}")),
        ],
    )
    .await;
    bed.patch(
        "web",
        json!({"spec": {"sync": {"source": {"git": {"verify": verify("Tag")}}}}}),
    )
    .await;
    nothing_moves(
        &bed,
        &["the public keys for verify cannot be used", "key \"a.pub\""],
    )
    .await;
    let secret = json!({"data": null, "stringData": {"identity": format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}")}});
    bed.api::<Secret>()
        .patch("keys", &PatchParams::default(), &Patch::Merge(secret))
        .await
        .unwrap();
    nothing_moves(&bed, &["key \"identity\" contains a private key"]).await;
    let all = format!("{:?} {:?}", bed.module("web").await, bed.events().await);
    assert!(!all.contains(CANARY), "{all}");
}
