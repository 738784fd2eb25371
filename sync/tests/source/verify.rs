//! Signatures of tags and commits as the real programs make them: `gpg`, `ssh-keygen`, and `git` with both.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::git_server::{Door, GitServer};
use crate::support::gpg::Gpg;
use crate::support::repo::Repo;
use jiff::{SignedDuration, Timestamp};
use muster_sync::source::{
    Clock, CommitId, GitOptions, GitSource, KeyRing, Limits, MemorySource, Remote, Source, SourceError,
    Unverified, Verify, VerifyMode, Want, verify_commit, verify_tag,
};
use proptest::prelude::*;

const COMMIT: &str = "0123456789012345678901234567890123456789";
const OTHER: &str = "9876543210987654321098765432109876543210";

fn commit_id(text: &str) -> CommitId {
    text.parse().unwrap()
}

fn ring(values: &[(&str, &str)]) -> KeyRing {
    KeyRing::from_secret(&data(values)).unwrap()
}

fn data(values: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let values = values.iter();
    values
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
        .collect()
}

/// The bytes of a tag of [`COMMIT`] without a signature.
fn payload(name: &str) -> String {
    format!("object {COMMIT}\ntype commit\ntag {name}\ntagger A <a@x> 1700000000 +0000\n\nwords\n")
}

/// Verifies a tag as `v1` of [`COMMIT`].
fn v1(payload: &str, signature: &str, keys: &KeyRing) -> Result<String, Unverified> {
    let bytes = format!("{payload}{signature}");
    let signer = verify_tag(bytes.as_bytes(), "v1", &commit_id(COMMIT), keys, Timestamp::now());
    signer.map(|signer| signer.to_string())
}

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// A time in the format of `--faked-system-time`.
fn faked(at: Timestamp) -> String {
    format!("--faked-system-time={}!", at.as_second())
}

#[test]
fn a_signed_tag_is_the_one_that_it_names() {
    let Some(gpg) = Gpg::new() else { return };
    let ann = gpg.key("Ann");
    let keys = ring(&[("ann.asc", &gpg.public(&ann))]);
    let sign = |payload: &str| gpg.sign(&ann, &[], payload.as_bytes());
    let good = payload("v1");
    assert_eq!(
        v1(&good, &sign(&good), &keys).unwrap(),
        format!("OpenPGP key {ann}")
    );

    let renamed = payload("v0");
    assert_eq!(
        v1(&renamed, &sign(&renamed), &keys),
        Err(Unverified::Renamed("v0".to_owned()))
    );
    let moved = good.replace(COMMIT, OTHER);
    assert!(matches!(
        v1(&moved, &sign(&moved), &keys),
        Err(Unverified::OtherCommit { .. })
    ));
    let nested = good.replace("type commit", "type tag");
    assert_eq!(
        v1(&nested, &sign(&nested), &keys),
        Err(Unverified::NotOfACommit("tag".to_owned()))
    );
    let changed = good.replace("words", "other words");
    assert_eq!(
        v1(&changed, &sign(&good), &keys),
        Err(Unverified::Bad(format!("OpenPGP key {ann}")))
    );
    assert_eq!(v1(&good, "", &keys), Err(Unverified::Unsigned));
    // Signed twice: the first signature is part of the signed message.
    let twice = format!("{good}{}", sign(&good));
    assert!(v1(&twice, &sign(&twice), &keys).is_ok());
    let after = format!("{}more\n", sign(&good));
    assert_eq!(
        v1(&good, &after, &keys),
        Err(Unverified::Broken("text follows it"))
    );
}

#[test]
fn several_signatures_in_one_are_none() {
    let Some(gpg) = Gpg::new() else { return };
    let (ann, bob) = (gpg.key("Ann"), gpg.key("Bob"));
    let keys = ring(&[("ann.asc", &gpg.public(&ann)), ("bob.asc", &gpg.public(&bob))]);
    let good = payload("v1");
    let both = gpg.sign(&ann, &["--local-user", &bob], good.as_bytes());
    assert_eq!(v1(&good, &both, &keys), Err(Unverified::Several));
}

