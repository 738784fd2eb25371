//! Promise: `docs/sync.md` shows a single cluster with `muster agent` alone, and every command on the page works as
//! printed.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use muster_apiserver::{ApiServer, player::Speeds};
use muster_e2e::bed::muster;
use tempfile::TempDir;

#[allow(dead_code, reason = "a part is used here")]
#[path = "../../sync/tests/source/support/git_server.rs"]
mod git_server;
#[allow(dead_code, reason = "a part is used here")]
#[path = "../../sync/tests/source/support/repo.rs"]
mod repo;

use git_server::{Door, GitServer};

/// The page under test.
const PAGE: &str = include_str!("../../docs/sync.md");
/// How long one block may take.
const BLOCK: &str = "240";

/// A block of commands, and whether it runs to completion.
struct Block {
    commands: String,
    background: bool,
}

/// The fenced command blocks, in order.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(words) = line.strip_prefix("```sh") else {
            continue;
        };
        let commands: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(Block {
            commands: commands.join("\n"),
            background: words.trim() == "background",
        });
    }
    blocks
}

/// A reader of the page: a cluster, a repository on a git host, and a clone of it.
struct Reader {
    directory: TempDir,
    address: String,
}

impl Reader {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs shell commands in the clone, with the variables that the page uses.
    fn shell(&self, commands: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", muster().parent().unwrap().display());
        let mut shell = Command::new("timeout");
        shell
            .args([BLOCK, "sh", "-ec", commands])
            .current_dir(self.path("clone"))
            .envs(repo::ENVIRONMENT.iter().copied())
            .env("PATH", path)
            .env("HOME", self.directory.path())
            .env("KUBECONFIG", self.path("config"))
            .env("REPOSITORY", &self.address)
            .env("DATA", self.path("data"))
            .stdin(Stdio::null());
        shell
    }

    /// The output of commands, which must succeed.
    #[track_caller]
    fn run(&self, commands: &str) -> String {
        let output = self.shell(commands).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let log = std::fs::read_to_string(self.path("agent.log")).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(20).collect();
        assert!(
            output.status.success(),
            "{commands}\n--- printed\n{stdout}{}\n--- the agent, last line first\n{}",
            String::from_utf8_lossy(&output.stderr),
            last.join("\n")
        );
        stdout + &String::from_utf8_lossy(&output.stderr)
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited on its own, which the commands have shown already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn git(directory: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .envs(repo::ENVIRONMENT.iter().copied())
        .status()
        .unwrap();
    assert!(done.success(), "git {arguments:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_page_works() {
    // Only a second call could fail, because the provider is already set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let api = ApiServer::builder()
        .workloads(Speeds::default())
        .start()
        .await
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    git(
        directory.path(),
        &[
            "init",
            "--quiet",
            "--bare",
            "--initial-branch=main",
            "cluster.git",
        ],
    );
    git(directory.path(), &["clone", "--quiet", "cluster.git", "clone"]);
    let host = GitServer::start(directory.path(), Door::Plain, None).await;
    let reader = Reader {
        address: host.url("cluster.git"),
        directory,
    };
    std::fs::write(reader.path("config"), api.kubeconfig().unwrap()).unwrap();

    let blocks = blocks(PAGE);
    assert!(
        blocks.len() >= 10,
        "the page has lost its commands: {}",
        blocks.len()
    );
    let mut running = Vec::new();
    let mut printed = Vec::new();
    for block in &blocks {
        if block.background {
            let log = File::create(reader.path("agent.log")).unwrap();
            // Run directly: a shell might outlive its parent.
            let child = reader
                .shell(&format!("exec {}", block.commands))
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap();
            running.push(Running(child));
            continue;
        }
        let began = Instant::now();
        let output = tokio::task::block_in_place(|| reader.run(&block.commands));
        let first = block.commands.lines().next().unwrap_or_default();
        println!("{:>5.1} s  {first}", began.elapsed().as_secs_f64());
        printed.push(output);
    }
    assert_eq!(running.len(), 1, "the agent is all that runs");
    let all = printed.join("\n");
    for words in [
        // The output of `muster diff`.
        "-  replicas: 1\n+  replicas: 2",
        // The status for an image that does not exist.
        "Deployment/web/web status: 'Failed': Progress deadline exceeded: pod web-",
        "ImagePullBackOff",
        // What `muster build`, and then the status, report for a duplicate key.
        "error: apps/twice.yaml:5:3: duplicate key \"name\", first at 4:3",
        "apps/twice.yaml:5:3: duplicate key \"name\", first at 4:3",
    ] {
        assert!(all.contains(words), "{words:?} is not in\n{all}");
    }
}
