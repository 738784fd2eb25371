//! Git over `http` and `https`, against a real `git http-backend` on loopback.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::git_server::{Door, GitServer, Tamper};
use crate::support::repo::Repo;
use base64::Engine as _;
use muster_sync::source::{
    Clock, CommitId, Credentials, GitOptions, GitSource, Limits, Remote, Source, SourceError, Want,
};

fn source(data: &Path) -> GitSource {
    let options = GitOptions {
        data_dir: data.to_owned(),
        allow_insecure: true,
        limits: Limits::default(),
    };
    GitSource::new(options, Clock::system()).unwrap()
}

fn commit(id: &str) -> CommitId {
    id.parse().unwrap()
}

/// A repository of three commits behind a server: the first is tagged, the second is not a tip, the third is the head
/// of `main`.
struct Bed {
    repo: Repo,
    server: GitServer,
    remote: Remote,
    source: GitSource,
    commits: [String; 3],
    _data: tempfile::TempDir,
}

impl Bed {
    async fn new(door: Door) -> Self {
        let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
        let first = repo.commit(&[("deploy/a.yaml", "a: 1\n")]);
        repo.git(&["tag", "--annotate", "--message=note", "v1"]);
        let second = repo.commit(&[("deploy/a.yaml", "a: 2\n")]);
        let third = repo.commit(&[("deploy/a.yaml", "a: 3\n")]);
        let server = GitServer::start(repo.path(), door, None).await;
        let mut remote = Remote::new(server.url(".git"));
        if door == Door::Tls {
            remote = remote.with_credentials(Credentials {
                ca_crt: Some(server.ca_pem()),
                ..Credentials::default()
            });
        }
        Self {
            source: source(data.path()),
            repo,
            server,
            remote,
            commits: [first, second, third],
            _data: data,
        }
    }

    /// Fetches the commit and reads its only manifest.
    async fn has_the_last_good_one(&self) {
        let third = Want::Commit(commit(&self.commits[2]));
        assert_eq!(self.text(&third).await.unwrap(), "a: 3\n");
    }

    async fn text(&self, want: &Want) -> Result<String, SourceError> {
        let fetched = self.source.fetch(&self.remote, want).await?;
        let files = self.source.read(&self.remote, &fetched.commit, "deploy").await?;
        Ok(files
            .iter()
            .map(|file| String::from_utf8_lossy(&file.bytes).into_owned())
            .collect())
    }

    /// The requests, with or without history; for a shallow fetch libgit2 sends two.
    fn packs(&self) -> Vec<&'static str> {
        let packs = self
            .server
            .recorded_requests()
            .into_iter()
            .filter(|request| request.method == "POST");
        let mut kinds: Vec<&str> = packs
            .map(|request| {
                if request.body.windows(8).any(|window| window == b"deepen 1") {
                    "shallow"
                } else {
                    "full"
                }
            })
            .collect();
        kinds.dedup();
        kinds
    }
}

#[tokio::test]
async fn each_kind_of_name_is_fetched_from_an_unconfigured_server() {
    for door in [Door::Plain, Door::Tls] {
        let bed = Bed::new(door).await;
        let [first, second, third] = &bed.commits;
        assert_eq!(
            bed.text(&Want::Branch("main".to_owned())).await.unwrap(),
            "a: 3\n"
        );
        assert_eq!(bed.packs(), ["shallow"], "a tip needs no history");
        assert_eq!(bed.text(&Want::Tag("v1".to_owned())).await.unwrap(), "a: 1\n");
        assert_eq!(bed.packs(), ["shallow"]);
        // Stored already: no request at all.
        let before = bed.server.recorded_requests().len();
        assert_eq!(bed.text(&Want::Commit(commit(first))).await.unwrap(), "a: 1\n");
        assert_eq!(bed.text(&Want::Commit(commit(third))).await.unwrap(), "a: 3\n");
        assert_eq!(bed.server.recorded_requests().len(), before);
        // Not a tip, and the server does not allow fetching by id: everything is fetched.
        assert_eq!(bed.text(&Want::Commit(commit(second))).await.unwrap(), "a: 2\n");
        assert_eq!(bed.packs(), ["shallow", "full"]);
    }
}

