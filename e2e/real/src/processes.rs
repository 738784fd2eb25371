//! Processes of a fleet: a script for each, a record of each start, and termination by PID.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};

/// The record of starts: PID, start time, name, one line per start.
const RECORD: &str = "pids";
/// The message that makes the watchdog exit without ending any process.
const STAY: &str = "stay";
/// The poll interval.
const LOOK: Duration = Duration::from_millis(50);
/// How long a process may take to end before it is killed.
const END: Duration = Duration::from_secs(5);
/// How long a killed process may remain visible.
const KILLED: Duration = Duration::from_secs(5);
/// How much of a log an error message includes.
const TAIL: usize = 1_500;

/// A program with its arguments, the same at each start.
pub(crate) struct Launch {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

impl Launch {
    /// A program with flags, without an environment.
    pub(crate) fn new(name: String, program: PathBuf, flags: &[(&str, String)]) -> Self {
        Self {
            name,
            program,
            arguments: flags
                .iter()
                .map(|(flag, value)| format!("--{flag}={value}"))
                .collect(),
            environment: Vec::new(),
        }
    }
}

/// The processes in a directory.
pub(crate) struct Processes {
    directory: PathBuf,
    children: BTreeMap<String, Child>,
    watchman: Option<(Child, ChildStdin)>,
}

impl Processes {
    /// Starts the watchdog and no other process yet. The watchdog ends all processes when the process that started them
    /// is gone.
    pub(crate) fn new(directory: &Path) -> anyhow::Result<Self> {
        for place in ["cmd", "log", "tmp"] {
            fs::create_dir_all(directory.join(place))?;
        }
        let script = directory.join("cmd/watchman");
        write_script(&script, &watchman(directory))?;
        let mut child = Command::new("sh")
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C at a terminal must not reach the watchdog.
            .process_group(0)
            .spawn()
            .context("sh")?;
        let line = child.stdin.take().context("the watchdog has a standard input")?;
        Ok(Self {
            directory: directory.to_owned(),
            children: BTreeMap::new(),
            watchman: Some((child, line)),
        })
    }

    /// Starts a process through a script, which can also be used to restart it manually.
    pub(crate) fn start(&mut self, launch: &Launch) -> anyhow::Result<()> {
        let script = self.directory.join("cmd").join(&launch.name);
        write_script(&script, &self.script(launch))?;
        self.start_again(&launch.name)
    }

    /// Restarts a process that was stopped.
    pub(crate) fn start_again(&mut self, name: &str) -> anyhow::Result<()> {
        let child = Command::new("sh")
            .arg(self.directory.join("cmd").join(name))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| name.to_owned())?;
        self.children.insert(name.to_owned(), child);
        Ok(())
    }

    /// The PID of the process with this name.
    pub(crate) fn pid(&self, name: &str) -> anyhow::Result<u32> {
        let child = self.children.get(name);
        Ok(child.with_context(|| format!("{name} is not running"))?.id())
    }

    /// Ends a process: SIGTERM, then SIGKILL.
    pub(crate) fn stop(&mut self, name: &str) -> anyhow::Result<()> {
        let child = self
            .children
            .remove(name)
            .with_context(|| format!("{name} is not running"))?;
        end(vec![child])
    }

    /// Waits for `ready`; fails immediately, with the end of the log, if the process exits.
    pub(crate) fn wait(
        &mut self,
        name: &str,
        within: Duration,
        ready: impl Fn() -> bool,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        while !ready() {
            if let Some(child) = self.children.get_mut(name)
                && let Some(status) = child.try_wait()?
            {
                bail!(
                    "{name} ended with {status}; the end of its log:\n{}",
                    self.tail(name)
                );
            }
            ensure!(
                began.elapsed() < within,
                "{name} was not ready after {within:?}; the end of its log:\n{}",
                self.tail(name)
            );
            sleep(LOOK);
        }
        Ok(())
    }

    /// Keeps all processes running when this process ends.
    pub(crate) fn leave(mut self) -> anyhow::Result<()> {
        if let Some((mut watchman, mut line)) = self.watchman.take() {
            writeln!(line, "{STAY}")?;
            drop(line);
            watchman.wait()?;
        }
        self.children.clear();
        Ok(())
    }