#[test]
fn a_signature_counts_by_a_key_of_the_secret_alone() {
    let Some(gpg) = Gpg::new() else { return };
    let (ann, bob) = (gpg.key("Ann"), gpg.key("Bob"));
    let good = payload("v1");
    let by_bob = gpg.sign(&bob, &[], good.as_bytes());
    let only_ann = ring(&[("ann.asc", &gpg.public(&ann))]);
    assert_eq!(
        v1(&good, &by_bob, &only_ann),
        Err(Unverified::UnknownKey(format!("OpenPGP key {bob}")))
    );
    // Several keys in one value, and in one block.
    let joined = format!("{}\n{}", gpg.public(&ann), gpg.public(&bob));
    assert!(v1(&good, &by_bob, &ring(&[("all", &joined)])).is_ok());
    let exported = String::from_utf8(gpg.run(&["--armor", "--export"], b"")).unwrap();
    assert!(v1(&good, &by_bob, &ring(&[("all", &exported)])).is_ok());
}

#[test]
fn subkeys_sign_for_their_primary_key_until_they_are_revoked() {
    let Some(gpg) = Gpg::new() else { return };
    let ann = gpg.key_of("Ann", &["ed25519", "cert", "0"], &[]);
    gpg.run(&["--quick-add-key", &ann, "ed25519", "sign", "0"], b"");
    let subkey = gpg.fingerprints("Ann")[1].clone();
    let good = payload("v1");
    let signed = gpg.sign(&format!("{subkey}!"), &[], good.as_bytes());
    let before = gpg.public(&ann);
    assert_eq!(
        v1(&good, &signed, &ring(&[("ann", &before)])).unwrap(),
        format!("OpenPGP key {ann}")
    );
    gpg.edit(&ann, &["key 1", "revkey", "y", "0", "", "y"]);
    let revoked = Err(Unverified::Revoked(format!("OpenPGP key {subkey}")));
    assert_eq!(v1(&good, &signed, &ring(&[("ann", &gpg.public(&ann))])), revoked);
    // An older copy next to it does not undo the revocation.
    let both = ring(&[("a", &before), ("b", &gpg.public(&ann))]);
    assert_eq!(v1(&good, &signed, &both), revoked);
}

#[test]
fn a_revoked_key_signs_nothing_whenever_it_did() {
    let Some(gpg) = Gpg::new() else { return };
    let ann = gpg.key("Ann");
    let good = payload("v1");
    let signed = gpg.sign(&ann, &[], good.as_bytes());
    let before = gpg.public(&ann);
    assert!(v1(&good, &signed, &ring(&[("ann", &before)])).is_ok());
    gpg.revoke(&ann);
    let revoked = Err(Unverified::Revoked(format!("OpenPGP key {ann}")));
    assert_eq!(v1(&good, &signed, &ring(&[("ann", &gpg.public(&ann))])), revoked);
    let both = ring(&[("a", &before), ("b", &gpg.public(&ann))]);
    assert_eq!(v1(&good, &signed, &both), revoked);
}

#[test]
fn keys_and_signatures_end() {
    let Some(gpg) = Gpg::new() else { return };
    let now = Timestamp::now();
    let good = payload("v1");
    // A key valid for an hour, created and used two hours ago; then extended.
    let then = faked(now - secs(7_200));
    let ann = gpg.key_of("Ann", &["ed25519", "cert,sign", "seconds=3600"], &[&then]);
    let signed = gpg.sign(&ann, &[&then], good.as_bytes());
    let ended = v1(&good, &signed, &ring(&[("ann", &gpg.public(&ann))])).unwrap_err();
    assert!(
        matches!(&ended, Unverified::ExpiredKey { key, .. } if key.ends_with(&ann)),
        "{ended}"
    );
    gpg.run(&["--quick-set-expire", &ann, "1y"], b"");
    assert!(v1(&good, &signed, &ring(&[("ann", &gpg.public(&ann))])).is_ok());
    // A subkey valid for an hour, under a key that does not expire.
    let bob = gpg.key_of("Bob", &["ed25519", "cert", "0"], &[&then]);
    gpg.run(
        &[&then, "--quick-add-key", &bob, "ed25519", "sign", "seconds=3600"],
        b"",
    );
    let signed = gpg.sign(&bob, &[&then], good.as_bytes());
    let ended = v1(&good, &signed, &ring(&[("bob", &gpg.public(&bob))])).unwrap_err();
    assert!(matches!(ended, Unverified::ExpiredKey { .. }), "{ended}");
    // A signature that expires, one from tomorrow, and one that is older than its key.
    let cid = gpg.key("Cid");
    let keys = ring(&[("cid", &gpg.public(&cid))]);
    let options = ["--default-sig-expire", "seconds=60", &faked(now + secs(60))];
    let signed = gpg.sign(&cid, &options, good.as_bytes());
    let at = |at: Timestamp| {
        let bytes = format!("{good}{signed}");
        verify_tag(bytes.as_bytes(), "v1", &commit_id(COMMIT), &keys, at)
    };
    assert!(at(now + secs(100)).is_ok());
    assert!(matches!(
        at(now + secs(120)),
        Err(Unverified::ExpiredSignature(_))
    ));
    assert!(matches!(at(now - secs(3_600)), Err(Unverified::WrongTime { .. })));
    let early = gpg.sign(&cid, &["--ignore-time-conflict", &then], good.as_bytes());
    assert!(matches!(
        v1(&good, &early, &keys),
        Err(Unverified::WrongTime { .. })
    ));
}

