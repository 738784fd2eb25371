//! Promise: on a real file system the files are swapped and restored by rename, and no path leaves its prefix.

use std::{
    cell::Cell,
    collections::BTreeMap,
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    rc::Rc,
    time::Duration,
};

use jiff::Timestamp;
use muster_node::{
    Account, Agent, AgentEnvironment, Assignment, Checks, Clock, Config, Content, Dialed, File, Host, Lock,
    Program, Server, Services, State, Verdict, disk::HostDisk, journal::Identity,
};
use tempfile::TempDir;

use crate::support::world::{absent, file};

/// Time that passes automatically.
#[derive(Default)]
struct QuickClock(Cell<Duration>);

impl Clock for QuickClock {
    fn since_boot(&self) -> Duration {
        self.0.get()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn sleep(&self, time: Duration) {
        self.0.set(self.0.get() + time);
    }
}

/// Services that fail if a file says so.
struct Services_(PathBuf);

impl Host for Services_ {
    fn run(&self, _: &Program) -> Result<(), String> {
        let content = fs::read_to_string(self.0.join("etc/a")).unwrap_or_default();
        if content.contains("wait to be killed") {
            println!("reloading");
            std::io::stdout().flush().unwrap();
            loop {
                std::thread::park();
            }
        }
        if content.contains("bad") {
            Err("bad content".to_owned())
        } else {
            Ok(())
        }
    }

    fn links(&self) -> Result<BTreeMap<String, String>, String> {
        Ok(BTreeMap::new())
    }

    fn dial(&self, _: SocketAddr, _: Duration) -> Dialed {
        Dialed::Open
    }

    fn api_server(&self, _: &Server, _: Duration) -> Result<(), String> {
        Ok(())
    }

    fn account(&self, _: Account, name: &str) -> Option<u32> {
        (name == "daemon").then_some(1)
    }

    fn secret(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("none".to_owned())
    }
}

pub(crate) struct Node {
    pub directory: PathBuf,
    _kept: Option<TempDir>,
}

impl Node {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let node = Self::at(directory.path());
        Self {
            _kept: Some(directory),
            ..node
        }
    }

    /// A node in this directory: `own`, and the prefix `etc`.
    pub(crate) fn at(directory: &Path) -> Self {
        // A directory for temporary files may be a link.
        let directory = fs::canonicalize(directory).unwrap();
        fs::create_dir_all(directory.join("own")).unwrap();
        fs::create_dir_all(directory.join("etc")).unwrap();
        Self {
            directory,
            _kept: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn agent(&self) -> Agent {
        let roots = [self.path("own"), self.path("etc")];
        let surroundings = AgentEnvironment {
            directory: self.path("own"),
            disk: Rc::new(HostDisk::new(roots)),
            clock: Rc::new(QuickClock::default()),
            host: Rc::new(Services_(self.directory.clone())),
            identity: Identity {
                boot_id: "b".to_owned(),
                machine_id: "m".to_owned(),
            },
        };
        let program = serde_json::json!({"argv": ["/x"], "timeout": "1s"});
        let config = serde_json::json!({"prefixes": [self.path("etc")], "reloaders": {"r": program}});
        let lock = Lock::take(&self.directory.join("own")).unwrap();
        Agent::start(
            surroundings,
            Config::parse(&config).unwrap(),
            Services::Running,
            Some(lock),
        )
        .unwrap()
    }

    pub(crate) fn state(&self, number: u64, files: Vec<File>) -> State {
        let row = Assignment {
            name: "row".to_owned(),
            revision: String::new(),
            digest: format!("d{number}"),
            token: number,
            attempt: 0,
            deleting: false,
            content: Content {
                files,
                reload: vec!["r".to_owned()],
                checks: Checks::default(),
                ..Content::default()
            },
        };
        self.agent().assign(&[row], &mut |_| true).reports.remove(0).state
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.directory.join("etc"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("not run: only root may give files to root");
    }
    root
}

#[test]
fn changed_and_brought_back_as_the_same_file() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let a = node.path("etc/a");
    fs::write(&a, "before").unwrap();
    fs::set_permissions(&a, fs::Permissions::from_mode(0o604)).unwrap();
    let inode = fs::metadata(&a).unwrap().ino();
    let State::Ended(outcome) = node.state(1, vec![file(&a, "bad"), file(&node.path("etc/sub/b"), "b")])
    else {
        panic!()
    };
    assert_eq!(outcome.message, "reload r: bad content");
    let found = fs::metadata(&a).unwrap();
    assert_eq!(
        (found.ino(), found.mode() & 0o7777, found.nlink()),
        (inode, 0o604, 1),
        "the very file is back"
    );
    assert_eq!(node.names(), ["a"]);

    let mut good = file(&a, "good");
    (good.mode, good.owner, good.group) = (
        Some("0640".to_owned()),
        Some("daemon".to_owned()),
        Some("daemon".to_owned()),
    );
    assert_eq!(
        node.state(2, vec![good, file(&node.path("etc/sub/b"), "b")]),
        State::Confirmed
    );
    let found = fs::metadata(&a).unwrap();
    assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o640, 1, 1));
    assert_eq!(fs::read_to_string(&a).unwrap(), "good");
    assert_eq!(node.names(), ["a", "sub"]);

