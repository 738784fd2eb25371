//! Promise: a directory on disk is read as a commit of it would be: the same files, the same refusals, no links
//! followed.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use git2::{Repository, RepositoryInitOptions};
use muster_sync::source::{DirectoryErrors, Files, Limits, read_directory};
use tempfile::TempDir;

/// A work tree.
struct Tree(TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn read(&self, path: &str, limits: &Limits) -> Result<Files, DirectoryErrors> {
        read_directory(&self.path(path), limits)
    }

    /// The files, or the errors, without the path of the test directory.
    #[track_caller]
    fn check(&self, path: &str, expect: Result<&[&str], &[&str]>) {
        self.check_limited(path, &Limits::default(), expect);
    }

    #[track_caller]
    fn check_limited(&self, path: &str, limits: &Limits, expect: Result<&[&str], &[&str]>) {
        let root = format!("{}/", self.0.path().display());
        let short = |text: String| text.replace(&root, "").replace(root.trim_end_matches('/'), ".");
        let got = self
            .read(path, limits)
            .map(|files| {
                files
                    .iter()
                    .map(|file| short(file.path.clone()))
                    .collect::<Vec<_>>()
            })
            .map_err(|failed| {
                failed
                    .errors
                    .iter()
                    .map(|error| short(error.to_string()))
                    .collect::<Vec<_>>()
            });
        let expect = expect
            .map(|files| files.iter().map(ToString::to_string).collect::<Vec<_>>())
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(got, expect);
    }

    fn git(&self) -> Repository {
        let mut options = RepositoryInitOptions::new();
        options.external_template(false);
        Repository::init_opts(self.0.path(), &options).unwrap()
    }
}

#[test]
fn manifests_in_the_order_of_their_paths() {
    let tree = Tree::new(&[
        ("apps/b.yaml", "b"),
        ("apps/a/z.yml", "z"),
        ("apps/a.yaml", "a"),
        ("apps/README.md", ""),
        ("apps/values.json", "{}"),
        ("other/c.yaml", ""),
        ("apps/.github/workflow.yaml", ""),
    ]);
    tree.check("apps", Ok(&["apps/a.yaml", "apps/a/z.yml", "apps/b.yaml"]));
    tree.check("apps/", Ok(&["apps/a.yaml", "apps/a/z.yml", "apps/b.yaml"]));
    tree.check("apps/a", Ok(&["apps/a/z.yml"]));
    tree.check("other/../apps/a", Ok(&["other/../apps/a/z.yml"]));
    fs::create_dir(tree.path("empty")).unwrap();
    tree.check("empty", Ok(&[]));
    let files = tree.read("apps", &Limits::default()).unwrap();
    assert_eq!(
        files.iter().map(|file| &file.bytes[..]).collect::<Vec<_>>(),
        [b"a", b"z", b"b"]
    );
}

#[test]
fn paths_are_shown_as_the_directory_was_named() {
    let tree = Tree::new(&[("sync/x.yaml", "")]);
    // Tests of a crate run in its directory, which every checkout has.
    for (named, shown) in [("tests/build", "tests/build"), ("./tests/build/", "tests/build")] {
        let files = read_directory(Path::new(named), &Limits::default()).unwrap();
        assert!(files.iter().all(|file| file.path.starts_with(shown)), "{named}");
    }
    tree.check("sync", Ok(&["sync/x.yaml"]));
}

