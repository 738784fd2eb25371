//! Runs programs of the node's configuration until they end or time out. No shell, no input, and only the given
//! environment.

use std::{
    io::{self, PipeReader, Read as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use crate::{clock::Clock, config::Program};

/// Maximum size of the stored output; the rest is read and dropped.
pub const MAX_OUTPUT: usize = 16 * 1024;
/// Length of the end of the output that a message contains.
const TAIL: usize = 300;

/// Runs the program; an error contains its exit status and the end of its output. At the timeout its whole process
/// group is killed.
pub fn run(program: &Program, clock: &dyn Clock) -> Result<(), String> {
    let Some((path, arguments)) = program.argv.split_first() else {
        return Err("it names no program".to_owned());
    };
    let mut output = Vec::new();
    let ended = spawn(path, arguments, program)
        .and_then(|(child, reader)| wait(child, reader, program.timeout, clock, &mut output));
    let how = match ended {
        Ok(Some(status)) if status.success() => return Ok(()),
        Ok(Some(status)) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        },
        Ok(None) => format!("killed: it ran longer than {:?}", program.timeout),
        Err(error) => format!("cannot run {path}: {error}"),
    };
    let text = String::from_utf8_lossy(&output);
    let text = text.trim();
    Err(if text.is_empty() {
        how
    } else {
        format!("{how}: {}", tail(text))
    })
}

/// The end of a text; or its beginning if the output was cut, so that no secret is split before it is masked.
fn tail(text: &str) -> &str {
    let whole = text.len() < MAX_OUTPUT;
    let from = if whole { text.len().saturating_sub(TAIL) } else { 0 };
    let from = text.ceil_char_boundary(from);
    let to = if whole {
        text.len()
    } else {
        text.floor_char_boundary(TAIL)
    };
    text.get(from..to).unwrap_or_default()
}

fn spawn(path: &str, arguments: &[String], program: &Program) -> io::Result<(Child, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    let child = Command::new(path)
        .args(arguments)
        .env_clear()
        .envs(&program.environment)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .spawn()?;
    Ok((child, reader))
}

/// Waits for the end of the program itself: its child processes may keep the output open. `None`: it was killed at the
/// timeout.
fn wait(
    mut child: Child,
    mut reader: PipeReader,
    timeout: Duration,
    clock: &dyn Clock,
    output: &mut Vec<u8>,
) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    ioctl_fionbio(&reader, true)?;
    let deadline = clock.since_boot() + timeout;
    let mut open = true;
    loop {
        open = open && drain(&mut reader, output)?;
        let left = deadline.saturating_sub(clock.since_boot());
        if left.is_zero() {
            // It is not reaped yet, so its process ID is still its own.
            let _ = kill_process_group(pid, Signal::KILL);
            child.wait()?;
            drain(&mut reader, output)?;
            return Ok(None);
        }
        let watched = open.then(|| reader.as_fd());
        if is_readable(ended.as_fd(), watched, left)? {
            let status = child.wait()?;
            drain(&mut reader, output)?;
            return Ok(Some(status));
        }
    }
}

/// Waits until the program ends, prints something, or the time is over. Whether it ended.
fn is_readable(ended: BorrowedFd<'_>, output: Option<BorrowedFd<'_>>, time: Duration) -> io::Result<bool> {
    let mut watched = vec![PollFd::from_borrowed_fd(ended, PollFlags::IN)];
    watched.extend(output.map(|output| PollFd::from_borrowed_fd(output, PollFlags::IN)));
    let time = Timespec::try_from(time).ok();
    match poll(&mut watched, time.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(code) => return Err(code.into()),
    }
    Ok(watched.first().is_some_and(|ended| !ended.revents().is_empty()))
}

/// Reads the available output. Whether there may be more later.
fn drain(reader: &mut PipeReader, output: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 4096];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(false),
            Ok(read) => {
                let kept = read.min(MAX_OUTPUT.saturating_sub(output.len()));
                output.extend_from_slice(&piece[..kept]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