#[test]
fn what_can_be_forged_or_is_not_for_signing_is_refused() {
    let Some(gpg) = Gpg::new() else { return };
    let good = payload("v1");
    let ann = gpg.key("Ann");
    let keys = ring(&[("ann", &gpg.public(&ann))]);
    for (hash, name) in [
        ("SHA1", "SHA-1"),
        ("SHA224", "SHA224"),
        ("RIPEMD160", "RIPEMD160"),
    ] {
        let options = ["--digest-algo", hash, "--allow-weak-digest-algos"];
        // A 256-bit elliptic curve does not allow a shorter hash: RSA does.
        let bob = match gpg_fingerprint(&gpg, "Bob") {
            Some(bob) => bob,
            None => gpg.key_of("Bob", &["rsa2048", "cert,sign", "0"], &[]),
        };
        let signed = gpg.sign(&bob, &options, good.as_bytes());
        let keys = ring(&[("bob", &gpg.public(&bob))]);
        assert_eq!(
            v1(&good, &signed, &keys),
            Err(Unverified::Weak(name.to_owned())),
            "{hash}"
        );
    }
    let small = gpg.key_of("Small", &["rsa1024", "cert,sign", "0"], &[]);
    let signed = gpg.sign(&small, &["--digest-algo", "SHA256"], good.as_bytes());
    assert_eq!(
        v1(&good, &signed, &ring(&[("small", &gpg.public(&small))])),
        Err(Unverified::Weak("an RSA key of 1024 bits".to_owned()))
    );
    let text = gpg.sign(&ann, &["--textmode"], good.as_bytes());
    assert!(matches!(v1(&good, &text, &keys), Err(Unverified::Unsupported(_))));
    let demanding = gpg.sign(&ann, &["--sig-notation", "!a@x=b"], good.as_bytes());
    assert!(matches!(
        v1(&good, &demanding, &keys),
        Err(Unverified::Unsupported(_))
    ));
    assert!(
        v1(
            &good,
            &gpg.sign(&ann, &["--sig-notation", "a@x=b"], good.as_bytes()),
            &keys
        )
        .is_ok()
    );
    // It signed, and may only certify from then on.
    let signed = gpg.sign(&ann, &[], good.as_bytes());
    assert!(v1(&good, &signed, &keys).is_ok());
    // A second later: of two signatures of the same second it is unknown which is newer.
    let later = faked(Timestamp::now() + secs(2));
    let input = "change-usage\nS\nQ\nsave\n";
    gpg.run(
        &[
            &later,
            "--no-tty",
            "--command-fd",
            "0",
            "--expert",
            "--edit-key",
            &ann,
        ],
        input.as_bytes(),
    );
    let refused = v1(&good, &signed, &ring(&[("ann", &gpg.public(&ann))])).unwrap_err();
    assert!(matches!(refused, Unverified::NotForSigning { .. }), "{refused}");
}

