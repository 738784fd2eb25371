//! Promise: with `spec.verify` an artifact has a valid signature; for anything else the reason is reported, and the
//! last good artifact stays.

use muster_sync::source::CommitId;
use serde_json::{Value, json};
use ssh_key::{HashAlg, LineEnding, PrivateKey, private::Ed25519Keypair};

use crate::support::*;

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

fn sign(payload: &str, seed: u8) -> String {
    let signature = key(seed)
        .sign("git", HashAlg::Sha256, payload.as_bytes())
        .unwrap();
    signature.to_pem(LineEnding::LF).unwrap().trim_end().to_owned()
}

/// A commit of one file whose tag is signed by the key of a seed.
fn release(bed: &Bed, tag: &str, seed: u8) -> CommitId {
    let commit: CommitId = bed.commit(&[("a.yaml", tag)]).parse().unwrap();
    let payload = format!("object {commit}\ntype commit\ntag {tag}\ntagger A <a@x> 1 +0000\n\nwords\n");
    let object = format!("{payload}{}\n", sign(&payload, seed));
    bed.source.annotated_tag(URL, tag, &commit, object);
    commit
}

/// The signed payload of a commit.
fn signed_commit(seed: u8) -> String {
    let payload = "tree t\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nwords\n";
    let header = format!("gpgsig {}", sign(payload, seed).replace('\n', "\n "));
    payload.replacen("\n\n", &format!("\n{header}\n\n"), 1)
}

fn spec(tag: &str, mode: &str) -> Value {
    json!({"ref": {"branch": null, "tag": tag}, "verify": {"mode": mode, "secretRef": {"name": "keys"}}})
}

#[tokio::test(start_paused = true)]
async fn only_what_is_signed_becomes_an_artifact() {
    let bed = Bed::new();
    let keys = key(1).public_key().to_openssh().unwrap();
    let first = release(&bed, "v1", 1);
    bed.repository(
        "src",
        json!({"ref": {"tag": "v1"}, "verify": spec("v1", "Tag")["verify"]}),
    )
    .await;
    let failed = "False VerificationFailed";
    let object = bed
        .until(&repository("src"), |object| ready(object) == failed)
        .await;
    let missing = "Secret fleet/keys does not exist; create it, or correct spec.verify.secretRef";
    assert_eq!(message(&object, "Ready"), missing);
    bed.secret("keys", json!({"ann.pub": keys})).await;
    let object = bed.until_ready("src", "True Succeeded").await;
    let revision = format!("v1@sha1:{first}");
    assert_eq!(object["status"]["artifact"]["revision"], revision);
    assert_eq!(object["status"]["sourceVerificationMode"], "Tag");
    let text = message(&object, "SourceVerified");
    assert!(
        text.starts_with(&format!(
            "verified the signature of '{revision}', by ssh key SHA256:"
        )),
        "{text}"
    );

    release(&bed, "v2", 2);
    bed.edit(&repository("src"), json!({"spec": spec("v2", "Tag")}))
        .await;
    let object = bed
        .until(&repository("src"), |object| ready(object) == failed)
        .await;
    assert_eq!(
        object["status"]["artifact"]["revision"], revision,
        "the last good one stays"
    );
    let text = message(&object, "SourceVerified");
    assert!(
        text.contains("tag \"v2\"") && text.contains("is not among the keys"),
        "{text}"
    );
    assert!(condition(&object, "Stalled").is_none(), "it is tried again");

    let third = release(&bed, "v3", 1);
    bed.edit(&repository("src"), json!({"spec": spec("v3", "TagAndHEAD")}))
        .await;
    let unsigned = |object: &Value| message_of(object).contains("it is not signed");
    bed.until(&repository("src"), unsigned).await;
    bed.source.commit_object(URL, &third, signed_commit(1));
    let object = bed.until_ready("src", "True Succeeded").await;
    assert_eq!(
        object["status"]["artifact"]["revision"],
        format!("v3@sha1:{third}")
    );
}

fn message_of(object: &Value) -> String {
    condition(object, "Ready").map_or_else(String::new, |_| message(object, "Ready").to_owned())
}
