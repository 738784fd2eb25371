//! What is fetched again and what is not, measured by the requests and bytes at a real server; and what is freed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::support::git_server::{Door, GitServer};
use crate::support::repo::Repo;
use jiff::{SignedDuration, Timestamp};
use muster_sync::source::{
    Clock, CommitId, Credentials, GitOptions, GitSource, Limits, Remote, Source, SourceError, Want,
};
use parking_lot::Mutex;

struct Bed {
    repo: Repo,
    server: GitServer,
    source: GitSource,
    now: Arc<Mutex<Timestamp>>,
    data: tempfile::TempDir,
    state: Mutex<u64>,
}

impl Bed {
    async fn new(authorization: Option<&str>) -> Self {
        let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
        let now = Arc::new(Mutex::new(Timestamp::UNIX_EPOCH));
        Self {
            server: GitServer::start(repo.path(), Door::Plain, authorization).await,
            source: source(data.path(), &now),
            repo,
            now,
            data,
            state: Mutex::new(1),
        }
    }

    fn remote(&self) -> Remote {
        Remote::new(self.server.url(".git"))
    }

    /// Commits a file of this many incompressible bytes.
    fn commit(&self, path: &str, size: usize) -> CommitId {
        let mut state = self.state.lock();
        let noise: String = (0..size)
            .map(|_| {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'a' + u8::try_from(*state >> 33 & 15).unwrap())
            })
            .collect();
        self.repo
            .commit(&[(path, &format!("a: {noise}\n"))])
            .parse()
            .unwrap()
    }

    async fn fetch(&self, want: Want) -> (usize, usize, usize) {
        let before = (self.server.recorded_requests().len(), self.server.sent_in_all());
        self.source.fetch(&self.remote(), &want).await.unwrap();
        let requests = self.server.recorded_requests();
        let gets = requests[before.0..]
            .iter()
            .filter(|request| request.method == "GET")
            .count();
        let posts = requests.len() - before.0 - gets;
        (gets, posts, self.server.sent_in_all() - before.1)
    }

    async fn has(&self, commit: &CommitId) -> bool {
        match source(self.data.path(), &self.now)
            .read(&self.remote(), commit, "")
            .await
        {
            Ok(files) => !files.is_empty(),
            Err(SourceError::NotFetched { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    async fn retain(&self, named: &[&CommitId]) {
        let url = self.remote().url;
        let named: BTreeSet<_> = named
            .iter()
            .map(|commit| (url.clone(), (*commit).clone()))
            .collect();
        self.source.retain(&named).await.unwrap();
    }
}

fn source(data: &Path, now: &Arc<Mutex<Timestamp>>) -> GitSource {
    let now = Arc::clone(now);
    let options = GitOptions {
        data_dir: data.to_owned(),
        allow_insecure: true,
        limits: Limits {
            spare_bytes: 150_000,
            ..Limits::default()
        },
    };
    GitSource::new(options, Clock::given(move || *now.lock())).unwrap()
}

fn main_branch() -> Want {
    Want::Branch("main".to_owned())
}

/// Total size of all packs in bytes.
fn size(data: &Path) -> u64 {
    let (mut size, mut directories) = (0, vec![data.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_dir() {
                directories.push(entry.path());
            } else if entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "pack")
            {
                size += entry.metadata().unwrap().len();
            }
        }
    }
    size
}

#[tokio::test]
async fn a_new_commit_brings_only_what_changed() {
    let bed = Bed::new(None).await;
    let first = bed.commit("large.yaml", 200_000);
    let (gets, posts, bytes) = bed.fetch(main_branch()).await;
    assert_eq!(
        (gets, posts),
        (1, 2),
        "the references once; libgit2 asks twice for what has no history"
    );
    assert!(bytes > 100_000, "{bytes}");
    let second = bed.commit("small.yaml", 100);
    let (gets, posts, bytes) = bed.fetch(main_branch()).await;
    println!("the second commit cost {bytes} bytes");
    assert_eq!((gets, posts), (1, 2));
    assert!(bytes < 2_000, "{bytes}");
    // Nothing new: one request.
    let (gets, posts, bytes) = bed.fetch(main_branch()).await;
    assert_eq!((gets, posts), (1, 0));
    assert!(bytes < 1_000, "{bytes}");
    // A pinned commit that is stored: none.
    assert_eq!(bed.fetch(Want::Commit(first.clone())).await, (0, 0, 0));
    assert!(bed.has(&first).await && bed.has(&second).await);
}

#[tokio::test]
async fn history_is_fetched_once_and_then_added_to() {
    let bed = Bed::new(None).await;
    let mut commits = vec![bed.commit("large.yaml", 200_000)];
    commits.extend((0..4).map(|_| bed.commit("small.yaml", 100)));
    // By branch first: a commit that was fetched alone does not count as history.
    bed.fetch(main_branch()).await;
    // Not a tip, and the server does not allow fetching by id: everything.
    let (gets, posts, bytes) = bed.fetch(Want::Commit(commits[2].clone())).await;
    assert_eq!((gets, posts), (1, 1));
    assert!(bytes > 100_000, "{bytes}");
    // A commit that was fetched along is stored: the references are only requested to prove access.
    let (_, posts, bytes) = bed.fetch(Want::Commit(commits[1].clone())).await;
    assert_eq!(posts, 0, "{bytes}");
    commits.extend((0..3).map(|_| bed.commit("small.yaml", 100)));
    let (gets, posts, bytes) = bed.fetch(Want::Commit(commits[6].clone())).await;
    println!("three commits more cost {bytes} bytes");
    assert_eq!((gets, posts), (1, 1));
    assert!(bytes < 4_000, "{bytes}");
    for commit in [1, 2, 4, 6] {
        assert!(bed.has(&commits[commit]).await, "{commit}");
    }
    assert!(!bed.has(&commits[3]).await, "it was not requested");
}

#[tokio::test]
async fn a_rewritten_history_is_fetched() {
    let bed = Bed::new(None).await;
    bed.commit("a.yaml", 1_000);
    bed.fetch(main_branch()).await;
    bed.repo.git(&["checkout", "--quiet", "--orphan", "other"]);
    let other = bed.commit("b.yaml", 1_000);
    bed.repo.git(&["branch", "--force", "main", "other"]);
    bed.fetch(main_branch()).await;
    assert!(bed.has(&other).await);
}

#[tokio::test]
async fn what_a_server_takes_for_known_and_is_lost_here_is_fetched_after_all() {
    let bed = Bed::new(None).await;
    let first = bed.commit("large.yaml", 50_000);
    bed.fetch(main_branch()).await;
    // The mark remains, but its objects are lost.
    let mirror = std::fs::read_dir(bed.data.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    for file in std::fs::read_dir(mirror.join("objects/pack")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let second = bed.commit("small.yaml", 100);
    bed.fetch(main_branch()).await;
    assert!(bed.has(&second).await);
    assert!(!bed.has(&first).await);
    bed.fetch(Want::Commit(first.clone())).await;
    assert!(bed.has(&first).await);
}

#[tokio::test]
async fn unreferenced_commits_are_removed_from_disk_after_an_hour() {
    let bed = Bed::new(None).await;
    let commits: Vec<CommitId> = (0..6).map(|_| bed.commit("large.yaml", 100_000)).collect();
    bed.fetch(main_branch()).await;
    bed.fetch(Want::Commit(commits[1].clone())).await;
    let before = size(bed.data.path());
    bed.retain(&[&commits[5]]).await;
    assert!(bed.has(&commits[1]).await, "used a moment ago");
    *bed.now.lock() += SignedDuration::from_mins(61);
    bed.retain(&[&commits[1]]).await;
    let after = size(bed.data.path());
    println!("{before} bytes before, {after} after");
    assert!(after < before / 3, "{after} of {before}");
    assert!(bed.has(&commits[1]).await, "it is named");
    assert!(!bed.has(&commits[5]).await);
    // The next fetch continues from there.
    bed.fetch(main_branch()).await;
    bed.fetch(Want::Commit(commits[3].clone())).await;
    for commit in [1, 3, 5] {
        assert!(bed.has(&commits[commit]).await, "{commit}");
    }
    *bed.now.lock() += SignedDuration::from_mins(61);
    bed.retain(&[]).await;
    assert_eq!(std::fs::read_dir(bed.data.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_small_mirror_keeps_what_it_has() {
    let bed = Bed::new(None).await;
    let first = bed.commit("a.yaml", 1_000);
    bed.fetch(main_branch()).await;
    let second = bed.commit("a.yaml", 1_000);
    bed.fetch(main_branch()).await;
    *bed.now.lock() += SignedDuration::from_mins(61);
    let before = size(bed.data.path());
    bed.retain(&[&second]).await;
    assert_eq!(size(bed.data.path()), before, "not worth it");
    assert!(!bed.has(&first).await && bed.has(&second).await);
}

#[tokio::test]
async fn content_fetched_with_credentials_needs_the_same_credentials() {
    let bed = Bed::new(Some("Bearer hunter2")).await;
    let commit = bed.commit("a.yaml", 100);
    let want = Want::Commit(commit.clone());
    let with = |token: &str| {
        bed.remote().with_credentials(Credentials {
            bearer_token: Some(token.to_owned()),
            ..Credentials::default()
        })
    };
    bed.source.fetch(&with("hunter2"), &want).await.unwrap();
    for stranger in [bed.remote(), with("hunter3")] {
        let error = bed.source.fetch(&stranger, &want).await.unwrap_err();
        assert!(matches!(error, SourceError::Unauthorized { .. }), "{error}");
    }
    let request_count = bed.server.recorded_requests().len();
    bed.source.fetch(&with("hunter2"), &want).await.unwrap();
    assert_eq!(
        bed.server.recorded_requests().len(),
        request_count,
        "known: nothing is asked"
    );
    // A later process requests it once.
    let later = source(bed.data.path(), &bed.now);
    assert!(later.fetch(&bed.remote(), &want).await.is_err());
    later.fetch(&with("hunter2"), &want).await.unwrap();
    later.fetch(&with("hunter2"), &want).await.unwrap();
    assert_eq!(bed.server.recorded_requests().len(), request_count + 2);
}
