//! A separate process that fetches: its memory can be measured, and it can be killed.
//!
//! It is the test binary itself, run for one test (`works_as_a_child`).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use muster_sync::source::{Clock, CommitId, GitOptions, GitSource, Limits, Remote, Source, Want};
use tokio::process::{Child, Command};

const WORK: &str = "MUSTER_TEST_WORK";

/// What the process does: it fetches, and reads a path if one is given.
pub(crate) struct Work {
    pub data: PathBuf,
    pub url: String,
    /// 40 hex digits, or a branch.
    pub want: String,
    pub path: Option<String>,
    pub timeout: Duration,
}

/// The output of the process.
#[derive(Debug)]
pub(crate) struct ChildResult {
    /// The commit and the number of manifests, or the error.
    pub result: Result<String, String>,
    /// Peak memory, in MiB.
    pub peak_mib: u64,
}

impl Work {
    pub(crate) fn new(data: &Path, url: &str, want: &str) -> Self {
        Self {
            data: data.to_owned(),
            url: url.to_owned(),
            want: want.to_owned(),
            path: None,
            timeout: Duration::from_mins(1),
        }
    }

    /// Starts the process. It is killed when this is dropped.
    pub(crate) fn start(&self) -> Child {
        let work = [
            self.data.display().to_string(),
            self.url.clone(),
            self.want.clone(),
            self.path.clone().unwrap_or_default(),
            self.timeout.as_secs().to_string(),
        ];
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "support::child::works_as_a_child"])
            .env(WORK, work.join("\n"))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// Waits for the process to end.
    pub(crate) async fn run(&self) -> ChildResult {
        let output = self.start().wait_with_output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let value_after = |what: &str| {
            text.lines()
                .find_map(|line| line.split_once(what))
                .map(|(_, value)| value.to_owned())
        };
        let peak = value_after("peak: ").unwrap_or_else(|| panic!("it died: {text}"));
        ChildResult {
            result: value_after("done: ").ok_or_else(|| value_after("failed: ").unwrap()),
            peak_mib: peak.parse().unwrap(),
        }
    }
}

/// The child's side; does nothing in the parent.
#[tokio::test]
async fn works_as_a_child() {
    let Ok(work) = std::env::var(WORK) else {
        return;
    };
    let work: Vec<&str> = work.split('\n').collect();
    let options = GitOptions {
        data_dir: PathBuf::from(work[0]),
        allow_insecure: true,
        limits: Limits {
            timeout: Duration::from_secs(work[4].parse().unwrap()),
            ..Limits::default()
        },
    };
    let source = GitSource::new(options, Clock::system()).unwrap();
    let want = work[2]
        .parse::<CommitId>()
        .map_or_else(|_| Want::Branch(work[2].to_owned()), Want::Commit);
    let remote = Remote::new(work[1]);
    let result = match source.fetch(&remote, &want).await {
        Ok(fetched) if !work[3].is_empty() => source
            .read(&remote, &fetched.commit, work[3])
            .await
            .map(|files| format!("{} {}", fetched.commit, files.len())),
        Ok(fetched) => Ok(fetched.commit.to_string()),
        Err(error) => Err(error),
    };
    match result {
        Ok(done) => println!("\ndone: {done}"),
        Err(error) => println!("\nfailed: {error}"),
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|text| text.trim().strip_suffix(" kB"))
        .unwrap();
    println!("\npeak: {}", peak.parse::<u64>().unwrap() / 1024);
}