    fn tail(&self, name: &str) -> String {
        let log = fs::read(self.directory.join(format!("log/{name}.log"))).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(TAIL)..]).into_owned()
    }

    /// The environment, proxy settings included, is not inherited, except for PATH.
    fn script(&self, launch: &Launch) -> String {
        let (directory, name) = (self.directory.display().to_string(), &launch.name);
        let mut environment = vec![
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME".to_owned(), directory.clone()),
            ("TMPDIR".to_owned(), format!("{directory}/tmp")),
        ];
        environment.extend(launch.environment.iter().cloned());
        let environment = environment
            .iter()
            .map(|(key, value)| quoted(&format!("{key}={value}")));
        let arguments =
            std::iter::once(launch.program.display().to_string()).chain(launch.arguments.iter().cloned());
        let words: Vec<String> = environment
            .chain(arguments.map(|argument| quoted(&argument)))
            .collect();
        format!(
            "#!/bin/sh\n# Starts {name} (again), and records it.\n\
             echo \"$$ $(cut -d' ' -f22 /proc/$$/stat) {name}\" >> {record}\n\
             exec >> {log} 2>&1\ncd {directory}\nexec env -i {words}\n",
            record = quoted(&format!("{directory}/{RECORD}")),
            log = quoted(&format!("{directory}/log/{name}.log")),
            directory = quoted(&directory),
            words = words.join(" \\\n  "),
        )
    }
}

impl Drop for Processes {
    /// Ends all processes that were started here, and removes the directory.
    fn drop(&mut self) {
        if let Some((mut watchman, line)) = self.watchman.take() {
            // Closing the pipe makes the watchdog end everything on record; it does the same if this process is killed.
            drop(line);
            let _ = watchman.wait();
            for child in self.children.values_mut() {
                // A child that is not waited for stays as a zombie.
                let _ = child.wait();
            }
        }
    }
}

/// Ends the processes recorded in a directory: clients first, etcd last. Returns how many there were.
pub fn down(directory: &Path) -> anyhow::Result<usize> {
    let Ok(record) = fs::read_to_string(directory.join(RECORD)) else {
        return Ok(0);
    };
    let mut running: Vec<Recorded> = record
        .lines()
        .filter_map(Recorded::parse)
        .filter(Recorded::runs)
        .collect();
    let count = running.len();
    for stage in [
        |name: &str| !name.ends_with("apiserver") && name != "etcd",
        |name: &str| name != "etcd",
        |_: &str| true,
    ] {
        let (now, later): (Vec<_>, Vec<_>) = running.into_iter().partition(|process| stage(&process.name));
        running = later;
        end(now)?;
    }
    fs::remove_file(directory.join(RECORD))?;
    Ok(count)
}

/// A recorded process that can be ended.
trait Mortal {
    fn pid(&self) -> u32;
    fn is_gone(&mut self) -> bool;
}

impl Mortal for Child {
    fn pid(&self) -> u32 {
        self.id()
    }

    fn is_gone(&mut self) -> bool {
        !matches!(self.try_wait(), Ok(None))
    }
}

/// Parses a line of the record.
struct Recorded {
    pid: u32,
    started: String,
    name: String,
}

impl Recorded {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        Some(Self {
            pid: words.next()?.parse().ok()?,
            started: words.next()?.to_owned(),
            name: words.next()?.to_owned(),
        })
    }

    /// Whether this process still runs: the PID alone may have been reused.
    fn runs(&self) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else {
            return false;
        };
        // The second field is the name in parentheses, which may contain anything.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        fields.first().is_some_and(|state| *state != "Z")
            && fields.get(19).is_some_and(|at| *at == self.started)
    }
}

impl Mortal for Recorded {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn is_gone(&mut self) -> bool {
        !self.runs()
    }
}

fn end<P: Mortal>(mut processes: Vec<P>) -> anyhow::Result<()> {
    for (signal, within) in [("-TERM", END), ("-KILL", KILLED)] {
        processes.retain_mut(|process| !process.is_gone());
        if processes.is_empty() {
            return Ok(());
        }
        let pids = processes.iter().map(|process| process.pid().to_string());
        // An error is fine: the process may have ended in the meantime.
        Command::new("kill")
            .arg(signal)
            .args(pids)
            .stderr(Stdio::null())
            .status()?;
        let began = Instant::now();
        while !processes.is_empty() && began.elapsed() < within {
            sleep(LOOK);
            processes.retain_mut(|process| !process.is_gone());
        }
    }
    ensure!(
        processes.is_empty(),
        "still running: {:?}",
        processes.iter().map(Mortal::pid).collect::<Vec<_>>()
    );
    Ok(())
}

