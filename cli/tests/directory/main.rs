//! `muster build` and `muster diff`: what a directory on disk renders to, and what applying it would change.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

mod build;
mod diff;

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// A directory with files, in which commands are run.
struct Tree(TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        std::fs::write(self.path(path), text).unwrap();
    }

    /// A command of this program in the directory, with `config` as kubeconfig.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", self.0.path())
            .env("KUBECONFIG", self.path("config"));
        command
    }

    fn muster(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(
            &self
                .command(env!("CARGO_BIN_EXE_muster"), arguments)
                .output()
                .unwrap(),
        )
    }

    /// Runs kubectl with this standard input; returns its output.
    fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        let mut child = self
            .command("kubectl", arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = CommandOutput::of(&child.wait_with_output().unwrap());
        assert_eq!(
            output.code,
            Some(0),
            "kubectl {arguments:?}: {}{}",
            output.out,
            output.err
        );
        output.out
    }
}

/// What a command printed, and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct CommandOutput {
    code: Option<i32>,
    out: String,
    err: String,
}

impl CommandOutput {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }
}
