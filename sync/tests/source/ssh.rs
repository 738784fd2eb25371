//! Git over ssh, against an ssh server in this process: what is fetched, and what a hostile host can do.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::hostile::{COMMIT, Pack, kind};
use crate::support::repo::Repo;
use crate::support::ssh_server::{self, Manner, SshServer};
use muster_sync::proxy::Proxy;
use muster_sync::source::{
    Clock, CommitId, Credentials, GitOptions, GitSource, HostKeyRefusal, Limits, Remote, Source, SourceError,
    Want,
};
use russh::Preferred;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PrivateKey};
use tokio::net::TcpListener;

const PASSPHRASE: &str = "hunter2-passphrase";

/// The extra time of libgit2 after a deadline, plus that of a busy machine.
const GRACE: Duration = Duration::from_secs(4);

fn source(data: &Path, limits: Limits) -> GitSource {
    let options = GitOptions {
        data_dir: data.to_owned(),
        allow_insecure: false,
        limits,
    };
    GitSource::new(options, Clock::system()).unwrap()
}

fn pem(key: &PrivateKey) -> String {
    key.to_openssh(LineEnding::LF).unwrap().to_string()
}

fn secret(pairs: &[(&str, &str)]) -> Result<Credentials, SourceError> {
    let data = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
    Credentials::from_secret(&data.collect::<BTreeMap<_, _>>())
}

/// A server, a key that it accepts, and a directory for mirrors.
struct Bed {
    server: SshServer,
    key: PrivateKey,
    data: tempfile::TempDir,
    limits: Limits,
}

impl Bed {
    async fn new(manner: Manner) -> Self {
        Self {
            server: SshServer::start(manner).await,
            key: ssh_server::key(Algorithm::Ed25519),
            data: tempfile::tempdir().unwrap(),
            limits: Limits::default(),
        }
    }

    fn credentials(&self) -> Credentials {
        secret(&[
            ("identity", &pem(&self.key)),
            ("known_hosts", &self.server.known_hosts()),
        ])
        .unwrap()
    }

    fn remote(&self, path: &str) -> Remote {
        Remote::new(self.server.url(path)).with_credentials(self.credentials())
    }

    fn source(&self) -> GitSource {
        source(self.data.path(), self.limits.clone())
    }

    async fn fetch(&self, path: &str) -> Result<String, SourceError> {
        let fetched = self
            .source()
            .fetch(&self.remote(path), &Want::Branch("main".to_owned()))
            .await;
        fetched.map(|fetched| fetched.commit.to_string())
    }

