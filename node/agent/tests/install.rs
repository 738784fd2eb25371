//! Promise: the agent is installed completely or not at all, and no part of it is replaced while a change of the node
//! is not confirmed.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

use std::{cell::RefCell, collections::BTreeSet, fs, process::Command};

use muster_node::{
    Key,
    journal::{FORMAT, Identity, Record, SLOT, Step, frame},
};
use muster_node_agent::{
    install::{AGENT_UNIT, Install, InstallError, Installed, Programs, RESTORE_UNIT},
    token,
};
use tempfile::TempDir;

/// A host: a directory as its root, and a systemd that records its calls.
struct Host {
    root: TempDir,
    commands: RefCell<Vec<String>>,
    running: RefCell<bool>,
    refuses: RefCell<BTreeSet<&'static str>>,
}

impl Programs for Host {
    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let verb = if program == "systemctl" {
            arguments[0]
        } else {
            "version"
        };
        self.commands.borrow_mut().push(verb.to_owned());
        if self.refuses.borrow().contains(verb) {
            return Err(format!("{verb} is refused"));
        }
        match verb {
            "is-active" if !*self.running.borrow() => Err("inactive".to_owned()),
            "restart" => {
                *self.running.borrow_mut() = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Host {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in [
            "run/systemd/system",
            "etc/systemd/system",
            "var/lib/muster/node",
            "proc/1",
        ] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        Self {
            root,
            commands: RefCell::default(),
            running: RefCell::default(),
            refuses: RefCell::default(),
        }
    }

    fn install(&self, binary: &str) -> Result<Installed, InstallError> {
        self.commands.borrow_mut().clear();
        let install = Install {
            root: self.root.path(),
            programs: self,
        };
        install.install(binary.as_bytes())
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join(name)
    }

    /// The binary that runs from the next start on.
    fn binary(&self) -> Option<String> {
        fs::read_to_string(self.path("var/lib/muster/node/bin/muster")).ok()
    }

    fn program_calls(&self) -> String {
        self.commands.borrow().join(" ")
    }
}

#[test]
fn it_is_installed_and_what_is_as_it_was_is_not_restarted() {
    let host = Host::new();
    assert_eq!(host.install("v1").unwrap(), Installed::Restarted);
    assert_eq!(host.binary().as_deref(), Some("v1"));
    assert_eq!(
        host.program_calls(),
        "version daemon-reload enable is-active restart"
    );
    for unit in [AGENT_UNIT, RESTORE_UNIT] {
        assert!(host.path("etc/systemd/system").join(unit).exists());
    }
    assert_eq!(host.install("v1").unwrap(), Installed::Unchanged);
    assert_eq!(host.program_calls(), "version enable is-active");
    assert_eq!(host.install("v2").unwrap(), Installed::Restarted);
    assert_eq!(host.binary().as_deref(), Some("v2"));
    assert_eq!(host.program_calls(), "version enable is-active restart");
    fs::write(host.path("etc/systemd/system").join(AGENT_UNIT), "edited").unwrap();
    assert_eq!(host.install("v2").unwrap(), Installed::Restarted);
    *host.running.borrow_mut() = false;
    assert_eq!(host.install("v2").unwrap(), Installed::Restarted);
    for version in ["v3", "v4", "v5"] {
        host.install(version).unwrap();
    }
    let binaries = fs::read_dir(host.path("var/lib/muster/node/bin"))
        .unwrap()
        .count();
    assert_eq!(binaries, 3, "the link, what runs, and what ran before");
}

/// Checks the units with systemd-analyze if it exists, except for the program, which does not exist.
#[test]
fn systemd_reads_the_units() {
    let host = Host::new();
    host.install("v1").unwrap();
    let directory = host.path("etc/systemd/system");
    for unit in [AGENT_UNIT, RESTORE_UNIT] {
        let text = fs::read_to_string(directory.join(unit)).unwrap();
        let text = text.replace("/var/lib/muster/node/bin/muster", "/bin/true");
        assert_eq!(text.matches("ExecStart=/bin/true node-agent ").count(), 1);
        fs::write(directory.join(unit), text).unwrap();
    }
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args([AGENT_UNIT, RESTORE_UNIT].map(|unit| directory.join(unit)))
        .output();
    let Ok(verified) = verify else {
        println!("not run: there is no systemd-analyze");
        return;
    };
    let stderr = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && stderr.is_empty(), "{stderr}");
}

#[test]
fn a_host_without_systemd_is_refused_by_the_name_of_its_init() {
    let host = Host::new();
    fs::remove_dir_all(host.path("run/systemd")).unwrap();
    fs::write(host.path("proc/1/comm"), "openrc-init\n").unwrap();
    let error = host.install("v1").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("this host runs openrc-init, not systemd"),
        "{error}"
    );
    assert_eq!(host.binary(), None);
    assert_eq!(host.program_calls(), "");
}

