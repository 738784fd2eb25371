//! Git over `file`: resolving, fetching, storing.

use std::path::Path;
use std::sync::Arc;

use crate::support::repo::Repo;
use muster_sync::source::{
    Clock, CommitId, Fetched, GitOptions, GitSource, Limits, Remote, Source, SourceError, SourceErrorClass,
    Want,
};

fn source(data: &Path) -> GitSource {
    limited(data, Limits::default())
}

fn limited(data: &Path, limits: Limits) -> GitSource {
    let options = GitOptions {
        data_dir: data.to_owned(),
        allow_insecure: true,
        limits,
    };
    GitSource::new(options, Clock::system()).unwrap()
}

fn commit(id: &str) -> CommitId {
    id.parse().unwrap()
}

fn tag(name: &str) -> Want {
    Want::Tag(name.to_owned())
}

/// Paths and contents below a path.
async fn read(
    source: &GitSource,
    remote: &Remote,
    id: &str,
    path: &str,
) -> Result<Vec<(String, String)>, SourceError> {
    let files = source.read(remote, &commit(id), path).await?;
    Ok(files
        .iter()
        .map(|f| (f.path.clone(), String::from_utf8_lossy(&f.bytes).into_owned()))
        .collect())
}

/// Names in the data directory.
fn left_in(data: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(data)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn each_kind_of_name_leads_to_its_commit() {
    let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
    let first = repo.commit(&[("a.yaml", "a: 1\n")]);
    repo.git(&["tag", "light"]);
    repo.git(&["tag", "--annotate", "--message=note", "noted"]);
    repo.git(&["tag", "--annotate", "--message=note", "twice", "noted"]);
    let second = repo.commit(&[("a.yaml", "a: 2\n")]);
    let (source, remote) = (source(data.path()), Remote::new(repo.url()));
    let cases = [
        (tag("light"), &first, Some("light"), "light@sha1:"),
        (tag("noted"), &first, Some("noted"), "noted@sha1:"),
        (tag("twice"), &first, Some("twice"), "twice@sha1:"),
        (
            Want::Branch("main".to_owned()),
            &second,
            Some("main"),
            "main@sha1:",
        ),
        (Want::Commit(commit(&first)), &first, None, "sha1:"),
    ];
    for (want, id, reference, prefix) in cases {
        let resolved = source.resolve(&remote, &want).await.unwrap();
        assert_eq!(
            (resolved.commit.as_str(), resolved.reference.as_deref()),
            (id.as_str(), reference),
            "{want}"
        );
        let fetched: Fetched = source.fetch(&remote, &want).await.unwrap();
        assert_eq!(
            (fetched.commit.as_str(), fetched.reference.as_deref()),
            (id.as_str(), reference),
            "{want}"
        );
        assert_eq!(fetched.revision(), format!("{prefix}{id}"), "{want}");
        let tree = repo.git(&["rev-parse", &format!("{id}^{{tree}}")]);
        assert_eq!(
            (fetched.digest, fetched.size),
            (format!("sha1:{tree}"), 5),
            "{want}"
        );
    }
    assert_eq!(
        read(&source, &remote, &first, "").await.unwrap(),
        [("a.yaml".to_owned(), "a: 1\n".to_owned())]
    );
    assert_eq!(
        read(&source, &remote, &second, ".").await.unwrap(),
        [("a.yaml".to_owned(), "a: 2\n".to_owned())]
    );
    assert_eq!(
        left_in(data.path()).len(),
        1,
        "one mirror and nothing else: {:?}",
        left_in(data.path())
    );
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
    let first = repo.commit(&[("a.yaml", "a: 1\n")]);
    let blob = repo.git(&["rev-parse", "HEAD:a.yaml"]);
    repo.git(&["tag", "blob", &blob]);
    let lost = repo.commit(&[("a.yaml", "a: 2\n")]);
    repo.git(&["reset", "--quiet", "--hard", &first]);
    let (source, remote) = (source(data.path()), Remote::new(repo.url()));
    let url = repo.url();
    let check = |got: Result<Fetched, SourceError>, expect: String, class| {
        let error = got.unwrap_err();
        assert_eq!(error.to_string(), expect);
        assert_eq!(error.class(), class, "{error}");
    };
    check(
        source.fetch(&remote, &tag("v9")).await,
        format!("tag \"v9\" is not in {url}; push it, or name another one"),
        SourceErrorClass::Missing,
    );
    check(
        source.fetch(&remote, &Want::Branch("v9".to_owned())).await,
        format!("branch \"v9\" is not in {url}; push it, or name another one"),
        SourceErrorClass::Missing,
    );
    check(
        source.fetch(&remote, &Want::Commit(commit(&lost))).await,
        format!(
            "commit {lost} is not on any branch or tag of the server ({url}); push a branch or tag that contains it"
        ),
        SourceErrorClass::Missing,
    );
    check(
        source.fetch(&remote, &tag("blob")).await,
        format!("tag \"blob\" of {url} is a git blob, not a commit"),
        SourceErrorClass::Content,
    );
    check(
        source.fetch(&remote, &Want::Semver("1.x".to_owned())).await,
        "semver range \"1.x\" is not supported by the built-in sync; name a tag, a branch or a commit, or run Flux in this cluster".to_owned(),
        SourceErrorClass::Invalid,
    );
    let sha256 = "a".repeat(64);
    check(
        source.fetch(&remote, &Want::Commit(commit(&sha256))).await,
        format!(
            "commit {sha256} of a SHA-256 repository is not supported by the built-in sync; run Flux in this cluster for it"
        ),
        SourceErrorClass::Invalid,
    );
    let gone = Remote::new("file:///there/is/no/such/repository");
    check(
        source.fetch(&gone, &tag("v1")).await,
        "file:///there/is/no/such/repository was not found: it is not a git repository, or the credentials have no access".to_owned(),
        SourceErrorClass::Missing,
    );
    let error = source.read(&remote, &commit(&first), "").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("commit {first} of {url} has not been fetched; fetch it first")
    );
    let secure = GitOptions {
        data_dir: data.path().to_owned(),
        allow_insecure: false,
        limits: Limits::default(),
    };
    let error = GitSource::new(secure, Clock::system())
        .unwrap()
        .fetch(&remote, &tag("v1"))
        .await
        .unwrap_err();
    assert!(matches!(error, SourceError::SchemeRefused { .. }), "{error}");
}

