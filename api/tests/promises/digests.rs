//! Promise: revisions and digests are the documented hashes: equal for equal content, different for any other.

use std::collections::BTreeMap;

use muster_api::{
    Duration, digest,
    sync::{
        Assume, Binding, GitSecretReference, GitSource, GitVersion, HealthCheck, HealthExpression,
        HealthTable, LocalReference, ObjectFieldRef, Package, PackagePlan, Source, Sync, Verify, VerifyMode,
    },
};
use serde_json::json;

const COMMIT: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";

fn sync() -> Sync {
    Sync {
        source: Source::Git(GitSource {
            url: "https://git.example/fleet".into(),
            version: GitVersion {
                tag: Some("v1".into()),
                commit: None,
            },
            secret_ref: None,
            proxy_secret_ref: None,
            verify: None,
        }),
        package: Package::default(),
        bindings: vec![binding("A", "1"), binding("B", "2")],
    }
}

fn git(sync: &mut Sync) -> &mut GitSource {
    match &mut sync.source {
        Source::Git(git) => git,
        Source::Flux(_) => panic!("it is read by muster"),
    }
}

fn binding(name: &str, value: &str) -> Binding {
    Binding {
        name: name.into(),
        value: Some(value.into()),
        object_field_ref: None,
    }
}

fn revision(sync: &Sync) -> String {
    digest::revision(COMMIT, sync, &[binding("REGION", "eu")])
}

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_proxy_is_a_part_of_the_revision() {
    let mut with = sync();
    git(&mut with).proxy_secret_ref = Some(LocalReference { name: "proxy".into() });
    assert_ne!(revision(&with), revision(&sync()));
}