    /// Fails as expected, soon, without showing the key, and without storing anything.
    async fn refused(&self, is_it: impl Fn(&SourceError) -> bool, words: &str) {
        let began = Instant::now();
        let error = self.fetch("/srv/app.git").await.unwrap_err();
        let most = self.limits.timeout + GRACE;
        assert!(began.elapsed() < most, "{:?}", began.elapsed());
        assert!(is_it(&error), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(words), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
        let body: String = pem(&self.key).lines().nth(2).unwrap().to_owned();
        assert!(!format!("{error} {error:?}").contains(&body));
        let left: Vec<_> = std::fs::read_dir(self.data.path())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let kept = left.iter().any(|entry| {
            entry
                .path()
                .join("kept")
                .read_dir()
                .is_ok_and(|mut kept| kept.next().is_some())
        });
        assert!(!kept, "nothing was fetched");
    }
}

#[tokio::test]
async fn a_repository_is_resolved_fetched_and_fetched_again() {
    let (repo, bed) = (Repo::new(), Bed::new(Manner::Git).await);
    let first = repo.commit(&[("deploy/a.yaml", "a: 1\n")]);
    repo.git(&["tag", "--annotate", "--message=note", "v1"]);
    let second = repo.commit(&[("deploy/a.yaml", "a: 2\n")]);
    let third = repo.commit(&[("deploy/a.yaml", "a: 3\n")]);
    let (source, remote) = (
        bed.source(),
        bed.remote(&format!("{}/.git", repo.path().display())),
    );
    let text = async |want: &Want| {
        let fetched = source.fetch(&remote, want).await.unwrap();
        let files = source.read(&remote, &fetched.commit, "deploy").await.unwrap();
        let bytes = files.iter().next().unwrap().bytes.clone();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    let resolved = source
        .resolve(&remote, &Want::Tag("v1".to_owned()))
        .await
        .unwrap();
    assert_eq!(resolved.commit.as_str(), first);
    assert_eq!(bed.server.connections(), 1);
    assert_eq!(text(&Want::Branch("main".to_owned())).await, "a: 3\n");
    assert_eq!(
        bed.server.connections(),
        2,
        "references and pack come on one connection"
    );
    assert_eq!(text(&Want::Tag("v1".to_owned())).await, "a: 1\n");
    assert_eq!(bed.server.connections(), 3);
    // Stored already: no connection at all.
    let commit = |id: &str| Want::Commit(id.parse::<CommitId>().unwrap());
    assert_eq!(text(&commit(&third)).await, "a: 3\n");
    assert_eq!(bed.server.connections(), 3);
    // Not a tip: the whole history is fetched.
    assert_eq!(text(&commit(&second)).await, "a: 2\n");
    // Only new objects are fetched.
    repo.commit(&[("deploy/a.yaml", "a: 4\n")]);
    let before = bed.server.connections();
    assert_eq!(text(&Want::Branch("main".to_owned())).await, "a: 4\n");
    assert_eq!(bed.server.connections(), before + 1);
    let quoted = format!("git-upload-pack '{}/.git'", repo.path().display());
    assert!(
        bed.server.commands().iter().all(|command| *command == quoted),
        "{:?}",
        bed.server.commands()
    );
    assert!(bed.server.users().iter().all(|user| user == "git"));
}

#[tokio::test]
async fn a_commit_comes_alone_where_the_server_gives_hashes() {
    let (repo, bed) = (Repo::new(), Bed::new(Manner::Git).await);
    repo.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let first = repo.commit(&[("a.yaml", "a: 1\n")]);
    repo.commit(&[("a.yaml", "a: 2\n")]);
    let remote = bed.remote(&format!("{}/.git", repo.path().display()));
    let want = Want::Commit(first.parse().unwrap());
    assert_eq!(
        bed.source().fetch(&remote, &want).await.unwrap().commit.as_str(),
        first
    );
    assert_eq!(bed.server.connections(), 1);
}

#[tokio::test]
async fn a_path_is_one_word_for_the_shell() {
    let bed = Bed::new(Manner::Git).await;
    let directory = tempfile::tempdir().unwrap();
    for name in [
        "it's",
        "a b",
        "$(touch made)",
        "`touch made`",
        "a;touch made",
        "!x",
        "-u",
        "ü",
    ] {
        let path = directory.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let repo = Repo::new();
        let commit = repo.commit(&[("a.yaml", "a: 1\n")]);
        std::fs::rename(repo.path().join(".git"), path.join("r")).unwrap();
        let encoded: String = path
            .join("r")
            .to_str()
            .unwrap()
            .bytes()
            .map(|byte| match byte {
                b'/' => "/".to_owned(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        assert_eq!(bed.fetch(&encoded).await.unwrap(), commit, "{name}");
    }
    assert!(!Path::new("made").exists());
}

#[tokio::test]
async fn each_kind_of_key_opens_the_door() {
    let repo = Repo::new();
    let commit = repo.commit(&[("a.yaml", "a: 1\n")]);
    let path = format!("{}/.git", repo.path().display());
    let ecdsa = |curve| Algorithm::Ecdsa { curve };
    let mut bed = Bed::new(Manner::Git).await;
    for algorithm in [
        Algorithm::Ed25519,
        ecdsa(EcdsaCurve::NistP256),
        ecdsa(EcdsaCurve::NistP384),
        ecdsa(EcdsaCurve::NistP521),
    ] {
        bed.key = ssh_server::key(algorithm.clone());
        assert_eq!(bed.fetch(&path).await.unwrap(), commit, "{algorithm}");
    }
    // With a passphrase, which may end with a newline.
    let encrypted = bed
        .key
        .encrypt(&mut russh::keys::key::safe_rng(), PASSPHRASE)
        .unwrap();
    let remote = |password: Option<&str>| {
        let (identity, known_hosts) = (pem(&encrypted), bed.server.known_hosts());
        let mut pairs = vec![
            ("identity", identity.as_str()),
            ("known_hosts", known_hosts.as_str()),
        ];
        pairs.extend(password.map(|password| ("password", password)));
        Remote::new(bed.server.url(&path)).with_credentials(secret(&pairs).unwrap())
    };
    let fetch = async |password| {
        let data = tempfile::tempdir().unwrap();
        let source = source(data.path(), Limits::default());
        let fetched = source
            .fetch(&remote(password), &Want::Branch("main".to_owned()))
            .await;
        fetched
            .map(|fetched| fetched.commit.to_string())
            .map_err(|error| error.to_string())
    };
    assert_eq!(fetch(Some("hunter2-passphrase\n")).await.unwrap(), commit);
    assert_eq!(
        fetch(None).await.unwrap_err(),
        "credentials cannot be used: key \"identity\" is encrypted; put its passphrase into the key \"password\" of the Secret"
    );
    let wrong = fetch(Some("hunter3")).await.unwrap_err();
    assert_eq!(
        wrong,
        "credentials cannot be used: key \"identity\" cannot be decrypted with the passphrase in the key \"password\" of the Secret; correct it"
    );
    assert!(!format!("{:?}", remote(Some(PASSPHRASE))).contains("hunter"));
}

#[tokio::test]
async fn a_host_shows_its_key_before_anything_is_shown_to_it() {
    let bed = Bed::new(Manner::Git).await;
    let other = SshServer::start(Manner::Git).await;
    let known = bed.server.known_hosts();
    let line = |marker: &str, hosts: &str, of: &str| {
        let key = of.split_once(' ').unwrap().1;
        format!("{marker}{hosts} {key}")
    };
    let port = known.split_once(' ').unwrap().0;
    let check = async |known_hosts: String, expect: &str| {
        let credentials = secret(&[("identity", &pem(&bed.key)), ("known_hosts", &known_hosts)]).unwrap();
        let remote = Remote::new(bed.server.url("/srv/app.git")).with_credentials(credentials);
        let error = bed
            .source()
            .fetch(&remote, &Want::Branch("main".to_owned()))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
        error
    };
    let unknown = check(
        line("", "elsewhere.test", &known),
        "known_hosts has no line for [localhost]",
    )
    .await;
    assert!(
        matches!(&unknown, SourceError::HostKey { why: HostKeyRefusal::Unknown { key, .. }, .. }
        if key.starts_with("ssh-ed25519 SHA256:")),
        "{unknown:?}"
    );
    let changed = check(
        line("", port, &other.known_hosts()),
        "not what known_hosts has for it (line 1)",
    )
    .await;
    assert!(matches!(
        changed,
        SourceError::HostKey {
            why: HostKeyRefusal::Changed { .. },
            ..
        }
    ));
    let revoked = check(
        format!("{known}{}", line("@revoked ", "*", &known)),
        "line 2 of known_hosts revokes",
    )
    .await;
    assert!(matches!(
        revoked,
        SourceError::HostKey {
            why: HostKeyRefusal::Revoked { .. },
            ..
        }
    ));
    // The key of an authority is not a host key.
    check(line("@cert-authority ", port, &known), "not what known_hosts has").await;
    assert!(
        bed.server.users().is_empty(),
        "no key was shown: {:?}",
        bed.server.users()
    );
    // Malformed input is refused before a connection is made.
    let before = bed.server.connections();
    check(
        String::new(),
        "key \"known_hosts\" cannot be read: it contains no host key",
    )
    .await;
    check("# only a comment\n\n".to_owned(), "it contains no host key").await;
    check(format!("{known}nonsense\n"), "line 2: it has too few fields").await;
    assert_eq!(bed.server.connections(), before);
}

#[tokio::test]
async fn without_a_secret_for_ssh_nothing_is_opened() {
    let bed = Bed::new(Manner::Git).await;
    let check = async |url: String, credentials: Option<Credentials>, expect: &str| {
        let remote = Remote {
            credentials,
            ..Remote::new(url)
        };
        for want in [
            Want::Branch("main".to_owned()),
            Want::Commit("a".repeat(40).parse().unwrap()),
        ] {
            let error = bed.source().fetch(&remote, &want).await.unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    };
    let url = bed.server.url("/srv/app.git");
    check(
        url.clone(),
        None,
        "put them into a Secret, and name it in secretRef",
    )
    .await;
    let login = secret(&[("username", "ann"), ("password", "hunter2")]).unwrap();
    check(url, Some(login), "ssh needs the keys identity and known_hosts").await;
    let https = "https://localhost:9/srv/app.git".to_owned();
    check(
        https,
        Some(bed.credentials()),
        "key \"identity\" is for ssh; write the url as ssh://",
    )
    .await;
    let through_proxy = Remote {
        proxy: Some(Proxy::parse("http://proxy.test:3128").unwrap()),
        ..bed.remote("/srv/app.git")
    };
    let want = Want::Branch("main".to_owned());
    let error = bed
        .source()
        .fetch(&through_proxy, &want)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("proxySecretRef for ssh://git@localhost:"),
        "{error}"
    );
    let error = secret(&[("identity", "x")]).unwrap_err().to_string();
    assert!(error.contains("identity also needs known_hosts"), "{error}");
    assert_eq!(bed.server.connections(), 0);
}

#[tokio::test]
async fn content_fetched_with_a_key_is_not_served_without_it() {
    let (repo, bed) = (Repo::new(), Bed::new(Manner::Git).await);
    let commit = repo.commit(&[("a.yaml", "a: 1\n")]);
    let path = format!("{}/.git", repo.path().display());
    let source = bed.source();
    let want = Want::Commit(commit.parse().unwrap());
    source.fetch(&bed.remote(&path), &want).await.unwrap();
    let error = source
        .fetch(&Remote::new(bed.server.url(&path)), &want)
        .await
        .unwrap_err();
    assert!(matches!(error, SourceError::Credentials { .. }), "{error}");
}

#[tokio::test]
async fn what_a_host_refuses_is_said_with_its_words() {
    let is_command = |error: &SourceError| matches!(error, SourceError::CommandFailed { .. });
    let bed = Bed::new(Manner::Git).await;
    bed.refused(
        is_command,
        "'/srv/app.git' does not appear to be a git repository",
    )
    .await;
    let bed = Bed::new(Manner::RefuseKeys).await;
    let is_refused =
        |error: &SourceError| matches!(error, SourceError::KeyRefused { user, .. } if user == "git");
    bed.refused(is_refused, "add its public half to the repository")
        .await;
    let bed = Bed::new(Manner::HangUp).await;
    bed.refused(
        |error| matches!(error, SourceError::Unreachable { .. }),
        "closed the connection",
    )
    .await;
    let bed = Bed::new(Manner::NoCommands).await;
    bed.refused(is_command, "it does not run git-upload-pack").await;
    let said = b"ERROR: \x1b[31mRepository\0 not found.\r\n".to_vec();
    let bed = Bed::new(Manner::End(Vec::new(), said, 1)).await;
    bed.refused(
        is_command,
        "it says \"ERROR: [31mRepository not found.\" (exit status 1)",
    )
    .await;
    let bed = Bed::new(Manner::End(b"0015ERR no such thing".to_vec(), Vec::new(), 0)).await;
    bed.refused(is_command, "ERR no such thing").await;
    let bed = Bed::new(Manner::End(Vec::new(), Vec::new(), 0)).await;
    bed.refused(is_command, "without a word").await;
    let bed = Bed::new(Manner::Flood(b"Welcome to this host!\n".to_vec())).await;
    let is_protocol = |error: &SourceError| matches!(error, SourceError::Protocol { .. });
    bed.refused(is_protocol, "its response starts with \"Welcome to this host!")
        .await;
}

#[tokio::test]
async fn what_is_signed_by_sha1_is_not_accepted() {
    let key = ssh_server::key(Algorithm::Rsa {
        hash: Some(HashAlg::Sha256),
    });
    let mut bed = Bed::new(Manner::Git).await;
    bed.server = SshServer::with(Manner::Git, key.clone(), ssh_server::sha1_only()).await;
    let is_protocol = |error: &SourceError| matches!(error, SourceError::Protocol { .. });
    bed.refused(is_protocol, "no key algorithm in common: it offers ssh-rsa")
        .await;
    // The same key, with a proper signature.
    let repo = Repo::new();
    let commit = repo.commit(&[("a.yaml", "a: 1\n")]);
    bed.server = SshServer::with(Manner::Git, key.clone(), Preferred::default()).await;
    let path = format!("{}/.git", repo.path().display());
    assert_eq!(bed.fetch(&path).await.unwrap(), commit);
    bed.key = key;
    assert_eq!(
        bed.fetch(&path).await.unwrap(),
        commit,
        "an RSA key of ours signs by SHA-2 too"
    );
}

#[tokio::test]
async fn one_deadline_for_the_whole_operation() {
    let short = Limits {
        timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let is_timeout = |error: &SourceError| matches!(error, SourceError::Timeout { .. });
    // A port that accepts connections, and sends nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let bed = Bed {
        limits: short.clone(),
        ..Bed::new(Manner::Silent).await
    };
    let remote = Remote::new(format!("ssh://git@127.0.0.1:{port}/x")).with_credentials(bed.credentials());
    let began = Instant::now();
    let error = bed
        .source()
        .resolve(&remote, &Want::Tag("v1".to_owned()))
        .await
        .unwrap_err();
    assert!(is_timeout(&error), "{error}");
    assert!(began.elapsed() < short.timeout + GRACE);
    let drips = b"00"
        .iter()
        .copied()
        .chain(b"3f".iter().copied())
        .chain(std::iter::repeat_n(b'a', 10_000));
    for manner in [Manner::Silent, Manner::Drip(drips.collect())] {
        let bed = Bed {
            limits: short.clone(),
            ..Bed::new(manner).await
        };
        bed.refused(
            is_timeout,
            "did not answer within 2s (receiving); see --git-timeout",
        )
        .await;
    }
}

#[tokio::test]
async fn what_comes_is_bounded() {
    let limit = |option: &'static str| move |error: &SourceError| matches!(error, SourceError::LimitExceeded { option: named, .. } if *named == option);
    let limits = Limits {
        bytes: 1 << 20,
        reference_bytes: 64 << 10,
        ..Limits::default()
    };
    let line = format!("003d{} refs/heads/main\n", "a".repeat(40));
    let bed = Bed {
        limits: limits.clone(),
        ..Bed::new(Manner::Flood(line.into_bytes())).await
    };
    bed.refused(limit("--git-max-reference-bytes"), "branches and tags")
        .await;
    let bed = Bed {
        limits: limits.clone(),
        ..Bed::new(Manner::FloodBeside(vec![b'x'; 1000])).await
    };
    bed.refused(limit("--git-max-bytes"), "the size of what").await;
    // A pack that declares more than allowed: detected before libgit2 gets it.
    for (pack, option, words) in [
        (Pack::of(1_000_000_000).bytes(), "--git-max-objects", "1000000000"),
        (
            Pack::of(1).object(kind::BLOB, 2 << 30, &[0; 100]).bytes(),
            "--git-max-bytes",
            "an object of 2147483648 bytes",
        ),
        (
            Pack::of(1).object(kind::TREE, 100 << 20, &[0; 100]).bytes(),
            "--git-max-object-bytes",
            "that must be held in memory",
        ),
    ] {
        let bed = Bed::new(Manner::Pack(COMMIT.to_owned(), pack)).await;
        bed.refused(limit(option), words).await;
    }
    let bed = Bed {
        limits,
        ..Bed::new(Manner::Git).await
    };
    let repo = Repo::new();
    // Incompressible content.
    let mut state = 1_u64;
    let noise: String = (0..2 << 20)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b'!' + u8::try_from(state >> 58).unwrap())
        })
        .collect();
    repo.commit(&[("a.yaml", &noise)]);
    let error = bed
        .fetch(&format!("{}/.git", repo.path().display()))
        .await
        .unwrap_err();
    assert!(limit("--git-max-bytes")(&error), "{error}");
}
