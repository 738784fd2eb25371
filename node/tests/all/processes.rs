//! Promise: a program gets only its arguments and its environment, and at its timeout its whole process group is
//! killed.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use muster_node::{Clock as _, HostClock, Program, process};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};

fn shell(script: &str, timeout: Duration) -> Program {
    Program {
        argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
        timeout,
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
    }
}

fn run(script: &str) -> Result<(), String> {
    process::run(&shell(script, Duration::from_secs(20)), &HostClock)
}

/// Whether a process ends within some time.
fn ends(pid: i32) -> bool {
    let pidfd = match pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) => return true,
        Err(error) => panic!("{error}"),
    };
    let mut watched = [PollFd::new(&pidfd, PollFlags::IN)];
    poll(
        &mut watched,
        Some(&Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        }),
    )
    .unwrap()
        == 1
}

fn pids(file: &Path) -> Vec<i32> {
    fs::read_to_string(file)
        .unwrap()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

#[test]
fn how_they_end() {
    assert_eq!(run("exit 0"), Ok(()));
    assert_eq!(
        run("echo to out; echo to err >&2; exit 3").unwrap_err(),
        "exit code 3: to out\nto err"
    );
    assert_eq!(run("kill -9 $$").unwrap_err(), "ended by signal 9");
    let absent = Program {
        argv: vec!["/no/such/program".to_owned()],
        ..shell("", Duration::from_secs(1))
    };
    assert!(
        process::run(&absent, &HostClock)
            .unwrap_err()
            .starts_with("cannot run /no/such/program: No such file")
    );
}

#[test]
fn nothing_but_the_given_environment() {
    let error = run("env; exit 1").unwrap_err();
    let names: Vec<&str> = error
        .lines()
        .skip(1)
        .map(|line| line.split('=').next().unwrap())
        .collect();
    // The shell itself sets PWD and similar variables.
    assert!(
        names
            .iter()
            .all(|name| ["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)),
        "{names:?}"
    );
    assert_eq!(
        run("read x && exit 1; [ \"$(pwd)\" = / ]"),
        Ok(()),
        "no input, and the root as its directory"
    );
}

#[test]
fn the_group_is_killed_at_the_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let script = format!(
        "sleep 600 & echo $! $$ > {0}.new; mv {0}.new {0}; sleep 600",
        file.display()
    );
    let begun = HostClock.since_boot();
    let error = process::run(&shell(&script, Duration::from_secs(2)), &HostClock).unwrap_err();
    assert_eq!(error, "killed: it ran longer than 2s");
    assert!(HostClock.since_boot().saturating_sub(begun) < Duration::from_secs(10));
    let pids = pids(&file);
    assert_eq!(pids.len(), 2);
    assert!(pids.into_iter().all(ends), "a process of the group lives on");
}

#[test]
fn what_a_program_leaves_running_holds_nothing_up() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let begun = HostClock.since_boot();
    // It keeps the output open.
    assert_eq!(run(&format!("sleep 600 & echo $! > {}", file.display())), Ok(()));
    assert!(HostClock.since_boot().saturating_sub(begun) < Duration::from_secs(10));
    let pid = pids(&file)[0];
    assert!(
        Path::new(&format!("/proc/{pid}")).exists(),
        "a service that was started is not killed"
    );
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
}

#[test]
fn output_is_bounded() {
    let error = run("head -c 10000000 /dev/zero | tr '\\0' x; exit 1").unwrap_err();
    assert!(
        error.starts_with("exit code 1: xxx") && error.len() < 400,
        "{} bytes",
        error.len()
    );
}