#[tokio::test]
async fn a_tip_is_fetched_without_history_by_its_hash_too() {
    let bed = Bed::new(Door::Plain).await;
    assert_eq!(
        bed.text(&Want::Commit(commit(&bed.commits[0]))).await.unwrap(),
        "a: 1\n"
    );
    assert_eq!(
        bed.text(&Want::Commit(commit(&bed.commits[2]))).await.unwrap(),
        "a: 3\n"
    );
    assert_eq!(bed.packs(), ["shallow"]);
}

#[tokio::test]
async fn a_server_that_gives_hashes_is_asked_for_the_commit_alone() {
    // Over http, with `allowTip` git also serves what its tips reach.
    for setting in [
        "uploadpack.allowAnySHA1InWant",
        "uploadpack.allowReachableSHA1InWant",
        "uploadpack.allowTipSHA1InWant",
    ] {
        let bed = Bed::new(Door::Tls).await;
        bed.repo.git(&["config", setting, "true"]);
        assert_eq!(
            bed.text(&Want::Commit(commit(&bed.commits[1]))).await.unwrap(),
            "a: 2\n"
        );
        assert_eq!(bed.packs(), ["shallow"], "{setting}");
    }
}

#[tokio::test]
async fn what_the_server_does_not_have_is_named() {
    let bed = Bed::new(Door::Plain).await;
    let url = &bed.remote.url;
    let check = async |want: Want, expect: String| {
        assert_eq!(
            bed.source
                .fetch(&bed.remote, &want)
                .await
                .unwrap_err()
                .to_string(),
            expect
        );
    };
    check(
        Want::Tag("v9".to_owned()),
        format!("tag \"v9\" is not in {url}; push it, or name another one"),
    )
    .await;
    let lost = "1".repeat(40);
    let nowhere = format!(
        "commit {lost} is not on any branch or tag of the server ({url}); push a branch or tag that contains it"
    );
    check(Want::Commit(commit(&lost)), nowhere.clone()).await;
    bed.repo.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    check(Want::Commit(commit(&lost)), nowhere).await;
    assert_eq!(
        bed.packs(),
        ["full", "shallow", "full"],
        "refused by hash, then everything is looked through"
    );
    let error = bed
        .source
        .resolve(&bed.remote, &Want::Tag("v9".to_owned()))
        .await
        .unwrap_err();
    assert!(matches!(error, SourceError::UnknownTag { .. }), "{error}");
    let elsewhere = Remote::new(bed.server.url("nowhere"));
    let error = bed
        .source
        .fetch(&elsewhere, &Want::Tag("v1".to_owned()))
        .await
        .unwrap_err();
    assert_eq!(error, SourceError::RepositoryNotFound { url: elsewhere.url });
}

#[tokio::test]
async fn resolving_a_tag_transfers_no_content() {
    let bed = Bed::new(Door::Tls).await;
    let resolved = bed
        .source
        .resolve(&bed.remote, &Want::Tag("v1".to_owned()))
        .await
        .unwrap();
    assert_eq!(resolved.commit.as_str(), bed.commits[0]);
    let requests: Vec<String> = bed
        .server
        .recorded_requests()
        .into_iter()
        .map(|request| format!("{} {}", request.method, request.path))
        .collect();
    assert_eq!(requests, ["GET /.git/info/refs"]);
}

#[tokio::test]
async fn a_certificate_must_be_trusted() {
    let bed = Bed::new(Door::Tls).await;
    let tag = Want::Tag("v1".to_owned());
    let error = bed
        .source
        .resolve(&Remote::new(&bed.remote.url), &tag)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SourceError::Unreachable { why, .. } if why.contains("certificate")),
        "{error}"
    );
    let other = GitServer::start(bed.repo.path(), Door::Tls, None).await;
    for ca in [other.ca_pem(), b"no certificate".to_vec()] {
        let credentials = Credentials {
            ca_crt: Some(ca),
            ..Credentials::default()
        };
        let remote = Remote::new(&bed.remote.url).with_credentials(credentials);
        let error = bed.source.resolve(&remote, &tag).await.unwrap_err();
        let expected = matches!(
            error,
            SourceError::Unreachable { .. } | SourceError::Credentials { .. }
        );
        assert!(expected, "{error}");
    }
    assert!(
        bed.server.recorded_requests().is_empty(),
        "nothing was asked over a connection that is not trusted"
    );
}

