//! Installs the agent as a service of the host: a binary named by its digest, two units, and a restart if anything
//! changed.
//!
//! ```text
//!   systemd? ─► journal confirmed? ─► binary ─► runs on this host? ─► units ─► link ─► enable ─► restart
//! ```
//!
//! Invariant: nothing of a running agent is replaced while a change of the node is not confirmed.
//! Invariant: a step that fails leaves the current agent running.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsFd as _, unix::fs::symlink},
    path::{Path, PathBuf},
    process::Command,
};

use data_encoding::HEXLOWER;
use muster_node::journal::{self, Reading};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::{files, process::DIRECTORY};

/// The unit of the service.
pub const AGENT_UNIT: &str = "muster-node-agent.service";
/// The unit that restores at boot.
pub const RESTORE_UNIT: &str = "muster-node-restore.service";

const UNITS: [(&str, &str); 2] = [
    (AGENT_UNIT, include_str!("../units/muster-node-agent.service")),
    (RESTORE_UNIT, include_str!("../units/muster-node-restore.service")),
];
const UNIT_DIRECTORY: &str = "etc/systemd/system";
/// The link to the current binary.
const LINK: &str = "muster";
/// Number of old binaries that are kept.
const KEPT: usize = 1;

/// Why the agent is not installed.
#[derive(Debug, Error)]
pub enum InstallError {
    /// The host does not run systemd.
    #[error(
        "this host runs {init}, not systemd: the node agent needs systemd; leave the node out of the DaemonSet"
    )]
    NoSystemd {
        /// The name of process 1.
        init: String,
    },
    /// A change of the node is in progress.
    #[error(
        "a change of {row} is not confirmed on this node yet: the installation is retried until it is confirmed or restored"
    )]
    Unconfirmed {
        /// The NodeModule.
        row: String,
    },
    /// A newer version is installed.
    #[error("a newer version of the agent wrote the journal of this node: install that version")]
    Newer,
    /// The binary does not start on this host.
    #[error("the binary of this image does not run on this host: {0}")]
    DoesNotRun(String),
    /// A file cannot be read or written.
    #[error("{}: {error}", .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A systemctl call failed.
    #[error("systemctl {what}: {problem}")]
    Systemctl {
        /// The arguments of the call.
        what: String,
        /// The output of the call.
        problem: String,
    },
    /// The mount namespace of the host cannot be entered.
    #[error("cannot enter the mount namespace of process 1: {0}: the pod needs hostPID and privileged")]
    Namespace(io::Error),
}

/// Programs of the host.
pub trait Programs {
    /// Runs a program of the host to completion. `Err` contains its output.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), String>;
}

/// The result of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installed {
    /// Nothing changed, and nothing was restarted.
    Unchanged,
    /// Something changed, and the service was restarted.
    Restarted,
}

/// An installation in the root directory of a host.
pub struct Install<'a> {
    /// The root directory, `/` on the host.
    pub root: &'a Path,
    /// Programs of the host.
    pub programs: &'a dyn Programs,
}