    assert_eq!(node.state(3, vec![absent(&a)]), State::Confirmed);
    assert_eq!(
        node.names(),
        Vec::<String>::new(),
        "sub was made for b, which is dropped"
    );
    assert_eq!(node.state(4, vec![]), State::Confirmed);
    let found = fs::metadata(&a).unwrap();
    assert_eq!(
        (fs::read_to_string(&a).unwrap().as_str(), found.mode() & 0o7777),
        ("before", 0o604)
    );
    let own = fs::metadata(node.path("own/journal")).unwrap();
    assert_eq!((own.mode() & 0o7777, own.len()), (0o600, 8192));
}

#[test]
fn links_lead_nowhere() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    fs::create_dir_all(node.path("outside/deep/deeper")).unwrap();
    fs::write(node.path("outside/canary"), "canary").unwrap();
    symlink(node.path("outside/canary"), node.path("etc/last")).unwrap();
    symlink(node.path("outside"), node.path("etc/middle")).unwrap();
    symlink("../outside", node.path("etc/relative")).unwrap();
    symlink("/proc/self/cwd", node.path("etc/magic")).unwrap();
    for name in [
        "last",
        "middle/canary",
        "relative/canary",
        "magic/canary",
        "middle/new/x",
        "middle/deep/deeper/x",
        "relative/deep/deeper/x",
    ] {
        let state = node.state(1, vec![file(&node.path(&format!("etc/{name}")), "x")]);
        assert_eq!(state.reason(), "TargetRefused", "{name}: {state:?}");
    }
    assert_eq!(fs::read_to_string(node.path("outside/canary")).unwrap(), "canary");
    assert_eq!(fs::read_dir(node.path("outside")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(node.path("outside/deep/deeper")).unwrap().count(), 0);
    // The prefix itself is a link.
    fs::rename(node.path("etc"), node.path("real")).unwrap();
    symlink(node.path("real"), node.path("etc")).unwrap();
    let state = node.state(1, vec![file(&node.path("etc/x"), "x")]);
    assert_eq!(state.reason(), "TargetRefused", "{state:?}");
    assert!(!Path::new(&node.path("real/x")).exists());
}

#[test]
fn a_missing_prefix_is_refused_and_a_recreated_one_works() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    fs::remove_dir(node.path("etc")).unwrap();
    let state = node.state(1, vec![file(&node.path("etc/x"), "x")]);
    assert_eq!(state.reason(), "TargetRefused", "{state:?}");
    fs::create_dir(node.path("etc")).unwrap();
    assert_eq!(
        node.state(1, vec![file(&node.path("etc/x"), "x")]),
        State::Confirmed
    );
}

#[test]
fn one_agent_at_a_time() {
    let node = Node::new();
    let own = node.directory.join("own");
    let lock = Lock::take(&own).unwrap();
    assert_eq!(
        Lock::take(&own).unwrap_err().to_string(),
        "another agent or muster node-agent restore is running"
    );
    drop(lock);
    Lock::take(&own).unwrap();
}