#[tokio::test]
async fn credentials_open_the_door_and_are_never_shown() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a: 1\n")]);
    let data = tempfile::tempdir().unwrap();
    let source = source(data.path());
    let basic = format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode("ann:hunter2")
    );
    let ann = Credentials {
        username: Some("ann".to_owned()),
        password: Some("hunter2".to_owned()),
        ..Credentials::default()
    };
    let token = Credentials {
        bearer_token: Some("hunter2".to_owned()),
        ..Credentials::default()
    };
    for (authorization, credentials) in [(basic.as_str(), ann), ("Bearer hunter2", token)] {
        let server = GitServer::start(repo.path(), Door::Tls, Some(authorization)).await;
        let trusted = Credentials {
            ca_crt: Some(server.ca_pem()),
            ..Credentials::default()
        };
        let with = |credentials: Credentials| {
            Remote::new(server.url(".git")).with_credentials(Credentials {
                ca_crt: Some(server.ca_pem()),
                ..credentials
            })
        };
        let branch = Want::Branch("main".to_owned());
        source.fetch(&with(credentials.clone()), &branch).await.unwrap();
        assert!(
            server
                .recorded_requests()
                .iter()
                .all(|request| request.authorization.as_deref() == Some(authorization))
        );
        let none = source.fetch(&with(trusted), &branch).await.unwrap_err();
        let url = server.url(".git");
        assert_eq!(
            none.to_string(),
            format!("{url} answered 401: credentials are needed; name a Secret in secretRef")
        );
        let wrong = Credentials {
            bearer_token: Some("hunter3".to_owned()),
            ..Credentials::default()
        };
        let wrong = source.fetch(&with(wrong), &branch).await.unwrap_err();
        assert_eq!(
            wrong.to_string(),
            format!("{url} answered 401: the credentials are refused; renew them in the Secret")
        );
        let shown = format!("{:?} {none:?} {wrong:?}", with(credentials));
        assert!(!shown.contains("hunter"), "{shown}");
    }
}

#[tokio::test]
async fn a_client_certificate_opens_the_door() {
    let repo = Repo::new();
    let commit = repo.commit(&[("a.yaml", "a: 1\n")]);
    let data = tempfile::tempdir().unwrap();
    let source = source(data.path());
    let server = GitServer::start(repo.path(), Door::Mutual, None).await;
    let (certificate, key) = server.client_pem();
    let with = |certificate: Option<Vec<u8>>, key: Option<Vec<u8>>| {
        Remote::new(server.url(".git")).with_credentials(Credentials {
            ca_crt: Some(server.ca_pem()),
            tls_crt: certificate,
            tls_key: key,
            ..Credentials::default()
        })
    };
    let branch = Want::Branch("main".to_owned());
    let fetched = source
        .fetch(&with(Some(certificate.clone()), Some(key.clone())), &branch)
        .await
        .unwrap();
    assert_eq!(fetched.commit.as_str(), commit);
    let error = source.fetch(&with(None, None), &branch).await.unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
    let (strange, strange_key) = GitServer::start(repo.path(), Door::Mutual, None)
        .await
        .client_pem();
    let error = source
        .fetch(&with(Some(strange), Some(strange_key)), &branch)
        .await
        .unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
    let error = source
        .fetch(&with(Some(certificate), Some(b"no key".to_vec())), &branch)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "credentials cannot be used: keys \"tls.crt\" and \"tls.key\" are not a PEM certificate and its key"
    );
}

#[tokio::test]
async fn credentials_go_over_nothing_that_others_can_read() {
    let data = tempfile::tempdir().unwrap();
    let source = source(data.path());
    let remote = Remote::new("http://git.example.com/x").with_credentials(Credentials {
        bearer_token: Some("hunter2".to_owned()),
        ..Credentials::default()
    });
    let error = source
        .fetch(&remote, &Want::Branch("main".to_owned()))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "credentials cannot be used: they would be sent over http, where anyone can read them; use https"
    );
}

#[tokio::test]
async fn a_repository_of_another_kind_of_hash_is_refused_by_name() {
    let repo = Repo::sha256();
    repo.commit(&[("a.yaml", "a: 1\n")]);
    let data = tempfile::tempdir().unwrap();
    let server = GitServer::start(repo.path(), Door::Plain, None).await;
    let url = server.url(".git");
    let error = source(data.path())
        .fetch(&Remote::new(&url), &Want::Branch("main".to_owned()))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the SHA-256 repository {url} is not supported by the built-in sync; run Flux in this cluster for it"
        )
    );
}

