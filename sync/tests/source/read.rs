//! Which entries of a repository are read, and which are refused.

use crate::support::repo::Repo;
use muster_sync::source::{
    Clock, CommitId, Files, GitOptions, GitSource, Limits, Remote, Source, SourceError, Want,
};

struct Bed {
    repo: Repo,
    source: GitSource,
    _data: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let options = GitOptions {
            data_dir: data.path().to_owned(),
            allow_insecure: true,
            limits: Limits::default(),
        };
        Self {
            repo: Repo::new(),
            source: GitSource::new(options, Clock::system()).unwrap(),
            _data: data,
        }
    }

    async fn read(&self, commit: &str, path: &str, ignore: Option<&str>) -> Result<Files, SourceError> {
        let remote = Remote {
            ignore: ignore.map(str::to_owned),
            ..Remote::new(self.repo.url())
        };
        let commit: CommitId = commit.parse().unwrap();
        self.source
            .fetch(&remote, &Want::Commit(commit.clone()))
            .await
            .unwrap();
        self.source.read(&remote, &commit, path).await
    }
}

#[tokio::test]
async fn manifests_below_the_path_come_sorted() {
    let bed = Bed::new();
    let commit = bed.repo.commit(&[
        ("deploy/b.yaml", "b"),
        ("deploy/B.yml", "B"),
        ("deploy/a/z.yaml", "z"),
        ("deploy/a-b.yaml", "ab"),
        ("deploy/README.md", "no"),
        ("deploy/a.json", "{}"),
        ("other/c.yaml", "c"),
        (".github/workflow.yaml", "no"),
    ]);
    let check = async |path: &str, expect: &[&str]| {
        let files = bed.read(&commit, path, None).await.unwrap();
        let got: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(got, expect, "{path}");
    };
    check(
        "deploy",
        &[
            "deploy/B.yml",
            "deploy/a-b.yaml",
            "deploy/a/z.yaml",
            "deploy/b.yaml",
        ],
    )
    .await;
    check("./deploy/a/", &["deploy/a/z.yaml"]).await;
    check(
        "",
        &[
            "deploy/B.yml",
            "deploy/a-b.yaml",
            "deploy/a/z.yaml",
            "deploy/b.yaml",
            "other/c.yaml",
        ],
    )
    .await;
}

#[tokio::test]
async fn paths_that_lead_nowhere_are_named() {
    let bed = Bed::new();
    let commit = bed.repo.commit(&[("deploy/a.yaml", "a")]);
    let check = async |path: &str, expect: &str| {
        let error = bed.read(&commit, path, None).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{path}: {error}");
    };
    check(
        "nowhere",
        &format!("path not found: \"nowhere\" is not in commit {commit}"),
    )
    .await;
    check("deploy/nowhere", "path not found: \"deploy/nowhere\"").await;
    check("DEPLOY", "path not found").await;
    check(
        "deploy/a.yaml",
        "it is a file; use the directory that contains it",
    )
    .await;
    check("../deploy", "it leads outside").await;
    check("/deploy", "must be relative").await;
}

#[tokio::test]
async fn what_is_ignored_is_neither_read_nor_refused() {
    let bed = Bed::new();
    bed.repo.git(&["config", "core.symlinks", "true"]);
    std::os::unix::fs::symlink("../a.yaml", bed.repo.path().join("link.yaml")).unwrap();
    let commit = bed.repo.commit(&[
        (".sourceignore", "link.yaml\n/tests/\nkustomization.yaml\n"),
        ("a.yaml", "a"),
        ("tests/t.yaml", "t"),
        ("kustomization.yaml", "k"),
        ("sub/.sourceignore", "*.yml\n!keep.yml\n"),
        ("sub/drop.yml", "d"),
        ("sub/keep.yml", "k"),
    ]);
    let paths = async |path: &str, ignore: Option<&str>| -> Vec<String> {
        bed.read(&commit, path, ignore)
            .await
            .unwrap()
            .iter()
            .map(|file| file.path.clone())
            .collect()
    };
    assert_eq!(paths("", None).await, ["a.yaml", "sub/keep.yml"]);
    assert_eq!(paths("sub", None).await, ["sub/keep.yml"]);
    assert_eq!(paths("", Some("/*\n!/tests\n")).await, ["tests/t.yaml"]);
    let error = bed.read(&commit, "", Some("!link.yaml")).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("\"link.yaml\" is refused: it is a symbolic link"),
        "{error}"
    );
}

#[tokio::test]
async fn entries_that_are_no_plain_files_are_refused() {
    let bed = Bed::new();
    let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let cases: &[(&str, &[u8], &[u8], &str)] = &[
        (
            "120000",
            b"a.yaml",
            b"/etc/passwd",
            "\"a.yaml\" is refused: it is a symbolic link",
        ),
        (
            "120000",
            b"link",
            b"../..",
            "\"link\" is refused: it is a symbolic link",
        ),
        (
            "160000",
            b"vendor",
            b"",
            "\"vendor\" is refused: it is a submodule",
        ),
        (
            "100644",
            b"a.yaml",
            lfs,
            "\"a.yaml\" is refused: it is a Git LFS pointer",
        ),
        (
            "100644",
            b"kustomization.yaml",
            b"",
            "\"kustomization.yaml\" needs kustomize",
        ),
        (
            "100644",
            b"Kustomization",
            b"",
            "\"Kustomization\" needs kustomize",
        ),
        ("100644", b".git", b"", "its name is one that git reserves"),
        ("040000", b".GIT", b"", "its name is one that git reserves"),
        ("100644", b"git~1", b"", "its name is one that git reserves"),
        ("100644", b"..", b"", "its name is one that git reserves"),
        (
            "100644",
            ".g\u{200c}it".as_bytes(),
            b"",
            "its name is one that git reserves",
        ),
        (
            "100644",
            b"a\xff.yaml",
            b"",
            "\"a\\\\xff.yaml\" is refused: its name is not UTF-8",
        ),
        (
            "100644",
            b"a\n.yaml",
            b"",
            "\"a\\\\n.yaml\" is refused: its name contains a control or invisible character",
        ),
        ("100644", b"a\\b.yaml", b"", "its name contains a path separator"),
    ];
    for (mode, name, content, expect) in cases {
        let commit = bed.repo.commit_entry(mode, name, content);
        let error = bed
            .read(&commit, "", None)
            .await
            .expect_err(&name.escape_ascii().to_string())
            .to_string();
        assert!(error.contains(expect), "{}: {error}", name.escape_ascii());
    }
    let linked = bed.repo.commit_entry("120000", b"deploy", b"elsewhere");
    let error = bed.read(&linked, "deploy", None).await.unwrap_err().to_string();
    assert!(
        error.contains("\"deploy\" is refused: it is a symbolic link"),
        "{error}"
    );
}
