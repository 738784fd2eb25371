//! Git over ssh, against OpenSSH's own sshd, with keys and known hosts made by `ssh-keygen`. Without sshd the tests say
//! so and are skipped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::repo::Repo;
use crate::support::sshd::{HOST_KEYS, Setup, Sshd, key, keygen, public};
use muster_sync::source::{
    Clock, CommitId, Credentials, GitOptions, GitSource, HostKeyRefusal, Limits, Remote, Source, SourceError,
    Want,
};

const PASSPHRASE: &str = "hunter2-passphrase";

/// Readable by everyone: sshd may run as another user.
fn open(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A server with one accepted key, and a repository of two commits.
struct Bed {
    sshd: Sshd,
    repo: Repo,
    commits: [String; 2],
    directory: tempfile::TempDir,
    identity: PathBuf,
    clock: Clock,
}

impl Bed {
    fn new(setup: &Setup<'_>) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let identity = key(directory.path(), "id", &["-t", "ed25519", "-N", ""]);
        let mut authorized = setup.authorized.to_vec();
        authorized.push(public(&identity));
        let sshd = Sshd::start(&Setup {
            authorized: &authorized,
            ..*setup
        })?;
        let repo = Repo::new();
        open(repo.path());
        let first = repo.commit(&[("deploy/a.yaml", "a: 1\n")]);
        repo.git(&["tag", "--annotate", "--message=note", "v1"]);
        let second = repo.commit(&[("deploy/a.yaml", "a: 2\n")]);
        Some(Self {
            sshd,
            repo,
            commits: [first, second],
            directory,
            identity,
            clock: Clock::system(),
        })
    }

    fn credentials(&self, known_hosts: &str, password: Option<&str>) -> Credentials {
        let identity = std::fs::read(&self.identity).unwrap();
        let mut data = BTreeMap::from([
            ("identity".to_owned(), identity),
            ("known_hosts".to_owned(), known_hosts.as_bytes().to_vec()),
        ]);
        data.extend(password.map(|password| ("password".to_owned(), password.as_bytes().to_vec())));
        Credentials::from_secret(&data).unwrap()
    }

    fn remote(&self, known_hosts: &str, password: Option<&str>) -> Remote {
        let url = self.sshd.url(&format!("{}/.git", self.repo.path().display()));
        Remote::new(url).with_credentials(self.credentials(known_hosts, password))
    }

    /// Fetches the tag into an empty mirror.
    async fn fetch(&self, remote: &Remote) -> Result<String, SourceError> {
        let data = tempfile::tempdir().unwrap();
        let source = source(data.path(), &self.clock);
        let fetched = source.fetch(remote, &Want::Tag("v1".to_owned())).await;
        fetched.map(|fetched| fetched.commit.to_string())
    }

    async fn opens(&self, known_hosts: &str) {
        let fetched = self.fetch(&self.remote(known_hosts, None)).await;
        assert_eq!(fetched.unwrap(), self.commits[0], "{known_hosts}");
    }

    async fn refused(&self, known_hosts: &str) -> HostKeyRefusal {
        match self.fetch(&self.remote(known_hosts, None)).await.unwrap_err() {
            SourceError::HostKey { why, .. } => why,
            error => panic!("{error}"),
        }
    }
}

fn source(data: &Path, clock: &Clock) -> GitSource {
    let options = GitOptions {
        data_dir: data.to_owned(),
        allow_insecure: false,
        limits: Limits::default(),
    };
    GitSource::new(options, clock.clone()).unwrap()
}

#[tokio::test]
async fn a_repository_is_resolved_fetched_and_fetched_again() {
    let Some(bed) = Bed::new(&Setup::default()) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let source = source(data.path(), &bed.clock);
    let remote = bed.remote(&bed.sshd.known_hosts(&["ed25519"]), None);
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
    assert_eq!(resolved.commit.as_str(), bed.commits[0]);
    assert_eq!(text(&Want::Tag("v1".to_owned())).await, "a: 1\n");
    let third = bed.repo.commit(&[("deploy/a.yaml", "a: 3\n")]);
    assert_eq!(text(&Want::Branch("main".to_owned())).await, "a: 3\n");
    let second: CommitId = bed.commits[1].parse().unwrap();
    assert_eq!(text(&Want::Commit(second)).await, "a: 2\n");
    bed.repo.commit(&[("deploy/a.yaml", "a: 4\n")]);
    assert_eq!(text(&Want::Branch("main".to_owned())).await, "a: 4\n");
    assert_eq!(text(&Want::Commit(third.parse().unwrap())).await, "a: 3\n");
    let log = bed.sshd.log();
    assert!(
        log.iter()
            .all(|line| !line.contains("error") && !line.contains("hung up")),
        "{log:?}"
    );
}

#[tokio::test]
async fn each_kind_and_format_of_key_opens_the_door() {
    let keys = tempfile::tempdir().unwrap();
    let cases: [(&str, &[&str]); 10] = [
        ("ed25519", &["-t", "ed25519", "-N", ""]),
        ("ed25519-passphrase", &["-t", "ed25519", "-N", PASSPHRASE]),
        ("ecdsa-256", &["-t", "ecdsa", "-b", "256", "-N", ""]),
        (
            "ecdsa-384-pem",
            &["-t", "ecdsa", "-b", "384", "-m", "PEM", "-N", ""],
        ),
        (
            "ecdsa-521-pkcs8",
            &["-t", "ecdsa", "-b", "521", "-m", "PKCS8", "-N", ""],
        ),
        ("rsa", &["-t", "rsa", "-b", "2048", "-N", ""]),
        ("rsa-pem", &["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""]),
        (
            "rsa-pem-passphrase",
            &["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", PASSPHRASE],
        ),
        ("rsa-pkcs8", &["-t", "rsa", "-b", "3072", "-m", "PKCS8", "-N", ""]),
        ("rsa-passphrase", &["-t", "rsa", "-b", "2048", "-N", PASSPHRASE]),
    ];
    let files = cases.map(|(name, options)| key(keys.path(), name, options));
    let authorized: Vec<String> = files.iter().map(|file| public(file)).collect();
    let Some(mut bed) = Bed::new(&Setup {
        authorized: &authorized,
        ..Setup::default()
    }) else {
        return;
    };
    let known = bed.sshd.known_hosts(&["ed25519"]);
    for file in files {
        bed.identity = file;
        // A password that the key does not need does no harm.
        let fetched = bed.fetch(&bed.remote(&known, Some(PASSPHRASE))).await;
        assert_eq!(fetched.unwrap(), bed.commits[0], "{}", bed.identity.display());
    }
    // An encrypted PKCS#8 key, which Flux does not read either.
    bed.identity = key(
        keys.path(),
        "pkcs8-passphrase",
        &["-t", "ecdsa", "-m", "PKCS8", "-N", PASSPHRASE],
    );
    let error = bed
        .fetch(&bed.remote(&known, Some(PASSPHRASE)))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "credentials cannot be used: key \"identity\" is an encrypted PKCS#8 key, which is not supported; rewrite it with `ssh-keygen -p -f <file>`"
    );
    keygen(&[
        "-q",
        "-p",
        "-P",
        PASSPHRASE,
        "-N",
        "",
        "-f",
        bed.identity.to_str().unwrap(),
    ]);
    let error = bed.fetch(&bed.remote(&known, None)).await.unwrap_err();
    assert!(
        matches!(&error, SourceError::KeyRefused { key, .. } if key.starts_with("ecdsa-sha2-nistp256 SHA256:")),
        "{error}"
    );
}

#[tokio::test]
async fn known_hosts_are_read_as_openssh_reads_them() {
    let Some(bed) = Bed::new(&Setup::default()) else {
        return;
    };
    // Each type alone: the known type is requested.
    for (kind, _) in HOST_KEYS {
        bed.opens(&bed.sshd.known_hosts(&[kind])).await;
    }
    let all = bed.sshd.known_hosts(&["rsa", "ecdsa", "ed25519"]);
    bed.opens(&all).await;
    // Hashed by ssh-keygen.
    let file = bed.directory.path().join("hosts");
    std::fs::write(&file, &all).unwrap();
    keygen(&["-H", "-f", file.to_str().unwrap()]);
    let hashed = std::fs::read_to_string(&file).unwrap();
    assert!(
        hashed.starts_with("|1|") && !hashed.contains("localhost"),
        "{hashed}"
    );
    bed.opens(&hashed).await;
    // What OpenSSH finds in it, and what it does not.
    let (port, line) = (bed.sshd.port(), bed.sshd.host_key("ed25519"));
    for hosts in [
        format!("other.test,[localhost]:{port}"),
        format!("[LOCALHOST]:{port}"),
        format!("[local*]:{port}"),
        "*".to_owned(),
    ] {
        bed.opens(&format!("# a comment\n\n{hosts} {line}\n")).await;
    }
    for hosts in [
        "localhost".to_owned(),
        format!("[localhost]:{}", port ^ 1),
        format!("*,![localhost]:{port}"),
    ] {
        let why = bed.refused(&format!("{hosts} {line}\n")).await;
        assert!(matches!(why, HostKeyRefusal::Unknown { .. }), "{hosts}: {why}");
    }
    let other = key(bed.directory.path(), "other", &["-t", "ed25519", "-N", ""]);
    let why = bed
        .refused(&format!("[localhost]:{port} {}\n", public(&other)))
        .await;
    assert!(matches!(why, HostKeyRefusal::Changed { .. }), "{why}");
    // Marked as revoked, even if another line has the key; the other keys stay valid.
    let revoked = format!("{all}@revoked * {line}\n");
    let why = bed.refused(&revoked).await;
    assert!(matches!(why, HostKeyRefusal::Revoked { line: 4, .. }), "{why}");
}

#[tokio::test]
async fn a_host_is_known_by_its_certificate() {
    let keys = tempfile::tempdir().unwrap();
    let authority = key(keys.path(), "authority", &["-t", "ed25519", "-N", ""]);
    let setup = |options| Setup {
        authority: Some((&authority, options)),
        ..Setup::default()
    };
    let Some(mut bed) = Bed::new(&setup(&["-n", "localhost", "-V", "-1h:+1h"])) else {
        return;
    };
    let line = |bed: &Bed, hosts: &str| {
        format!(
            "@cert-authority {} {}\n",
            hosts.replace("PORT", &bed.sshd.port().to_string()),
            public(&authority)
        )
    };
    let known = line(&bed, "[localhost]:PORT");
    bed.opens(&known).await;
    bed.opens(&format!("{known}{}", line(&bed, "*"))).await;
    let why = bed.refused(&line(&bed, "other.test")).await;
    assert!(matches!(why, HostKeyRefusal::Unknown { .. }), "{why}");
    // Another authority: the lines for the key itself decide.
    let other = key(keys.path(), "other", &["-t", "ed25519", "-N", ""]);
    let another = format!("@cert-authority * {}\n", public(&other));
    let why = bed.refused(&another).await;
    assert!(matches!(why, HostKeyRefusal::Changed { .. }), "{why}");
    bed.opens(&format!("{another}{}", bed.sshd.known_hosts(&["ed25519"])))
        .await;
    // Revoked: the authority, or the key that it signed.
    for revoked in [public(&authority), bed.sshd.host_key("ed25519")] {
        let why = bed.refused(&format!("{known}@revoked * {revoked}\n")).await;
        assert!(matches!(why, HostKeyRefusal::Revoked { line: 2, .. }), "{why}");
    }
    // Its validity is checked with the clock of the process.
    let expired = |why: HostKeyRefusal, expect: &str| match why {
        HostKeyRefusal::Certificate { why, .. } => assert_eq!(why, expect),
        why => panic!("{why}"),
    };
    bed.clock = Clock::given(|| jiff::Timestamp::now() + jiff::SignedDuration::from_hours(2));
    expired(bed.refused(&known).await, "it has expired");
    bed.clock = Clock::given(|| jiff::Timestamp::now() - jiff::SignedDuration::from_hours(2));
    expired(bed.refused(&known).await, "it is not valid yet");
    for (options, expect) in [
        (&["-n", "other.test"][..], "it does not name localhost"),
        (&[][..], "it does not name localhost"),
    ] {
        let bed = Bed::new(&setup(options)).unwrap();
        expired(bed.refused(&line(&bed, "*")).await, expect);
    }
    let bed = Bed::new(&setup(&["-n", "local*"])).unwrap();
    bed.opens(&line(&bed, "*")).await;
}

#[tokio::test]
async fn what_sshd_and_git_refuse_is_said_with_their_words() {
    let Some(mut bed) = Bed::new(&Setup::default()) else {
        return;
    };
    let known = bed.sshd.known_hosts(&["ed25519"]);
    let missing = Remote::new(bed.sshd.url("/srv/none.git")).with_credentials(bed.credentials(&known, None));
    let error = bed.fetch(&missing).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} provides no repository: it says \"fatal: '/srv/none.git' does not appear to be a git repository\" (exit status 128); \
             check the path, and that the key has access",
            missing.url
        )
    );
    bed.identity = key(bed.directory.path(), "stranger", &["-t", "ed25519", "-N", ""]);
    let error = bed.fetch(&bed.remote(&known, None)).await.unwrap_err();
    let fingerprint = keygen(&["-l", "-f", bed.identity.to_str().unwrap()]);
    let fingerprint = fingerprint.split(' ').nth(1).unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "{} refuses ssh-ed25519 {fingerprint} for user {}: add its public half to the repository (a deploy key), \
             or renew identity in the Secret",
            bed.remote(&known, None).url,
            bed.sshd.user()
        )
    );
}

#[tokio::test]
async fn sha1_is_used_by_neither_side() {
    let keys = tempfile::tempdir().unwrap();
    let rsa = key(keys.path(), "rsa", &["-t", "rsa", "-b", "2048", "-N", ""]);
    let authorized = [public(&rsa)];
    let old_host = Setup {
        more: "HostKeyAlgorithms ssh-rsa",
        ..Setup::default()
    };
    let Some(bed) = Bed::new(&old_host) else { return };
    let error = bed
        .fetch(&bed.remote(&bed.sshd.known_hosts(&["rsa"]), None))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no key algorithm in common: it offers ssh-rsa"),
        "{error}"
    );
    let more = "PubkeyAcceptedAlgorithms ssh-rsa";
    let mut bed = Bed::new(&Setup {
        authorized: &authorized,
        more,
        ..Setup::default()
    })
    .unwrap();
    bed.identity = rsa;
    let error = bed
        .fetch(&bed.remote(&bed.sshd.known_hosts(&["ed25519"]), None))
        .await
        .unwrap_err();
    assert!(matches!(error, SourceError::KeyRefused { .. }), "{error}");
}
