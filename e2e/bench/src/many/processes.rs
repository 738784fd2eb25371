//! Processes, and what the kernel reports about them.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::meter;

/// How long a process may take to report that it runs, or to answer.
const PATIENCE: Duration = Duration::from_mins(2);

/// API servers in a process of this program.
pub(super) struct Servers {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Servers {
    pub(super) async fn start(directory: &Path, names: &[String]) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("servers")
            .arg(directory)
            .args(names)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let mut output = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let line = timeout(PATIENCE, output.next_line()).await??;
        ensure!(
            line.as_deref() == Some("ready"),
            "unexpected output of the API servers: {line:?}"
        );
        Ok(Self { child, input, output })
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The writes since the previous call, by resource and user.
    pub(super) async fn writes(&mut self) -> anyhow::Result<BTreeMap<String, usize>> {
        self.input.write_all(b"writes\n").await?;
        let line = timeout(PATIENCE, self.output.next_line()).await??;
        Ok(serde_json::from_str(&line.context("the API servers ended")?)?)
    }
}

/// `muster controller` or `muster agent`, from the directory of this program.
pub(super) fn muster(
    verb: &str,
    kubeconfig: &Path,
    namespace: &str,
    instance: &str,
    logs: &Path,
) -> anyhow::Result<Child> {
    let binary = std::env::current_exe()?.with_file_name("muster");
    ensure!(
        binary.is_file(),
        "run cargo build -p muster with the same profile first: {} does not exist",
        binary.display()
    );
    let log = log(&logs.join(format!("{verb}-{instance}.log")))?;
    Ok(Command::new(binary)
        .arg(verb)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args([
            "--namespace",
            namespace,
            "--allow-insecure-sources",
            "--leader-elect=false",
            "--data-dir",
        ])
        .arg(logs.join(format!("data-{instance}")))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()?)
}

fn log(path: &Path) -> anyhow::Result<File> {
    Ok(OpenOptions::new().create(true).append(true).open(path)?)
}

/// CPU time in seconds and memory in MiB of one kind of process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub processor: f64,
    pub resident: f64,
    pub most: f64,
}

impl Usage {
    /// The total over these processes.
    pub(super) fn of(pids: impl IntoIterator<Item = u32>) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for pid in pids {
            all.processor += meter::processor_time(pid)?;
            all.resident += meter::memory(pid, "VmRSS:")?;
            all.most += meter::memory(pid, "VmHWM:")?;
        }
        Ok(all)
    }
}