#[test]
fn a_binary_that_does_not_run_on_this_host_replaces_nothing() {
    let host = Host::new();
    host.install("v1").unwrap();
    host.refuses.borrow_mut().insert("version");
    let error = host.install("v2").unwrap_err();
    assert!(matches!(error, InstallError::DoesNotRun(_)), "{error}");
    assert_eq!(host.binary().as_deref(), Some("v1"));
    assert_eq!(host.program_calls(), "version");
}

#[test]
fn a_step_that_fails_is_taken_up_by_the_next_try() {
    for verb in ["daemon-reload", "enable", "restart"] {
        let host = Host::new();
        host.refuses.borrow_mut().insert(verb);
        let error = host.install("v1").unwrap_err();
        assert!(error.to_string().contains(verb), "{error}");
        host.refuses.borrow_mut().clear();
        assert_eq!(host.install("v1").unwrap(), Installed::Restarted, "{verb}");
        assert_eq!(host.binary().as_deref(), Some("v1"));
    }
}

/// A journal as written by the agent, with this step as its last.
fn journal(step: Step, format: u32) -> Vec<u8> {
    let record = Record {
        seq: 1,
        identity: Identity {
            boot_id: "boot".to_owned(),
            machine_id: "machine".to_owned(),
        },
        row: "fabric".to_owned(),
        key: Key {
            digest: "d".to_owned(),
            token: 1,
            attempt: 0,
            definitions: "x".to_owned(),
        },
        plan: 1,
        tries: 0,
        step,
        swapped: 1,
        deadline: 0,
        outcome: None,
    };
    let mut slots = frame(format, &serde_json::to_vec(&record).unwrap());
    slots.resize(2 * SLOT, 0);
    slots
}

#[test]
fn nothing_is_installed_while_a_change_is_not_confirmed() {
    let host = Host::new();
    host.install("v1").unwrap();
    let refused = |bytes: Vec<u8>| {
        fs::write(host.path("var/lib/muster/node/journal"), bytes).unwrap();
        let error = host.install("v2").unwrap_err();
        assert_eq!(host.binary().as_deref(), Some("v1"), "{error}");
        assert_eq!(host.program_calls(), "");
        error
    };
    for step in [
        Step::Prepared,
        Step::Swapping(0),
        Step::Swapped,
        Step::Reloaded,
        Step::Restoring,
    ] {
        let error = refused(journal(step, FORMAT));
        assert!(
            matches!(error, InstallError::Unconfirmed { ref row } if row == "fabric"),
            "{error}"
        );
    }
    let error = refused(journal(Step::Confirmed, FORMAT + 1));
    assert!(matches!(error, InstallError::Newer), "{error}");
    for step in [Step::Confirmed, Step::Restored] {
        let bytes = journal(step, FORMAT);
        fs::write(host.path("var/lib/muster/node/journal"), bytes).unwrap();
        host.install(&format!("{step:?}")).unwrap();
    }
}

#[test]
fn the_token_is_copied_whole_and_for_root_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(
        token::copy(from.path(), to.path()).is_err(),
        "there is nothing yet"
    );
    fs::write(from.path().join("ca.crt"), "authority").unwrap();
    fs::write(from.path().join("token"), "first").unwrap();
    token::copy(from.path(), to.path()).unwrap();
    fs::write(from.path().join("token"), "second").unwrap();
    token::copy(from.path(), to.path()).unwrap();
    let copied = to.path().join("token");
    assert_eq!(fs::read_to_string(&copied).unwrap(), "second");
    assert_eq!(fs::metadata(&copied).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(to.path().join("ca.crt")).unwrap(), "authority");
}
