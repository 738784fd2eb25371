//! The in-memory source behaves like a real one: fetched before it is read, kept while the remote is down.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_sync::source::{Clock, Counts, Fault, MemorySource, Remote, Source, SourceError, Want};

const URL: &str = "https://git.example.com/fleet";

fn source() -> MemorySource {
    MemorySource::new(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()))
}

fn tag(name: &str) -> Want {
    Want::Tag(name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn names_lead_to_commits_and_commits_to_files() {
    let source = source();
    let first = source.commit(URL, "main", [("deploy/a.yaml", "a: 1\n"), ("README.md", "no")]);
    source.tag(URL, "v1", &first);
    let second = source.commit(URL, "main", [("deploy/a.yaml", "a: 2\n")]);
    let remote = Remote::new(URL);
    assert_eq!(source.resolve(&remote, &tag("v1")).await.unwrap().commit, first);
    let error = source.read(&remote, &first, "deploy").await.unwrap_err();
    assert!(matches!(error, SourceError::NotFetched { .. }), "{error}");
    let fetched = source.fetch(&remote, &tag("v1")).await.unwrap();
    assert_eq!(fetched.revision(), format!("v1@sha1:{first}"));
    assert_eq!(fetched.at.to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(fetched.size, 7);
    let files = source.read(&remote, &first, "./deploy/").await.unwrap();
    assert_eq!(
        files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
        ["deploy/a.yaml"]
    );
    assert_eq!(
        source
            .fetch(&remote, &Want::Branch("main".to_owned()))
            .await
            .unwrap()
            .commit,
        second
    );
    let error = source.read(&remote, &first, "nowhere").await.unwrap_err();
    assert!(matches!(error, SourceError::PathNotFound { .. }), "{error}");
    for (want, expect) in [
        (tag("v9"), "tag \"v9\" is not in"),
        (Want::Branch("x".to_owned()), "branch \"x\" is not in"),
        (
            Want::Commit("1".repeat(40).parse().unwrap()),
            "is not on any branch or tag",
        ),
        (Want::Semver("1.x".to_owned()), "is not supported"),
    ] {
        let error = source.fetch(&remote, &want).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
    let error = source
        .fetch(&Remote::new("https://elsewhere"), &tag("v1"))
        .await
        .unwrap_err();
    assert!(matches!(error, SourceError::RepositoryNotFound { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_a_function_of_its_content() {
    let (one, other) = (source(), source());
    assert_eq!(
        one.commit(URL, "main", [("a.yaml", "1")]),
        other.commit(URL, "main", [("a.yaml", "1")])
    );
    assert_ne!(
        one.commit(URL, "main", [("a.yaml", "2")]),
        other.commit(URL, "main", [("a.yaml", "3")])
    );
}

#[tokio::test(start_paused = true)]
async fn a_remote_that_is_away_takes_nothing_from_what_is_here() {
    let source = source();
    let first = source.commit(URL, "main", [("a.yaml", "a: 1\n")]);
    let remote = Remote::new(URL);
    let want = Want::Commit(first.clone());
    source.fetch(&remote, &want).await.unwrap();
    let away = SourceError::Unreachable {
        url: URL.to_owned(),
        why: "connection refused".to_owned(),
    };
    source.break_with(URL, Fault::Fail(away.clone()));
    assert_eq!(
        source
            .fetch(&remote, &Want::Branch("main".to_owned()))
            .await
            .unwrap_err(),
        away
    );
    assert_eq!(source.resolve(&remote, &tag("v1")).await.unwrap_err(), away);
    source.fetch(&remote, &want).await.unwrap();
    assert_eq!(source.read(&remote, &first, "").await.unwrap().len(), 1);
    assert_eq!(
        source.counts(URL),
        Counts {
            resolves: 1,
            fetches: 2,
            reads: 1
        },
        "a commit that is here costs no call"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hanging_fetch_continues_when_the_remote_recovers() {
    let source = source();
    source.commit(URL, "main", [("a.yaml", "a: 1\n")]);
    source.break_with(URL, Fault::Hang);
    let (waiting, remote) = (source.clone(), Remote::new(URL));
    let fetch = tokio::spawn(async move { waiting.fetch(&remote, &Want::Branch("main".to_owned())).await });
    let hour = tokio::time::timeout(Duration::from_hours(1), std::future::pending::<()>());
    hour.await.unwrap_err();
    assert!(!fetch.is_finished());
    source.clear_fault(URL);
    fetch.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn unreferenced_commits_are_forgotten_after_an_hour() {
    let source = source();
    let first = source.commit(URL, "main", [("a.yaml", "a: 1\n")]);
    let second = source.commit(URL, "main", [("a.yaml", "a: 2\n")]);
    let remote = Remote::new(URL);
    for commit in [&first, &second] {
        source
            .fetch(&remote, &Want::Commit(commit.clone()))
            .await
            .unwrap();
    }
    let named = BTreeSet::from([(URL.to_owned(), second.clone())]);
    tokio::time::advance(Duration::from_mins(50)).await;
    source.read(&remote, &first, "").await.unwrap();
    tokio::time::advance(Duration::from_mins(20)).await;
    source.retain(&named).await.unwrap();
    source.read(&remote, &first, "").await.unwrap();
    tokio::time::advance(Duration::from_mins(61)).await;
    source.retain(&named).await.unwrap();
    let error = source.read(&remote, &first, "").await.unwrap_err();
    assert!(matches!(error, SourceError::NotFetched { .. }), "{error}");
    source.read(&remote, &second, "").await.unwrap();
}