fn gpg_fingerprint(gpg: &Gpg, person: &str) -> Option<String> {
    let listed = gpg.run(&["--list-keys", "--with-colons"], b"");
    String::from_utf8_lossy(&listed)
        .contains(person)
        .then(|| gpg.fingerprints(person)[0].clone())
}

/// ssh keys in a directory.
struct Ssh(tempfile::TempDir);

impl Ssh {
    fn new() -> Option<Self> {
        if Command::new("ssh-keygen").arg("-?").output().is_err() {
            println!("not made: ssh-keygen");
            return None;
        }
        Some(Self(tempfile::tempdir().unwrap()))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Generates a key; returns the line of its public half.
    fn key(&self, name: &str, kind: &[&str]) -> String {
        let path = self.path(name);
        let mut arguments = vec!["-q", "-N", "", "-C", name, "-f", &path];
        arguments.extend(kind);
        run(&arguments);
        std::fs::read_to_string(format!("{path}.pub"))
            .unwrap()
            .trim()
            .to_owned()
    }

    fn sign(&self, name: &str, namespace: &str, payload: &str) -> String {
        let file = self.path("payload");
        std::fs::write(&file, payload).unwrap();
        run(&["-q", "-Y", "sign", "-f", &self.path(name), "-n", namespace, &file]);
        let signature = std::fs::read_to_string(format!("{file}.sig")).unwrap();
        std::fs::remove_file(format!("{file}.sig")).unwrap();
        signature
    }
}

fn run(arguments: &[&str]) {
    let output = Command::new("ssh-keygen").args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn ssh_keys_sign_for_git() {
    let Some(ssh) = Ssh::new() else { return };
    let good = payload("v1");
    for (name, kind) in [
        ("ed", &["-t", "ed25519"][..]),
        ("p256", &["-t", "ecdsa", "-b", "256"]),
        ("p384", &["-t", "ecdsa", "-b", "384"]),
        ("p521", &["-t", "ecdsa", "-b", "521"]),
        ("rsa", &["-t", "rsa", "-b", "2048"]),
    ] {
        let key = ssh.key(name, kind);
        let signed = ssh.sign(name, "git", &good);
        let by = v1(&good, &signed, &ring(&[("a.pub", &key)])).unwrap();
        assert!(by.starts_with("ssh key SHA256:"), "{name}: {by}");
        let changed = good.replace("words", "other");
        assert_eq!(
            v1(&changed, &signed, &ring(&[("a.pub", &key)])),
            Err(Unverified::Bad(by)),
            "{name}"
        );
    }
    let weak = ssh.key("weak", &["-t", "rsa", "-b", "1024"]);
    assert_eq!(
        v1(&good, &ssh.sign("weak", "git", &good), &ring(&[("a.pub", &weak)])),
        Err(Unverified::Weak("an RSA key of 1024 bits".to_owned()))
    );
}

#[test]
fn allowed_signers_say_for_what_and_when() {
    let Some(ssh) = Ssh::new() else { return };
    let (ann, bob) = (
        ssh.key("ann", &["-t", "ed25519"]),
        ssh.key("bob", &["-t", "ed25519"]),
    );
    let good = payload("v1");
    let signed = ssh.sign("ann", "git", &good);
    let by = |lines: &str| v1(&good, &signed, &ring(&[("allowed_signers", lines)]));
    assert!(by(&format!("# all\nbob@x {bob}\nann@x,a@x {ann}\n")).is_ok());
    assert!(by(&format!("* namespaces=\"git\" {ann}")).is_ok());
    assert!(
        by(&format!(
            "* valid-after=\"20200101\",valid-before=\"29991231\" {ann}"
        ))
        .is_ok()
    );
    assert!(matches!(by(&format!("* {bob}")), Err(Unverified::UnknownKey(_))));
    assert!(matches!(
        by(&format!("* namespaces=\"file\" {ann}")),
        Err(Unverified::NotForSigning { .. })
    ));
    // The tag claims to be from November 2023.
    assert!(matches!(
        by(&format!("* valid-after=\"20240101\" {ann}")),
        Err(Unverified::EarlyKey { .. })
    ));
    assert!(matches!(
        by(&format!("* valid-before=\"20230101\" {ann}")),
        Err(Unverified::ExpiredKey { .. })
    ));
    // It was valid then, and is not now: the time that a signer claims proves nothing.
    assert!(matches!(
        by(&format!("* valid-before=\"20240101\" {ann}")),
        Err(Unverified::ExpiredKey { .. })
    ));
    let for_files = ssh.sign("ann", "file", &good);
    assert_eq!(
        v1(&good, &for_files, &ring(&[("ann.pub", &ann)])),
        Err(Unverified::Namespace("file".to_owned()))
    );
}

/// Configures `git` to sign in a repository.
fn with_gpg(repo: &Repo, gpg: &Gpg, key: &str) {
    let program = repo.path().join(".git/gpg.sh");
    let script = format!(
        "#!/bin/sh\nGNUPGHOME='{}' exec gpg --batch --passphrase '' --pinentry-mode loopback \"$@\"\n",
        gpg.home().display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    repo.git(&["config", "gpg.program", &program.display().to_string()]);
    repo.git(&["config", "user.signingkey", key]);
}

fn source(data: &Path) -> GitSource {
    let options = GitOptions {
        data_dir: data.to_owned(),
        allow_insecure: true,
        limits: Limits::default(),
    };
    GitSource::new(options, Clock::system()).unwrap()
}

fn signed_remote(url: &str, mode: VerifyMode, keys: &Arc<KeyRing>) -> Remote {
    let mut remote = Remote::new(url);
    remote.verify = Some(Verify {
        mode,
        keys: Arc::clone(keys),
    });
    remote
}

fn tag(name: &str) -> Want {
    Want::Tag(name.to_owned())
}

/// Why a tag or a commit is not verified.
fn why(result: Result<impl std::fmt::Debug, SourceError>) -> Unverified {
    match result.unwrap_err() {
        SourceError::VerificationFailed { why, .. } => why,
        other => panic!("{other}"),
    }
}

/// v1 is good, v2 lightweight, v3 unsigned, v4 signed by a stranger, v5 a renamed v1, v6 a tag of the tag v1. The
/// commit of v1 is signed, that of the others is not; both are returned.
fn releases(repo: &Repo, make: impl Fn(&Repo, &str)) -> [CommitId; 2] {
    make(repo, "ann");
    repo.commit(&[("a.yaml", "a: 1\n")]);
    repo.git(&[
        "commit",
        "--quiet",
        "--allow-empty",
        "--gpg-sign",
        "--message=signed",
    ]);
    let first = repo.git(&["rev-parse", "HEAD"]);
    repo.git(&["tag", "--sign", "--message=one", "v1"]);
    let second = repo.commit(&[("a.yaml", "a: 2\n")]);
    repo.git(&["tag", "v2"]);
    repo.git(&["tag", "--annotate", "--message=three", "v3"]);
    make(repo, "bob");
    repo.git(&["tag", "--sign", "--message=four", "v4"]);
    make(repo, "ann");
    let object = repo.git(&["rev-parse", "refs/tags/v1"]);
    repo.git(&["update-ref", "refs/tags/v5", &object]);
    repo.git(&["tag", "--sign", "--message=six", "v6", "v1"]);
    [commit_id(&first), commit_id(&second)]
}

async fn tags_are_verified(source: &GitSource, tags: &Remote, first: &CommitId) {
    let resolved = source.resolve(tags, &tag("v1")).await.unwrap();
    assert_eq!(resolved.commit, *first);
    assert!(resolved.verified.unwrap().contains(" key "));
    let refused = async |name: &str| why(source.resolve(tags, &tag(name)).await);
    assert_eq!(refused("v2").await, Unverified::Lightweight);
    assert_eq!(refused("v3").await, Unverified::Unsigned);
    assert!(matches!(refused("v4").await, Unverified::UnknownKey(_)));
    assert_eq!(refused("v5").await, Unverified::Renamed("v1".to_owned()));
    assert_eq!(refused("v6").await, Unverified::NotOfACommit("tag".to_owned()));
    let pinned = Want::Commit(first.clone());
    assert_eq!(why(source.resolve(tags, &pinned).await), Unverified::NoTag);
}

async fn commits_are_verified(source: &GitSource, commits: &Remote, [first, second]: [Want; 2]) {
    assert!(source.resolve(commits, &tag("v5")).await.is_ok());
    assert!(source.resolve(commits, &first).await.unwrap().verified.is_some());
    assert_eq!(why(source.resolve(commits, &second).await), Unverified::Unsigned);
    assert_eq!(
        why(source.resolve(commits, &tag("v4")).await),
        Unverified::Unsigned
    );
}

/// What git signs, over `http` and `file`.
async fn signed_by_git(make: impl Fn(&Repo, &str), keys: KeyRing) {
    let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
    let ids = releases(&repo, make);
    let [first, second] = ids.clone().map(Want::Commit);
    let server = GitServer::start(repo.path(), Door::Plain, None).await;
    let keys = Arc::new(keys);
    let source = source(data.path());
    for url in [server.url(".git"), repo.url()] {
        let tags = signed_remote(&url, VerifyMode::Tag, &keys);
        // Twice: from the server, and from the cache.
        for _ in 0..2 {
            tags_are_verified(&source, &tags, &ids[0]).await;
        }
        let commits = signed_remote(&url, VerifyMode::Commit, &keys);
        commits_are_verified(&source, &commits, [first.clone(), second.clone()]).await;
        // A resolve stores nothing.
        let unkept = source.read(&tags, &ids[0], ".").await;
        assert!(
            matches!(unkept, Err(SourceError::NotFetched { .. })),
            "{unkept:?}"
        );

        let by_a_stranger = why(source.fetch(&tags, &tag("v4")).await);
        assert!(
            matches!(by_a_stranger, Unverified::UnknownKey(_)),
            "{by_a_stranger}"
        );
        let both = signed_remote(&url, VerifyMode::TagAndCommit, &keys);
        let fetched = source.fetch(&both, &tag("v1")).await.unwrap();
        assert_eq!((&fetched.commit, fetched.verified.is_some()), (&ids[0], true));
        assert_eq!(source.read(&both, &ids[0], ".").await.unwrap().len(), 1);
        // Stored already, and still verified.
        let here = source.fetch(&commits, &first).await.unwrap();
        assert!(here.verified.is_some());
        assert!(source.fetch(&Remote::new(&*url), &second).await.is_ok());
        assert_eq!(why(source.fetch(&commits, &second).await), Unverified::Unsigned);
        assert_eq!(
            why(source.fetch(&both, &tag("v5")).await),
            Unverified::Renamed("v1".to_owned())
        );
    }
    let left = std::fs::read_dir(data.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(
        left.len(),
        2,
        "a mirror for each address and nothing else: {left:?}"
    );
}

#[tokio::test]
async fn what_git_signs_with_gpg_is_verified() {
    let Some(gpg) = Gpg::new() else { return };
    let (ann, bob) = (gpg.key("Ann"), gpg.key("Bob"));
    let keys = ring(&[("ann.asc", &gpg.public(&ann))]);
    let make = |repo: &Repo, name: &str| with_gpg(repo, &gpg, if name == "ann" { &ann } else { &bob });
    signed_by_git(make, keys).await;
}

#[tokio::test]
async fn what_git_signs_with_ssh_is_verified() {
    let Some(ssh) = Ssh::new() else { return };
    let ann = ssh.key("ann", &["-t", "ed25519"]);
    ssh.key("bob", &["-t", "ed25519"]);
    let keys = ring(&[("allowed_signers", &format!("ann@x {ann}"))]);
    let make = |repo: &Repo, name: &str| {
        repo.git(&["config", "gpg.format", "ssh"]);
        repo.git(&["config", "user.signingkey", &ssh.path(name)]);
    };
    signed_by_git(make, keys).await;
}

#[tokio::test]
async fn a_signature_that_is_bad_is_not_transferred_again_and_again() {
    let Some(ssh) = Ssh::new() else { return };
    let (ann, bob) = (
        ssh.key("ann", &["-t", "ed25519"]),
        ssh.key("bob", &["-t", "ed25519"]),
    );
    let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
    repo.git(&["config", "gpg.format", "ssh"]);
    repo.git(&["config", "user.signingkey", &ssh.path("bob")]);
    repo.commit(&[("a.yaml", "a: 1\n")]);
    repo.git(&["tag", "--sign", "--message=one", "v1"]);
    let server = GitServer::start(repo.path(), Door::Plain, None).await;
    let source = source(data.path());
    let by_ann = Arc::new(ring(&[("ann.pub", &ann)]));
    let by_both = Arc::new(ring(&[("ann.pub", &ann), ("bob.pub", &bob)]));
    let remote = |keys| signed_remote(&server.url(".git"), VerifyMode::Tag, keys);
    let packs = || {
        server
            .recorded_requests()
            .iter()
            .filter(|request| request.method == "POST")
            .count()
    };
    assert!(source.resolve(&remote(&by_ann), &tag("v1")).await.is_err());
    let once = packs();
    assert!(once > 0);
    for _ in 0..3 {
        assert!(source.resolve(&remote(&by_ann), &tag("v1")).await.is_err());
    }
    assert!(
        source.resolve(&remote(&by_both), &tag("v1")).await.is_ok(),
        "a key was added"
    );
    assert_eq!(packs(), once);
}

#[tokio::test]
async fn repositories_of_maps_are_verified_alike() {
    let Some(ssh) = Ssh::new() else { return };
    let keys = Arc::new(ring(&[("ann.pub", &ssh.key("ann", &["-t", "ed25519"]))]));
    let (url, source) = ("https://git.test/r", MemorySource::new(Clock::system()));
    let commit = source.commit(url, "main", [("a.yaml", "a: 1\n")]);
    let object = payload("v1").replace(COMMIT, commit.as_str());
    let remote = signed_remote(url, VerifyMode::Tag, &keys);
    source.tag(url, "v1", &commit);
    assert_eq!(
        why(source.resolve(&remote, &tag("v1")).await),
        Unverified::Lightweight
    );
    source.annotated_tag(url, "v1", &commit, object.clone());
    assert_eq!(
        why(source.resolve(&remote, &tag("v1")).await),
        Unverified::Unsigned
    );
    source.annotated_tag(
        url,
        "v1",
        &commit,
        format!("{object}{}", ssh.sign("ann", "git", &object)),
    );
    assert!(
        source
            .resolve(&remote, &tag("v1"))
            .await
            .unwrap()
            .verified
            .is_some()
    );
    assert!(
        source
            .fetch(&remote, &tag("v1"))
            .await
            .unwrap()
            .verified
            .is_some()
    );
    let commits = signed_remote(url, VerifyMode::Commit, &keys);
    assert_eq!(
        why(source.fetch(&commits, &Want::Commit(commit)).await),
        Unverified::Unsigned
    );
}

#[test]
fn secrets_without_usable_keys_are_refused_by_the_name_of_the_key() {
    const CANARY: &str = "5up3rs3cr3t-canary";
    let refused = |values: &[(&str, &str)]| {
        let error = KeyRing::from_secret(&data(values)).unwrap_err();
        assert!(error.is_verification());
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(CANARY), "{shown}");
        error.to_string()
    };
    assert!(refused(&[]).contains("contains no public key"));
    assert!(refused(&[("a.asc", "\n"), ("b.pub", "# nothing\n")]).contains("contains no public key"));
    assert!(refused(&[("password", CANARY)]).contains("key \"password\" contains no armored OpenPGP key"));
    assert!(refused(&[("a.pub", CANARY)]).contains("key \"a.pub\" cannot be read in line 1"));
    assert!(refused(&[("allowed_signers", &format!("* ssh-ed25519 {CANARY}"))]).contains("line 1"));
    let armored =
        |label: &str| format!("-----BEGIN PGP {label}-----\n\n{CANARY}\n-----END PGP {label}-----\n");
    assert!(refused(&[("a", &armored("PUBLIC KEY BLOCK"))]).contains("cannot be read as OpenPGP keys"));
    assert!(refused(&[("a", &armored("PRIVATE KEY BLOCK"))]).contains("contains a private key"));
    assert!(refused(&[("a", &armored("MESSAGE"))]).contains("not a public key"));
    let ssh = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}\n-----END OPENSSH PRIVATE KEY-----\n");
    assert!(refused(&[("identity", &ssh)]).contains("contains a private key"));
    let debug = format!("{:?}", ring(&[("a.pub", ED25519)]));
    assert_eq!(debug, "KeyRing { openpgp: 0, ssh: 1 }");
    // Also a private key with a wrong label: detected by its packets.
    if let Some(gpg) = Gpg::new() {
        let ann = gpg.key("Ann");
        let exported = String::from_utf8(gpg.run(&["--armor", "--export-secret-keys", &ann], b"")).unwrap();
        assert!(refused(&[("a", &exported.replace("PRIVATE", "PUBLIC"))]).contains("contains a private key"));
    }
}

const ED25519: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti ann";

/// A key and a tag of its owner, as gpg and git made them.
const KEY: &str = include_str!("../fixtures/verify/key.asc");
const TAG: &str = include_str!("../fixtures/verify/tag");
const TAG_OF: &str = "67911b876c64935fb192a98405a1b0fd72dac7a6";

#[test]
fn hostile_armor_is_refused_in_no_time() {
    let keys = ring(&[("key.asc", KEY), ("a.pub", ED25519)]);
    let begun = Instant::now();
    for label in ["PGP SIGNATURE", "SSH SIGNATURE"] {
        let block = |body: &str| format!("-----BEGIN {label}-----\n\n{body}\n-----END {label}-----\n");
        let long = "iHUEABYKAB0WIQQ".repeat(70_000);
        for body in [
            &*long,
            "",
            "=",
            "!!!!",
            "iHUE",
            &"\n".repeat(10_000),
            &"A: b\n".repeat(1_000),
        ] {
            assert!(v1(&payload("v1"), &block(body), &keys).is_err());
        }
        let many = block("iHUE").repeat(10_000);
        assert!(v1(&payload("v1"), &many, &keys).is_err());
        assert!(v1(&payload("v1"), &format!("-----BEGIN {label}-----\n"), &keys).is_err());
    }
    let wide = format!("{}\n", "x".repeat(80)).repeat(13_000);
    for text in [
        format!("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{wide}-----END PGP PUBLIC KEY BLOCK-----\n"),
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n".repeat(30_000),
        format!("{}{KEY}", "-----BEGIN ".repeat(90_000)),
    ] {
        assert!(KeyRing::from_secret(&data(&[("a.asc", &text)])).is_err());
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

fn fixture(bytes: &[u8], keys: &KeyRing) -> Result<(), Unverified> {
    let now = "2026-12-01T00:00:00Z".parse().unwrap();
    verify_tag(bytes, "v1", &commit_id(TAG_OF), keys, now).map(|_| ())
}

#[test]
fn a_tag_of_a_fixture_is_good() {
    assert_eq!(fixture(TAG.as_bytes(), &ring(&[("key.asc", KEY)])), Ok(()));
}

/// Changes, duplicates or removes some bytes of a text.
fn mutated(text: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let change = (0..text.len(), 0..4_u8, any::<u8>(), 1..40_usize);
    proptest::collection::vec(change, 1..4).prop_map(move |changes| {
        let mut bytes = text.as_bytes().to_vec();
        for (at, kind, byte, length) in changes {
            let at = at.min(bytes.len().saturating_sub(1));
            let end = (at + length).min(bytes.len());
            match kind {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.drain(at..end)),
                _ => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_change_of_a_signed_tag_goes_unnoticed(bytes in mutated(TAG)) {
        let keys = ring(&[("key.asc", KEY)]);
        let signed = |bytes: &[u8]| {
            let start = bytes.windows(11).position(|window| window == b"-----BEGIN ").unwrap_or(bytes.len());
            bytes[..start].to_vec()
        };
        // White space of the armor may change; signed content may not.
        if fixture(&bytes, &keys).is_ok() {
            prop_assert_eq!(signed(&bytes), signed(TAG.as_bytes()));
        }
        let _ = verify_commit(&bytes, &keys, Timestamp::now());
    }

    #[test]
    fn no_change_of_a_key_breaks_the_reader(bytes in mutated(KEY)) {
        let read = KeyRing::from_secret(&BTreeMap::from([("key.asc".to_owned(), bytes)]));
        if let Ok(keys) = read {
            let _ = fixture(TAG.as_bytes(), &keys);
        }
    }
}
