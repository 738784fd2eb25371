//! Rolls back by a change in git. No cluster is touched.
//!
//! ```text
//!   module, revisions ─► the last good one ─► file in the work tree (find) ─► its text with another version ─► patch, or commit
//! ```

mod commit;
mod find;
mod nodes;

use std::{
    borrow::Cow,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use git2::Repository;
use muster_api::sync::GitVersion;
use muster_dashboard::{NoWayBack, Past, shell_word};
use muster_fleet::{Reporter, history::Read, name::ModuleName};
use muster_sync::yaml::edit::{self, Edit, EditError};
use similar::TextDiff;
use thiserror::Error;

use self::find::{VersionField, VersionLocation, Wanted};
pub use self::{commit::CommitError, find::NotFound, nodes::nodes};
use crate::steps::Cause;

/// Context lines of a diff.
const CONTEXT: usize = 3;

/// Which module to roll back, to which revision, and where its manifest is.
#[derive(Clone, Debug)]
pub struct Options {
    /// module/NAME or bootstrapmodule/NAME; for nodemodule/NAME the manifest is printed with the content of that
    /// revision.
    pub module: ModuleName,
    /// The revision to go back to, by at least 8 digits of its hash [default: the last good one with another version].
    pub to_revision: Option<String>,
    /// The work tree of the git repository that has the Module, or a directory in it [default: the current one, if it
    /// has the Module].
    pub repo: Option<PathBuf>,
    /// Commit the change to the branch that is checked out; git hooks and signing are skipped.
    pub commit: bool,
    /// The reason; added to the commit message.
    pub reason: Option<String>,
}

/// Why nothing was changed.
#[derive(Debug, Error)]
pub enum UndoRefusal {
    /// There is no revision to go back to.
    #[error(transparent)]
    NoWayBack(#[from] NoWayBack),
    /// The file of the module is not found.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The file cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The change cannot be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The patch cannot be printed.
    #[error("{0:#}")]
    Output(#[from] anyhow::Error),
}

impl UndoRefusal {
    /// Whether it was refused or could not be found out; `None` if there is nothing to do.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::NoWayBack(NoWayBack::NoSuchRevision(_))
            | Self::NotFound(_)
            | Self::Edit(_)
            | Self::Output(_) => Some(Cause::Unknown),
            Self::NoWayBack(NoWayBack::NothingGood { .. } | NoWayBack::KnownBad { .. }) => {
                Some(Cause::Failed)
            }
            Self::NoWayBack(NoWayBack::Already { .. }) => None,
            Self::Commit(error) => Some(error.cause()),
        }
    }
}

/// Prints the patch and how to use it, or commits it. No cluster is touched.
pub fn go_back(
    namespace: &str,
    options: &Options,
    read: &Read,
    reporter: &dyn Reporter,
) -> Result<(), UndoRefusal> {
    let Options {
        module,
        to_revision,
        repo,
        commit,
        reason,
    } = options;
    let now = &read.spec.sync.source.version();
    let past = read.history.back(now, to_revision.as_deref())?;
    let (now, version) = (version_text(now), &past.version);
    reporter.warn(&format!(
        "{module}: {now} -> {version} (revision {}, {}, commit {})",
        past.short_hash(),
        past.verdict.as_str(),
        past.commit
    ));
    if !past.differs_by_version_only {
        reporter.warn(&format!(
            "Settings other than the version have also changed since: {version} is rolled out with the settings as they are now."
        ));
    }
    let here = Path::new(".");
    let is_here = *commit || repo.is_none() && found(namespace, module, here).is_ok();
    let Some(directory) = repo.as_deref().or_else(|| is_here.then_some(here)) else {
        let field = VersionField::of(&read.spec.sync.source);
        print_fragment(namespace, options, past, reporter, field)?;
        return Ok(());
    };
    let (repository, found) = found(namespace, module, directory)?;
    let VersionLocation { path, text, .. } = &found;
    let edited = edited(&found, &past.wanted)?;
    if edited == *text {
        reporter.warn(&format!(
            "{path} says {version} already; next: commit and push it, if that is not done"
        ));
        return Ok(());
    }
    if *commit {
        let message = commit::Message {
            module,
            now: &now,
            past,
            reason: reason.as_deref(),
        };
        let id = commit::commit(&repository, path, &edited, &message)?;
        let id: String = id.to_string().chars().take(8).collect();
        reporter.line(&format!("{id} {}", message.subject()))?;
        reporter.warn(&format!(
            "Only the version is reverted: what {now} changed in its directory stays in the branch (git revert reverts that, too)."
        ));
        // Without a remote, the branch itself is followed.
        let has_remote = repository.remotes().is_ok_and(|remotes| !remotes.is_empty());
        let push = has_remote.then(|| format!("git{} push", in_directory(repo.as_deref(), "-C")));
        next(
            reporter,
            push.into_iter().chain([follow(namespace, module, past)]),
        );
    } else {
        reporter.text(&patch(path, text, &edited))?;
        next(reporter, [committing(namespace, options)]);
    }
    Ok(())
}

/// The next commands, a line each, so that they can be copied.
fn next(reporter: &dyn Reporter, commands: impl IntoIterator<Item = String>) {
    reporter.warn("Next:");
    for command in commands {
        reporter.warn(&format!("  {command}"));
    }
}

/// The command that commits the change, in the given work tree.
fn committing(namespace: &str, options: &Options) -> String {
    let to = options.to_revision.as_ref();
    let to = to.map_or_else(String::new, |to| format!(" --to-revision {}", shell_word(to)));
    let repo = in_directory(options.repo.as_deref(), "--repo");
    let at = shell_word(namespace);
    format!(
        "muster rollout undo {}{to}{repo} --commit -n {at}",
        options.module
    )
}

/// A flag for a directory, unless it is the current one.
fn in_directory(directory: Option<&Path>, flag: &str) -> String {
    let directory = directory.filter(|directory| *directory != Path::new("."));
    directory.map_or_else(String::new, |directory| {
        format!(" {flag} {}", shell_word(&directory.display().to_string()))
    })
}

/// The command that follows the resulting rollout.
fn follow(namespace: &str, module: &ModuleName, past: &Past) -> String {
    let tag = past
        .wanted
        .tag
        .as_ref()
        .map_or_else(String::new, |tag| format!(" --tag {}", shell_word(tag)));
    format!("muster rollout status {module}{tag} -n {}", shell_word(namespace))
}

fn version_text(version: &GitVersion) -> String {
    let commit = version.commit.as_deref().unwrap_or_default();
    version
        .tag
        .clone()
        .unwrap_or_else(|| commit.chars().take(8).collect())
}

/// The fields as YAML, and how to use them.
fn print_fragment(
    namespace: &str,
    options: &Options,
    past: &Past,
    reporter: &dyn Reporter,
    field: VersionField,
) -> anyhow::Result<()> {
    let (key, value) = pair(&past.wanted, field);
    let value = serde_json::Value::from(&*value);
    let mut fragment = String::new();
    let mut indent = 6;
    for name in field.path() {
        // Writing to a string cannot fail.
        let _ = write!(fragment, "\n{:indent$}{name}:", "");
        indent += 2;
    }
    reporter.line(&format!(
        "# In the file of {} in git:\nspec:\n  sync:\n    source:{fragment}\n{:indent$}{key}: {value}",
        options.module, ""
    ))?;
    reporter.warn("Change that and push it; or in the work tree of the repository that has it:");
    reporter.warn(&format!("  {}", committing(namespace, options)));
    Ok(())
}

fn found(
    namespace: &str,
    module: &ModuleName,
    directory: &std::path::Path,
) -> Result<(Repository, VersionLocation), NotFound> {
    let repository = find::repository(directory)?;
    let wanted = Wanted {
        kind: module.kind_of_modules(),
        name: &module.name,
        namespace,
    };
    let found = find::find(&repository, directory, &wanted)?;
    Ok((repository, found))
}

fn pair(version: &GitVersion, field: VersionField) -> (&'static str, Cow<'_, str>) {
    match (&version.tag, version.commit.as_deref().unwrap_or_default()) {
        (Some(tag), _) => ("tag", tag.into()),
        (None, digits) if field == VersionField::FluxOci => ("digest", format!("sha256:{digits}").into()),
        (None, commit) => ("commit", commit.into()),
    }
}

/// The text of the file with this version.
fn edited(found: &VersionLocation, wanted: &GitVersion) -> Result<String, EditError> {
    let (key, value) = pair(wanted, found.field);
    let edits = [
        Edit {
            node: &found.key,
            text: key,
        },
        Edit {
            node: &found.value,
            text: &value,
        },
    ];
    let same_key = found.key.text() == Some(key);
    if same_key && found.value.text() == Some(&value) {
        return Ok(found.text.clone());
    }
    edit::replace(&found.path, &found.text, &edits[usize::from(same_key)..])
}

/// A patch that git can apply.
fn patch(path: &str, before: &str, after: &str) -> String {
    let lines = TextDiff::from_lines(before, after);
    let mut hunks = lines.unified_diff();
    hunks
        .context_radius(CONTEXT)
        .header(&format!("a/{path}"), &format!("b/{path}"));
    format!("diff --git a/{path} b/{path}\n{hunks}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use git2::{IndexAddOption, RepositoryInitOptions};
    use muster_api::{ModuleRevision, module::ModuleSpec};
    use muster_dashboard::History;
    use tempfile::TempDir;

    use super::*;

    const FAILED: Option<Cause> = Some(Cause::Failed);
    const UNKNOWN: Option<Cause> = Some(Cause::Unknown);

    /// Discards all output.
    struct NoOutput;

    impl Reporter for NoOutput {
        fn line(&self, _: &str) -> anyhow::Result<()> {
            Ok(())
        }

        fn text(&self, _: &str) -> anyhow::Result<()> {
            Ok(())
        }

        fn warn(&self, _: &str) {}
    }

    /// A good version, a bad one, one in progress, and a pending one. The module asks for this tag.
    fn sample_at(tag: &str) -> Read {
        let all: serde_json::Value =
            serde_json::from_str(include_str!("../../../fleet/tests/fixtures/revisions.json")).unwrap();
        let revisions: Vec<ModuleRevision> = serde_json::from_value(all["revisions"].clone()).unwrap();
        let status = serde_json::from_value(all["status"].clone()).unwrap();
        let mut spec = all["spec"].clone();
        spec["sync"]["source"]["git"]["version"]["tag"] = tag.into();
        let spec: ModuleSpec = serde_json::from_value(spec).unwrap();
        let history = History::of("module/web", &spec, Some(&status), &revisions);
        Read { spec, history }
    }

    const FILE: &str = "# Modules of the web team\n---\napiVersion: fleet.muster.dev/v1alpha1\nkind: Module\nmetadata: {name: other}\nspec:\n  sync: {source: {git: {url: u, version: {tag: v3}}}}\n---\napiVersion: fleet.muster.dev/v1alpha1\nkind: Module\nmetadata:\n  name: web   # ours\nspec:\n  selector: {}\n  sync:\n    source:\n      git:\n        url: https://git.test/fleet\n        version:\n          tag: v3   # bumped by a robot\n";

    /// A work tree with these files, committed.
    fn work_tree(files: &[(&str, &str)]) -> (TempDir, Repository) {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::init_opts(
            directory.path(),
            RepositoryInitOptions::new().initial_head("main"),
        )
        .unwrap();
        let mut config = repository.config().unwrap();
        for (key, value) in [
            ("user.name", "Ann"),
            ("user.email", "ann@example.com"),
            ("core.autocrlf", "false"),
        ] {
            config.set_str(key, value).unwrap();
        }
        for (path, text) in files {
            write(directory.path(), path, text);
        }
        let mut index = repository.index().unwrap();
        index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
        index.write().unwrap();
        let tree = index.write_tree().unwrap();
        let author = repository.signature().unwrap();
        let commit = |tree| repository.commit(Some("HEAD"), &author, &author, "first", tree, &[]);
        commit(&repository.find_tree(tree).unwrap()).unwrap();
        (directory, repository)
    }

    fn write(directory: &Path, path: &str, text: &str) {
        let file = directory.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn options(directory: &Path, to: Option<&str>, commit: bool) -> Options {
        Options {
            module: "module/web".parse().unwrap(),
            to_revision: to.map(str::to_owned),
            repo: Some(directory.to_owned()),
            commit,
            reason: commit.then(|| "errors in eu".to_owned()),
        }
    }

    fn back() -> String {
        FILE.replace("tag: v3   # bumped", "tag: v1   # bumped")
    }

    #[test]
    fn a_patch_changes_one_line_and_git_takes_it() {
        let (directory, repository) =
            work_tree(&[("modules/web.yaml", FILE), ("docs/x.yaml", "{{ template }}")]);
        let read = sample_at("v3");
        let past = read.history.back(&read.spec.sync.source.version(), None).unwrap();
        let (_, found) = found("default", &"module/web".parse().unwrap(), directory.path()).unwrap();
        let text = edited(&found, &past.wanted).unwrap();
        assert_eq!(text, back());
        let patch = patch(&found.path, &found.text, &text);
        insta::assert_snapshot!(patch, @r"
        diff --git a/modules/web.yaml b/modules/web.yaml
        --- a/modules/web.yaml
        +++ b/modules/web.yaml
        @@ -17,4 +17,4 @@
               git:
                 url: https://git.test/fleet
                 version:
        -          tag: v3   # bumped by a robot
        +          tag: v1   # bumped by a robot
        ");
        let diff = git2::Diff::from_buffer(patch.as_bytes()).unwrap();
        repository
            .apply(&diff, git2::ApplyLocation::WorkDir, None)
            .unwrap();
        assert_eq!(
            fs::read_to_string(directory.path().join("modules/web.yaml")).unwrap(),
            back()
        );
    }

    #[test]
    fn a_commit_has_the_one_file_and_says_why() {
        let (directory, repository) =
            work_tree(&[("modules/web.yaml", FILE), ("a.txt", "a"), ("b.txt", "b")]);
        write(directory.path(), "a.txt", "changed");
        write(directory.path(), "b.txt", "staged");
        let mut index = repository.index().unwrap();
        index.add_path(Path::new("b.txt")).unwrap();
        index.write().unwrap();
        go_back(
            "default",
            &options(directory.path(), None, true),
            &sample_at("v3"),
            &NoOutput,
        )
        .unwrap();
        let head = repository.head().unwrap().peel_to_commit().unwrap();
        assert_eq!(
            head.message().unwrap(),
            "web: back from v3 to v1\n\nerrors in eu\n\nv1 (revision aaaaaaaa, commit aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) was Good on 5/5 \
             clusters, 2026-01-01T01:04:00Z.\n"
        );
        assert_eq!((head.author().name().unwrap(), head.parent_count()), ("Ann", 1));
        let diff = repository
            .diff_tree_to_tree(
                Some(&head.parent(0).unwrap().tree().unwrap()),
                Some(&head.tree().unwrap()),
                None,
            )
            .unwrap();
        let changed: Vec<_> = diff
            .deltas()
            .map(|delta| delta.new_file().path().unwrap().to_owned())
            .collect();
        assert_eq!(changed, [Path::new("modules/web.yaml")]);
        assert_eq!(
            fs::read_to_string(directory.path().join("modules/web.yaml")).unwrap(),
            back()
        );
        let status = |path: &str| repository.status_file(Path::new(path)).unwrap();
        assert_eq!(
            (status("modules/web.yaml"), status("a.txt"), status("b.txt")),
            (
                git2::Status::CURRENT,
                git2::Status::WT_MODIFIED,
                git2::Status::INDEX_MODIFIED
            )
        );
        // The second time there is nothing to do.
        go_back(
            "default",
            &options(directory.path(), None, true),
            &sample_at("v3"),
            &NoOutput,
        )
        .unwrap();
        assert_eq!(
            repository.head().unwrap().peel_to_commit().unwrap().id(),
            head.id()
        );
    }

    #[test]
    fn each_hint_is_a_command() {
        let options = |repo: Option<&str>, to: Option<&str>| Options {
            module: "module/web".parse().unwrap(),
            to_revision: to.map(str::to_owned),
            repo: repo.map(PathBuf::from),
            commit: false,
            reason: None,
        };
        let check = |options: Options, expect: &str| assert_eq!(committing("fleet", &options), expect);
        let here = "muster rollout undo module/web --commit -n fleet";
        check(options(None, None), here);
        check(options(Some("."), None), here);
        check(
            options(Some("my fleet"), Some("aaaaaaaa")),
            "muster rollout undo module/web --to-revision aaaaaaaa --repo 'my fleet' --commit -n fleet",
        );
        let read = sample_at("v3");
        let past = read.history.find("aaaaaaaa").unwrap();
        assert_eq!(
            follow("fleet", &"module/web".parse().unwrap(), past),
            "muster rollout status module/web --tag v1 -n fleet"
        );
    }

    fn refused(
        directory: &Path,
        to: Option<&str>,
        asks: &str,
        commit: bool,
        cause: Option<Cause>,
        says: &str,
    ) {
        let refusal = go_back(
            "default",
            &options(directory, to, commit),
            &sample_at(asks),
            &NoOutput,
        )
        .unwrap_err();
        assert!(refusal.to_string().starts_with(says), "{refusal}");
        assert_eq!(refusal.cause(), cause, "{refusal}");
    }

    #[test]
    fn what_is_no_way_back_is_refused() {
        let (directory, _) = work_tree(&[("web.yaml", FILE)]);
        let directory = directory.path();
        refused(
            directory,
            None,
            "v1",
            false,
            FAILED,
            "no other version of module/web than v1 is on record as good",
        );
        refused(
            directory,
            Some("bbbbbbbb"),
            "v3",
            false,
            FAILED,
            "v2 (revision bbbbbbbb) is known to be bad (dev-1: Deployment",
        );
        refused(
            directory,
            Some("cccccccc"),
            "v3",
            false,
            None,
            "module/web asks for v3 already",
        );
        refused(
            directory,
            Some("eeeeeeee"),
            "v3",
            false,
            UNKNOWN,
            "there is no revision eeeeeeee of module/web; next: muster rollout history",
        );
        refused(
            directory,
            Some("v1"),
            "v3",
            false,
            UNKNOWN,
            "\"v1\" is not a revision",
        );
        assert_eq!(fs::read_to_string(directory.join("web.yaml")).unwrap(), FILE);
    }

    #[test]
    fn a_file_that_is_not_there_twice_there_or_dirty_is_refused() {
        let twice = format!("{FILE}---\n{}", FILE.split("---\n").nth(2).unwrap());
        let check = |files: &[(&str, &str)], cause: Option<Cause>, expected: &str| {
            let (directory, _) = work_tree(files);
            refused(directory.path(), None, "v3", true, cause, expected);
            for (path, text) in files {
                assert_eq!(fs::read_to_string(directory.path().join(path)).unwrap(), *text);
            }
        };
        check(
            &[("web.yaml", "a: b\n"), ("t.yaml", "{{ x")],
            UNKNOWN,
            "no file tracked by git below ",
        );
        check(&[("web.txt", FILE)], UNKNOWN, "no file tracked by git below ");
        check(
            &[("web.yaml", &twice)],
            UNKNOWN,
            "Module web is defined more than once: web.yaml:9, web.yaml:22",
        );
        check(
            &[("a/web.yaml", FILE), ("b/web.yml", FILE)],
            UNKNOWN,
            "Module web is defined more than once: a/web.yaml:9, b/web.yml:9",
        );
        let elsewhere = FILE.replace("name: web   # ours", "name: web\n  namespace: elsewhere");
        check(
            &[("web.yaml", &elsewhere)],
            UNKNOWN,
            "no file tracked by git below ",
        );
        let filled = FILE.replace("tag: v3   #", "tag: ${TAG}   #");
        check(
            &[("web.yaml", &filled)],
            UNKNOWN,
            "web.yaml:9: Module web has no literal tag, commit or digest in spec.sync.source",
        );
        let aliased = FILE
            .replace("name: web   # ours", "name: web\n  labels: {v: &v v3}")
            .replace("tag: v3   #", "tag: *v   #");
        check(&[("web.yaml", &aliased)], UNKNOWN, "web.yaml:");

        let (directory, _) = work_tree(&[("web.yaml", FILE)]);
        let mine = format!("{FILE}# mine\n");
        write(directory.path(), "web.yaml", &mine);
        refused(
            directory.path(),
            None,
            "v3",
            true,
            FAILED,
            "web.yaml has changes that are not committed; next:",
        );
        assert_eq!(
            fs::read_to_string(directory.path().join("web.yaml")).unwrap(),
            mine
        );
        let nowhere = tempfile::tempdir().unwrap();
        refused(
            nowhere.path(),
            None,
            "v3",
            false,
            UNKNOWN,
            &format!("{} is not in a git work tree", nowhere.path().display()),
        );
    }

    #[test]
    fn the_given_directory_selects_the_file_to_change() {
        let (directory, _) = work_tree(&[("a/web.yaml", FILE), ("b/web.yml", FILE)]);
        go_back(
            "default",
            &options(&directory.path().join("b"), None, true),
            &sample_at("v3"),
            &NoOutput,
        )
        .unwrap();
        let text = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
        assert_eq!((text("a/web.yaml"), text("b/web.yml")), (FILE.to_owned(), back()));
    }
}