#[tokio::test]
async fn a_repository_without_a_commit_is_said_to_be_empty() {
    let (repo, data) = (Repo::new(), tempfile::tempdir().unwrap());
    let server = GitServer::start(repo.path(), Door::Plain, None).await;
    let (source, url) = (source(data.path()), server.url(".git"));
    let lost = Want::Commit(commit(&"1".repeat(40)));
    for want in [Want::Branch("main".to_owned()), Want::Tag("v1".to_owned()), lost] {
        let error = source.fetch(&Remote::new(&url), &want).await.unwrap_err();
        assert_eq!(error, SourceError::Empty { url: url.clone() }, "{want}");
        let error = source.fetch(&Remote::new(repo.url()), &want).await.unwrap_err();
        assert_eq!(error, SourceError::Empty { url: repo.url() }, "{want}");
    }
    // HEAD refers to a branch that does not exist; others do.
    let first = repo.commit(&[("a.yaml", "a: 1\n")]);
    repo.git(&["symbolic-ref", "HEAD", "refs/heads/unborn"]);
    let fetched = source
        .fetch(&Remote::new(&url), &Want::Branch("main".to_owned()))
        .await
        .unwrap();
    assert_eq!(fetched.commit.as_str(), first);
    let error = source
        .fetch(&Remote::new(&url), &Want::Branch("unborn".to_owned()))
        .await
        .unwrap_err();
    assert!(matches!(error, SourceError::UnknownBranch { .. }), "{error}");
}

#[tokio::test]
async fn a_pack_that_breaks_off_leaves_what_was_here() {
    let bed = Bed::new(Door::Plain).await;
    let main = Want::Branch("main".to_owned());
    assert_eq!(bed.text(&main).await.unwrap(), "a: 3\n");
    bed.repo.commit(&[("deploy/a.yaml", "a: 4\n")]);
    for tamper in [
        Tamper::Cut(0),
        Tamper::Cut(80),
        Tamper::Break(80),
        Tamper::Cut(240),
    ] {
        bed.server.tamper(tamper);
        let error = bed.source.fetch(&bed.remote, &main).await.unwrap_err();
        let named = matches!(
            error,
            SourceError::Protocol { .. } | SourceError::Unreachable { .. }
        );
        assert!(named && error.is_transient(), "{error}");
        bed.has_the_last_good_one().await;
    }
    bed.server.tamper(Tamper::None);
    assert_eq!(bed.text(&main).await.unwrap(), "a: 4\n");
}

#[tokio::test]
async fn a_pack_that_stalls_or_drips_ends_at_the_deadline() {
    let bed = Bed::new(Door::Plain).await;
    let main = Want::Branch("main".to_owned());
    assert_eq!(bed.text(&main).await.unwrap(), "a: 3\n");
    bed.repo.commit(&[("deploy/a.yaml", "a: 4\n")]);
    let hurried = Remote {
        timeout: Some(Duration::from_millis(800)),
        ..bed.remote.clone()
    };
    for tamper in [Tamper::Stall(0), Tamper::Stall(100), Tamper::Drip] {
        bed.server.tamper(tamper);
        let began = Instant::now();
        let error = bed.source.fetch(&hurried, &main).await.unwrap_err();
        assert!(
            error.to_string().contains("did not answer within 0.8s"),
            "{error}"
        );
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        bed.has_the_last_good_one().await;
    }
    bed.server.tamper(Tamper::None);
    assert_eq!(bed.text(&main).await.unwrap(), "a: 4\n");
}

#[tokio::test]
async fn what_is_shown_of_a_source_holds_no_secret() {
    let repo = Repo::new();
    let first = repo.commit(&[("a.yaml", "a: 1\n")]);
    let data = tempfile::tempdir().unwrap();
    let source = source(data.path());
    let server = GitServer::start(repo.path(), Door::Plain, Some("Bearer hunter2")).await;
    let remote = Remote::new(server.url(".git")).with_credentials(Credentials {
        bearer_token: Some("hunter2".to_owned()),
        ..Credentials::default()
    });
    let fetched = source
        .fetch(&remote, &Want::Commit(commit(&first)))
        .await
        .unwrap();
    let shown = format!("{source:?} {remote:?} {fetched:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    // Nor anything derived from it, in messages or on disk.
    assert!(!shown.contains("proven"), "{shown}");
    let mut directories = vec![data.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                assert!(!text.contains("hunter2"), "{}", path.display());
            }
        }
    }
}