impl Install<'_> {
    /// Installs this binary.
    pub fn install(&self, binary: &[u8]) -> Result<Installed, InstallError> {
        self.check_systemd()?;
        self.check_journal()?;
        let name = format!("muster-{}", HEXLOWER.encode(&Sha256::digest(binary)));
        self.write_binary(&name, binary)?;
        let units = self.write_units()?;
        if units {
            self.systemctl(&["daemon-reload"])?;
        }
        let replaced = self.link(&name)?;
        self.systemctl(&["enable", AGENT_UNIT, RESTORE_UNIT])?;
        let runs = self.programs.run("systemctl", &["is-active", AGENT_UNIT]).is_ok();
        if runs && !units && !replaced {
            return Ok(Installed::Unchanged);
        }
        // It may have started a change in the meantime, which the restart would interrupt, restore and retry.
        self.check_journal()?;
        self.systemctl(&["restart", AGENT_UNIT])?;
        self.remove_old(&name);
        Ok(Installed::Restarted)
    }

    fn check_systemd(&self) -> Result<(), InstallError> {
        if self.path("run/systemd/system").is_dir() {
            return Ok(());
        }
        let init = fs::read_to_string(self.path("proc/1/comm"));
        Err(InstallError::NoSystemd {
            init: init.map_or_else(|_| "another init".to_owned(), |name| name.trim().to_owned()),
        })
    }

    fn check_journal(&self) -> Result<(), InstallError> {
        let file = self.directory().join(journal::FILE);
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(InstallError::Io { file, error }),
        };
        match journal::read(&bytes) {
            Reading::Record(record) if !record.step.is_settled() => {
                Err(InstallError::Unconfirmed { row: record.row })
            }
            Reading::Newer => Err(InstallError::Newer),
            // A damaged journal is restored when the agent starts.
            Reading::Record(_) | Reading::Empty | Reading::Damaged => Ok(()),
        }
    }

    fn write_binary(&self, name: &str, binary: &[u8]) -> Result<(), InstallError> {
        let directory = self.bin();
        let failed = |error| InstallError::Io {
            file: directory.clone(),
            error,
        };
        fs::create_dir_all(&directory).map_err(failed)?;
        let file = directory.join(name);
        if !fs::read(&file).is_ok_and(|there| there == binary) {
            files::replace(&file, binary, 0o755).map_err(failed)?;
        }
        let program = format!("{DIRECTORY}/bin/{name}");
        let ran = self.programs.run(&program, &["--version"]);
        ran.map_err(InstallError::DoesNotRun)
    }

    /// Writes the units. Whether one changed.
    fn write_units(&self) -> Result<bool, InstallError> {
        let mut changed = false;
        for (name, text) in UNITS {
            let file = self.path(UNIT_DIRECTORY).join(name);
            if fs::read_to_string(&file).is_ok_and(|there| there == text) {
                continue;
            }
            let written = files::replace(&file, text.as_bytes(), 0o644);
            written.map_err(|error| InstallError::Io { file, error })?;
            changed = true;
        }
        Ok(changed)
    }

    /// Links the binary. Whether another one runs from the next start on.
    fn link(&self, name: &str) -> Result<bool, InstallError> {
        let link = self.bin().join(LINK);
        if fs::read_link(&link).is_ok_and(|there| there == Path::new(name)) {
            return Ok(false);
        }
        let replace = || {
            let new = self.bin().join("muster.new");
            // A file left by an interrupted step.
            let _ = fs::remove_file(&new);
            symlink(name, &new)?;
            fs::rename(&new, &link)?;
            File::open(self.bin())?.sync_all()
        };
        replace().map_err(|error| InstallError::Io {
            file: link.clone(),
            error,
        })?;
        Ok(true)
    }

    fn systemctl(&self, arguments: &[&str]) -> Result<(), InstallError> {
        let ran = self.programs.run("systemctl", arguments);
        ran.map_err(|problem| InstallError::Systemctl {
            what: arguments.join(" "),
            problem,
        })
    }

    /// Removes old binaries except for the last one. A failure is retried at the next installation.
    fn remove_old(&self, name: &str) {
        let entries = fs::read_dir(self.bin()).into_iter().flatten().flatten();
        let is_old = |entry: &fs::DirEntry| {
            let known = entry.file_name();
            let known = known.to_string_lossy();
            known.starts_with("muster-") && known != name
        };
        let mut old: Vec<_> = entries.filter(is_old).map(|entry| entry.path()).collect();
        old.sort_by_key(|file| fs::metadata(file).and_then(|metadata| metadata.modified()).ok());
        let surplus = old.len().saturating_sub(KEPT);
        for file in old.drain(..surplus) {
            let _ = fs::remove_file(file);
        }
    }

    fn directory(&self) -> PathBuf {
        self.path(DIRECTORY.trim_start_matches('/'))
    }

    fn bin(&self) -> PathBuf {
        self.directory().join("bin")
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }
}

/// Runs programs of the host, in the mount namespace of this process.
#[derive(Clone, Copy, Debug)]
pub struct HostPrograms;

impl Programs for HostPrograms {
    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let ran = Command::new(program).args(arguments).output();
        let output = ran.map_err(|error| format!("{program}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
        Err(last.map_or_else(|| output.status.to_string(), str::to_owned))
    }
}

/// The bytes of the running program.
pub fn this_program() -> Result<Vec<u8>, InstallError> {
    let file = Path::new("/proc/self/exe");
    fs::read(file).map_err(|error| InstallError::Io {
        file: file.to_owned(),
        error,
    })
}

/// Enters the mount namespace of process 1, which is the host's in a pod with `hostPID`. This needs a process with a
/// single thread.
pub fn enter_host() -> Result<(), InstallError> {
    let enter = || {
        let namespace = File::open("/proc/1/ns/mnt")?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
        std::env::set_current_dir("/")
    };
    enter().map_err(InstallError::Namespace)
}