#[test]
fn immutable_files() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let a = node.path("etc/a");
    fs::write(&a, "before").unwrap();
    let chattr = |flag: &str| {
        Command::new("chattr")
            .args([flag, &a])
            .status()
            .is_ok_and(|status| status.success())
    };
    if !chattr("+i") {
        println!("not run: chattr cannot make a file immutable here");
        return;
    }
    let state = node.state(1, vec![file(&node.path("etc/0"), "x"), file(&a, "x")]);
    chattr("-i");
    assert_eq!(state.reason(), "TargetRefused", "{state:?}");
    assert_eq!(node.names(), ["a"]);
}

/// Runs a test of this file again in its own mount namespace, after the script. `None`: namespaces are not available
/// here.
fn in_a_mount_namespace(test: &str, script: &str, directory: &Path) -> Option<bool> {
    let program = env::current_exe().unwrap();
    let command = format!(
        "cd {} && {script} && exec {} --exact --ignored {test}",
        directory.display(),
        program.display()
    );
    let possible = Command::new("unshare")
        .args(["-rm", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !possible {
        println!("not run: there are no mount namespaces here");
        return None;
    }
    let ran = Command::new("unshare")
        .args(["-rm", "sh", "-c", &command])
        .env("NODE_DIRECTORY", directory)
        .output()
        .unwrap();
    print!("{}", String::from_utf8_lossy(&ran.stdout));
    Some(ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("1 passed"))
}

#[test]
fn mount_points_read_only_and_full_file_systems() {
    let node = Node::new();
    fs::write(node.path("etc/mounted"), "before").unwrap();
    fs::write(node.path("other"), "other").unwrap();
    for directory in ["etc/ro", "etc/small"] {
        fs::create_dir(node.path(directory)).unwrap();
    }
    let script = "mount --bind other etc/mounted && mount -t tmpfs -o ro none etc/ro && mount -t tmpfs -o size=1100k none etc/small";
    let ran = in_a_mount_namespace("real_disk::among_mounts", script, &node.directory);
    assert_ne!(ran, Some(false));
}

#[test]
#[ignore = "run by the test above in a mount namespace"]
fn among_mounts() {
    let Some(directory) = env::var_os("NODE_DIRECTORY") else {
        return;
    };
    let node = Node::at(Path::new(&directory));
    let table = [
        ("etc/mounted", "x".to_owned(), "is a mount point"),
        (
            "etc/ro/x",
            "x".to_owned(),
            "is on a file system that is mounted read-only",
        ),
        ("etc/small/x", "x".repeat(200_000), "bytes free"),
    ];
    for (name, content, problem) in table {
        let state = node.state(1, vec![file(&node.path(name), &content)]);
        let State::Refused(refusal) = &state else {
            panic!("{name}: {state:?}")
        };
        assert!(refusal.to_string().contains(problem), "{name}: {refusal}");
    }
    assert_eq!(
        node.state(2, vec![file(&node.path("etc/small/x"), "x")]),
        State::Confirmed
    );
}

#[test]
fn a_process_that_is_killed_is_followed_by_one_that_restores() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    fs::write(node.path("etc/a"), "before").unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "--nocapture",
            "real_disk::waiting_to_be_killed",
        ])
        .env("NODE_DIRECTORY", &node.directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(
        lines
            .map_while(Result::ok)
            .any(|line| line.ends_with("reloading")),
        "it ended before the reload"
    );
    assert_eq!(
        fs::read_to_string(node.path("etc/a")).unwrap(),
        "wait to be killed"
    );
    assert!(
        Lock::take(&node.directory.join("own")).is_err(),
        "it has the lock"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let agent = node.agent();
    assert_eq!(fs::read_to_string(node.path("etc/a")).unwrap(), "before");
    assert_eq!(node.names(), ["a"]);
    assert_eq!(agent.journal().unwrap().verdict(), Some(Verdict::Interrupted));
}

#[test]
#[ignore = "run by the test above in a process that is killed"]
fn waiting_to_be_killed() {
    let Some(directory) = env::var_os("NODE_DIRECTORY") else {
        return;
    };
    let node = Node::at(Path::new(&directory));
    node.state(1, vec![file(&node.path("etc/a"), "wait to be killed")]);
}
