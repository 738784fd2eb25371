//! Crash points where a test kills the process; compiled out of releases.

#[cfg(not(test))]
pub(super) fn point(_: &'static str) {}

#[cfg(test)]
pub(super) use self::tests::point;

/// A process that fetches and prunes is killed at each of its disk operations. A later process with the same data
/// directory reads either a complete commit or nothing, and ends in the same state as without the kill.
#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, reason = "a test panics on failure")]

    use std::collections::BTreeSet;
    use std::path::Path;
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::super::{
        Clock, CommitId, GitOptions, GitSource, Limits, Remote, Source, SourceError, Want,
    };
    use super::git_server::{Door, GitServer};
    use super::repo::Repo;

    /// The step at which the process is killed.
    const STEP: &str = "MUSTER_TEST_DIES_AT";
    /// The environment of the process: data directory, URL, the three commits.
    const WORK: &str = "MUSTER_TEST_WORK";

    static STEPS: AtomicUsize = AtomicUsize::new(0);

    pub(in super::super) fn point(name: &'static str) {
        let step = STEPS.fetch_add(1, Ordering::SeqCst) + 1;
        if std::env::var(STEP).is_ok_and(|at| at == step.to_string()) {
            println!("dies {name}");
            std::process::abort();
        }
    }

    fn source(data: &Path) -> GitSource {
        let options = GitOptions {
            data_dir: data.to_owned(),
            allow_insecure: true,
            limits: Limits {
                spare_bytes: 0,
                ..Limits::default()
            },
        };
        GitSource::new(options, Clock::system()).unwrap()
    }

    /// The stored commits, by number, with the content of their manifest.
    async fn stored_commits(data: &Path, url: &str, commits: &[CommitId]) -> Vec<String> {
        let source = source(data);
        let mut stored = Vec::new();
        for (number, commit) in commits.iter().enumerate() {
            match source.read(&Remote::new(url), commit, "deploy").await {
                Ok(files) => {
                    let texts: Vec<_> = files
                        .iter()
                        .map(|file| String::from_utf8_lossy(&file.bytes).trim().to_owned())
                        .collect();
                    stored.push(format!("{number}: {}", texts.join(" ")));
                }
                Err(SourceError::NotFetched { .. }) => {}
                Err(error) => panic!("commit {number} is here by half: {error}"),
            }
        }
        stored
    }

    /// The process that is killed: it fetches a branch and a commit that no branch points to, then only the branch is
    /// retained.
    #[tokio::test]
    async fn works_as_a_child() {
        let Ok(work) = std::env::var(WORK) else {
            return;
        };
        let work: Vec<&str> = work.split(' ').collect();
        let (data, url) = (Path::new(work[0]), work[1]);
        let commits: Vec<CommitId> = work[2..].iter().map(|id| id.parse().unwrap()).collect();
        let remote = Remote::new(url);
        let first = source(data);
        first
            .fetch(&remote, &Want::Branch("main".to_owned()))
            .await
            .unwrap();
        first
            .fetch(&remote, &Want::Commit(commits[1].clone()))
            .await
            .unwrap();
        drop(first);
        // As in a later process: nothing was used recently.
        let named = BTreeSet::from([(url.to_owned(), commits[2].clone())]);
        source(data).retain(&named).await.unwrap();
        println!("steps: {}", STEPS.load(Ordering::SeqCst));
    }

    fn run(work: &str, step: Option<usize>) -> (bool, String) {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "source::git::crash::tests::works_as_a_child",
            ])
            .env(WORK, work)
            .env(STEP, step.map_or_else(String::new, |step| step.to_string()))
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), stdout)
    }

    fn names(data: &Path) -> Vec<String> {
        let mut names = Vec::new();
        let mut directories = vec![data.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    names.push(path.strip_prefix(data).unwrap().display().to_string());
                }
            }
        }
        names.sort();
        names
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn killed_at_each_step_it_ends_as_if_it_had_not_been() {
        let repo = Repo::new();
        let commits: Vec<String> = (0..3)
            .map(|number| repo.commit(&[("deploy/a.yaml", &format!("a: {number}\n")), ("b", "b")]))
            .collect();
        let server = GitServer::start(repo.path(), Door::Plain, None).await;
        let url = server.url(".git");
        let ids: Vec<CommitId> = commits.iter().map(|id| id.parse().unwrap()).collect();
        let place = async |step: Option<usize>| {
            let data = tempfile::tempdir().unwrap();
            let work = format!("{} {url} {}", data.path().display(), commits.join(" "));
            let first = tokio::task::spawn_blocking(move || (run(&work, step), work));
            let ((ended, stdout), work) = first.await.unwrap();
            assert_eq!(ended, step.is_none(), "{stdout}");
            // Everything stored after the kill is complete.
            let between = stored_commits(data.path(), &url, &ids).await;
            if step.is_some() {
                let (ended, stdout) = tokio::task::spawn_blocking(move || run(&work, None))
                    .await
                    .unwrap();
                assert!(ended, "{stdout}");
            }
            let after = stored_commits(data.path(), &url, &ids).await;
            (stdout, between, after, names(data.path()))
        };
        let (stdout, _, whole, files) = place(None).await;
        assert_eq!(whole, ["2: a: 2"]);
        let steps: usize = stdout
            .lines()
            .find_map(|line| line.strip_prefix("steps: ")?.parse().ok())
            .unwrap();
        assert!(steps >= 12, "{stdout}");
        let mut had = Vec::new();
        for step in 1..=steps {
            let (stdout, between, after, left) = place(Some(step)).await;
            let died = stdout
                .lines()
                .find(|line| line.contains("dies "))
                .unwrap_or_default();
            println!("step {step} of {steps}: {died}; then {between:?}");
            assert!(had.is_empty() || between == had, "step {step} lost what was here");
            had = between;
            assert_eq!((&after, &left), (&whole, &files), "step {step}: {died}");
        }
    }
}

#[cfg(test)]
#[allow(dead_code, clippy::unwrap_used, reason = "shared with other tests")]
#[path = "../../../tests/source/support/git_server.rs"]
mod git_server;

#[cfg(test)]
#[allow(dead_code, clippy::unwrap_used, reason = "shared with other tests")]
#[path = "../../../tests/source/support/repo.rs"]
mod repo;