#[tokio::test]
async fn what_was_fetched_stays_when_the_remote_is_away() {
    let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
    let first = repo.commit(&[("a.yaml", "a: 1\n")]);
    let remote = Remote::new(repo.url());
    let before = source(data.path())
        .fetch(&remote, &Want::Commit(commit(&first)))
        .await
        .unwrap();
    drop(repo);
    let source = source(data.path());
    let again = source
        .fetch(&remote, &Want::Commit(commit(&first)))
        .await
        .unwrap();
    assert_eq!(again.digest, before.digest);
    assert_eq!(read(&source, &remote, &first, "").await.unwrap().len(), 1);
    assert!(
        source
            .fetch(&remote, &Want::Branch("main".to_owned()))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_kill_leaves_nothing_that_is_read() {
    let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
    let first = repo.commit(&[("a.yaml", "a: 1\n")]);
    let (source, remote) = (source(data.path()), Remote::new(repo.url()));
    source
        .fetch(&remote, &Want::Branch("main".to_owned()))
        .await
        .unwrap();
    let mirror = left_in(data.path())[0].clone();
    // A process that was killed during a fetch, and one that was killed while a pack was written.
    let half = data.path().join(format!("fetch-{mirror}-abc"));
    std::fs::create_dir_all(half.join("objects/pack")).unwrap();
    std::fs::write(half.join("HEAD"), "ref: refs/he").unwrap();
    std::fs::write(
        data.path()
            .join(&mirror)
            .join("objects/pack/pack_git2_0123456789abcdef"),
        "PACK half",
    )
    .unwrap();
    let second = repo.commit(&[("a.yaml", "a: 2\n"), ("b.yaml", "b: 1\n")]);
    source
        .fetch(&remote, &Want::Commit(commit(&second)))
        .await
        .unwrap();
    assert_eq!(read(&source, &remote, &first, "").await.unwrap().len(), 1);
    assert_eq!(read(&source, &remote, &second, "").await.unwrap().len(), 2);
    assert_eq!(left_in(data.path()), [mirror], "what was left behind is swept");
}

#[tokio::test]
async fn a_damaged_mirror_is_recreated() {
    let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
    let first = repo.commit(&[("a.yaml", "a: 1\n")]);
    let (source, remote) = (source(data.path()), Remote::new(repo.url()));
    let want = Want::Commit(commit(&first));
    source.fetch(&remote, &want).await.unwrap();
    let mirror = data.path().join(&left_in(data.path())[0]);
    let no_repository = || {
        std::fs::write(mirror.join("HEAD"), "").unwrap();
        std::fs::remove_file(mirror.join("config")).unwrap();
        std::fs::remove_dir_all(mirror.join("objects")).unwrap();
    };
    let bytes_changed = || {
        // Over `file` everything is fetched with its history.
        let packs = std::fs::read_dir(mirror.join("history/objects/pack"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for pack in packs.filter(|path| path.extension().is_some_and(|extension| extension == "pack")) {
            let mut bytes = std::fs::read(&pack).unwrap();
            bytes[12..].fill(0);
            std::fs::remove_file(&pack).unwrap();
            std::fs::write(&pack, bytes).unwrap();
        }
    };
    let damages: [&dyn Fn(); 2] = [&no_repository, &bytes_changed];
    for damage in damages {
        damage();
        let error = read(&source, &remote, &first, "").await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        source.fetch(&remote, &want).await.unwrap();
        assert_eq!(read(&source, &remote, &first, "").await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_fetches_of_one_repository_agree() {
    let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
    let first = repo.commit(&[("a.yaml", "a: 1\n")]);
    let second = repo.commit(&[("a.yaml", "a: 2\n")]);
    let (source, remote) = (Arc::new(source(data.path())), Remote::new(repo.url()));
    let fetches = (0..12).map(|index| {
        let (source, remote) = (Arc::clone(&source), remote.clone());
        let want = Want::Commit(commit(if index % 2 == 0 { &first } else { &second }));
        tokio::spawn(async move { source.fetch(&remote, &want).await })
    });
    for fetch in fetches.collect::<Vec<_>>() {
        fetch.await.unwrap().unwrap();
    }
    assert_eq!(read(&source, &remote, &second, "").await.unwrap()[0].1, "a: 2\n");
    assert_eq!(left_in(data.path()).len(), 1);
}

#[tokio::test]
async fn limits_are_named_with_their_option() {
    let repo = Repo::new();
    let long = "x".repeat(2000);
    let id = repo.commit(&[
        ("a/b/c/d.yaml", &long),
        ("a/e.yaml", "e: 1\n"),
        ("a/f.yaml", "f: 1\n"),
    ]);
    let remote = Remote::new(repo.url());
    let check = async |limits: Limits, expect: &str| {
        let data = tempfile::tempdir().unwrap();
        let source = limited(data.path(), limits);
        let got = match source.fetch(&remote, &Want::Commit(commit(&id))).await {
            Ok(_) => source.read(&remote, &commit(&id), "").await.map(|_| ()),
            Err(error) => Err(error),
        };
        let error = got.unwrap_err().to_string();
        assert!(error.contains(expect), "{expect}: {error}");
    };
    let limits = Limits::default;
    check(
        Limits {
            objects: 3,
            ..limits()
        },
        "see --git-max-objects",
    )
    .await;
    check(
        Limits { files: 2, ..limits() },
        "the number of manifests up to \"a/f.yaml\" is more than the limit of 2; see --git-max-files",
    )
    .await;
    check(
        Limits {
            file_bytes: 1999,
            ..limits()
        },
        "\"a/b/c/d.yaml\" with 2000 bytes is more than the limit of 1999; see --git-max-file-bytes",
    )
    .await;
    check(
        Limits {
            total_bytes: 2004,
            ..limits()
        },
        "see --git-max-total-bytes",
    )
    .await;
    check(Limits { depth: 2, ..limits() }, "see --git-max-depth").await;
}
