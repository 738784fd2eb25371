//! Promise: the history of a module is newest first, in one versioned schema; a rollback goes to the last good revision
//! with another version.

use muster_api::{ModuleRevision, module::ModuleSpec};
use muster_dashboard::{History, NoWayBack, Past, RevisionOutcome};
use serde_json::{Value, json};

fn revision(digit: char, tag: &str, path: &str, status: &Value) -> ModuleRevision {
    serde_json::from_value(json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ModuleRevision",
        "metadata": {"name": format!("web-{digit}"), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "moduleRef": {"kind": "Module", "name": "web"}, "revision": digit.to_string().repeat(64), "commit": digit.to_string().repeat(40),
            "sync": {"source": {"git": {"url": "https://git.test/fleet", "version": {"tag": tag}}}, "package": {"path": path}},
        },
        "status": status,
    }))
    .unwrap()
}

fn story(day: u8, verdict: &str) -> Value {
    json!({"started": format!("2026-01-0{day}T00:00:00Z"), "finished": format!("2026-01-0{day}T01:00:00Z"), "verdict": verdict})
}

fn spec(tag: &str) -> ModuleSpec {
    let git = json!({"url": "https://git.test/fleet", "version": {"tag": tag}});
    serde_json::from_value(json!({"sync": {"source": {"git": git}, "package": {"path": "web"}}})).unwrap()
}

fn history(tag: &str, all: &[ModuleRevision]) -> History {
    History::of("module/web", &spec(tag), None, all)
}

fn check(tag: &str, to: Option<&str>, expect: Result<&str, &str>) {
    let all = [
        revision('a', "v1", "web", &story(1, "Good")),
        revision('b', "v2", "web", &story(2, "Good")),
        // The same version with other settings is not a rollback target.
        revision('c', "v3", "old", &story(3, "Good")),
        revision('d', "v3", "web", &story(4, "Good")),
        revision('e', "v4", "web", &story(5, "Bad")),
        revision('f', "v5", "web", &story(6, "Aborted")),
    ];
    let history = history(tag, &all);
    let found = history.back(&spec(tag).sync.source.version(), to);
    let outcome = found
        .map(|past| past.version.as_str())
        .map_err(|error| match error {
            NoWayBack::NoSuchRevision(_) => "no such",
            NoWayBack::NothingGood { .. } => "nothing",
            NoWayBack::KnownBad { .. } => "bad",
            NoWayBack::Already { .. } => "already",
        });
    assert_eq!(outcome, expect, "{tag} {to:?}");
}

#[test]
fn the_way_back() {
    check("v4", None, Ok("v3"));
    check("v3", None, Ok("v2"));
    check("v9", None, Ok("v3"));
    check("v4", Some("AAAAAAAA"), Ok("v1"));
    check("v4", Some("ffffffff"), Ok("v5"));
    check("v5", Some("eeeeeeee"), Err("bad"));
    check("v3", Some("dddddddd"), Err("already"));
    check("v3", Some("0123456789"), Err("no such"));
    check("v3", Some("aaaaaaa"), Err("no such"));
    let alone = history("v1", &[revision('a', "v1", "web", &story(1, "Good"))]);
    let refused = alone.back(&spec("v1").sync.source.version(), None);
    assert!(matches!(refused, Err(NoWayBack::NothingGood { .. })));
}

#[test]
fn revisions_are_listed_newest_first_with_their_verdicts() {
    let all = [
        revision('a', "v1", "web", &story(1, "Good")),
        revision('b', "v2", "old", &json!({"started": "2026-01-03T00:00:00Z"})),
        revision('c', "v3", "web", &json!({})),
        revision('d', "v4", "web", &story(2, "Superseded")),
    ];
    let history = history("v4", &all);
    let listed: Vec<_> = history
        .revisions
        .iter()
        .map(|past| (past.version.as_str(), past.verdict, past.differs_by_version_only))
        .collect();
    assert_eq!(
        listed,
        [
            ("v3", RevisionOutcome::Pending, true),
            ("v2", RevisionOutcome::Running, false),
            ("v4", RevisionOutcome::Superseded, true),
            ("v1", RevisionOutcome::Good, true),
        ]
    );
}

#[test]
fn a_revision_is_named_by_its_version_or_hash() {
    let all: Vec<ModuleRevision> = ('a'..='f')
        .zip(["v1", "v2", "v3", "v3", "deadbeef", "v5"])
        .zip(1..)
        .map(|((digit, tag), day)| revision(digit, tag, "web", &story(day, "Good")))
        .collect();
    let history = history("v5", &all);
    let check = |version: &str, expect: Result<&str, &str>| {
        let found = history
            .find_by_version(version)
            .map(Past::short_hash)
            .map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{version}");
    };
    check("v1", Ok("aaaaaaaa"));
    check("BBBBBBBB", Ok("bbbbbbbb"));
    check("deadbeef", Ok("eeeeeeee"));
    check(
        "v3",
        Err(
            "several revisions of module/web have the version v3: dddddddd, cccccccc; next: use the hash of one of them",
        ),
    );
    let known = "v5 (ffffffff), deadbeef (eeeeeeee), v3 (dddddddd), v3 (cccccccc), v2 (bbbbbbbb) and 1 more";
    for version in ["v9", "01234567", ""] {
        let words = format!(
            "there is no revision or version {version} of module/web; there are {known}; next: muster rollout history module/web"
        );
        check(version, Err(&words));
    }
}

#[test]
fn several_that_begin_alike() {
    let mut other = revision('a', "v2", "web", &json!({}));
    other.spec.revision = format!("{}b", "a".repeat(63));
    let history = history("v1", &[revision('a', "v1", "web", &json!({})), other]);
    let error = history.find("aaaaaaaa").unwrap_err().to_string();
    assert_eq!(
        error,
        "2 revisions of module/web begin with aaaaaaaa: write more digits"
    );
    assert!(history.find(&"a".repeat(64)).is_ok());
}
