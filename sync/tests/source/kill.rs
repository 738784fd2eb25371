//! A process that is killed while it receives a pack, after various numbers of bytes: the next one reads nothing
//! incomplete, and ends as if the first one had never run. (The steps after the download:
//! `sync/src/source/git/crash.rs`.)

use std::path::Path;

use crate::support::child::Work;
use crate::support::git_server::{Door, GitServer, Tamper};
use crate::support::repo::Repo;
use muster_sync::source::{Clock, CommitId, GitOptions, GitSource, Limits, Remote, Source, SourceError};

/// What a later process finds: the number of manifests of a stored commit.
async fn held(data: &Path, url: &str, commit: &str) -> Option<usize> {
    let options = GitOptions {
        data_dir: data.to_owned(),
        allow_insecure: true,
        limits: Limits::default(),
    };
    let source = GitSource::new(options, Clock::system()).unwrap();
    let commit: CommitId = commit.parse().unwrap();
    match source.read(&Remote::new(url), &commit, "deploy").await {
        Ok(files) => Some(files.len()),
        Err(SourceError::NotFetched { .. }) => None,
        Err(error) => panic!("it is here by half: {error}"),
    }
}

/// Names in the data directory and its mirrors, except those of packs.
fn names(data: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for mirror in std::fs::read_dir(data).unwrap() {
        let mirror = mirror.unwrap().path();
        names.push(mirror.file_name().unwrap().to_str().unwrap().to_owned());
        for file in std::fs::read_dir(mirror.join("kept")).unwrap() {
            names.push(file.unwrap().file_name().into_string().unwrap());
        }
        for file in std::fs::read_dir(mirror.join("objects/pack")).unwrap() {
            let path = file.unwrap().path();
            names.push(path.extension().unwrap().to_str().unwrap().to_owned());
        }
    }
    names.sort();
    names
}

#[tokio::test]
async fn killed_after_so_many_bytes_it_ends_as_if_it_had_not_been() {
    let repo = Repo::new();
    let mut state = 1_u64;
    let texts: Vec<(String, String)> = (0..12)
        .map(|number| {
            // Incompressible text, so that the pack has some size.
            let noise: String = (0..1500)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    char::from(b'a' + u8::try_from(state >> 33 & 15).unwrap())
                })
                .collect();
            (format!("deploy/{number}.yaml"), format!("a: {noise}\n"))
        })
        .collect();
    let texts: Vec<(&str, &str)> = texts
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let first = repo.commit(&[("deploy/a.yaml", "a: 1\n")]);
    let server = GitServer::start(repo.path(), Door::Plain, None).await;
    let url = server.url(".git");
    let data = tempfile::tempdir().unwrap();
    Work::new(data.path(), &url, "main").run().await.result.unwrap();
    // The same without a kill, for comparison.
    let beside = tempfile::tempdir().unwrap();
    Work::new(beside.path(), &url, "main").run().await.result.unwrap();
    let second = repo.commit(&texts);
    let whole = Work::new(beside.path(), &url, "main").run().await;
    assert_eq!(whole.result.unwrap(), second);
    let size = server.sent();
    assert!(size > 8 << 10, "{size} bytes");
    let points = (0..size).step_by(1 << 10).chain([size - 1]);
    for point in points {
        server.tamper(Tamper::Stall(point));
        let mut child = Work::new(data.path(), &url, "main").start();
        server.stalled().await;
        child.kill().await.unwrap();
        server.tamper(Tamper::None);
        assert_eq!(
            held(data.path(), &url, &second).await,
            None,
            "after {point} bytes"
        );
        assert_eq!(
            held(data.path(), &url, &first).await,
            Some(1),
            "after {point} bytes"
        );
        let left = std::fs::read_dir(data.path()).unwrap().count();
        assert_eq!(left, 2, "the mirror, and what the dead process was at");
    }
    println!("killed after each KiB of {size} bytes");
    let done = Work::new(data.path(), &url, "main").run().await;
    assert_eq!(done.result.unwrap(), second);
    assert_eq!(held(data.path(), &url, &second).await, Some(13));
    assert_eq!(held(data.path(), &url, &first).await, Some(1));
    assert_eq!(names(data.path()), names(beside.path()));
}
