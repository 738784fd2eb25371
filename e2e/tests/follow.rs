//! Promise: a view that is followed in a pipe (`-w`) prints changes, line by line, and does not restart from the
//! beginning.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use muster_e2e::bed::muster;

#[path = "support/demo.rs"]
mod demo;

use demo::{Demo, READY};

/// How long a change may take to be printed.
const SOON: Duration = Duration::from_secs(30);

/// The command; the content of the first line; what is printed when eu-1 is held and a version rolls out over the
/// others.
const VIEWS: &[(&[&str], &str, &str)] = &[
    (&["matrix", "-w"], "MODULE", "⏸ v1.0.0"),
    (&["tree", "-w"], "NAME", "⏸ Held"),
    (&["why", "module/podinfo", "-w"], "podinfo v1.0.0", "⏸ eu-1  Held"),
    (&["get", "modules", "-w"], "NAME", "v1.1.0"),
];

/// A followed view.
struct Followed {
    typed: &'static [&'static str],
    child: Child,
    printed: PathBuf,
}

impl Followed {
    fn text(&self) -> String {
        fs::read_to_string(&self.printed).unwrap()
    }

    /// Waits until it has printed this.
    fn until_text(&self, word: &str) {
        let began = Instant::now();
        while !self.text().contains(word) {
            assert!(
                began.elapsed() < SOON,
                "{:?}: {word} is not printed:\n{}",
                self.typed,
                self.text()
            );
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // It has exited only if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn watching_commands_print_each_change_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path(), &["--clusters", "3"]);
    demo.until_printed(READY, |printed| printed.contains("Everything is up to date"));
    let follow = |(place, (typed, ..)): (usize, &(&'static [&'static str], &str, &str))| {
        let printed = directory.path().join(format!("followed-{place}"));
        let child = Command::new(muster())
            .args(*typed)
            .env("KUBECONFIG", directory.path().join("management.kubeconfig"))
            .stdin(Stdio::null())
            .stdout(File::create(&printed).unwrap())
            .spawn()
            .unwrap();
        Followed {
            typed,
            child,
            printed,
        }
    };
    let followed: Vec<Followed> = VIEWS.iter().enumerate().map(follow).collect();
    for (view, (_, first, _)) in followed.iter().zip(VIEWS) {
        view.until_text(first);
    }
    demo.muster(&["hold", "eu-1", "--reason", "migration"], 0);
    demo.shell("sed -i 's/podinfo:6.0.0/podinfo:6.1.0/' apps/podinfo/deployment.yaml");
    demo.shell("sed -i 's/tag: v1.0.0/tag: v1.1.0/' modules/podinfo.yaml");
    demo.shell("git commit -qam 'podinfo 6.1.0' && git tag v1.1.0");
    for (view, (_, _, held)) in followed.iter().zip(VIEWS) {
        view.until_text(held);
    }
    for view in &followed {
        let text = view.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let header = lines.iter().filter(|line| **line == lines[0]).count();
        assert_eq!(header, 1, "{:?} restarts:\n{text}", view.typed);
        println!("{:?}\n{text}", view.typed);
    }
    drop(followed);
    demo.end();
}
