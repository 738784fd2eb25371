//! The guide: says what happens and why, runs the commands, checks, and measures time.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use muster_fleet::text;
use thiserror::Error;
use tokio::{process::Command, time::Instant};

use crate::demo::{directory::Directory, narrator::Narrator};

/// How long a command, or the wait of a check, may take. A step takes some seconds.
const PATIENCE: Duration = Duration::from_mins(1);
/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum line width.
const WIDTH: usize = 140;
/// The most lines that are printed of a command's output.
const SHOWN: usize = 16;

/// A check or command did not have the expected result.
#[derive(Debug, Error)]
pub(crate) enum Failed {
    /// A check failed.
    #[error("expected: {expected}\nseen:     {observed}")]
    Check {
        /// The expected state.
        expected: String,
        /// The observed state.
        observed: String,
    },
    /// A command had an unexpected exit code.
    #[error("expected: exit code {expected} of {command}\nseen:     {observed}")]
    Command {
        /// The command line.
        command: String,
        /// The expected exit code.
        expected: i32,
        /// The exit code and output.
        observed: String,
    },
}

/// The result of a check: the observed state, as expected (`Ok`) or not (`Err`).
pub(crate) type CheckResult = Result<String, String>;

/// Narrates, runs commands and checks.
pub(crate) struct Guide {
    reporter: Narrator,
    fleet: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    began: Instant,
    step_began: Option<Instant>,
    steps: usize,
    checks: usize,
}

impl Guide {
    /// Creates a guide for the directory of a demo.
    pub(crate) fn new(directory: &Directory, reporter: Narrator) -> anyhow::Result<Self> {
        let command = std::env::current_exe().context("this command cannot find its own program")?;
        let bin = command.parent().map(PathBuf::from).unwrap_or_default(); // a file has a directory
        let path = std::env::var_os("PATH").unwrap_or_default(); // without, nothing is found but muster
        let paths = std::iter::once(bin).chain(std::env::split_paths(&path));
        for needed in ["git", "kubectl"] {
            anyhow::ensure!(
                std::env::split_paths(&path).any(|directory| directory.join(needed).is_file()),
                "the tour runs {needed}, and there is no {needed} in $PATH"
            );
        }
        Ok(Self {
            reporter,
            fleet: directory.fleet(),
            environment: vec![
                (
                    "KUBECONFIG",
                    directory.path().join("management.kubeconfig").into(),
                ),
                ("PATH", std::env::join_paths(paths)?),
            ],
            began: Instant::now(),
            step_began: None,
            steps: 0,
            checks: 0,
        })
    }

    /// Starts a step.
    pub(crate) fn step(&mut self, title: &str, why: &str) {
        self.end_step();
        self.steps += 1;
        self.step_began = Some(Instant::now());
        self.reporter.line(&format!("\n{}. {title}", self.steps));
        for line in text::wrapped(why, 96) {
            self.reporter.line(&format!("   {line}"));
        }
    }

    fn end_step(&mut self) {
        if let Some(began) = self.step_began.take() {
            self.reporter
                .line(&format!("   took {:.1} s", began.elapsed().as_secs_f64()));
        }
    }

    /// Prints a remark within a step.
    pub(crate) fn say(&self, text: &str) {
        for line in text::wrapped(text, 96) {
            self.reporter.line(&format!("   {line}"));
        }
    }

    /// Runs a command that must succeed; returns its output.
    pub(crate) async fn types(&self, command: &str) -> anyhow::Result<String> {
        self.types_expecting(command, 0).await
    }

    /// Runs a command that must end with this exit code; returns its output.
    pub(crate) async fn types_expecting(&self, command: &str, expected: i32) -> anyhow::Result<String> {
        self.reporter.line(&format!("   $ {command}"));
        let running = Command::new("sh")
            .args(["-ec", command])
            .current_dir(&self.fleet)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = tokio::time::timeout(PATIENCE, running).await;
        let output = match ended {
            Ok(output) => output.with_context(|| format!("running {command}"))?,
            Err(_elapsed) => {
                return Err(not_as_expected(
                    command,
                    expected,
                    format!("did not finish within {PATIENCE:?}"),
                ));
            }
        };
        let printed = both(&output);
        show(&printed, &self.reporter);
        if output.status.code() == Some(expected) {
            Ok(printed)
        } else {
            Err(not_as_expected(
                command,
                expected,
                format!("{}\n{printed}", output.status),
            ))
        }
    }

    /// Checks a condition once.
    pub(crate) fn check(&mut self, expected: &str, result: CheckResult) -> anyhow::Result<()> {
        match result {
            Ok(detail) => {
                self.passed(expected, &detail, "");
                Ok(())
            }
            Err(observed) => Err(Failed::Check {
                expected: expected.to_owned(),
                observed,
            }
            .into()),
        }
    }

    /// Waits for a condition, and prints how long it took.
    pub(crate) async fn until(
        &mut self,
        expected: &str,
        poll: impl AsyncFn() -> anyhow::Result<CheckResult>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            // An API server that does not answer is an observation, too.
            let result = poll().await.unwrap_or_else(|error| Err(format!("{error:#}")));
            match result {
                Ok(detail) => {
                    self.passed(
                        expected,
                        &detail,
                        &format!(" ({:.1} s)", began.elapsed().as_secs_f64()),
                    );
                    return Ok(());
                }
                Err(observed) if began.elapsed() > PATIENCE => {
                    return Err(Failed::Check {
                        expected: format!("within {} s: {expected}", PATIENCE.as_secs()),
                        observed,
                    }
                    .into());
                }
                Err(_not_yet) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    fn passed(&mut self, expected: &str, detail: &str, time: &str) {
        self.checks += 1;
        let detail = if detail.is_empty() {
            String::new()
        } else {
            format!(": {detail}")
        };
        self.reporter.line(&format!("   ✓ {expected}{detail}{time}"));
    }

    /// Prints that all checks passed.
    pub(crate) fn end(&mut self) {
        self.end_step();
        self.reporter.line(&format!(
            "\nAll checks passed: {} steps, {} checks, {:.1} s.",
            self.steps,
            self.checks,
            self.began.elapsed().as_secs_f64()
        ));
        self.reporter.line("Try it yourself: muster demo");
    }

    /// Prints what failed.
    pub(crate) fn ended_by(&self, failed: &Failed) {
        self.reporter
            .line(&format!("   ✗ {}", failed.to_string().replace('\n', "\n     ")));
        self.reporter.line(&format!(
            "\nThe tour ended in step {} after {} checks: the result is not as expected.",
            self.steps, self.checks
        ));
    }
}

fn not_as_expected(command: &str, expected: i32, observed: String) -> anyhow::Error {
    Failed::Command {
        command: command.to_owned(),
        expected,
        observed,
    }
    .into()
}

fn both(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).trim_end().to_owned()
}

fn show(printed: &str, reporter: &Narrator) {
    let lines: Vec<&str> = printed.lines().collect();
    for line in lines.iter().take(SHOWN) {
        reporter.line(&format!("     {}", text::cut(line, WIDTH)));
    }
    if lines.len() > SHOWN {
        reporter.line(&format!("     … and {} lines more", lines.len() - SHOWN));
    }
}
