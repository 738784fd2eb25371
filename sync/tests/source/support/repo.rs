//! A repository in a temporary directory, made by the `git` command.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A work tree on branch `main`, readable like a bare repository.
pub(crate) struct Repo {
    dir: TempDir,
}

impl Repo {
    /// Without commits.
    pub(crate) fn new() -> Self {
        let repo = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        repo.git(&["init", "--quiet", "--initial-branch=main", "."]);
        repo
    }

    /// With SHA-256 object ids.
    pub(crate) fn sha256() -> Self {
        let repo = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        repo.git(&[
            "init",
            "--quiet",
            "--initial-branch=main",
            "--object-format=sha256",
            ".",
        ]);
        repo
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    /// Writes these files and commits the work tree; returns the commit.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> String {
        for (path, text) in files {
            let path = self.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=change"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// A commit of exactly one tree entry, of any mode and name; on branch `odd`.
    pub(crate) fn commit_entry(&self, mode: &str, name: &[u8], content: &[u8]) -> String {
        let id = match mode {
            "160000" => "0123456789012345678901234567890123456789".to_owned(),
            "040000" => self.mktree(b""),
            _ => self.git_with(&["hash-object", "-w", "--stdin"], content),
        };
        let kind = match mode {
            "160000" => "commit",
            "040000" => "tree",
            _ => "blob",
        };
        let entry = [format!("{mode} {kind} {id}\t").as_bytes(), name, b"\0"].concat();
        let tree = self.mktree(&entry);
        self.commit_tree(&tree)
    }

    /// Commits a tree with this many entries of one file; on branch `odd`.
    pub(crate) fn commit_many(&self, count: usize) -> String {
        let id = self.git_with(&["hash-object", "-w", "--stdin"], b"a: 1\n");
        let entries: Vec<String> = (0..count)
            .map(|number| format!("100644 blob {id}\t{number:07}.yaml\0"))
            .collect();
        self.commit_tree(&self.mktree(entries.concat().as_bytes()))
    }

    /// Commits nested directories, with a manifest in the innermost; on branch `odd`.
    pub(crate) fn commit_deep(&self, depth: usize) -> String {
        let id = self.git_with(&["hash-object", "-w", "--stdin"], b"a: 1\n");
        let mut tree = self.mktree(format!("100644 blob {id}\ta.yaml\0").as_bytes());
        for _ in 0..depth {
            tree = self.mktree(format!("040000 tree {tree}\td\0").as_bytes());
        }
        self.commit_tree(&tree)
    }

    fn commit_tree(&self, tree: &str) -> String {
        let commit = self.git(&["commit-tree", tree, "-m", "odd"]);
        self.git(&["update-ref", "refs/heads/odd", &commit]);
        commit
    }

    fn mktree(&self, entries: &[u8]) -> String {
        self.git_with(&["mktree", "-z", "--missing"], entries)
    }

    /// Runs git in the repository; returns its output.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, b"")
    }

    fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut command = Command::new("git");
        command
            .args(arguments)
            .current_dir(self.path())
            .envs(ENVIRONMENT.iter().copied());
        let output = String::from_utf8(output_of(command, input)).unwrap();
        output.trim().to_owned()
    }
}

/// Runs a command that must succeed; returns its output.
pub(crate) fn output_of(mut command: Command, input: &[u8]) -> Vec<u8> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output.stdout
}

/// Isolates git from the user's configuration.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_AUTHOR_NAME", "test"),
    ("GIT_AUTHOR_EMAIL", "test@example.com"),
    ("GIT_COMMITTER_NAME", "test"),
    ("GIT_COMMITTER_EMAIL", "test@example.com"),
];
