//! Invalid repositories, paths and URLs: the exact message for each.

use std::fmt::Write as _;

use crate::support::repo::Repo;
use muster_sync::source::{
    Clock, CommitId, Credentials, GitOptions, GitSource, Limits, Remote, Source, Want,
};

struct Bed {
    repo: Repo,
    source: GitSource,
    _data: tempfile::TempDir,
    report: String,
}

impl Bed {
    fn new() -> Self {
        Self::with(Limits::default(), true)
    }

    fn with(limits: Limits, allow_insecure: bool) -> Self {
        let data = tempfile::tempdir().unwrap();
        let options = GitOptions {
            data_dir: data.path().to_owned(),
            allow_insecure,
            limits,
        };
        Self {
            repo: Repo::new(),
            source: GitSource::new(options, Clock::system()).unwrap(),
            _data: data,
            report: String::new(),
        }
    }

    /// Fetches a commit and reads a path of it; records the result or the error.
    async fn read(&mut self, what: &str, commit: &str, path: &str) {
        let remote = Remote::new(self.repo.url());
        let id: CommitId = commit.parse().unwrap();
        let result = match self.source.fetch(&remote, &Want::Commit(id.clone())).await {
            Ok(_) => self.source.read(&remote, &id, path).await,
            Err(error) => Err(error),
        };
        let outcome = match result {
            Ok(files) => format!(
                "taken: {}",
                files
                    .iter()
                    .map(|file| file.path.escape_debug().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Err(error) => format!("{:?}: {error}", error.class()),
        };
        let outcome = outcome.replace(commit, "COMMIT").replace(&self.repo.url(), "URL");
        assert!(!outcome.contains(char::is_control), "{what}: {outcome:?}");
        writeln!(self.report, "{what}: {outcome}").unwrap();
    }

    /// Requests a branch of a URL; records the error.
    async fn fetch_branch(&mut self, url: &str) {
        let remote = Remote::new(url);
        let error = self
            .source
            .fetch(&remote, &Want::Branch("main".to_owned()))
            .await
            .unwrap_err();
        let message = format!("{:?}: {error}", error.class());
        let shown = format!("{message} {error:?} {remote:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(!message.contains(char::is_control), "{message:?}");
        writeln!(self.report, "{}: {message}", url.escape_debug()).unwrap();
    }
}

#[tokio::test]
async fn b19_symbolic_links() {
    let mut bed = Bed::new();
    for (what, name, target) in [
        ("to a file of the machine", "a.yaml", "/etc/passwd"),
        ("out of the repository", "a.yaml", "../../x"),
        ("to itself", "a.yaml", "a.yaml"),
        ("to nothing", "a.yaml", "nowhere"),
        ("into .git", "config", ".git/config"),
        ("to the root", "loop", "."),
    ] {
        let commit = bed
            .repo
            .commit_entry("120000", name.as_bytes(), target.as_bytes());
        bed.read(what, &commit, "").await;
    }
    let commit = bed.repo.commit_entry("120000", b"deploy", b"../../etc");
    bed.read("at the path itself", &commit, "deploy").await;
    bed.read("on the way to the path", &commit, "deploy/base").await;
    insta::assert_snapshot!(bed.report);
}

#[tokio::test]
async fn b20_paths() {
    let mut bed = Bed::new();
    let twins = [
        ("deploy/a.yaml", "a"),
        ("deploy/A.yaml", "A"),
        ("deploy/gr\u{fc}n.yaml", "nfc"),
        ("deploy/gru\u{308}n.yaml", "nfd"),
    ];
    let commit = bed.repo.commit(&twins);
    let long = "d/".repeat(2_049);
    for path in [
        "deploy",
        "./deploy/.",
        "..",
        "deploy/../..",
        "",
        "//",
        "/deploy",
        "deploy//a",
        "deploy\\a",
        "dep\0loy",
        "dep\nloy",
        "\u{1b}[31mdeploy",
        "C:",
        "C:\\deploy",
        "deploy.",
        "Deploy",
        "dep\u{202e}yol",
        ".git",
        ".GIT/objects",
        "git~1",
        ".g\u{200c}it",
        "deploy/a.yaml",
    ] {
        bed.read(&format!("{path:?}"), &commit, path).await;
    }
    bed.read("4098 bytes", &commit, &long).await;
    for name in [
        &b".git"[..],
        b".GIT",
        b"git~1",
        b".git.",
        b".git::$INDEX_ALLOCATION",
        b"a\xff.yaml",
        b"a\x1b[2J.yaml",
        b"..",
    ] {
        let commit = bed.repo.commit_entry("100644", name, b"a: 1\n");
        bed.read(&format!("an entry {}", name.escape_ascii()), &commit, "")
            .await;
    }
    insta::assert_snapshot!(bed.report);
}

#[tokio::test]
async fn b21_what_git_would_follow() {
    let mut bed = Bed::new();
    let commit = bed.repo.commit_entry("160000", b"vendor", b"");
    bed.read("a submodule", &commit, "").await;
    bed.read("a submodule at the path", &commit, "vendor").await;
    let commit = bed.repo.commit(&[
        (
            ".gitmodules",
            "[submodule \"x\"]\n\tpath = x\n\turl = -u./evil\n\tupdate = !touch /x\n",
        ),
        (".gitattributes", "*.yaml filter=evil text eol=crlf\n"),
        (".lfsconfig", "[lfs]\n\turl = http://evil.test\n"),
        ("deploy/a.yaml", "a: 1\n"),
    ]);
    bed.read("files that tell git what to do", &commit, "").await;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    let lfs = bed.repo.commit(&[("deploy/b.yaml", pointer)]);
    bed.read("a pointer to Git LFS", &lfs, "deploy").await;
    // Replacements and grafts have no effect: the content is that of the commit's own id.
    bed.repo.git(&["replace", &commit, &lfs]);
    bed.read("a commit that is replaced", &commit, "deploy").await;
    insta::assert_snapshot!(bed.report);
}

#[tokio::test]
async fn b22_too_much() {
    let mut bed = Bed::new();
    let commit = bed.repo.commit(&[("deploy", "a: 1\n")]);
    bed.read("a file where a directory is named", &commit, "deploy")
        .await;
    let commit = bed.repo.commit_deep(70);
    bed.read("70 directories within each other", &commit, "").await;
    let large = "x".repeat((8 << 20) + 1);
    let commit = bed.repo.commit(&[("large.yaml", &large)]);
    bed.read("a manifest of 8 MiB and one byte", &commit, "").await;
    let commit = bed.repo.commit(&[("large.yaml", ""), ("large.txt", &large)]);
    bed.read("a file beside of it that is no manifest", &commit, "")
        .await;
    let limits = Limits::default;
    for (what, limits, count) in [
        (
            "101 manifests",
            Limits {
                files: 100,
                ..limits()
            },
            101,
        ),
        (
            "61 manifests that are one file of 5 bytes",
            Limits {
                total_bytes: 300,
                ..limits()
            },
            61,
        ),
        (
            "501 entries",
            Limits {
                objects: 500,
                ..limits()
            },
            501,
        ),
    ] {
        let mut small = Bed::with(limits, true);
        let commit = small.repo.commit_many(count);
        small.read(what, &commit, "").await;
        bed.report.push_str(&small.report);
    }
    insta::assert_snapshot!(bed.report);
}

#[tokio::test]
async fn b24_addresses() {
    let mut bed = Bed::with(Limits::default(), false);
    for url in [
        "ext::sh -c id",
        "ext::sh",
        "file:///srv/git/x",
        "file://localhost/etc",
        "/srv/git/x",
        "../x",
        "ssh://-oProxyCommand=id/x",
        "ssh://git@git.example.com/x",
        "git@git.example.com:-x",
        "git@git.example.com:team/app.git",
        "git://git.example.com/x",
        "http://git.example.com/x",
        "https://git.example.com/it's",
        "https://git.example.com/a\nb",
        "https://git.example.com/a b",
        "https://git.example.com/\u{1b}[31m",
        "https://ann:hunter2@git.example.com/x",
        "https://hunter2@git.example.com/x",
        "ssh://ann:hunter2@git.example.com/x",
        "https://ann:hunter2@evil.test\\@git.example.com/x",
        "https://git.example.com/x?token=hunter2",
        "https://git.example.com/x#hunter2",
        "https://git.example.com:99999/x",
        "https://",
        "https:///x",
        "javascript:alert(1)",
        "",
    ] {
        bed.fetch_branch(url).await;
    }
    insta::assert_snapshot!(bed.report);
    // A name in other letter case is shown as requested.
    let remote = Remote {
        timeout: Some(std::time::Duration::from_millis(1)),
        ..Remote::new("https://g\u{456}thub.invalid/x")
    };
    let error = bed
        .source
        .fetch(&remote, &Want::Branch("main".to_owned()))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("https://xn--gthub-n2e.invalid/x "), "{error}");
}

#[tokio::test]
async fn secrets_that_are_not_what_they_should_be() {
    let mut report = String::new();
    for (what, credentials) in [
        (
            "no certificate",
            Credentials {
                ca_crt: Some(b"hunter2".to_vec()),
                ..Credentials::default()
            },
        ),
        (
            "half a certificate",
            Credentials {
                ca_crt: Some(b"-----BEGIN CERTIFICATE-----\nhunter2".to_vec()),
                ..Credentials::default()
            },
        ),
        (
            "no key",
            Credentials {
                tls_crt: Some(b"hunter2".to_vec()),
                tls_key: Some(b"hunter2".to_vec()),
                ..Credentials::default()
            },
        ),
    ] {
        let bed = Bed::new();
        let remote = Remote::new("https://git.invalid/x").with_credentials(credentials);
        let error = bed
            .source
            .fetch(&remote, &Want::Branch("main".to_owned()))
            .await
            .unwrap_err();
        assert!(
            !format!("{error} {error:?} {remote:?}").contains("hunter2"),
            "{error:?}"
        );
        writeln!(report, "{what}: {:?}: {error}", error.class()).unwrap();
    }
    insta::assert_snapshot!(report);
}