/// Golden: these are compared with what clusters report; a change would roll out everything again. The first lines can
/// be checked with `printf 'a\0b' | sha256sum`.
#[test]
fn golden_vectors() {
    let revision = revision(&sync());
    let lines = [
        digest::sha256_hex(&[]),
        digest::sha256_hex(&["a", "b"]),
        digest::short_hash(&["a", "b"]),
        revision.clone(),
        digest::digest(&revision, &values(&[("REGION", "eu")])),
        digest::digest(&revision, &values(&[])),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    59b271ae1bbcb1d31d41929817f4b16fb439eb4f31520b5ad1d5ce98920a7138
    lgzhdlq3xs
    75a3ef5ec5653fc899941cb6f6ebab0933ba9e190bf684a242f8a1a806385800
    sha256:71a944ae4ebad3a87708a97f0b5346794c94fc25cf198fa932903e391a38bc72
    sha256:85107ae806ed779a1a300d7d06d3f59d23b6b223939bfcfe20769b95bec15ae6
    "#);
}

#[test]
fn canonical_bytes() {
    let check = |value: serde_json::Value, expect: &str| assert_eq!(digest::canonical(&value), expect);
    check(
        json!({"b": [1, true, null], "a": {"d": "x", "c": 1.5}}),
        r#"{"a":{"c":1.5,"d":"x"},"b":[1,true,null]}"#,
    );
    check(
        json!({"é": "\u{1f600}\n\"\\", "A": "", "a": ""}),
        "{\"A\":\"\",\"a\":\"\",\"é\":\"\u{1f600}\\n\\\"\\\\\"}",
    );
    check(json!([]), "[]");
    check(json!({}), "{}");
}

#[test]
fn what_has_no_meaning_changes_nothing() {
    let same = |change: fn(&mut Sync)| {
        let mut other = sync();
        change(&mut other);
        assert_eq!(revision(&other), revision(&sync()));
    };
    same(|sync| sync.bindings.reverse());
    same(|sync| {
        git(sync).version = GitVersion {
            tag: None,
            commit: Some(COMMIT.into()),
        }
    });
    same(|sync| sync.package.timeout = Duration::from_secs(300));
}

fn expression(current: &str) -> HealthExpression {
    HealthExpression {
        api_version: "example.test/v1".into(),
        kind: "Widget".into(),
        current: current.into(),
        in_progress: None,
        failed: None,
    }
}

fn plan(keep: Option<Duration>, deadline: Option<Duration>) -> PackagePlan {
    PackagePlan {
        file: "plan.yaml".into(),
        keep,
        deadline,
    }
}

/// A signature is about who made a version, not about its content: requiring one later causes no rollout.
#[test]
fn what_must_be_signed_is_no_part_of_a_revision() {
    let plain = sync();
    let mut signed = sync();
    git(&mut signed).verify = Some(Verify {
        mode: VerifyMode::Tag,
        secret_ref: LocalReference { name: "keys".into() },
    });
    assert_eq!(revision(&signed), revision(&plain));
}

fn secret(distribute: bool) -> GitSecretReference {
    GitSecretReference {
        name: "git".into(),
        distribute,
    }
}

#[test]
fn every_content_has_its_own_revision() {
    let changes: [fn(&mut Sync); 27] = [
        |_| {},
        |sync| git(sync).url.push('2'),
        |sync| git(sync).secret_ref = Some(secret(false)),
        |sync| git(sync).secret_ref = Some(secret(true)),
        |sync| sync.package.path = "app".into(),
        |sync| sync.package.substitute = BTreeMap::from([("A".into(), "1".into())]),
        |sync| sync.package.target_namespace = Some("app".into()),
        |sync| sync.package.prune = false,
        |sync| sync.package.wait = false,
        |sync| sync.package.timeout = Duration::from_secs(1),
        |sync| sync.package.settle = Some(Duration::ZERO),
        |sync| sync.package.settle = Some(Duration::from_secs(30)),
        |sync| sync.package.assume = Some(Assume::Never),
        |sync| sync.package.health_expressions = vec![expression("true")],
        |sync| sync.package.health_table = Some(HealthTable::V1),
        |sync| sync.package.plan = Some(plan(None, None)),
        |sync| sync.package.plan = Some(plan(Some(Duration::from_secs(60)), None)),
        |sync| sync.package.plan = Some(plan(None, Some(Duration::from_secs(60)))),
        |sync| {
            sync.package.health_expressions = vec![HealthExpression {
                in_progress: Some("false".into()),
                ..expression("true")
            }];
        },
        |sync| sync.package.interval = Duration::from_secs(1),
        |sync| sync.package.retry_interval = Duration::from_secs(1),
        |sync| sync.package.force = true,
        |sync| {
            let (api_version, kind, name) = ("v1".into(), "Pod".into(), "p".into());
            sync.package.health_checks = vec![HealthCheck {
                api_version,
                kind,
                name,
                namespace: None,
            }];
        },
        |sync| sync.bindings[0].name = "C".into(),
        |sync| sync.bindings[0].value = Some("3".into()),
        |sync| sync.bindings.truncate(1),
        |sync| {
            let (api_version, kind, name) = ("v1".into(), "ConfigMap".into(), "facts".into());
            let reference = ObjectFieldRef {
                api_version,
                kind,
                name,
                field_path: "/data/a".into(),
            };
            sync.bindings[0] = Binding {
                name: "A".into(),
                value: None,
                object_field_ref: Some(reference),
            };
        },
    ];
    let mut revisions: Vec<String> = changes
        .iter()
        .map(|change| {
            let mut other = sync();
            change(&mut other);
            revision(&other)
        })
        .collect();
    revisions.push(digest::revision(
        &COMMIT.replace('0', "1"),
        &sync(),
        &[binding("REGION", "eu")],
    ));
    revisions.push(digest::revision(COMMIT, &sync(), &[binding("REGION", "us")]));
    revisions.push(digest::revision(COMMIT, &sync(), &[]));
    // The same definition in the other list is a different definition.
    let mut moved = sync();
    moved.bindings.push(binding("REGION", "eu"));
    revisions.push(digest::revision(COMMIT, &moved, &[]));
    let count = revisions.len();
    revisions.sort();
    revisions.dedup();
    assert_eq!(revisions.len(), count);
    assert!(revisions.iter().all(|revision| revision.len() == 64));
}

#[test]
fn every_value_has_its_own_digest() {
    let one = digest::digest("r", &values(&[("A", "1"), ("B", "2")]));
    assert_eq!(one, digest::digest("r", &values(&[("B", "2"), ("A", "1")])));
    for other in [
        values(&[("A", "1")]),
        values(&[("A", "1"), ("B", "3")]),
        values(&[("A", "1,B:2")]),
    ] {
        assert_ne!(one, digest::digest("r", &other));
    }
    assert_ne!(one, digest::digest("r2", &values(&[("A", "1"), ("B", "2")])));
    assert!(one.starts_with("sha256:") && one.len() == 71);
}
