//! Promise: `muster demo` is a whole fleet that kubectl and git can drive by what it prints, and SIGTERM ends it cleanly.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use muster_e2e::bed::muster;

/// How long the demo may take until it says `ready`.
const READY: Duration = Duration::from_mins(1);
/// How long it may take to end.
const END: Duration = Duration::from_secs(40);

/// A running demo, its folder, and all that it has printed.
struct Demo {
    child: Child,
    folder: PathBuf,
    printed: Arc<Mutex<String>>,
}

impl Demo {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(muster())
            .args(["demo", "--seed", "1", "--dir"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let printed = Arc::new(Mutex::new(String::new()));
        let (output, lines) = (child.stdout.take().unwrap(), Arc::clone(&printed));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let mut lines = lines.lock().unwrap();
                lines.push_str(&line);
                lines.push('\n');
            }
        });
        Self {
            child,
            folder: folder.to_owned(),
            printed,
        }
    }

    fn printed(&self) -> String {
        self.printed.lock().unwrap().clone()
    }

    /// Waits until something was printed.
    fn until_printed(&mut self, deadline: Duration, holds: impl Fn(&str) -> bool) {
        let started = Instant::now();
        while !holds(&self.printed()) {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && started.elapsed() < deadline,
                "ended: {ended:?}\n{}",
                self.printed()
            );
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Runs kubectl on the management cluster as the demo says it: with KUBECONFIG. What it prints.
    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new("kubectl")
            .args(arguments)
            .env("KUBECONFIG", self.folder.join("management.kubeconfig"))
            .output()
            .unwrap();
        text(&output, arguments)
    }

    /// Runs one of the printed shell lines in the work tree.
    fn shell(&self, line: &str) -> String {
        let output = Command::new("sh")
            .args(["-ec", line])
            .current_dir(self.folder.join("fleet"))
            .output()
            .unwrap();
        text(&output, &[line])
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_demo_is_driven_by_what_it_prints() {
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut demo = Demo::start(folder.path());
    demo.until_printed(READY, |printed| printed.lines().any(|line| line == "ready"));
    println!("ready after {:?}", started.elapsed());
    assert!(demo.printed().contains(&format!(
        "export KUBECONFIG={}/management.kubeconfig",
        folder.path().display()
    )));

    demo.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "--timeout=90s",
        "modules/podinfo",
        "modules/backup",
        "bootstrapmodules/base",
    ]);
    println!("all modules are ready after {:?}", started.elapsed());
    let modules = demo.kubectl(&["get", "modules"]);
    assert!(
        modules.contains("podinfo") && modules.contains("5/5") && modules.contains("v1.0.0"),
        "{modules}"
    );
    let described = demo.kubectl(&["describe", "module", "podinfo"]);
    for word in ["RolloutFinished", "v1.0.0", "Succeeded"] {
        assert!(described.contains(word), "{word}: {described}");
    }
    assert_eq!(
        demo.kubectl(&["get", "clusters", "-o", "name"]).lines().count(),
        5
    );
    assert_eq!(
        demo.kubectl(&["get", "proxyassemblages", "-o", "name"])
            .lines()
            .count(),
        5
    );
    assert!(!demo.kubectl(&["get", "modulerevisions", "-o", "name"]).is_empty());

    demo.until_printed(READY, |printed| printed.contains("git tag v1.1.0"));
    let lines = next_version(&demo.printed());
    let rolling = Instant::now();
    for line in &lines {
        demo.shell(line);
    }
    demo.kubectl(&[
        "wait",
        "--for=jsonpath={.status.source.tag}=v1.1.0",
        "--timeout=60s",
        "module/podinfo",
    ]);
    demo.kubectl(&["wait", "--for=condition=Ready", "--timeout=90s", "module/podinfo"]);
    println!("v1.1.0 on five clusters {:?} after the commit", rolling.elapsed());
    for cluster in ["dev-1", "eu-1", "eu-2", "us-1", "us-2"] {
        let kubeconfig = format!(
            "--kubeconfig={}/clusters/{cluster}.kubeconfig",
            folder.path().display()
        );
        let image = [
            "get",
            "deployment",
            "podinfo",
            "-n",
            "web",
            "-o",
            "jsonpath={.spec.template.spec.containers[0].image}",
        ];
        let image = demo.kubectl(&[&[&*kubeconfig], &image[..]].concat());
        assert!(image.ends_with("podinfo:6.1.0"), "{cluster}: {image}");
    }
    end(&mut demo);
}

/// The lines that the demo proposes for the next version, without the change of folder.
fn next_version(printed: &str) -> Vec<String> {
    let all: Vec<&str> = printed.lines().map(str::trim).collect();
    let last = all
        .iter()
        .position(|line| line.contains("git tag v1.1.0"))
        .unwrap();
    let first = all[..last]
        .iter()
        .rposition(|line| line.starts_with("cd "))
        .unwrap();
    all[first + 1..=last]
        .iter()
        .map(|line| (*line).to_owned())
        .collect()
}

fn end(demo: &mut Demo) {
    let told = Command::new("kill")
        .args(["-TERM", &demo.child.id().to_string()])
        .status()
        .unwrap();
    assert!(told.success());
    let started = Instant::now();
    let status = loop {
        if let Some(status) = demo.child.try_wait().unwrap() {
            break status;
        }
        assert!(started.elapsed() < END, "it does not end\n{}", demo.printed());
        std::thread::park_timeout(Duration::from_millis(50));
    };
    println!("ended {:?} after SIGTERM", started.elapsed());
    assert_eq!(status.code(), Some(0), "{}", demo.printed());
}

fn text(output: &Output, what: &[&str]) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{what:?}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}
