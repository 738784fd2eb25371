//! Builds a test binary of the copy, and runs one test of it.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use cargo_metadata::Message;

use super::{copy::Copy, table::Test};
use crate::tree;

/// A test that takes longer does not end.
const LONGEST: Duration = Duration::from_mins(3);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(50);
/// How many lines of a failure are shown.
const LINES: usize = 30;

/// The tests of a copy.
pub(crate) struct Tests<'a> {
    copy: &'a Copy,
}

/// A built test binary.
pub(crate) struct Binary {
    executable: PathBuf,
    /// The folder of its package, in which tests run.
    folder: PathBuf,
}

/// What a test came to.
pub(crate) enum Outcome {
    /// It passed.
    Green,
    /// It failed.
    Red,
    /// It did not end.
    Hung,
    /// It was not there, or could not be run; the end of what was printed.
    Unknown(String),
}

impl<'a> Tests<'a> {
    /// Those of this copy.
    pub(crate) const fn new(copy: &'a Copy) -> Self {
        Self { copy }
    }

    /// Whether everything compiles, tests as well; the compiler's words if not.
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

    /// Builds the binary of a test; the compiler's words if it cannot be.
    pub(crate) fn build(&self, test: &Test) -> anyhow::Result<Result<Binary, String>> {
        let mut command = self.cargo();
        // Of the workspace, not of the package: then dependencies have the features with which they are built already.
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
            let folder = artifact.manifest_path.parent().map(ToOwned::to_owned);
            let folder = folder.unwrap_or_default().into_std_path_buf();
            // Others of the workspace may have a test of this name too.
            if artifact.package_id.repr.contains(&format!("#{}@", test.package)) {
                return Ok(Ok(Binary {
                    executable: executable.into_std_path_buf(),
                    folder,
                }));
            }
        }
        Ok(Err(format!("cargo built no test binary {}", test.target)))
    }

    /// Runs one test.
    pub(crate) fn run(&self, binary: &Binary, test: &Test) -> anyhow::Result<Outcome> {
        let said = tempfile::NamedTempFile::new()?;
        let mut command = Command::new(&binary.executable);
        command.args(["--exact", &test.name]).current_dir(&binary.folder);
        command
            .env("CARGO_MANIFEST_DIR", &binary.folder)
            .env("INSTA_UPDATE", "no");
        command
            .env("CARGO_TARGET_DIR", &self.copy.target)
            .stdin(Stdio::null());
        let file: File = said.reopen()?;
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
                return Ok(Outcome::Hung);
            }
            std::thread::sleep(LOOK);
        };
        // What a test prints may be no text.
        let said = String::from_utf8_lossy(&std::fs::read(said.path())?).into_owned();
        let ended = |word: &str| said.contains(&format!("test result: {word}. "));
        Ok(match status.success() {
            true if ended("ok") && said.contains("\nrunning 1 test\n") => Outcome::Green,
            false if ended("FAILED") => Outcome::Red,
            _ => Outcome::Unknown(last(&said)),
        })
    }

    fn cargo(&self) -> Command {
        let mut command = tree::cargo();
        command
            .current_dir(&self.copy.root)
            .env("CARGO_TARGET_DIR", &self.copy.target)
            // What is built again and again is built in parts, and without what only a debugger needs.
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        command
    }
}

fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
