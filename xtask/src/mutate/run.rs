//! Builds a test binary of the copy, and runs a single test of it.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use cargo_metadata::Message;

use super::{copy::Copy, table::Test};
use crate::tree;

/// Timeout of a test.
const LONGEST: Duration = Duration::from_mins(3);
/// The poll interval.
const LOOK: Duration = Duration::from_millis(50);
/// How many lines of a failure are printed.
const LINES: usize = 30;

/// Builds and runs the tests of a copy.
pub(crate) struct Tests<'a> {
    copy: &'a Copy,
}

/// A built test binary.
pub(crate) struct Binary {
    executable: PathBuf,
    /// The directory of its package, in which tests run.
    directory: PathBuf,
}

/// The result of a test.
pub(crate) enum TestOutcome {
    /// It passed.
    Green,
    /// It failed.
    Red,
    /// It did not end in time.
    Hung,
    /// It was not found, or could not be run; the end of the output.
    Unknown(String),
}

impl<'a> Tests<'a> {
    /// Creates a runner for this copy.
    pub(crate) const fn new(copy: &'a Copy) -> Self {
        Self { copy }
    }

    /// Whether everything compiles, including tests; the compiler's output if not.
    pub(crate) fn check(&self) -> anyhow::Result<Result<(), String>> {
        let mut command = self.cargo();
        command.args(["check", "--quiet", "--workspace", "--all-targets"]);
        let output = command.output().context("cargo check")?;
        Ok(if output.status.success() {
            Ok(())
        } else {
            Err(last(&String::from_utf8_lossy(&output.stderr)))
        })
    }

    /// Builds the binary of a test; the compiler's output if that fails.
    pub(crate) fn build(&self, test: &Test) -> anyhow::Result<Result<Binary, String>> {
        let mut command = self.cargo();
        // In the workspace, not in the package: dependencies then have the features with which they are already built.
        command.args(["test", "--quiet", "--no-run", "--workspace"]);
        command.arg("--message-format=json-render-diagnostics");
        match test.target.as_str() {
            "lib" => command.arg("--lib"),
            "bin" => command.arg("--bins"),
            target => command.args(["--test", target]),
        };
        let output = command.output().context("cargo test --no-run")?;
        if !output.status.success() {
            return Ok(Err(last(&String::from_utf8_lossy(&output.stderr))));
        }
        for message in Message::parse_stream(&output.stdout[..]) {
            let Message::CompilerArtifact(artifact) = message? else {
                continue;
            };
            let Some(executable) = artifact.executable.filter(|_| artifact.profile.test) else {
                continue;
            };
            let directory = artifact.manifest_path.parent().map(ToOwned::to_owned);
            let directory = directory.unwrap_or_default().into_std_path_buf();
            // Other packages of the workspace may have a test with the same name.
            if artifact.package_id.repr.contains(&format!("#{}@", test.package)) {
                return Ok(Ok(Binary {
                    executable: executable.into_std_path_buf(),
                    directory,
                }));
            }
        }
        Ok(Err(format!("cargo built no test binary {}", test.target)))
    }

    /// Runs one test.
    pub(crate) fn run(&self, binary: &Binary, test: &Test) -> anyhow::Result<TestOutcome> {
        let output_file = tempfile::NamedTempFile::new()?;
        let mut command = Command::new(&binary.executable);
        command
            .args(["--exact", &test.name])
            .current_dir(&binary.directory);
        command
            .env("CARGO_MANIFEST_DIR", &binary.directory)
            .env("INSTA_UPDATE", "no");
        command
            .env("CARGO_TARGET_DIR", &self.copy.target)
            .stdin(Stdio::null());
        let file: File = output_file.reopen()?;
        command.stdout(file.try_clone()?).stderr(file);
        let mut child = command.spawn().context("a test binary")?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if began.elapsed() > LONGEST {
                child.kill()?;
                child.wait()?;
                return Ok(TestOutcome::Hung);
            }
            std::thread::sleep(LOOK);
        };
        // The output of a test may be invalid UTF-8.
        let output = String::from_utf8_lossy(&std::fs::read(output_file.path())?).into_owned();
        let ended = |word: &str| output.contains(&format!("test result: {word}. "));
        Ok(match status.success() {
            true if ended("ok") && output.contains("\nrunning 1 test\n") => TestOutcome::Green,
            false if ended("FAILED") => TestOutcome::Red,
            _ => TestOutcome::Unknown(last(&output)),
        })
    }

    fn cargo(&self) -> Command {
        let mut command = tree::cargo();
        command
            .current_dir(&self.copy.root)
            .env("CARGO_TARGET_DIR", &self.copy.target)
            // Repeated builds are incremental, and without debug information.
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        command
    }
}

fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
