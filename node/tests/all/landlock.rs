//! Promise: nothing is opened except the agent's own directory and paths below its prefixes: the kernel forbids the
//! rest, and the results are the same.

use std::{env, fs, os::unix::fs::symlink, path::Path, process::Command};

use landlock::{
    ABI, Access as _, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetStatus,
};
use muster_node::State;

use crate::{
    real_disk::Node,
    support::world::{absent, file},
};

/// Denies this thread, and its children, everything outside of the directories. Whether the kernel supports it.
fn confine(directories: &[String]) -> bool {
    let all = AccessFs::from_all(ABI::V5);
    let mut ruleset = Ruleset::default().handle_access(all).unwrap().create().unwrap();
    for directory in directories {
        ruleset = ruleset
            .add_rule(PathBeneath::new(PathFd::new(directory).unwrap(), all))
            .unwrap();
    }
    ruleset.restrict_self().unwrap().ruleset == RulesetStatus::FullyEnforced
}

/// The history of a node, as text.
fn life(node: &Node) -> String {
    let path = |name: &str| node.path(&format!("etc/{name}"));
    let rows = [
        vec![file(&path("a"), "one"), file(&path("sub/b"), "b")],
        vec![file(&path("a"), "bad")],
        vec![file(&path("link"), "x")],
        vec![file(&path("out/canary"), "x")],
        vec![file(&node.path("outside/canary"), "x")],
        vec![file("/etc/passwd", "x")],
        vec![absent(&path("a"))],
        vec![],
    ];
    let states: Vec<State> = rows
        .into_iter()
        .zip(1..)
        .map(|(files, number)| node.state(number, files))
        .collect();
    format!("{states:#?}").replace(&node.path(""), "/")
}

fn node(directory: &Path) -> Node {
    let node = Node::at(directory);
    fs::create_dir(node.path("outside")).unwrap();
    fs::write(node.path("outside/canary"), "canary").unwrap();
    symlink(node.path("outside/canary"), node.path("etc/link")).unwrap();
    symlink(node.path("outside"), node.path("etc/out")).unwrap();
    node
}

#[test]
fn confined_by_the_kernel_it_does_the_same() {
    if !rustix::process::geteuid().is_root() {
        println!("not run: only root may give files to root");
        return;
    }
    let (free, confined) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let wanted = life(&node(free.path()));
    assert!(
        wanted.contains("Confirmed") && wanted.contains("bad content"),
        "{wanted}"
    );
    let there = node(confined.path());
    let ran = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "landlock::confined"])
        .env("NODE_DIRECTORY", &there.directory)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{printed} {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    if printed.contains("not run:") {
        println!("{printed}");
        return;
    }
    assert!(printed.contains(&wanted), "wanted {wanted}\nfound {printed}");
    assert_eq!(
        fs::read_to_string(there.path("outside/canary")).unwrap(),
        "canary"
    );
}

#[test]
#[ignore = "run by the test above in a process of its own"]
fn confined() {
    let Some(directory) = env::var_os("NODE_DIRECTORY") else {
        return;
    };
    let node = Node::at(Path::new(&directory));
    if !confine(&[node.path("own"), node.path("etc")]) {
        println!("not run: this kernel has no Landlock of ABI 5");
        return;
    }
    let canary = fs::read_to_string(node.path("outside/canary"));
    assert!(canary.is_err(), "the kernel lets the canary be read");
    println!("{}", life(&node));
}