#[test]
fn everything_that_is_refused_is_named_with_its_path() {
    let tree = Tree::new(&[
        ("good.yaml", ""),
        ("a/kustomization.yaml", ""),
        ("b/large.yaml", "version https://git-lfs.github.com/spec/v1\n"),
        ("vendor/.git/config", ""),
        ("x\u{202e}y.yaml", ""),
    ]);
    symlink("/etc/hostname", tree.path("link.yaml")).unwrap();
    symlink(".", tree.path("loop")).unwrap();
    tree.check(
        "",
        Err(&[
            "\"a/kustomization.yaml\" needs kustomize, which the built-in sync does not have; remove the file, or run Flux in this cluster",
            "\"b/large.yaml\" is refused: it is a Git LFS pointer; commit the file itself",
            "\"link.yaml\" is refused: it is a symbolic link; put the file itself there, or list it in .sourceignore",
            "\"loop\" is refused: it is a symbolic link; put the file itself there, or list it in .sourceignore",
            "\"vendor\" is refused: it is a submodule; put the files themselves there, or list it in .sourceignore",
            "\"x\\\\xe2\\\\x80\\\\xaey.yaml\" is refused: its name contains a control or invisible character",
        ]),
    );
    let failed = tree.read("", &Limits::default()).unwrap_err();
    assert_eq!(failed.readable.len(), 1, "the rest is there for more errors");
    assert!(failed.to_string().ends_with("; and 5 more"), "{failed}");
    tree.write(".sourceignore", "link.yaml\nloop\nvendor\na/\nb/\nx*\n");
    tree.check(
        "",
        Err(&[
            "\"x\\\\xe2\\\\x80\\\\xaey.yaml\" is refused: its name contains a control or invisible character",
        ]),
    );
}

#[test]
fn the_directory_itself_is_no_link_and_no_file() {
    let tree = Tree::new(&[("apps/web/a.yaml", "")]);
    symlink("apps", tree.path("link")).unwrap();
    tree.git();
    let refused =
        "\"link\" is refused: it is a symbolic link; put the file itself there, or list it in .sourceignore";
    tree.check("link", Err(&[refused]));
    let refused = "\"link/web\" is refused: it is a symbolic link; put the file itself there, or list it in .sourceignore";
    tree.check("link/web", Err(&[refused]));
    tree.check(
        "apps/web/a.yaml",
        Err(&["path \"apps/web/a.yaml\" is refused: it is a file; use the directory that contains it"]),
    );
    tree.check("apps/nowhere", Err(&["\"apps/nowhere\" does not exist"]));
}

#[test]
fn patterns_count_from_the_root_of_the_work_tree() {
    let tree = Tree::new(&[
        (".sourceignore", "/apps/web/secret.yaml\n"),
        ("apps/.sourceignore", "*.yml\n"),
        ("apps/web/secret.yaml", ""),
        ("apps/web/a.yaml", ""),
        ("apps/web/b.yml", ""),
    ]);
    tree.check(
        "apps/web",
        Ok(&["apps/web/a.yaml", "apps/web/b.yml", "apps/web/secret.yaml"]),
    );
    tree.git();
    tree.check("apps/web", Ok(&["apps/web/a.yaml"]));
}

#[test]
fn what_git_would_not_commit_does_not_count() {
    let tree = Tree::new(&[
        (".gitignore", "target/\n*.local.yaml\n"),
        ("a.yaml", ""),
        ("mine.local.yaml", ""),
        ("kept.local.yaml", ""),
        ("target/deep/kustomization.yaml", ""),
    ]);
    let repository = tree.git();
    let mut index = repository.index().unwrap();
    index.add_path(Path::new("kept.local.yaml")).unwrap();
    index.write().unwrap();
    tree.check("", Ok(&["a.yaml", "kept.local.yaml"]));
}

#[test]
fn limits_are_those_of_a_commit() {
    let tree = Tree::new(&[("a/b/c/d.yaml", "12345"), ("a/b/e.yaml", "1")]);
    let check = |limits: Limits, expect: &str| tree.check_limited("", &limits, Err(&[expect]));
    check(
        Limits {
            file_bytes: 4,
            ..Limits::default()
        },
        "\"a/b/c/d.yaml\" with 5 bytes is more than the limit of 4; see --git-max-file-bytes",
    );
    check(
        Limits {
            files: 1,
            ..Limits::default()
        },
        "the number of manifests up to \"a/b/e.yaml\" is more than the limit of 1; see --git-max-files",
    );
    check(
        Limits {
            total_bytes: 5,
            ..Limits::default()
        },
        "the size of all manifests up to \"a/b/e.yaml\" is more than the limit of 5; see --git-max-total-bytes",
    );
    check(
        Limits {
            depth: 2,
            ..Limits::default()
        },
        "the depth of \"a/b/c\" is more than the limit of 2; see --git-max-depth",
    );
    check(
        Limits {
            objects: 3,
            ..Limits::default()
        },
        "the number of entries below \"a/b/c\" is more than the limit of 3; see --git-max-objects",
    );
}