/// The watchdog: waits for the end of its standard input, which is reached when the process that holds the other end
/// has ended; then ends every process on record, and removes the directory.
fn watchman(directory: &Path) -> String {
    let directory = quoted(&directory.display().to_string());
    format!(
        "#!/bin/sh\n# Ends the processes of this directory when the process that started them is gone.\n\
         read -r word && [ \"$word\" = {STAY} ] && exit 0\n\
         while read -r pid started name; do\n  \
         [ \"$(cut -d' ' -f22 \"/proc/$pid/stat\" 2>/dev/null)\" = \"$started\" ] && kill -KILL \"$pid\"\n\
         done < {directory}/{RECORD}\n\
         [ -d {directory}/cmd ] && rm -rf {directory}\n"
    )
}

fn write_script(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(0o700))?;
    Ok(())
}

/// Quotes an argument for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
mod tests {
    use super::*;

    fn sleeper(name: &str) -> Launch {
        Launch {
            name: name.to_owned(),
            program: PathBuf::from("sleep"),
            arguments: vec!["600".to_owned()],
            environment: Vec::new(),
        }
    }

    /// A directory with two processes on record.
    fn two(directory: &Path) -> (Processes, Vec<Recorded>) {
        let mut processes = Processes::new(directory).unwrap();
        for name in ["one", "two"] {
            processes.start(&sleeper(name)).unwrap();
        }
        let record = || fs::read_to_string(directory.join(RECORD)).unwrap_or_default();
        processes
            .wait("one", END, || record().lines().count() == 2)
            .unwrap();
        let recorded = record().lines().filter_map(Recorded::parse).collect();
        (processes, recorded)
    }

    /// The watchdog observes the end of the pipe when its owner has ended, also by SIGKILL.
    #[test]
    fn dropping_the_handle_ends_the_processes_and_removes_the_directory() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("it's a fleet");
        let (processes, recorded) = two(&directory);
        assert!(recorded.iter().all(Recorded::runs));
        drop(processes);
        assert!(!recorded.iter().any(Recorded::runs));
        assert!(!directory.exists());
    }

    #[test]
    fn processes_left_running_are_found_by_the_record() {
        let place = tempfile::tempdir().unwrap();
        let (processes, recorded) = two(place.path());
        processes.leave().unwrap();
        assert!(recorded.iter().all(Recorded::runs));
        assert_eq!(down(place.path()).unwrap(), 2);
        assert!(!recorded.iter().any(Recorded::runs));
        assert_eq!(down(place.path()).unwrap(), 0);
    }

    #[test]
    fn a_pid_that_is_anothers_by_now_is_let_be() {
        let place = tempfile::tempdir().unwrap();
        let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
        fs::write(place.path().join(RECORD), format!("{} 1 one\n", bystander.id())).unwrap();
        assert_eq!(down(place.path()).unwrap(), 0);
        assert!(bystander.try_wait().unwrap().is_none());
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }

    #[test]
    fn one_is_stopped_and_started_again() {
        let place = tempfile::tempdir().unwrap();
        let (mut processes, _) = two(place.path());
        processes.stop("one").unwrap();
        processes.start_again("one").unwrap();
        let lines = || fs::read_to_string(place.path().join(RECORD)).unwrap_or_default();
        processes
            .wait("one", END, || {
                lines().lines().filter(|line| line.ends_with(" one")).count() == 2
            })
            .unwrap();
    }

    #[test]
    fn a_process_that_ends_at_once_is_reported_with_its_log() {
        let place = tempfile::tempdir().unwrap();
        let mut processes = Processes::new(place.path()).unwrap();
        let mut launch = sleeper("one");
        launch.arguments = vec!["a-while".to_owned()];
        processes.start(&launch).unwrap();
        let error = processes.wait("one", END, || false).unwrap_err().to_string();
        assert!(
            error.contains("one ended with exit status: 1") && error.contains("a-while"),
            "{error}"
        );
    }
}
